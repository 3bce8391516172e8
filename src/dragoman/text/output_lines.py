"""The output of a command as lines that are safe to show: colours may stay, every other escape sequence is removed.

Accepts pieces of any size: a sequence or a character split in two is joined again. A carriage return starts the line
again, as on a screen, so that only the last state of a progress bar remains.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from typing import Final

from dragoman.text.terminal import plain

_TOKEN: Final = re.compile(
    r"""
      (?P<colour>(?:\x1b\[|\x9b)[0-9;:]{0,32}m)
    | (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)   # OSC, DCS, SOS, PM, APC
    | (?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]                                           # every other CSI
    | (?P<part>(?:\x1b(?:[\]PX^_][^\x07\x1b\x9c]*\x1b?|\[[0-?]*[ -/]*|[ -/]*)|[\x90\x98\x9d-\x9f][^\x07\x1b\x9c]*\x1b?
        |\x9b[0-?]*[ -/]*)\Z)                                                    # split: the rest has not arrived yet
    | \x1b[ -/]*[0-~]
    | (?P<newline>\n)
    | (?P<return>\r)
    | (?P<text>[^\x00-\x08\x0a-\x1f\x7f-\x9f]+)
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_CUT: Final = 4096  # characters of an unfinished sequence; a longer one is dropped
_LONGEST: Final = 4096  # characters of a line; a longer one is shown in parts
_COLOURS: Final = 128  # characters of colour sequences carried over to the next line
_PLAIN_AGAIN: Final = frozenset({"\x1b[0m", "\x1b[m", "\x9b0m", "\x9bm"})
_RESET: Final = "\x1b[0m"


class OutputLines:
    """The way from bytes to lines; see the module."""

    __slots__ = ("_colour", "_decode", "_has_colour", "_held", "_length", "_line", "_returned", "_start")

    def __init__(self, has_colour: bool) -> None:
        self._has_colour = has_colour
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._held = ""
        self._line: list[str] = []
        self._length = 0
        self._colour = ""  # in effect here
        self._start = ""  # in effect where this line began
        self._returned = False

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that this piece completes."""
        return self._read(self._held + self._decode(data))

    def finish(self) -> list[str]:
        """Return the rest, which has no newline."""
        lines = self._read(self._decode(b"", True))
        self._held = ""
        return [*lines, self._take()] if self._line else lines

    def _read(self, text: str) -> list[str]:
        self._held = ""
        lines: list[str] = []
        for token in _TOKEN.finditer(text):
            kind, piece = token.lastgroup, token[0]
            if kind == "newline":
                lines.append(self._take())
            elif kind == "return":
                self._returned = True
            elif kind == "part":
                self._held = piece if len(piece) <= _CUT else ""
            elif kind == "colour":
                self._paint(piece)
            elif kind == "text":
                self._write(plain(piece))
                if self._length > _LONGEST:
                    lines.append(self._take())
        return lines

    def _write(self, text: str) -> None:
        if self._returned and text:
            self._line.clear()
            self._length = 0
            self._start = self._colour
            self._returned = False
        self._line.append(text)
        self._length += len(text)

    def _paint(self, colour: str) -> None:
        if not self._has_colour:
            return
        colour = colour.replace("\x9b", "\x1b[")
        self._colour = "" if colour in _PLAIN_AGAIN or len(self._colour) > _COLOURS else self._colour + colour
        self._line.append(colour)

    def _take(self) -> str:
        line = self._start + "".join(self._line)
        self._line.clear()
        self._length = 0
        self._returned = False
        self._start = self._colour
        return line + _RESET if "\x1b" in line else line
