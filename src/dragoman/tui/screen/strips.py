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

_ASCII_SIGNS: Final = str.maketrans("…·─│█░•", "~--|#.*")
_own_signs: dict[int, int] | None = None


def use_ascii(is_ascii: bool) -> None:
    """Draw the signs between texts as ASCII on this terminal, or as they are."""
    global _own_signs
    _own_signs = _ASCII_SIGNS if is_ascii else None


def strip_of(line: RailLine, width: int, *, base: Style | None = None) -> Strip:
    """A line as cells, exactly as wide as the screen. Controls that are left would act on the terminal: none are."""
    segments = [Segment(_shown(text), _style(style, base)) for text, style in line if text]
    return Strip(segments).adjust_cell_length(width, base or Style())


def strips_of(lines: Iterable[RailLine], width: int) -> list[Strip]:
    """Several lines."""
    return [strip_of(line, width) for line in lines]


def _shown(text: str) -> str:
    safe = text if text.isprintable() else one_line(text)
    return safe if _own_signs is None else safe.translate(_own_signs)


def _style(name: str, base: Style | None) -> Style:
    found = STYLES.get(name, STYLES[""])
    return found if base is None else base + found
