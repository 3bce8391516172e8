"""The difference of two texts as hunks, for any size of text.

Owns the bounds: what is equal at both ends is cut off first, and texts that are still too long to compare line by line
are shown as removed and added as a whole.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from dragoman.view.blocks import DiffHunk, DiffLine, DiffPiece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.view.blocks import DiffLine as Line

CONTEXT: Final = 3
# Lines on both sides that are compared. The matcher is quadratic in the worst case: this many take a tenth of a second.
_COMPARED: Final = 4_000
_SHOWN: Final = 2_000  # lines of one change: more than is read in a conversation


def diff_piece(path: str, old: str | None, new: str, *, most: int = _SHOWN) -> DiffPiece:
    """Return the change from `old` (None: a new file) to `new`, with at most so many lines."""
    before, after = _lines(old or ""), _lines(new)
    hunks: list[DiffHunk] = []
    added = removed = shown = left_out = 0
    for hunk in _hunks(before, after):
        added += sum(line.sign == "+" for line in hunk.lines)
        removed += sum(line.sign == "-" for line in hunk.lines)
        room = max(0, most - shown)
        shown += len(hunk.lines)
        left_out += max(0, len(hunk.lines) - room)
        if room:
            hunks.append(DiffHunk(hunk.old_line, hunk.new_line, hunk.lines[:room]))
    return DiffPiece(path, old is None, added, removed, tuple(hunks), left_out)


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffHunk]:
    start, stop = _equal_ends(before, after)
    old, new = before[start : len(before) - stop], after[start : len(after) - stop]
    if not old and not new:
        return
    # The context is part of the compared texts, so that it is in the hunks.
    lead, tail = before[max(0, start - CONTEXT) : start], before[len(before) - stop :][:CONTEXT]
    first = start - len(lead) + 1
    if len(old) + len(new) > _COMPARED:
        lines = [*_signed(" ", lead), *_signed("-", old), *_signed("+", new), *_signed(" ", tail)]
        yield DiffHunk(first, first, tuple(lines))
        return
    old, new = [*lead, *old, *tail], [*lead, *new, *tail]
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        lines = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += _signed(" ", old[i1:i2])
            else:
                lines += [*_signed("-", old[i1:i2]), *_signed("+", new[j1:j2])]
        yield DiffHunk(first + group[0][1], first + group[0][3], tuple(lines))


def _equal_ends(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """Count how many lines are equal at the beginning, and how many of the rest at the end."""
    most = min(len(before), len(after))
    start = next((n for n in range(most) if before[n] != after[n]), most)
    rest = most - start
    stop = next((n for n in range(rest) if before[-1 - n] != after[-1 - n]), rest)
    return start, stop


def _signed(sign: str, lines: Sequence[str]) -> list[Line]:
    return [DiffLine(sign, line) for line in lines]
