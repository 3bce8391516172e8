"""The place of a picture among the lines: its caption, and rows that the screen fills with cells. Pure.

How many rows there are depends on the size that the image states and on the width of the view, never on its data: so
the lines stay where they are when the picture has been decoded. A row is a run of spaces whose style names the picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.text.terminal import cells
from dragoman.text.visible import label
from dragoman.view.labels import described
from dragoman.view.rails.values import PICTURE_STYLE
from dragoman.view.rails.wrapping import fitted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.view.blocks import MediaPiece
    from dragoman.view.rails.values import RailLine, RailView

MOST_COLUMNS: Final = 80
"""Of a picture. A cell of the sharp form has one of 85 marks for its column."""
MOST_ROWS: Final = 16
"""Of a picture in a block that is not opened: with its caption it fits on a screen of 24 lines."""
OPEN_ROWS: Final = 40


class PictureRow(NamedTuple):
    """One row of a picture: which piece of which block, in how many cells, and which of its rows."""

    position: int
    number: int
    columns: int
    rows: int
    row: int


def picture_lines(piece: MediaPiece, place: tuple[int, int], rail: str, view: RailView) -> Iterator[RailLine]:
    """Yield the caption of an image, and the rows of its picture."""
    width, height = piece.width or 1, piece.height or 1
    room = max(1, min(MOST_COLUMNS, view.width - cells(rail) - 1))
    small = picture_box(width, height, room, MOST_ROWS)
    large = picture_box(width, height, room, OPEN_ROWS)
    keys = "o opens it"
    if small != large:
        keys += f", Enter draws it {'smaller' if view.is_open else 'larger'}"
    name = label((piece.uri or "").rstrip("/").rpartition("/")[2], 40, "")
    text = f" {view.glyphs.dot} ".join(filter(None, (described(piece), name, keys)))
    yield fitted(((f"{rail} {text}", "dim"),), view.width, view.glyphs)
    columns, rows = large if view.is_open else small
    lead = rail if rail not in (view.glyphs.you, view.glyphs.note) else " "
    for row in range(rows):
        named = ":".join(map(str, (*place, columns, rows, row)))
        yield ((f"{lead} ", ""), (" " * columns, f"{PICTURE_STYLE}{named}"))


def picture_box(width: int, height: int, columns: int, rows: int) -> tuple[int, int]:
    """Return the columns and rows of an image: half a cell for a pixel at most, and never more than there are."""
    scale = min(1.0, columns / width, 2 * rows / height)
    return max(1, round(width * scale)), max(1, -(-round(height * scale) // 2))


def row_of(style: str) -> PictureRow:
    """Return the row that the style of a run names."""
    return PictureRow(*map(int, style.removeprefix(PICTURE_STYLE).split(":")))
