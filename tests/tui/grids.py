"""Screens of the full screen client as text files: one small file for each screen and size, readable in a review.

`DRAGOMAN_REWRITE_GRIDS=1 pytest tests/tui` writes the files again; look at the difference before you commit it.
Colours are not in it; `reversed_lines` finds what is marked without one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "golden"
_REWRITES = os.environ.get("DRAGOMAN_REWRITE_GRIDS") == "1"


def grid(app: Any) -> list[str]:
    """What is on the screen, line by line, without the spaces at the ends."""
    width, height = app.size
    lines = [strip.text[:width].rstrip() for strip in app.screen._compositor.render_strips()]
    return [*lines, *[""] * (height - len(lines))]


def reversed_lines(app: Any) -> list[int]:
    """The numbers of the lines that have a cell in reverse video."""
    strips = app.screen._compositor.render_strips()
    return [
        number
        for number, strip in enumerate(strips)
        if any(segment.style is not None and segment.style.reverse for segment in strip if segment.text.strip())
    ]


def coloured_grid(app: Any) -> list[str]:
    """The same, with the colours of cells that have one for each half."""
    lines = []
    for strip in app.screen._compositor.render_strips():
        line = ""
        for segment in strip:
            front, back = (segment.style.color, segment.style.bgcolor) if segment.style is not None else (None, None)
            if front is None or back is None or front.triplet is None or back.triplet is None:
                line += segment.text
            else:
                colours = f"38;2;{';'.join(map(str, front.triplet))};48;2;{';'.join(map(str, back.triplet))}"
                line += f"\x1b[{colours}m{segment.text}\x1b[0m"
        lines.append(line.rstrip())
    return lines


def check_grid(name: str, app: Any, *, has_colours: bool = False) -> None:
    """Compare the screen with `golden/NAME-WIDTHxHEIGHT.txt`, or `.ansi` with its colours."""
    width, height = app.size
    path = FOLDER / f"{name}-{width}x{height}.{'ansi' if has_colours else 'txt'}"
    shown = "\n".join(coloured_grid(app) if has_colours else grid(app)).rstrip() + "\n"
    if _REWRITES:
        FOLDER.mkdir(exist_ok=True)
        path.write_text(shown)
    assert path.exists(), f"{path} is missing: DRAGOMAN_REWRITE_GRIDS=1 writes it"
    assert shown == path.read_text(), f"the screen is not that of {path}; DRAGOMAN_REWRITE_GRIDS=1 writes it again"
