"""Git patches: made from two texts, and read as hunks.

Does not know files or messages. What cannot be read of a patch is left out; nothing is raised.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONTEXT_LINES: Final = 3
# Comparing takes the product of the two lengths in the worst case; beyond this the whole part counts as changed.
_COMPARED_LINES: Final = 2000
_NO_NEWLINE: Final = "\\ No newline at end of file\n"
_HUNK: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class PatchHunk(Struct, frozen=True):
    """One hunk of a patch: the file it is about, and its text before and after."""

    path: str
    old: str | None
    """None for a new file."""
    new: str


def git_patch(path: str, old: str | None, new: str) -> str:
    """Return the patch from one text to the other; an empty string if they are equal."""
    if old == new:
        return ""
    before, after = _lines(old or ""), _lines(new)
    hunks = "".join(_hunk(before, after, group) for group in _groups(before, after))
    head = f"diff --git {path} {path}\n"
    if old is None:
        return f"{head}new file mode 100644\n" + (f"--- /dev/null\n+++ {path}\n{hunks}" if hunks else "")
    return f"{head}--- {path}\n+++ {path}\n{hunks}"


def _lines(value: str) -> list[str]:
    """Split text into lines with their ends; `\\n` alone ends a line, as git has it."""
    parts = value.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


_Change = tuple[int, int, int, int]


def _groups(before: list[str], after: list[str]) -> Iterator[list[_Change]]:
    """Group changed ranges, near ones together."""
    group: list[_Change] = []
    for change in _changes(before, after):
        if group and change[0] - group[-1][1] > 2 * _CONTEXT_LINES:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _changes(before: list[str], after: list[str]) -> Iterator[_Change]:
    start, shorter = 0, min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if not old or not new or max(len(old), len(new)) > _COMPARED_LINES:
        if old or new:
            yield start, start + len(old), start, start + len(new)
        return
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield start + a, start + b, start + c, start + d


def _hunk(before: list[str], after: list[str], group: list[_Change]) -> str:
    first, last = group[0], group[-1]
    old_start, new_start = max(0, first[0] - _CONTEXT_LINES), max(0, first[2] - _CONTEXT_LINES)
    old_end, new_end = min(len(before), last[1] + _CONTEXT_LINES), min(len(after), last[3] + _CONTEXT_LINES)
    lines = [_prefixed(" ", before[old_start : first[0]])]
    for change, following in pairwise([*group, (old_end, old_end, new_end, new_end)]):
        lines += [_prefixed("-", before[change[0] : change[1]]), _prefixed("+", after[change[2] : change[3]])]
        lines.append(_prefixed(" ", before[change[1] : following[0]]))
    old_range, new_range = _range(old_start, old_end), _range(new_start, new_end)
    return f"@@ -{old_range} +{new_range} @@\n" + "".join(lines)


def _range(start: int, end: int) -> str:
    # An empty range is named by the line before it.
    return f"{start + 1 if end > start else start},{end - start}"


def _prefixed(mark: str, lines: list[str]) -> str:
    return "".join(f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{_NO_NEWLINE}" for line in lines)


def read_patch(patch: str) -> list[PatchHunk]:
    """Return the hunks of a git patch; what cannot be read is left out."""
    hunks: list[PatchHunk] = []
    old_path = new_path = ""
    lines = _lines(patch)
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("diff --git "):
            old_path = new_path = ""
        elif line.startswith("--- "):
            old_path = _path(line[4:])
        elif line.startswith("+++ "):
            new_path = _path(line[4:])
        elif found := _HUNK.match(line):
            at, old, new = _read_hunk(lines, at, int(found[1] or 1), int(found[2] or 1))
            path = new_path if new_path != "/dev/null" else old_path
            if path:
                hunks.append(PatchHunk(path, None if old_path == "/dev/null" else old, new))
    return hunks


def _read_hunk(lines: list[str], at: int, old_count: int, new_count: int) -> tuple[int, str, str]:
    old: list[str] = []
    new: list[str] = []
    while at < len(lines) and (len(old) < old_count or len(new) < new_count or lines[at].startswith("\\")):
        line = lines[at]
        at += 1
        mark, rest = line[:1], line[1:]
        if mark == "\\":
            for side, previous in ((old, " -"), (new, " +")):
                if side and lines[at - 2][:1] in previous:
                    side[-1] = side[-1].removesuffix("\n")
            continue
        if mark in (" ", "-", "\n"):
            old.append(rest if mark != "\n" else "\n")
        if mark in (" ", "+", "\n"):
            new.append(rest if mark != "\n" else "\n")
    return at, "".join(old), "".join(new)


def _path(value: str) -> str:
    path = value.rstrip("\n").partition("\t")[0]
    # git puts a/ and b/ in front of relative paths; the protocol has absolute ones.
    return path[1:] if path[:3] in ("a//", "b//") else path
