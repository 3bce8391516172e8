"""Blocks as styled lines with a rail: the first column says what a line belongs to, so nothing depends on colour.

A line is a list of runs, each a text with the name of a style; what a style looks like is up to the screen. All texts
are safe when they leave this package: controls are gone, and what will happen is spelled out. Pure: no clock, no
screen, no threads. Read first: values.py; then drawing.py, which writes a block.
"""

from typing import TYPE_CHECKING

from dragoman.view.rails.values import ASCII, UNICODE, Glyphs, RailLine, RailView, Run, Style

__all__ = [
    "ASCII",
    "UNICODE",
    "Glyphs",
    "RailLine",
    "RailView",
    "Run",
    "Style",
    "by_words",
    "diff_lines",
    "rail_lines",
]

if TYPE_CHECKING:
    from dragoman.view.rails.changes import diff_lines
    from dragoman.view.rails.drawing import rail_lines
    from dragoman.view.rails.wrapping import by_words
else:
    from dragoman._lazy import lazy_exports

    # The first frame needs the values alone.
    __getattr__ = lazy_exports(
        globals(), {".changes": ("diff_lines",), ".drawing": ("rail_lines",), ".wrapping": ("by_words",)}
    )
