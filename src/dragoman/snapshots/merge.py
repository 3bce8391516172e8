"""A three-way merge of lines. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.workspace.hunks import find_hunks

if TYPE_CHECKING:
    from dragoman.workspace import Hunk


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """`ours` with the changes from `base` to `theirs`; None if both changed the same or neighbouring lines."""
    if any(b"\0" in content for content in (base, ours, theirs)):
        return None
    mine, others = list(find_hunks(base, ours)), list(find_hunks(base, theirs))
    chosen: list[Hunk] = []
    for hunk in others:
        for own in mine:
            if _touch(hunk, own):
                if (hunk.before_line, hunk.before, hunk.after) == (own.before_line, own.before, own.after):
                    break  # both made the same change
                return None
        else:
            chosen.append(hunk)
    text = base.decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    last = lines.pop()
    lines = [f"{line}\n" for line in lines] + ([last] if last else [])
    for hunk in sorted([*mine, *chosen], key=lambda each: each.before_line, reverse=True):
        start = hunk.before_line - 1
        lines[start : start + len(hunk.before)] = hunk.after
    return "".join(lines).encode("utf-8", "surrogateescape")


def _touch(one: Hunk, other: Hunk) -> bool:
    return one.before_line - 1 <= other.before_end and other.before_line - 1 <= one.before_end
