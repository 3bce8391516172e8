"""Rows of cells of a picture: half blocks in two colours, or the placeholders of the kitty graphics protocol. Pure.

A half block shows two pixels, the upper one in its foreground and the lower one in its background. A transparent pixel
is the terminal's own background: nothing is drawn there. A placeholder is a letter of the private use area with two
marks, for its row and its column; its colour is the number of the image.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias
from unicodedata import category, combining, decomposition

from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style

if TYPE_CHECKING:
    from collections.abc import Iterator

Colour: TypeAlias = tuple[int, int, int]
Rows: TypeAlias = list[list[Segment]]

PLACEHOLDER: Final = "\U0010eeee"
_UPPER, _LOWER, _EMPTY = "▀", "▄", " "
_SEEN: Final = 24  # of 255: less opacity is not seen
_LAST_MARK: Final = 0x6EC  # 85 marks up to here: more than a picture has columns
# Letters of the class "above" that the protocol leaves out, since they may be joined with what is before them.
_JOINED: Final = frozenset(
    map(chr, (*range(0x300, 0x305), *range(0x306, 0x30D), 0x30F, 0x311, 0x313, 0x314, 0x342, 0x653, 0x654))
)


def half_blocks(pixels: bytes, columns: int, background: Colour) -> Rows:
    """Rows of cells from pixels of red, green, blue and opacity, two rows of pixels for a row of cells.

    Args:
        pixels: as many rows of pixels as there are, an even number.
        columns: how many pixels are in a row.
        background: of the terminal; what is half transparent is mixed with it.
    """
    line = 4 * columns
    rows = []
    for start in range(0, len(pixels), 2 * line):
        upper = _colours(pixels[start : start + line], background)
        lower = _colours(pixels[start + line : start + 2 * line], background)
        rows.append([_segment(pair, len(list(same))) for pair, same in groupby(zip(upper, lower, strict=True))])
    return rows


def prepare(rows: Rows, *, has_all_colours: bool) -> Rows:
    """Compute how the colours are written, which Rich does with the first use of each: up to 50 ms for a picture."""
    system = ColorSystem.TRUECOLOR if has_all_colours else ColorSystem.EIGHT_BIT
    for row in rows:
        for segment in row:
            if segment.style is not None:
                segment.style.render(segment.text, color_system=system)
    return rows


def _colours(pixels: bytes, background: Colour) -> Iterator[Colour | None]:
    for red, green, blue, opacity in zip(pixels[::4], pixels[1::4], pixels[2::4], pixels[3::4], strict=True):
        if opacity == 255:
            yield red, green, blue
        elif opacity < _SEEN:
            yield None
        else:
            rest = 255 - opacity
            yield (
                (red * opacity + background[0] * rest) // 255,
                (green * opacity + background[1] * rest) // 255,
                (blue * opacity + background[2] * rest) // 255,
            )


def _segment(pair: tuple[Colour | None, Colour | None], count: int) -> Segment:
    upper, lower = pair
    if upper is None:
        return Segment((_EMPTY if lower is None else _LOWER) * count, _style(lower, None))
    return Segment(_UPPER * count, _style(upper, lower))


def _style(front: Colour | None, back: Colour | None) -> Style:
    return Style.from_color(front and Color.from_rgb(*front), back and Color.from_rgb(*back))


def placeholders(image_id: int, columns: int, rows: int) -> Rows:
    """Rows of cells that the terminal fills with the parts of an image that it has."""
    # A number of 256 colours stays what it is where the screen has no more of them.
    colour = Color.from_ansi(image_id) if image_id < 256 else Color.from_rgb(*image_id.to_bytes(3, "big"))
    style, signs = Style.from_color(colour), marks()
    return [
        [Segment("".join(f"{PLACEHOLDER}{signs[row]}{signs[column]}" for column in range(columns)), style)]
        for row in range(rows)
    ]


def marks() -> list[str]:
    """Return the letters that stand for the numbers from 0 on: marks above a letter that are not parts of others."""
    return [
        letter
        for letter in map(chr, range(0x300, _LAST_MARK + 1))
        if combining(letter) == 230 and category(letter) == "Mn" and not decomposition(letter) and letter not in _JOINED
    ]
