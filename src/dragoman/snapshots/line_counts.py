"""How many lines a change adds and removes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.snapshots.packs import ContentMissing
from dragoman.workspace.hunks import find_hunks

if TYPE_CHECKING:
    from dragoman.snapshots.contents import Contents
    from dragoman.snapshots.records import TreeChange


def line_counts(change: TreeChange, contents: Contents, most_bytes: int) -> tuple[int, int] | None:
    """Count the lines that a change adds and removes; None for what is not text, too large or not kept."""
    sides = []
    for path, state in ((change.old_path, change.before), (change.path, change.after)):
        if state is None:
            sides.append(b"")
            continue
        if not state.is_file or state.size > most_bytes:
            return None
        try:
            sides.append(contents.read(path, state))
        except ContentMissing:
            return None
    if any(b"\0" in side for side in sides):
        return None
    hunks = find_hunks(*sides)
    return sum(len(hunk.after) for hunk in hunks), sum(len(hunk.before) for hunk in hunks)
