"""Pasted text never becomes keys, however the terminal sends it."""

from __future__ import annotations

import pytest

pytest.importorskip("textual")

from textual import events

from dragoman.tui.screen.keys import pasted_keys
from dragoman.tui.screen.keys.pasted_keys import PasteParser

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


def test_a_paste_that_is_too_long_is_cut_and_what_follows_are_keys_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasted_keys, "MOST_CHARACTERS", 10)
    assert read(["\x1b[200~12345", "67890", "dropped\r", "\x1b[201~x"]) == ["pasted 1234567890", "x"]
