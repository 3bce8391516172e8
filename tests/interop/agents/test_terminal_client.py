"""The terminal client with real agents: a prompt, a question that a key answers, and leaving, in a real terminal."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from tests.host.local.kit import processes
from tests.interop.agents.installed_agent import InstalledAgent
from tests.tui.test_terminal import Terminal

pytestmark = pytest.mark.timeout(120)


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


def test_answers_a_prompt_and_asks_before_it_writes(installed: InstalledAgent, place: Any) -> None:
    new = installed.work / "new.txt"
    terminal = Terminal(place, "-a", installed.name)
    try:
        terminal.until("F1 help")
        terminal.type("Hello\r")
        terminal.until("│ Hello from the scripted model.")
        terminal.until("Enter send")
        terminal.type(f"WRITE {new} one two\r")
        terminal.until("needs your answer")
        assert not new.exists()
        end = time.monotonic() + 60
        while not new.exists():
            terminal.type("\x1b1")  # one that comes too soon is refused
            pause = time.monotonic() + 1.0
            while time.monotonic() < pause and not new.exists():
                terminal.read(0.1)
            assert time.monotonic() < end, terminal.text
        terminal.until("Enter send")
        terminal.type("\x04")
        assert terminal.wait() == 0
        assert "brings you back" in terminal.text
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(terminal.pid, signal.SIGKILL)
            os.waitpid(terminal.pid, 0)
        terminal.close()
