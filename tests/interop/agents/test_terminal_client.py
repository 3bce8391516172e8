"""The terminal client with real agents in a real terminal: a prompt, a question, a stop, a dead agent, and leaving."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from tests.host.local.kit import processes
from tests.interop.agents.installed_agent import InstalledAgent
from tests.interop.agents.recipes import RECIPES
from tests.tui.test_terminal import Terminal

pytestmark = [pytest.mark.timeout(240), pytest.mark.parametrize("name", RECIPES, indirect=True)]
SECONDS = 90.0


@pytest.fixture
def place(installed: InstalledAgent) -> Iterator[Any]:
    """The agent's project and home, with a host whose socket has a short path."""
    runtime = Path(tempfile.mkdtemp(prefix="dgh-", dir="/tmp"))
    environment = {**installed.env, "XDG_RUNTIME_DIR": str(runtime), "DRAGOMAN_HOST": "on"}
    yield SimpleNamespace(project=installed.work, environment=environment)
    for pid, _ in processes(f"XDG_RUNTIME_DIR={runtime}"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + 20
    while installed.left() and time.monotonic() < end:
        time.sleep(0.1)
    shutil.rmtree(runtime, ignore_errors=True)
    assert installed.left() == []


@pytest.fixture
def terminal(installed: InstalledAgent, place: Any) -> Iterator[Terminal]:
    opened = Terminal(place, "-a", installed.name)
    yield opened
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(opened.pid, signal.SIGKILL)
        os.waitpid(opened.pid, 0)
    opened.close()


def wait(terminal: Terminal, is_so: Callable[[], bool], keys: str = "") -> None:
    """Read the screen until something is so; press keys again and again, because one that comes too soon is refused."""
    end = time.monotonic() + SECONDS
    while not is_so():
        terminal.type(keys)
        pause = time.monotonic() + 1.0
        while time.monotonic() < pause and not is_so():
            terminal.read(0.1)
        assert time.monotonic() < end, terminal.text


def ask(terminal: Terminal, prompt: str) -> None:
    terminal.until("Enter send")
    terminal.type(f"{prompt}\r")


def test_answers_a_prompt_and_asks_before_it_writes(installed: InstalledAgent, terminal: Terminal) -> None:
    new = installed.work / "new.txt"
    terminal.until("F1 help")
    ask(terminal, "Hello")
    terminal.until("│ Hello from the scripted model.")
    # The newest codex asks before commands that a rule names, and not before files.
    ask(terminal, "RUN touch new.txt" if installed.name == "wrapped-codex" else f"WRITE {new} one two")
    terminal.until("needs your answer")
    assert not new.exists()
    wait(terminal, new.exists, "\x1b1")
    terminal.until("Enter send")
    terminal.type("\x04")
    assert terminal.wait() == 0
    assert "brings you back" in terminal.text


def test_escape_stops_a_command_with_everything_it_started(installed: InstalledAgent, terminal: Terminal) -> None:
    script = installed.work / "wait.sh"
    script.write_text("#!/bin/sh\ntouch started.txt\nsleep 61\ntouch finished.txt\n")
    script.chmod(0o755)
    terminal.until("F1 help")
    ask(terminal, "RUN ./wait.sh")
    terminal.until("needs your answer")
    wait(terminal, (installed.work / "started.txt").exists, "\x1b1")
    terminal.until("Esc stop")
    terminal.type("\x1b")
    wait(terminal, lambda: "Cancelled" in terminal.text)
    wait(terminal, lambda: not any("sleep 61" in each or "wait.sh" in each for each in installed.left()))
    assert not (installed.work / "finished.txt").exists()
    ask(terminal, "COUNT 3")
    terminal.until("│ 1 2 3")


def test_a_killed_agent_is_a_card_and_is_started_again(installed: InstalledAgent, terminal: Terminal) -> None:
    terminal.until("F1 help")
    ask(terminal, "SLOW")
    terminal.until("│ 1 2 3")
    killed = [
        pid
        for pid, command in processes(f"HOME={installed.env['HOME']}")
        if set(installed.agent.command) <= set(command.split())
    ]
    assert killed
    for pid in killed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    terminal.until("ended while working (signal KILL)")
    terminal.until("[r] restart and resume")
    terminal.type("\t")
    terminal.until("type a key")
    wait(terminal, lambda: "starting the agent again" in terminal.text, "r")
    refusal = "gemini cannot go on with this session"  # in the minute in which it was made
    wait(terminal, lambda: refusal in terminal.text or "[r] restart and resume" not in terminal.text)
    if refusal in terminal.text:
        wait(terminal, lambda: "[R] restart with a new session" not in terminal.text, "R")
    ask(terminal, "COUNT 5")
    terminal.until("│ 1 2 3 4 5")


def test_the_model_or_the_modes_that_it_offers_can_be_chosen(installed: InstalledAgent, terminal: Terminal) -> None:
    terminal.until("F1 help")
    ask(terminal, "Hello")
    terminal.until("│ Hello from the scripted model.")
    terminal.until("Enter send")
    terminal.type("\x1bm")
    terminal.until("type to filter")
    terminal.until("✔")  # the value that is set
    if installed.name == "codex":
        # Its modes are pairs of a policy and a sandbox. That of its settings is none, so it offers no modes.
        terminal.type("gpt-5.2\r")
        wait(terminal, lambda: terminal.text.splitlines()[0].endswith("codex  gpt-5.2  ctx 0%"))
        terminal.type("\x1b[Z")
        terminal.until("the agent has no modes")
    else:
        terminal.type("\x1b")
        terminal.until("F1 help")
        first = terminal.text.splitlines()[0]
        terminal.type("\x1b[Z")
        wait(terminal, lambda: terminal.text.splitlines()[0] != first)
