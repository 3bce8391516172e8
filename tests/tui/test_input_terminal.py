"""The input in a real terminal: a PTY, a real host, the built-in agent with its scripted model."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from tests.host.local.kit import HostPlaceKit, local_place, wait_for
from tests.tui.test_terminal import SCRIPTED, SECONDS, Terminal


@pytest.fixture
def place(tmp_path: Path) -> Iterator[HostPlaceKit]:
    with local_place(tmp_path) as found:
        (found.project / "notes.txt").write_text("from the file\n")
        editor = found.home / "editor"
        editor.write_text('#!/bin/sh\necho "the editor has the screen"\nread line\necho " and edited" >> "$1"\n')
        editor.chmod(0o755)
        found.environment |= {"VISUAL": str(editor), "PAGER": f"{editor} -p", "SHELL": "/bin/sh"}
        yield found


def ready(place: HostPlaceKit, terminals: list[Terminal], *words: str) -> Terminal:
    terminals.append(terminal := Terminal(place, *words))
    terminal.until("F1 help")
    return terminal


def test_a_paste_a_completed_file_and_a_draft_after_kill_9(place: HostPlaceKit, terminals: list[Terminal]) -> None:
    first = ready(place, terminals, *SCRIPTED)
    first.type("say 漢字 @not")
    first.until("notes.txt")
    first.type("\t")
    first.until("@notes.txt")
    row = next(y for y, line in enumerate(first.screen.display) if "@notes.txt" in line)
    column = 2 + len("say ") + 4 + len(" @notes.txt ")
    wait_until(first, lambda: (first.screen.cursor.x, first.screen.cursor.y) == (column, row))
    lines = "\r".join(f"line {number} \x1b]0;owned\x07" for number in range(10_000))
    write(first, f"\x1b[200~{lines}\x1b[201~")
    first.until("[pasted 10,000 lines]")
    first.until("attached: pasted 10,000 lines, notes.txt (14 bytes)")
    drafts = place.home / "dragoman" / "state" / "drafts"
    wait_for(lambda: any(b"pasted 10,000" in file.read_bytes() for file in drafts.rglob("*.json")))
    first.kill()
    again = ready(place, terminals, *SCRIPTED)
    again.until("[pasted 10,000 lines]")
    again.until("say 漢字 @notes.txt")
    again.type("\r")
    again.until("│ 漢字 @notes.txt")
    wait_for(lambda: not list(drafts.rglob("*.json")))
    assert b"owned\x07" not in again.raw


@pytest.mark.convention("suspend", "full screen")
def test_the_editor_and_ctrl_z_give_the_terminal_back(place: HostPlaceKit, terminals: list[Terminal]) -> None:
    terminal = ready(place, terminals, *SCRIPTED)
    terminal.type("a draft\x07")
    terminal.until("the editor has the screen")
    terminal.type("\n")
    terminal.until("a draft and edited")
    terminal.type("\x1a")
    _, status = os.waitpid(terminal.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    while terminal.read(0.2):
        pass
    assert terminal.raw.rstrip().endswith((b"\x1b[?1004l", b"\x1b[?25h")), "the terminal is as it was"
    os.kill(terminal.pid, signal.SIGCONT)
    mark = len(terminal.raw)
    terminal.until_written(b"a draft and edited", mark)
    terminal.type("!")
    terminal.until("a draft and edited!")


def test_a_terminal_that_hangs_up_ends_the_client_and_keeps_the_draft(
    place: HostPlaceKit, terminals: list[Terminal]
) -> None:
    first = ready(place, terminals, *SCRIPTED)
    first.type("!sleep 301\r")
    first.until("running")
    first.type("not sent")
    first.until("not sent")
    first.close()  # the other end of the terminal is gone: SIGHUP
    wait_for(lambda: os.waitpid(first.pid, os.WNOHANG)[0] == first.pid)
    assert place.host(), "the host goes on"
    again = ready(place, terminals, *SCRIPTED)
    again.until("not sent")


@pytest.mark.soak  # test_sent_texts.py and test_input.py have both without a terminal
def test_text_is_added_to_a_turn_that_runs_and_prompts_behind_it_are_reordered(
    place: HostPlaceKit, terminals: list[Terminal]
) -> None:
    terminal = ready(place, terminals, *SCRIPTED)
    os.mkfifo(place.project / "gate")
    terminal.type("run cat gate\\\rsay {result}\r")
    terminal.until("● run")
    terminal.type("use tabs\x13")
    terminal.until("passed to the turn")
    terminal.type("say one\rsay two\r")
    terminal.until("3 queued")
    terminal.type("\x11")
    terminal.until("1. (for this turn) use tabs")
    terminal.until("2. say one")
    terminal.type("j")
    terminal.type("\x1b[1;2B")  # Shift+Down
    terminal.until("2. say two")
    terminal.type("\x1b")
    (place.project / "gate").write_text("opened\n")
    terminal.until("❯ use tabs")
    terminal.until("│ one")
    assert terminal.text.index("│ two") < terminal.text.index("│ one")


def write(terminal: Terminal, text: str) -> None:
    """Writes more than a terminal takes at once, and reads meanwhile."""
    writing = threading.Thread(target=terminal.type, args=(text,), daemon=True)
    writing.start()
    end = monotonic() + SECONDS
    while writing.is_alive():
        assert monotonic() < end, terminal.text
        terminal.read(0.05)


def wait_until(terminal: Terminal, is_true: object) -> None:
    assert callable(is_true)
    end = monotonic() + SECONDS
    while not is_true():
        assert monotonic() < end, terminal.text
        terminal.read(0.1)
