"""Agents of `dragoman serve` are guarded as those of `dragoman exec`: sandbox, rules, protected files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.process.sandbox import available
from tests import machine
from tests.cli.test_serve import DRAGOMAN, SECONDS, Home, Program
from tests.process.sandbox.kit import place as sandbox_place

AGENT = Path(__file__).parent / "odd_agent.py"
OUTSIDE = "touch ../outside.txt"
needs_sandbox = machine.needs_sandbox()


@pytest.fixture
def home() -> Iterator[Home]:
    """Not in /tmp, which is private in bubblewrap."""
    with sandbox_place() as made:
        yield Home(made.outside / "home")


@contextmanager
def guarded(home: Home, habit: str, *words: str) -> Iterator[str]:
    """A host with the odd agent; its URL."""
    python = os.path.realpath(sys.executable)
    with home.serving("--listen", "127.0.0.1:0", *words, "--", python, str(AGENT), habit) as (_, url):
        yield url


def ask(home: Home, url: str, prompt: str, *words: str) -> Program:
    return home.run("exec", "--url", url, "--token-env", "T", "--output", "json", *words, prompt, T=home.token)


def reported(done: Program) -> list[Any]:
    """What the agent was sent for each command: exit code, output, sandbox."""
    text = "".join(json.loads(done.out)["messages"])
    return [json.loads(line) if line.startswith("[") else line for line in text.splitlines()]


@needs_sandbox
def test_a_command_in_the_sandbox_of_a_host_needs_no_rule_and_cannot_write_outside(home: Home) -> None:
    with guarded(home, "runs-the-prompt", "--sandbox", "auto") as url:
        done = ask(home, url, f"touch inside.txt\n{OUTSIDE}")
    assert done.code == 0, done.err
    assert (home.project / "inside.txt").exists()
    assert not (home.project.parent / "outside.txt").exists()
    inside, outside = reported(done)
    assert inside == [0, "", available().backends[0]]
    assert outside[0] != 0
    assert "did not get: to change" in outside[1]


def test_without_a_sandbox_a_command_is_asked_about_and_rules_of_the_host_decide_first(home: Home) -> None:
    with guarded(home, "runs-the-prompt", "--deny", "execute:touch denied", "--allow", "execute:touch allowed") as url:
        done = ask(home, url, "touch asked\ntouch denied\ntouch allowed", "--deny", "execute:touch allowed")
    asked, denied, allowed = reported(done)
    assert "Not permitted: sh -c 'touch asked'" in asked
    assert "Not permitted: sh -c 'touch denied'" in denied
    assert allowed == [0, "", None]
    assert [path.name for path in home.project.iterdir()] == ["allowed"]


@pytest.mark.parametrize("restores", [False, True])
def test_a_protected_file_that_a_command_of_a_hosted_agent_changed_is_reported(home: Home, restores: bool) -> None:
    (home.project / "AGENTS.md").write_text("mine\n")
    (home.project / "change.sh").write_text("echo theirs >AGENTS.md\n")
    if restores:
        config = home.folder / "dragoman" / "config"
        config.mkdir(parents=True)
        (config / "settings.json").write_text('{"restore_protected_files": true}')
    with guarded(home, "runs-the-prompt", "--allow", "execute:sh change.sh") as url:
        done = ask(home, url, "sh change.sh", "--verbose")
    assert (home.project / "AGENTS.md").read_text() == ("mine\n" if restores else "theirs\n")
    happened = "changed and then put back" if restores else "changed"
    assert f"The protected file {home.project}/AGENTS.md was {happened}" in done.err
    if not restores:
        kept = [path.read_text() for path in (home.folder / "dragoman" / "state" / "protected").rglob("*AGENTS.md*")]
        assert kept
        assert set(kept) == {"mine\n"}


def test_a_protected_file_that_a_hosted_agent_changed_itself_is_reported_before_the_turn_ends(home: Home) -> None:
    with guarded(home, "touches-the-prompt") as url:
        done = ask(home, url, str(home.project / "AGENTS.md"), "--verbose")
    assert f"The protected file {home.project}/AGENTS.md was created" in done.err


def test_a_known_agent_of_a_host_is_put_into_the_mode_in_which_it_asks(home: Home) -> None:
    program = home.project.parent / "vibe-acp"
    shutil.copy(AGENT, program)
    python = os.path.realpath(sys.executable)
    words = ("--listen", "127.0.0.1:0", "--", python, str(program), "starts-in-accept-edits")
    with home.serving(*words) as (_, url):
        done = ask(home, url, "go")
        assert json.loads(done.out)["text"] == "in mode ask", done.err
        chosen = ask(home, url, "go", "--mode", "accept-edits")
        assert json.loads(chosen.out)["text"] == "in mode accept-edits", chosen.err


def test_terminals_and_files_are_not_offered_if_the_host_says_so(home: Home) -> None:
    with guarded(home, "runs-the-prompt", "--no-terminal", "--no-fs", "--allow", "execute") as url:
        done = ask(home, url, "touch made")
    assert not (home.project / "made").exists()
    assert "ethod not found" in done.out, done.out


def test_options_about_the_guard_that_contradict_each_other_are_refused(home: Home) -> None:
    for words, sentence in (
        (("--no-terminal", "--sandbox", "auto"), "--no-terminal and --sandbox auto contradict each other"),
        (("--sandbox-write", "/var"), "--sandbox-write needs a sandbox"),
        (("--allow", "nonsense:x"), "nonsense"),
    ):
        done = home.run("serve", *words, "-a", "scripted")
        assert (done.code, done.out) == (2, "")
        assert sentence in done.err


@pytest.mark.skipif(sys.platform != "linux", reason="a sandbox needs Linux")
def test_a_required_sandbox_that_does_not_exist_is_refused_at_the_start(home: Home) -> None:
    hidden = "import dragoman.process.sandbox.sandbox as s; s.bubblewrap.why_not = s.thread.why_not = lambda *a: 'gone'"
    program = f"{hidden}; from dragoman.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [DRAGOMAN[0], "-c", program, "serve", "--sandbox", "require", "-a", "scripted"],
        cwd=home.project,
        env=home.environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert "no sandbox is available" in done.stderr


@pytest.mark.skipif("bubblewrap" not in machine.sandbox().backends, reason="bubblewrap does not work here")
@pytest.mark.parametrize("mode", [(), ("--sandbox", "require"), ("--sandbox", "off")])
def test_files_that_rules_deny_are_closed_to_commands_of_hosted_agents(home: Home, mode: tuple[str, ...]) -> None:
    (home.project / ".env").write_text("canary")
    (home.project / "read.sh").write_text("cat $(echo .en)v\n")
    with guarded(home, "runs-the-prompt", *mode, "--deny", "read:.env", "--allow", "execute:sh read.sh") as url:
        done = ask(home, url, "sh read.sh")
    assert ("canary" in done.out) is (mode[1:] == ("off",))
