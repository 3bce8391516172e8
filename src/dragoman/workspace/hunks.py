"""The differences between two versions of a file, line by line, and a version with some of them reverted.

Pure, and bounded: the difference of two texts that have little in common is coarse rather than slow. Text that is not
UTF-8 survives unharmed. Does not know files.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

# Pairs of lines compared for one difference. The usual algorithm takes about 0.1 µs a pair when nothing fits, so this
# is half a second at worst; a change of 2,000 lines into 2,000 others is still exact.
_MOST_PAIRS: Final = 4_000_000
# Pairs of lines that are alike. Each of the algorithm's steps looks at all of them: a thousand equal lines against five
# hundred of them took 13 s. Above this, lines that occur all the time no longer count as alike, where difflib can
# distinguish them: from _POPULAR lines on.
_MOST_MATCHES: Final = 20_000
_POPULAR: Final = 200


class Hunk(Struct, frozen=True):
    """Lines that were replaced by others; either side may be empty. Lines carry their newlines.

    `before_line` and `after_line` are 1-based: where the lines stand, or where they would be inserted.
    """

    before_line: int
    before: tuple[str, ...]
    after_line: int
    after: tuple[str, ...]

    @property
    def before_end(self) -> int:
        """The index of the first old line behind the hunk."""
        return self.before_line - 1 + len(self.before)


def group_hunks(hunks: Sequence[Hunk], context: int) -> Iterator[list[Hunk]]:
    """Join hunks whose contexts of this many lines touch."""
    group: list[Hunk] = []
    for hunk in hunks:
        if group and hunk.before_line - 1 - group[-1].before_end > 2 * context:
            yield group
            group = []
        group.append(hunk)
    if group:
        yield group


def find_hunks(before: bytes | None, after: bytes | None) -> tuple[Hunk, ...]:
    """Return the hunks that make `after` of `before`, first line first. A missing file has no lines."""
    old, new = _lines(before), _lines(after)
    return tuple(
        Hunk(i1 + 1, tuple(old[i1:i2]), j1 + 1, tuple(new[j1:j2])) for i1, i2, j1, j2 in _differences(old, new)
    )


def revert_hunks(after: bytes | None, hunks: Collection[Hunk]) -> bytes:
    """Return `after` as it would be without these hunks of it."""
    lines = _lines(after)
    for hunk in sorted(hunks, key=lambda hunk: hunk.after_line, reverse=True):
        start = hunk.after_line - 1
        lines[start : start + len(hunk.after)] = hunk.before
    return "".join(lines).encode("utf-8", "surrogateescape")


def _lines(content: bytes | None) -> list[str]:
    if not content:
        return []
    parts = content.decode("utf-8", "surrogateescape").split("\n")
    last = parts.pop()
    lines = [f"{part}\n" for part in parts]
    return [*lines, last] if last else lines


def _differences(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ranges (old from, to, new from, to) that differ, in order, none touching the next."""
    budget = _MOST_PAIRS
    i, i_end, j, j_end = _trimmed(old, new, 0, len(old), 0, len(new))
    if (i_end - i) * (j_end - j) <= budget:
        yield from _exact(old, new, i, i_end, j, j_end)
        return
    for next_i, next_j in [*_anchors(old, new, i, i_end, j, j_end), (i_end, j_end)]:
        i, i_stop, j, j_stop = _trimmed(old, new, i, next_i, j, next_j)
        pairs = (i_stop - i) * (j_stop - j)
        if pairs > budget:
            yield i, i_stop, j, j_stop
        elif i_stop > i or j_stop > j:
            budget -= pairs
            yield from _exact(old, new, i, i_stop, j, j_stop)
        i, j = next_i + 1, next_j + 1


def _trimmed(
    old: Sequence[str], new: Sequence[str], i: int, i_end: int, j: int, j_end: int
) -> tuple[int, int, int, int]:
    """Return the ranges without the lines they begin and end with alike."""
    while i < i_end and j < j_end and old[i] == new[j]:
        i, j = i + 1, j + 1
    while i < i_end and j < j_end and old[i_end - 1] == new[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
    return i, i_end, j, j_end


def _exact(
    old: Sequence[str], new: Sequence[str], i: int, i_end: int, j: int, j_end: int
) -> Iterator[tuple[int, int, int, int]]:
    from difflib import SequenceMatcher  # 2 ms, and most sessions end before a hunk is reviewed

    ours, theirs = old[i:i_end], new[j:j_end]
    is_repetitive = _matches(ours, theirs) > _MOST_MATCHES
    if is_repetitive and len(theirs) < _POPULAR:
        yield i, i_end, j, j_end
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, ours, theirs, autojunk=is_repetitive).get_opcodes():
        if tag != "equal":
            yield i + i1, i + i2, j + j1, j + j2


def _matches(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many pairs of lines are alike."""
    counts: dict[str, int] = {}
    for line in old:
        counts[line] = counts.get(line, 0) + 1
    return sum(counts.get(line, 0) for line in new)


def _anchors(old: Sequence[str], new: Sequence[str], i: int, i_end: int, j: int, j_end: int) -> list[tuple[int, int]]:
    """Return lines that occur once on both sides, as many as keep their order (the idea of the patience difference)."""
    places, ours = _unique(new, j, j_end), _unique(old, i, i_end)
    pairs = [(at, places[line]) for line, at in ours.items() if line in places]
    tails: list[int] = []  # the smallest end of an increasing run of each length
    ends: list[int] = []  # the pair that has it
    previous: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(tails, place)
        tails[length : length + 1] = [place]
        ends[length : length + 1] = [index]
        previous.append(ends[length - 1] if length else -1)
    run: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        run.append(pairs[index])
        index = previous[index]
    return run[::-1]


def _unique(lines: Sequence[str], start: int, end: int) -> dict[str, int]:
    """Return line -> its place, for lines that occur once; in order of place."""
    places: dict[str, int] = {}
    for at in range(start, end):
        places[lines[at]] = -1 if lines[at] in places else at
    return {line: at for line, at in places.items() if at >= 0}
