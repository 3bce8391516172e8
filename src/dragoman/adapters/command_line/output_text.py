"""What a program writes, as text that is safe to show, while it is being written.

Accepts pieces of any size: a character or an escape sequence that is split in two is joined again. Unlike
`text/output_lines.py` it does not wait for the end of a line, because tools that stream an answer write single words.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from typing import Final

from dragoman.text.terminal import plain

# The beginning of an escape sequence, or a carriage return whose newline may follow, at the end of a piece.
_UNFINISHED: Final = re.compile(
    r"""
    (?:
      (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*\x1b?  # a string without its end
    | (?:\x1b\[|\x9b)[0-?]*[ -/]*                                             # CSI
    | \x1b[ -/]*
    | \r
    )\Z
    """,
    re.VERBOSE,
)
_HELD: Final = 4096  # characters of an unfinished sequence; a longer one is not a sequence, and is shown


class OutputText:
    """Turns the bytes of one stream into text, at most `limit` characters of it."""

    def __init__(self, limit: int) -> None:
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._held = ""
        self._left = limit
        self.is_cut = False
        """Whether something was left out, because there was too much."""

    def feed(self, data: bytes) -> str:
        """Return the text of this piece, as far as it is complete."""
        text = self._held + self._decode(data)
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _HELD))
        start = len(text) if unfinished is None else unfinished.start()
        self._held = text[start:]
        return self._within(plain(text[:start]))

    def finish(self) -> str:
        """Return the rest."""
        text, self._held = self._held + self._decode(b"", True), ""
        return self._within(plain(text))

    def _within(self, text: str) -> str:
        shown = text[: self._left]
        self._left -= len(shown)
        self.is_cut = self.is_cut or len(shown) < len(text)
        return shown
