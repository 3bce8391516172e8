"""Pasted text never becomes keys, however the terminal sends it."""

from __future__ import annotations

import pytest

pytest.importorskip("textual")

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver

from dragoman.tui.screen.keys import pasted_keys
from dragoman.tui.screen.keys.pasted_keys import PasteParser
from dragoman.tui.screen.keys.textual_keys import adapt_keys

EVIL = "ls \x1b1\x1b]0;x\x07\r\x1b[31mred\x1b\x1b[200~ \x1b[20"
STREAM = f"a\x1b[A\x1b[200~{EVIL}\x1b[201~b\x1b[200~\x1b[201~c"


def read(pieces: list[str]) -> list[str]:
    """Keys by name and pastes by text, in their order."""
    parser = PasteParser()
    found = []
    for piece in pieces:
        for event in parser.feed(piece):
            if isinstance(event, events.Key):
                found.append(event.key)
            elif isinstance(event, events.Paste):
                found.append(f"pasted {event.text}")
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 11, 1000])
def test_a_paste_is_one_event_however_it_is_cut(size: int) -> None:
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    assert read(pieces) == ["a", "up", f"pasted {EVIL}", "b", "pasted ", "c"]


def test_the_driver_of_textual_reads_by_these_tables_and_this_parser() -> None:
    """Fails if another version of Textual takes its keys or its parser from elsewhere: a paste could answer then."""
    adapt_keys()
    found = {}
    for typed in ("\x1b1", "\x1b9", "\x1b\r", "\x1b[27;2;13~", "\x1b[27;3;13~"):
        parser = XTermParser()
        found[typed] = [event.key for event in (*parser.feed(typed), *parser.feed("")) if isinstance(event, events.Key)]
    assert found == {
        "\x1b1": ["alt+1"],
        "\x1b9": ["alt+9"],
        "\x1b\r": ["ctrl+j"],
        "\x1b[27;2;13~": ["shift+\r"],
        "\x1b[27;3;13~": ["\r"],
    }
    assert vars(linux_driver)["XTermParser"] is PasteParser
    assert "XTermParser" in linux_driver.LinuxDriver.run_input_thread.__code__.co_names


def test_an_answer_of_the_terminal_that_comes_late_is_not_typed() -> None:
    answer = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"
    assert read([f"a{answer}b", f"\x1b[200~{answer}\x1b[201~"]) == ["a", "b", f"pasted {answer}"]


def test_a_paste_that_is_too_long_is_cut_and_what_follows_are_keys_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasted_keys, "MOST_CHARACTERS", 10)
    assert read(["\x1b[200~12345", "67890", "dropped\r", "\x1b[201~x"]) == ["pasted 1234567890", "x"]
