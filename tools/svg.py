"""A terminal's screen as an SVG picture: text and rectangles, nothing that runs, loads or links.

Every piece of text has its column and its length, so that columns stay aligned with whatever font a reader has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from dragoman.text.terminal import cells
from tools.screen import Run, Screen

_COLUMN: Final = 8.0
_ROW: Final = 18
_FONT: Final = 13
_MARGIN: Final = 14
_BAR: Final = 30
_BACKGROUND: Final = "#1b1f27"
_FOREGROUND: Final = "#d7dce5"
# Each has a contrast of at least 4.5 with the background.
_COLOURS: Final = {
    "": _FOREGROUND,
    "black": "#8b93a3",
    "red": "#f2777a",
    "green": "#8fd18a",
    "yellow": "#e6c46a",
    "blue": "#7fb0f5",
    "magenta": "#d79bea",
    "cyan": "#6fcfd6",
    "white": _FOREGROUND,
}
_DIM: Final = "#929aa9"


def picture(screen: Screen, title: str) -> str:
    """Return the SVG document. `title` is read to users who do not see the picture."""
    rows = screen.runs
    width, height = round(screen.columns * _COLUMN) + 2 * _MARGIN, _BAR + len(rows) * _ROW + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-label={quoteattr(title)}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{_BACKGROUND}"/>',
        *(
            f'<circle cx="{_MARGIN + 6 + number * 18}" cy="{_BAR // 2 + 2}" r="5" fill="#4a5160"/>'
            for number in range(3)
        ),
        f'<g font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="{_FONT}"'
        f' fill="{_FOREGROUND}">',
    ]
    for number, runs in enumerate(rows):
        parts += _texts(runs, _BAR + _MARGIN + number * _ROW)
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def _texts(runs: list[Run], top: int) -> Iterator[str]:
    y = top + _FONT
    for run in runs:
        style = run.style
        if style.background and not run.text.strip("▀"):
            yield from _halves(run, top)
            continue
        fill = _DIM if style.is_dim and not style.colour else _COLOURS.get(style.colour, style.colour)
        look = f' fill="{fill}"' if fill != _FOREGROUND else ""
        look += ' font-weight="bold"' * style.is_bold + ' text-decoration="underline"' * style.is_underlined
        length = f' textLength="{cells(run.text) * _COLUMN:g}"' if cells(run.text) > 1 else ""
        yield f'<text x="{_MARGIN + run.column * _COLUMN:g}" y="{y}"{length}{look}>{escape(run.text)}</text>'


def _halves(run: Run, top: int) -> Iterator[str]:
    """Half blocks as rectangles: with the letters of a font there would be gaps between them."""
    for y, colour in ((top, run.style.colour), (top + _ROW // 2, run.style.background)):
        yield (
            f'<rect x="{_MARGIN + run.column * _COLUMN:g}" y="{y}" width="{len(run.text) * _COLUMN:g}"'
            f' height="{_ROW // 2}" fill="{colour}"/>'
        )
