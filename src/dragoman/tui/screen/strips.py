"""Lines of the view as cells of the screen. Every cell that shows text passes here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from dragoman.text.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.view.rails import RailLine

# The terminal's own sixteen colours: right on light, dark and high-contrast terminals.
STYLES: Final = {
    "": Style(),
    "dim": Style(dim=True),
    "bold": Style(bold=True),
    "user": Style(color="cyan", bold=True),
    "good": Style(color="green"),
    "bad": Style(color="red", bold=True),
    "warn": Style(color="yellow"),
    "added": Style(color="green"),
    "removed": Style(color="red"),
    "code": Style(color="blue"),
    "heading": Style(bold=True, underline=True),
    "reverse": Style(reverse=True),
}


def strip_of(line: RailLine, width: int, *, base: Style | None = None) -> Strip:
    """A line as cells, exactly as wide as the screen. Controls that are left would act on the terminal: none are."""
    segments = [
        Segment(text if text.isprintable() else one_line(text), _style(style, base)) for text, style in line if text
    ]
    return Strip(segments).adjust_cell_length(width, base or Style())


def strips_of(lines: Iterable[RailLine], width: int) -> list[Strip]:
    """Several lines."""
    return [strip_of(line, width) for line in lines]


def _style(name: str, base: Style | None) -> Style:
    found = STYLES.get(name, STYLES[""])
    return found if base is None else base + found
