"""Forms, logins and failures in a real terminal: a PTY, a real host, a real agent."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from tests.host.local.kit import HostPlaceKit
from tests.tui.test_terminal import SCRIPTED, Terminal

LOGIN_AGENT = str(Path(__file__).parent / "login_agent.py")


def agents_of(place: HostPlaceKit) -> list[int]:
    """The processes of agents that the host of this place started; their environment is not that of the test."""
    (host,) = place.pids()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == host and b"DRAGOMAN_HOSTED" in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    assert found, "no agent runs"
    return found


def enter_card(terminal: Terminal) -> None:
    """Move into the card, and wait until its keys count."""
    terminal.type("\t")
    terminal.until("type a key")


@pytest.mark.soak  # test_questions.py fills in forms field by field
def test_a_form_is_filled_in_with_the_keyboard(place: HostPlaceKit, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(place, "-a", "scripted"))
    terminal.until("F1 help")
    terminal.type("elicitation\r")
    terminal.until("asks you to fill in a form")
    enter_card(terminal)
    terminal.type("f")
    terminal.until("text, at least 1 long")
    terminal.type("Ada\r")
    terminal.until("Name *: Ada")
    terminal.type("\x13")  # Ctrl+S
    terminal.until("AcceptElicitation: {'name': 'Ada'")


def test_a_login_runs_in_the_terminal_and_the_session_opens(
    place: HostPlaceKit,
    terminals: list[Terminal],
    tmp_path: Path,
) -> None:
    mark = tmp_path / "logged-in"
    terminals.append(terminal := Terminal(place, "attach", "--", sys.executable, LOGIN_AGENT, str(mark)))
    terminal.until("wants a login first")
    terminal.type("say kept\r")  # a prompt that waits for the login
    terminal.until("[g] log in")
    enter_card(terminal)
    terminal.type("g")
    terminal.until("2: Log in in a terminal (runs a program in this terminal)")
    terminal.until("type a key")
    terminal.type("2")
    terminal.until("the code, please:")
    terminal.type("1234\r")
    terminal.until("│ kept")
    assert mark.read_text() == "yes"
    assert "\x1b[?1049h" in terminal.raw.decode(errors="replace").rpartition("the code, please:")[2]


def test_an_agent_that_is_killed_in_a_turn_is_started_again_by_a_key(
    place: HostPlaceKit,
    terminals: list[Terminal],
) -> None:
    terminals.append(terminal := Terminal(place, *SCRIPTED))
    terminal.until("F1 help")
    terminal.type("say before\r")
    terminal.until("│ before")
    terminal.type("run sleep 1000\r")
    terminal.until("1: Allow once")
    for pid in agents_of(place):
        os.kill(pid, signal.SIGKILL)
    terminal.until("ended while working (signal KILL)")
    assert "kept: the conversation" in terminal.text
    enter_card(terminal)
    terminal.type("r")
    terminal.until("The agent was started again.")
    terminal.type("say after\r")
    terminal.until("│ after")
    assert "│ before" in terminal.text


@pytest.mark.soak  # test_questions.py has keys that were read before the card was painted
def test_keys_that_were_typed_before_the_card_never_answer(
    place: HostPlaceKit,
    terminals: list[Terminal],
) -> None:
    terminals.append(terminal := Terminal(place, *SCRIPTED))
    terminal.until("F1 help")
    # Into the conversation and on: whatever part has the keyboard, these keys come before the card.
    terminal.type("edit a.txt hello => bye\r1\r\x1b1\x1b1\x1b1")
    terminal.until("1: Allow once")
    terminal.until("needs your answer")
    assert (place.project / "a.txt").read_text() == "hello\n"
    terminal.type("\x1b[200~1\r1\r\x1b[201~")  # a paste
    terminal.until("1 queued")
    assert (place.project / "a.txt").read_text() == "hello\n"
    terminal.type("\t")
    terminal.until("type the number of an answer")
    terminal.type("3")
    terminal.until("✘ edit")
    assert (place.project / "a.txt").read_text() == "hello\n"
