"""The lines of a whole session, at any place, without keeping them all: heights of blocks, and a cache of lines.

A session may have ten thousand blocks. Only those whose revision changed are written again after an update, and only
those that are on the screen, or near it, keep their lines. Pure: no clock, no screen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from dragoman.view.build import block_of, blocks_of
from dragoman.view.rails import RailView, rail_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.state import SessionState
    from dragoman.view.blocks import ShownTerminal
    from dragoman.view.rails import RailLine

_KEPT_BLOCKS: Final = 400


class SessionLayout:
    """Where each block of a session is, and its lines."""

    def __init__(self, view: RailView) -> None:
        self.view = view
        self._starts: list[int] = []  # the first line of each item
        self._height = 0
        self._revision = -1  # of the state
        self._revisions: list[int] = []  # of each item
        self._cache: OrderedDict[int, list[RailLine]] = OrderedDict()
        self._terminals: Mapping[str, ShownTerminal] = {}

    @property
    def height(self) -> int:
        """The number of lines."""
        return self._height

    def set_view(self, view: RailView, state: SessionState) -> None:
        """Use another width, or open and close the long parts: everything is laid out again."""
        self.view = view
        self.reset()
        self.update(state)

    def reset(self) -> None:
        """Forget everything: another session follows."""
        self._starts, self._height = [], 0
        self._revision, self._revisions = -1, []
        self._cache.clear()

    def update(self, state: SessionState, terminals: Mapping[str, ShownTerminal] | None = None) -> bool:
        """Take in what changed; False if nothing did."""
        self._terminals = terminals or {}
        if state.revision == self._revision:
            return False
        self._revision = state.revision
        now = [getattr(item, "revision", 0) for item in state.timeline]
        before = self._revisions
        changed = {position for position in range(min(len(before), len(now))) if before[position] != now[position]}
        if len(before) < len(now):
            changed.add(len(before))
        self._revisions = now
        if not changed:
            return False
        self._lay_out(state, changed)
        return True

    def lines(self, start: int, count: int, state: SessionState) -> list[RailLine]:
        """The lines from a place on; fewer at the end."""
        found: list[RailLine] = []
        index = max(0, bisect_right(self._starts, start) - 1)
        while index < len(self._starts) and len(found) < count:
            lines = self._lines_of(state, index)
            skipped = max(0, start - self._starts[index]) if not found else 0
            found += lines[skipped : skipped + count - len(found)]
            index += 1
        return found

    def item_at(self, line: int) -> int | None:
        """The place in the timeline of the item that a line belongs to."""
        return max(0, bisect_right(self._starts, line) - 1) if 0 <= line < self._height else None

    def _lay_out(self, state: SessionState, changed: set[int]) -> None:
        """Measure the changed items and the new ones, and move those behind them."""
        timeline, start, known = state.timeline, min(changed), len(self._starts)
        ends = [*self._starts[start + 1 :], self._height]
        heights = [end - begin for begin, end in zip(self._starts[start:], ends, strict=True)] if start < known else []
        self._height = self._starts[start] if start < known else self._height
        del self._starts[start:]
        for position in range(start, len(timeline)):
            if position in changed or position >= known:
                self._cache.pop(position, None)
                height = len(self._lines_of(state, position))
            else:
                height = heights[position - start]
            self._starts.append(self._height)
            self._height += height

    def _lines_of(self, state: SessionState, position: int) -> list[RailLine]:
        found = self._cache.get(position)
        if found is None:
            blocks = block_of(state.timeline[position], position, self._terminals)
            found = [line for block in blocks for line in rail_lines(block, self.view)]
            self._cache[position] = found
            while len(self._cache) > _KEPT_BLOCKS:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(position)
        return found


def text_of(state: SessionState, view: RailView) -> str:
    """The whole session as text with rails: for a pager, or to be printed when the screen is left."""
    lines = [line for block in blocks_of(state) for line in rail_lines(block, view)]
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)
