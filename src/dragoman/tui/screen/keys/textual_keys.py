"""Keys that Textual reads otherwise than this client needs them: changed once, before the screen starts."""

from __future__ import annotations

from typing import Any

from dragoman.tui.terminal.terminal_facts import without_late_answer


def keep_alt_digits() -> None:
    """Let Alt with a digit arrive as such: Textual turns it into the letter of a Mac keyboard.

    Answering to those letters instead would let a letter that a user types answer a question.
    """
    from textual import _ansi_sequences

    for number in range(1, 10):
        _ansi_sequences.ANSI_SEQUENCES_KEYS.pop(f"\x1b{number}", None)  # type: ignore[attr-defined]


def drop_late_answers() -> None:
    """Drop an answer of the terminal that comes after the screen started: Textual would type it into the input."""
    from textual._xterm_parser import XTermParser

    feed = XTermParser.feed
    if feed.__name__ == "feed":

        def filtered(self: XTermParser, data: str) -> Any:
            return feed(self, without_late_answer(data))

        XTermParser.feed = filtered  # type: ignore[method-assign]
