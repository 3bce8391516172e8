"""`dragoman exec` at a real terminal: the user is asked there, and Ctrl-C is typed there."""

from __future__ import annotations

import json
import os
import time

import pytest

from tests.cli.exec_kit import Place, place
from tests.cli.terminal_kit import at_terminal

__all__ = ["place"]


def test_the_user_is_asked_and_the_answer_decides(place: Place) -> None:
    with at_terminal(
        place, "exec", "-a", "scripted", "permission", "--output", "json", stdout=place.project / "out"
    ) as terminal:
        terminal.until(" > ")
        assert "Deleting everything" in terminal.text
        for option in ("Allow", "Always allow", "Reject", "Never allow"):
            assert option in terminal.text
        terminal.type("y\n")
        assert terminal.wait() == 0
    result = json.loads((place.project / "out").read_text())
    [decision] = result["permissions"]
    assert (decision["action"], decision["decided_by"], decision["option_id"]) == ("allow", "person", "allow")


def test_a_prompt_in_stdin_does_not_answer_the_question(place: Place) -> None:
    (place.project / "prompt").write_text("permission")
    with at_terminal(place, "exec", "-a", "scripted", stdin=place.project / "prompt") as terminal:
        terminal.until(" > ")
        terminal.type("n\n")
        assert terminal.wait() == 0
    assert "not allowed (reject)" in terminal.text


def test_a_user_who_chooses_nothing_does_not_make_the_exit_code_5(place: Place) -> None:
    with at_terminal(place, "exec", "-a", "scripted", "permission") as terminal:
        terminal.until(" > ")
        terminal.type("\x04")
        assert terminal.wait() == 0
    assert "not allowed (None)" in terminal.text


def test_a_write_without_permission_is_asked_with_its_diff(place: Place) -> None:
    with at_terminal(place, "exec", "x", odd="writes-unasked") as terminal:
        terminal.until(" > ")
        assert "+made" in terminal.text
        terminal.type("y\n")
        assert terminal.wait() == 0
    assert (place.project / "new.txt").read_text() == "made\n"


def test_forms_are_offered_only_where_a_user_can_fill_them_in(place: Place) -> None:
    assert place.run("-a", "scripted", "elicitation").out == "This client shows no forms.\n"
    with at_terminal(place, "exec", "-a", "scripted", "elicitation") as terminal:
        terminal.until("Who are you?")
        terminal.until(" > ")
        terminal.type("\x04")
        assert terminal.wait() == 0
    assert "CancelElicitation" in terminal.text


def test_the_answer_is_shown_once(place: Place) -> None:
    with at_terminal(place, "exec", "-a", "scripted", "say swordfish") as terminal:
        assert terminal.wait() == 0
    assert terminal.text.count("swordfish") == 1


def test_quiet_shows_the_answer_alone(place: Place) -> None:
    with at_terminal(place, "exec", "hello", "-q", odd="plain") as terminal:
        assert terminal.wait() == 0
    assert terminal.text == "hello\n"


def test_the_text_of_an_agent_cannot_control_the_terminal(place: Place) -> None:
    for words in (("a\x1b[2Jb\x1b]0;owned\x07c", "-q"), ("a\x1b[2Jb\x1b]0;owned\x07c",)):
        with at_terminal(place, "exec", *words, odd="plain") as terminal:
            assert terminal.wait() == 0
        assert "abc" in terminal.text
        assert "\x1b[2J" not in terminal.text
        assert "\x1b]0" not in terminal.text


@pytest.mark.convention("stop", "exec")
def test_ctrl_c_cancels_the_turn(place: Place) -> None:
    with at_terminal(
        place, "exec", "-a", "scripted", "slow", "--output", "json", stdout=place.project / "out"
    ) as terminal:
        terminal.until("working")
        terminal.type("\x03")
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.text
    result = json.loads((place.project / "out").read_text())
    assert (result["exit_code"], result["stop_reason"]) == (130, "cancelled")


@pytest.mark.rule(194)
def test_ctrl_c_withdraws_an_open_question(place: Place) -> None:
    with at_terminal(
        place, "exec", "-a", "scripted", "permission", "--output", "json", stdout=place.project / "out"
    ) as terminal:
        terminal.until(" > ")
        terminal.type("\x03")
        assert terminal.wait() == 130
    [decision] = json.loads((place.project / "out").read_text())["permissions"]
    assert (decision["action"], decision["decided_by"]) == ("cancelled", "cancelled")


def test_the_terminal_is_as_it_was_afterwards(place: Place) -> None:
    for keys, code in (("y\n", 0), ("\x03", 130)):
        with at_terminal(place, "exec", "-a", "scripted", "permission") as terminal:
            terminal.until(" > ")
            terminal.type(keys)
            terminal.until("cancelled by Ctrl-C" if code else "end_turn")
            while not terminal.is_cooked:
                os.sched_yield()
            assert terminal.wait() == code


@pytest.mark.convention("stop", "exec")
def test_a_second_ctrl_c_ends_an_agent_that_does_not_listen(place: Place) -> None:
    with at_terminal(place, "exec", "x", odd="never-listens") as terminal:
        terminal.until("working")
        terminal.type("\x03")
        terminal.until("cancelling the turn")
        started = time.monotonic()
        terminal.type("\x03")
        assert terminal.wait() == 130
    assert time.monotonic() - started < 4


def test_an_answer_of_always_is_remembered_for_this_project(place: Place) -> None:
    with at_terminal(place, "exec", "x", odd="writes-unasked") as terminal:
        terminal.until(" > ")
        terminal.type("a\n")
        assert terminal.wait() == 0
    (place.project / "new.txt").unlink()
    done = place.run("x", "--output", "json", odd="writes-unasked")
    assert done.code == 0, done.err
    [decision] = done.result["permissions"]
    assert decision["action"] == "allow"
    assert decision["rule"] is not None
