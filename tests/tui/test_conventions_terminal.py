"""The table of conventions in docs/terminal.md in real terminals: signals, other programs, and every way out."""

from __future__ import annotations

import re
import termios
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

pytest.importorskip("textual")
pytest.importorskip("prompt_toolkit")
pytest.importorskip("pyte")

from tests.host.local.kit import HostPlaceKit, local_place, wait_for
from tests.tui.test_terminal import SCRIPTED, SECONDS, Terminal

EDITOR = """#!/bin/sh
trap 'echo the editor was interrupted' INT
echo the editor has the screen
until read line; do :; done
echo edited > "$1"
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[HostPlaceKit]:
    with local_place(tmp_path) as found:
        editor = found.home / "editor"
        editor.write_text(EDITOR)
        editor.chmod(0o755)
        found.environment |= {"VISUAL": str(editor), "SHELL": "/bin/sh"}
        yield found


def opened(place: HostPlaceKit, terminals: list[Terminal], *words: str) -> tuple[Terminal, list[object]]:
    """A client, and the modes of its terminal before it changed them."""
    terminals.append(terminal := Terminal(place, *words))
    return terminal, modes(terminal)


def modes(terminal: Terminal) -> list[object]:
    return termios.tcgetattr(terminal._fd)


def interrupt_editor(terminal: Terminal) -> None:
    """Press Ctrl+C until the editor has it: the terminal is handed over when its first line may be in sight already."""
    end = monotonic() + SECONDS
    while "the editor was interrupted" not in terminal.text:
        assert monotonic() < end, terminal.text
        terminal.type("\x03")
        _ = terminal.read(0.5)


def last_lines(terminal: Terminal) -> str:
    """What stays in the terminal, without the breaks at its width."""
    return terminal.text.rstrip().replace("\n", "")


def assert_restored(terminal: Terminal, before: list[object]) -> None:
    assert modes(terminal) == before, "the terminal has its modes again"
    assert not terminal.screen.cursor.hidden
    for mode in (b"1049", b"2004", b"1000", b"1004"):  # the other screen, pastes, the mouse, the focus
        last = [match[1] for match in re.finditer(rb"\x1b\[\?" + mode + rb"([hl])", terminal.raw)][-1:]
        assert last in ([], [b"l"]), mode


@pytest.mark.convention("stop", "full screen")
@pytest.mark.convention("leave while it works", "full screen")
@pytest.mark.convention("redraw", "full screen")
def test_the_full_screen_leaves_the_editor_its_keys_and_the_terminal_as_it_was(
    place: HostPlaceKit, terminals: list[Terminal]
) -> None:
    terminal, before = opened(place, terminals, *SCRIPTED)
    terminal.until("F1 help")
    terminal.type("run sleep 1000\r")
    terminal.until("needs your answer")
    terminal.type("\x07")
    terminal.until("the editor has the screen")
    interrupt_editor(terminal)
    terminal.type("\n")
    terminal.until("edited")
    shown = terminal.until("needs your answer")  # the turn goes on: the key was the editor's
    assert "again to leave" not in shown
    terminal.type("\x03")  # the turn, also while its question is open
    terminal.until("Cancelled")
    terminal.until("Enter send")
    terminal.type("\x03")
    terminal.until("cleared; Up brings it back")
    terminal.screen.reset()  # as if another program had cleared it
    terminal.type("\x0c")
    terminal.until("Cancelled")
    terminal.until("F1 help")
    terminal.type("run sleep 1000\r")
    terminal.until("needs your answer")
    terminal.type("\x04")
    terminal.until("[s] stop it, and leave")
    terminal.type("d")
    assert terminal.wait() == 0
    assert_restored(terminal, before)
    said = re.search(
        r"still running; dragoman attach (\w+) brings you back, dragoman sessions cancel (\w+) stops it$",
        last_lines(terminal),
    )
    assert said is not None, terminal.text
    assert said[1] == said[2]
    done = place.run("cancel", said[1], verb="sessions")
    assert done.code == 0, done.err
    wait_for(lambda: place.connect().call("session/list")["sessions"][0]["_meta"]["dragoman"]["state"] == "idle")


@pytest.mark.convention("leave", "inline")
def test_inline_mode_is_left_by_two_keys_and_leaves_the_terminal_as_it_was(
    place: HostPlaceKit, terminals: list[Terminal]
) -> None:
    terminal, before = opened(place, terminals, *SCRIPTED, "--inline")
    terminal.until("Enter send")
    terminal.type("run sleep 1000\r")
    terminal.until("needs your answer")
    terminal.type("\x07")
    terminal.until("the editor has the screen")
    interrupt_editor(terminal)
    terminal.type("\n")
    terminal.until("❯ edited")
    terminal.until("needs your answer")
    terminal.type("\x03")
    terminal.until("Cancelled")
    terminal.type("\x03")
    terminal.until("cleared; Up brings it back")
    terminal.type("\x03\x03")
    assert terminal.wait() == 0
    assert "brings you back" in last_lines(terminal)
    assert "still running" not in last_lines(terminal)
    assert_restored(terminal, before)


@pytest.mark.convention("stop", "plain")
@pytest.mark.convention("clear the draft", "plain")
@pytest.mark.convention("leave", "plain")
@pytest.mark.convention("leave while it works", "plain")
def test_plain_mode_has_the_same_ladder_by_signals(place: HostPlaceKit, terminals: list[Terminal]) -> None:
    terminal, before = opened(place, terminals, *SCRIPTED, "--plain")
    terminal.until("note: session")
    terminal.type("run sleep 1000\n")
    terminal.until("answer with ")
    terminal.type("say queued\n")
    terminal.until("note: waiting, 1 in the queue")
    terminal.type("\x03")
    terminal.until("note: not sent: the turn was stopped; type it again:\n  say queued")
    terminal.until("note: the turn ended: stopped")
    terminal.type("!sleep 999\n")
    terminal.until("shell: sleep 999")
    terminal.type("\x03")
    terminal.until("shell: stopped")
    terminal.type("half a line")
    terminal.until("half a line")
    terminal.type("\x03")
    terminal.until("note: Ctrl+C again to leave")
    terminal.type("say still here\n")
    terminal.until("\n  still here")
    terminal.until("-- done")
    end = monotonic() + SECONDS
    while "brings you back" not in terminal.text:  # two within two seconds
        assert monotonic() < end, terminal.text
        terminal.type("\x03")
        terminal.read(0.5)
    assert terminal.wait() == 0
    assert_restored(terminal, before)
    assert "Traceback" not in terminal.text
    again, before = opened(place, terminals, *SCRIPTED, "--plain")
    again.until("note: session")
    again.type("run sleep 1000\n")
    again.until("answer with ")
    again.type("\x04")
    assert again.wait() == 0
    assert re.search(
        r"still running; dragoman attach (\w+) brings you back, dragoman sessions cancel \1 stops it$",
        last_lines(again),
    )
    assert_restored(again, before)
