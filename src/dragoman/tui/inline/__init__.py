"""The terminal client that prints into the scrollback: finished blocks once, and at most six live lines below them.

Owns the live region, its keys and the input, on prompt_toolkit; what lines mean is in `tui/lines/`. What was printed is
never touched again: the terminal's own scrolling, search and selection work. Read first: terminal.py; then printed.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.tui.interface import Opening


def run(
    opening: Opening,
    session_id: str | None,
    first: str | None,
    has_colour: bool,
    *,
    is_ascii: bool = False,
    chooses: bool = False,
    welcomes: bool = False,
) -> int:
    """Work in this terminal until the user leaves; `chooses`: list the sessions first. Returns the exit code."""
    from dragoman.tui.inline.terminal import work_inline

    return work_inline(opening, session_id, first, has_colour, is_ascii=is_ascii, chooses=chooses, welcomes=welcomes)
