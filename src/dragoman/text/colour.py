"""Colours of a terminal, added to text of our own or text that is already safe.

Whether colour is wanted is decided by the caller, which knows the stream (`dragoman.cli.console.uses_colour`).
"""

from __future__ import annotations

from typing import Final

BOLD: Final = "1"
DIM: Final = "2"
RED: Final = "31"
GREEN: Final = "32"
YELLOW: Final = "33"
BLUE: Final = "34"
MAGENTA: Final = "35"
CYAN: Final = "36"


class Painter:
    """A writer of coloured text, which it leaves unchanged if colour is not wanted."""

    __slots__ = ("has_colour",)

    def __init__(self, has_colour: bool) -> None:
        self.has_colour = has_colour

    def __call__(self, text: str, *styles: str) -> str:
        return f"\x1b[{';'.join(styles)}m{text}\x1b[0m" if self.has_colour and styles and text else text
