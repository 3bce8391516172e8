"""One line at the bottom of a terminal that says what is going on, drawn again each second.

Only composes what is written; `stream.py` writes it, and clears it before anything else is written. While the cursor is
inside a line of the agent's text there is no status: the text itself shows that work goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.text.colour import DIM
from dragoman.text.terminal import REDRAW, clip

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.text.colour import Painter


class StatusLine:
    """The status line of a terminal.

    Args:
        width: returns the columns that a line may take now; the window may change its size.
    """

    def __init__(self, paint: Painter, width: Callable[[], int]) -> None:
        self.text = ""
        self._paint = paint
        self._width = width
        self._is_drawn = False

    def draw(self, *, is_inside: bool) -> str:
        """Return what shows the line; `is_inside` if the cursor is inside a line of other text."""
        if not self.text or is_inside:
            return ""
        self._is_drawn = True
        return self._paint(clip(self.text, self._width()), DIM)

    def clear(self) -> str:
        """Return what removes the line; empty if it is not shown."""
        is_drawn, self._is_drawn = self._is_drawn, False
        return REDRAW if is_drawn else ""
