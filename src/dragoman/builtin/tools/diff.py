"""A change of one file as people see it: a diff no longer than needed, and the line where it begins."""

from __future__ import annotations

from typing import Final

from dragoman.builtin.tools.tool import FileDiff

# Both sides travel to the client and into the store. Of larger files only the part that changed does.
_WHOLE_LETTERS: Final = 200_000
_CONTEXT_LINES: Final = 20


def diff_of(path: str, old: str | None, new: str) -> FileDiff:
    """The diff of a change."""
    if old is None or len(old) + len(new) <= _WHOLE_LETTERS:
        return FileDiff(path, old, new)
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    head = same_lines(before, after)
    tail = same_lines(before[: head - 1 if head else None : -1], after[: head - 1 if head else None : -1])
    start = max(head - _CONTEXT_LINES, 0)
    end = max(tail - _CONTEXT_LINES, 0)
    return FileDiff(path, "".join(before[start : len(before) - end]), "".join(after[start : len(after) - end]))


def first_line(old: str | None, new: str) -> int:
    """The line, counted from 1, where the two begin to differ."""
    if old is None:
        return 1
    return same_lines(old.split("\n"), new.split("\n")) + 1


def same_lines(one: list[str], other: list[str]) -> int:
    """How many lines both begin with."""
    count = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours != theirs:
            break
        count += 1
    return count
