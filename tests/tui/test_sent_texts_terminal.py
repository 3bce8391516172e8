"""Text for the turn that runs, and prompts that wait, with a real host and the built-in agent: none of it is lost."""

from __future__ import annotations

import os
import signal

import pytest

pytest.importorskip("prompt_toolkit")
pytest.importorskip("pyte")

from tests.host.local.kit import HostPlaceKit, wait_for
from tests.tui import test_inline as inline
from tests.tui import test_plain as plain
from tests.tui.test_terminal import SCRIPTED, Terminal


def kill_host(place: HostPlaceKit, text: str) -> None:
    """Ends the host, once it has passed a text to the agent: what was sent until then is in its log."""
    client = place.connect()
    session = client.call("session/list")["sessions"][0]["sessionId"]
    wait_for(lambda: text in str(client.call("_dragoman/traffic", sessionId=session)))
    for pid in place.pids():
        os.kill(pid, signal.SIGKILL)


def test_steered_text_is_in_the_turn_or_the_next_prompt_in_plain_mode(place: HostPlaceKit) -> None:
    with plain.opened(place, *SCRIPTED) as client:
        client.type("run sleep 1000")
        client.until("answer with a number")
        client.type("/steer say after the stop", "/queue")
        client.until("note: passed to the turn that runs")
        client.until("1: say after the stop (passed to the turn that runs)")
        client.type("/drop 1", "/stop")
        client.until("note: the agent has it for the turn that runs")
        client.until("note: the turn ended before the agent took your text; it is the next prompt")
        client.until("  after the stop")
        client.until("-- done")
        client.type("run sleep 1000")
        client.until("answer with a number")
        client.type("say waits", "/steer say not taken")
        kill_host(place, "say not taken")
        client.until("note: not sent: the host ended before the turn; type it again:")
        client.until("  say ")
        client.until("note: not sent: the host ended before the turn; type it again:")
        client.until("  say ")
        client.type("say goes on")
        client.until("  goes on")
        client.until("-- done")


def test_steered_text_is_in_the_turn_the_next_prompt_or_back_in_the_input_in_inline_mode(place: HostPlaceKit) -> None:
    with inline.opened(place, *SCRIPTED) as client:
        client.until(inline.READY)
        client.type("edit a.txt hello => bye\\\rsay then\r")
        client.until("needs your answer")
        client.type("say taken\x13")
        client.until("passed to the turn that runs")
        client.answer("\x1b1", "answered: Allow once")
        client.until("note: added to the turn that runs")
        client.until("❯ say taken")
        client.until(inline.READY)
        client.type("run sleep 1000\r")
        client.until("needs your answer")
        client.type("say after the stop\x13")
        client.until("it is the next prompt if")
        client.type("\x1b")
        client.until("│ after the stop")
        client.until(inline.READY)
        client.type("run sleep 1000\r")
        client.until("needs your answer")
        client.type("say not lost\x13")
        client.type("the draft")
        client.until("❯ the draft")
        kill_host(place, "say not lost")
        client.until("❯ say not lost\nthe draft")


def test_after_the_end_of_the_host_the_text_and_the_ends_of_the_turns_are_back(
    place: HostPlaceKit, terminals: list[Terminal]
) -> None:
    terminals.append(terminal := Terminal(place, *SCRIPTED))
    terminal.until("F1 help")
    terminal.type("say one\r")
    terminal.until("│ one\n  done · ")
    terminal.type("run sleep 1000\r")
    terminal.until("needs your answer")
    terminal.type("say not lost\x13")
    kill_host(place, "say not lost")
    terminal.until("the host ended in the middle of the turn")
    shown = terminal.until("say not lost\n")
    assert "│ one\n  done · " in shown, "from the log of the host"
    assert shown.count("❯ run sleep 1000") == 1, "the prompt is there once"
    terminal.type("\r")
    terminal.until("│ not lost\n  done · ")
