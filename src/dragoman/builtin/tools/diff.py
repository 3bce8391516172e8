"""The change of one file as it is shown: a diff no longer than needed, and the line where it begins."""

from __future__ import annotations

from typing import Final

from dragoman.builtin.tools.tool import FileDiff

# Both sides are sent to the client and stored. Of larger files only the part that changed is.
_WHOLE_LETTERS: Final = 200_000
_CONTEXT_LINES: Final = 20


def diff_of(path: str, old: str | None, new: str) -> FileDiff:
    """Return the diff of a change."""
    if old is None or len(old) + len(new) <= _WHOLE_LETTERS:
        return FileDiff(path, old, new)
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    head = same_lines(before, after)
    tail = same_lines(before[: head - 1 if head else None : -1], after[: head - 1 if head else None : -1])
    start = max(head - _CONTEXT_LINES, 0)
    end = max(tail - _CONTEXT_LINES, 0)
    return FileDiff(path, "".join(before[start : len(before) - end]), "".join(after[start : len(after) - end]))


def first_line(old: str | None, new: str) -> int:
    """Return the number of the first line that differs, counted from 1."""
    return 1 if old is None else same_lines(old.split("\n"), new.split("\n")) + 1


def same_lines(one: list[str], other: list[str]) -> int:
    """Return how many lines both have in common at their beginning."""
    shorter = min(len(one), len(other))
    return next((number for number in range(shorter) if one[number] != other[number]), shorter)
