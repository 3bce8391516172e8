"""Forms, logins and failures in a real terminal: a PTY, a real host, a real agent."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from tests.host.local.kit import HostPlaceKit
from tests.tui import here
from tests.tui.here import UserHere
from tests.tui.test_terminal import SCRIPTED, Terminal

LOGIN_AGENT = str(Path(__file__).parent / "login_agent.py")


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
    terminal.until("one moment")  # the card before said it too: that a key counts
    terminal.until("type a key")
    terminal.type("2")
    terminal.until("the code, please:")
    terminal.type("1234\r")
    terminal.until("│ kept")
    assert mark.read_text() == "yes"
    assert "\x1b[?1049h" in terminal.raw.decode(errors="replace").rpartition("the code, please:")[2]


async def test_an_agent_that_is_killed_in_a_turn_is_started_again_by_a_key(user: UserHere) -> None:
    async with user.host_here(has_programs=True), user.screen(**here.SCRIPTED) as client:
        await client.until("F1 help")
        client.type("say before\r")
        await client.until("│ before")
        client.type("run sleep 1000\r")
        await client.until("1: Allow once")
        for pid in user.agent_pids():
            os.kill(pid, signal.SIGKILL)
        await client.until("the agent took it back")
        client.clock.let_pass()
        await client.until("ended while working (signal KILL)")
        assert "kept: the conversation" in client.text
        client.clock.let_pass()
        client.type("\t")
        await client.until("type a key")
        client.type("r")
        await client.until("The agent was started again.")
        client.type("say after\r")
        await client.until("│ after")
        assert "│ before" in client.text


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
    terminal.until("to answer\n")
    terminal.type("4")
    terminal.until("✘ edit")
    assert (place.project / "a.txt").read_text() == "hello\n"
