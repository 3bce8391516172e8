"""Keys that Textual reads otherwise than this client needs them: changed once, before the screen starts.

Textual has no public way to do this. Its table of keys and the parser of its driver are changed here and in
`pasted_keys.py` only; a test fails if another version of Textual takes them from elsewhere.
"""

from __future__ import annotations

from typing import Any, Final, cast

from textual import _ansi_sequences
from textual.keys import Keys

from dragoman.tui.screen.keys.pasted_keys import guard_pastes

_NEW_LINES: Final = ("\x1b\r", "\x1b\n")


def adapt_keys() -> None:
    """Change how keys and pastes are read.

    Alt with a digit arrives as such: Textual turns it into the letter of a Mac keyboard, and answering to those letters
    instead would let a letter that a user types answer a question. Alt+Enter and Shift+Enter, as many terminals send
    them, begin a new line: Textual takes them for Enter.
    """
    table = cast("dict[str, Any]", _ansi_sequences.ANSI_SEQUENCES_KEYS)
    for number in range(1, 10):
        table.pop(f"\x1b{number}", None)
    table.update(dict.fromkeys(_NEW_LINES, (Keys.ControlJ,)))
    guard_pastes()
