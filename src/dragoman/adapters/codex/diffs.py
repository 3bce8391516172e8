"""File changes of Codex as diffs: whole files where the file is still as it was, otherwise the changed passages.

Owns reading unified hunks. Codex gives the whole text of a file that it adds or deletes, and hunks for one that it
updates. Pure, but for `read_text`.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.uistream.display import FileDiff, Location

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.uistream.display import Kind

_FILE_BYTES: Final = 1 << 20  # of a larger file only the changed passages are shown
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*")


class UnifiedHunk(NamedTuple):
    """One passage of a file: its first line before the change, and its lines before and after, with their ends."""

    line: int
    old: list[str]
    new: list[str]


def read_text(path: str) -> str | None:
    """Return the text of a file; None if there is none, or it is too large or not text."""
    try:
        if os.path.getsize(path) > _FILE_BYTES or not os.path.isfile(path):
            return None
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def diffs_of(changes: Any, read: Callable[[str], str | None] | None = None) -> tuple[FileDiff, ...]:
    """Return the diffs of a `fileChange` item.

    Args:
        changes: the item's member of this name.
        read: reads a file that was not changed yet; None if it may have been.
    """
    return tuple(diff for change in _changes(changes) for diff in _diffs(change, read))


def locations_of(changes: Any) -> tuple[Location, ...]:
    """Return the files of a `fileChange` item, as they are named after it."""
    return tuple(Location(_moved_to(change) or change["path"]) for change in _changes(changes))


def kind_of(changes: Any) -> Kind:
    """Return `delete` or `move` if all changes are, otherwise `edit`."""
    rows = _changes(changes)
    if rows and all(_type(change) == "delete" for change in rows):
        return "delete"
    if rows and all(_moved_to(change) and not change.get("diff") for change in rows):
        return "move"
    return "edit"


def title_of(changes: Any) -> str:
    """Return what the item does, in a few words."""
    rows = _changes(changes)
    if not rows:
        return "Change files"
    verbs = {"add": "Add", "delete": "Delete"}
    first = rows[0]
    verb = "Move" if _moved_to(first) else verbs.get(_type(first), "Edit")
    verb = verb if len({_type(change) for change in rows}) == 1 else "Change"
    names = os.path.basename(first["path"])
    return f"{verb} {names}" if len(rows) == 1 else f"{verb} {names} and {len(rows) - 1} more"


def hunks_of(text: str) -> list[UnifiedHunk]:
    """Return the hunks of a unified diff; lines that belong to none are left out."""
    hunks: list[UnifiedHunk] = []
    last: tuple[list[str], ...] = ()
    for line in text.splitlines(keepends=True):
        begun = _HUNK.match(line)
        if begun is not None:
            hunks.append(UnifiedHunk(int(begun[1]), [], []))
        elif line.startswith("\\"):  # "No newline at end of file" is about the line before
            for lines in last:
                lines[-1] = lines[-1].rstrip("\r\n")
        elif hunks:
            sides = {" ": (hunks[-1].old, hunks[-1].new), "-": (hunks[-1].old,), "+": (hunks[-1].new,)}
            last = sides.get(line[0], (hunks[-1].old, hunks[-1].new) if line.strip() == "" else ())
            for lines in last:
                lines.append(line[1:] if line[0] in " -+" else line)
    return hunks


def applied(text: str, hunks: Sequence[UnifiedHunk]) -> str | None:
    """Return the text after the change; None if a hunk does not fit."""
    lines = text.splitlines(keepends=True)
    result: list[str] = []
    position = 0
    for hunk in hunks:
        # A hunk without old lines names the line after which it inserts.
        start = hunk.line - 1 if hunk.old else hunk.line
        if start < position or [*map(_bare, lines[start : start + len(hunk.old)])] != [*map(_bare, hunk.old)]:
            return None
        result += lines[position:start] + hunk.new
        position = start + len(hunk.old)
    return "".join(result + lines[position:])


def _diffs(change: dict[str, Any], read: Callable[[str], str | None] | None) -> list[FileDiff]:
    path, text = change["path"], change.get("diff")
    text = text if isinstance(text, str) else ""
    if _type(change) == "add":
        return [FileDiff(path, None, text)]
    if _type(change) == "delete":
        return [FileDiff(path, text, "")]
    shown_path, hunks = _moved_to(change) or path, hunks_of(text)
    before = None if read is None else read(path)
    after = None if before is None else applied(before, hunks)
    if before is not None and after is not None and hunks:
        return [FileDiff(shown_path, before, after)]
    return [FileDiff(shown_path, "".join(hunk.old), "".join(hunk.new)) for hunk in hunks]


def _changes(changes: Any) -> list[dict[str, Any]]:
    rows = changes if isinstance(changes, list) else []
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("path"), str)]


def _type(change: dict[str, Any]) -> str:
    kind = change.get("kind")
    return str(kind.get("type")) if isinstance(kind, dict) else str(kind)


def _moved_to(change: dict[str, Any]) -> str | None:
    kind = change.get("kind")
    target = kind.get("move_path") if isinstance(kind, dict) else None
    return target if isinstance(target, str) and target else None


def _bare(line: str) -> str:
    return line.rstrip("\r\n")
