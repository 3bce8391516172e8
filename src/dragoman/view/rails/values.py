"""What lines with rails are made of: glyphs, styles, runs, and how a view writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from dragoman.view.blocks import ShownTerminal

Style: TypeAlias = str
"""A name such as `bold` or `added`, several joined by `+`, or the colours of a terminal as `sgr:1;31`."""
Run: TypeAlias = tuple[str, Style]
RailLine: TypeAlias = tuple[Run, ...]
Highlight: TypeAlias = Callable[[str, str], Sequence[Sequence[Run]] | None]
"""From a path or a language, and a text, to the runs of each line; None if they are not known, or not yet."""
Emulate: TypeAlias = "Callable[[ShownTerminal], Sequence[Sequence[Run]] | None]"
"""The screen of a terminal whose program moves the cursor; None if there is none."""
HasPicture: TypeAlias = Callable[[int, int], bool]
"""Whether the screen draws the image that is this piece of the block at this position."""

PICTURE_STYLE: Final = "picture:"
"""Begins the style of a run that is a row of a picture; see pictures.py."""
SIDE_BY_SIDE_COLUMNS: Final = 108
"""Of the conversation. A screen of 120 has them when its outer columns are folded away, one of 160 next to them."""


class Glyphs(NamedTuple):
    """The characters of the rail and of states; each is one column wide."""

    you: str
    agent: str
    thought: str
    tool: str
    note: str
    running: str
    needs_you: str
    queued: str
    done: str
    failed: str
    cancelled: str
    offline: str
    bullet: str = "•"
    rule: str = "─"
    pipe: str = "│"
    cross: str = "┼"
    quote: str = "┃"
    dot: str = "·"
    cut: str = "…"


UNICODE: Final = Glyphs("❯", "│", "┊", "▸", "!", "●", "◆", "○", "✔", "✘", "–", "~")
ASCII: Final = Glyphs(
    *(">", "|", ":", "#", "!", "*", "?", "o", "+", "x", "-", "~"), *("*", "-", "|", "+", ">", "-", "~")
)


def no_highlight(name: str, text: str) -> None:
    """Highlight nothing, in a view that has no highlighting."""


def no_screen(terminal: ShownTerminal) -> None:
    """Return no screen, in a view that emulates no terminal."""


def no_picture(position: int, number: int) -> bool:
    """Return no picture, in a view that draws none."""
    return False


class RailView(NamedTuple):
    """How blocks are written."""

    width: int
    glyphs: Glyphs = UNICODE
    is_open: bool = False
    """Thoughts and long outputs are shown whole."""
    is_side_by_side: bool = True
    """Changes are shown side by side, if there are columns enough."""
    highlight: Highlight = no_highlight
    emulate: Emulate = no_screen
    has_picture: HasPicture = no_picture
    taken_back: frozenset[int] = frozenset()
    """Places in the timeline of prompts whose changes the user has taken back."""
