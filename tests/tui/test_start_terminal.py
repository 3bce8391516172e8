"""The start and the end of the client in a real terminal, with a real host."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from tests import machine
from tests.cli.step_kit import STEP_AGENT, script
from tests.host.local.kit import HostPlaceKit, processes
from tests.tui.test_terminal import SCRIPTED, Terminal


def test_a_session_is_left_and_found_again_in_the_list(
    place: HostPlaceKit,
    terminals: list[Terminal],
) -> None:
    terminals.append(first := Terminal(place, *SCRIPTED))
    # Typed before there is a screen, together with the answer to the question for the colour.
    first.type("say\x1b]11;rgb:ffff/ffff/ffff\x1b\\ the whole answer\r")
    first.until("│ the whole answer")
    assert "rgb:" not in first.text
    first.until("Enter send")
    first.type("\x04")
    assert first.wait() == 0
    # Behind the other screen, which the emulator does not take away.
    left = first.raw.rpartition(b"\x1b[?1049l")[2].decode()
    assert "❯ say the whole answer\r\n│ the whole answer" in left
    assert re.search(r"dragoman attach \w+ brings you back", first.text)
    assert b"\x1b[22;2t" in first.raw
    assert b"\x1b]2;" in first.raw
    assert b"\x1b[23;2t" in first.raw, "the title is restored"
    assert not re.search(rb"\x1b\[[0-9;]*48;[25];", first.raw), "the background is the terminal's own"
    terminals.append(again := Terminal(place, *SCRIPTED))
    again.until("1 earlier session of this folder: Ctrl+P")
    again.type("\x10")
    again.until("1 of 1 here")
    again.until("✔ done")
    again.until("say the whole")  # the title of the session
    again.type("\r")
    again.until("│ the whole answer")
    os.kill(again.pid, signal.SIGHUP)  # the terminal is closed
    again.wait()
    assert place.host()["sessions"] >= 1, "the host goes on"
    assert processes(place.mark)


@machine.needs("git")
@machine.needs_sandbox("bubblewrap")
def test_the_project_is_closed_to_an_agent_in_a_worktree(place: HostPlaceKit, terminals: list[Terminal]) -> None:
    project = place.project
    git = ["git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    attack = f"echo x > {project}/a.txt; echo x > {project}/.git/HEAD; echo x > {project}/new; echo x > inside"
    path = script(place, [["run", attack], ["command", "sh", "-c", attack], ["say", "the attack has ended"]])
    place.settings(agent_servers={"sly": {"command": sys.executable, "args": ["-IS", str(STEP_AGENT), path]}})
    terminals.append(terminal := Terminal(place, "-a", "sly", "--worktree", "idea", "--allow", "*"))
    terminal.until("Enter send")
    terminal.type("go\r")
    terminal.until("the attack has ended")
    terminal.until("Enter send")
    terminal.type("\x04")
    assert terminal.wait() == 0
    assert "worktree idea: 1 file differs" in terminal.text
    assert (project / "a.txt").read_text() == "hello\n"
    assert (project / ".git/HEAD").read_text().startswith("ref: ")
    assert not (project / "new").exists()


def test_a_worktree_is_named_and_what_to_do_with_it_is_printed(
    place: HostPlaceKit,
    terminals: list[Terminal],
) -> None:
    git = ["git", "-C", str(place.project), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    subprocess.run([*git, "init", "-qb", "main"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    terminals.append(terminal := Terminal(place, *SCRIPTED, "--worktree", "idea", "--allow", "edit"))
    terminal.until("worktree idea")
    terminal.until("Enter send")
    terminal.type("edit a.txt hello => bye\r")
    terminal.until("✔ edit")
    terminal.until("Enter send")
    terminal.type("\x04")
    assert terminal.wait() == 0
    assert (place.project / "a.txt").read_text() == "hello\n", "the project is as it was"
    assert "worktree idea: 1 file differs" in terminal.text
    assert "dragoman worktrees merge idea" in terminal.text.replace("\n", "")
    assert "dragoman worktrees discard idea" in terminal.text.replace("\n", "")
