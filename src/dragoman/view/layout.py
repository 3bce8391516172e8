"""The lines of a session, at any place, without keeping them all: heights of blocks, and a cache of lines.

A session may have ten thousand blocks. After an update only those that changed are written again, found by the places
that the state remembers; only those on the screen, or near it, keep their lines. Of a long history that comes at once
the heights are estimated at first, and measured little by little by `settle`, the end first.

Positions are those of the timeline. Blocks from the time before the state begins, which come from the host's log, have
negative ones: -1 is the last of them. So a position stays that of its block when older ones are added. Pure: no clock,
no screen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from dragoman.state import Message, SubagentState, ToolCallState
from dragoman.state.text_buffer import Passage
from dragoman.view.build import agent_terminals, block_of, blocks_of, turn_end
from dragoman.view.rails.drawing import rail_lines
from dragoman.view.rails.values import RailView, no_highlight, no_picture
from dragoman.view.rails.wrapping import fitted
from dragoman.view.watched import WatchedSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dragoman.state import SessionState, TimelineItem
    from dragoman.view.blocks import Block, ShownTerminal, TurnBlock
    from dragoman.view.rails.markdown import MarkdownLines
    from dragoman.view.rails.values import RailLine

_KEPT_BLOCKS: Final = 400
_KEPT_LINES: Final = 20_000
_GROWING: Final = 16  # texts that are looked at after each update: the last ones that were written to
_MEASURED: Final = 100  # items of a history that are measured at once; the rest is estimated
_CHILD_BLOCKS: Final = 5  # of a subagent's session that is not opened
_NEAR_END: Final = 30  # items that are on the screen, as a rule, when they change


class SessionLayout:
    """Where each block of a session is, and its lines."""

    def __init__(self, view: RailView) -> None:
        self.view = view
        self.reset()

    def reset(self) -> None:
        """Forget everything: another session follows."""
        self._older: list[TimelineItem] = []
        self._older_ends: dict[int, TurnBlock] = {}  # position -> the end of a turn behind it
        self._heights: list[int] = []  # of all items, the older ones first
        self._starts: list[int] = []  # the first line of each, as far as `_summed`
        self._estimated: set[int] = set()  # positions
        self._revision = -1  # of the state
        self._mark = 0  # see SessionState.changed_since
        self._live: OrderedDict[int, int] = OrderedDict()  # position of a text that may grow -> its revision
        self._turns = 0  # that have ended, and are drawn
        self._ends: dict[int, list[int]] = {}  # position -> the turns that end behind it
        self._opened: dict[int, bool] = {}  # blocks that the user opened or closed
        self._cache: OrderedDict[int, list[RailLine]] = OrderedDict()
        self._cached_lines = 0
        self._markdown: OrderedDict[int, MarkdownLines] = OrderedDict()
        self._watched = WatchedSession()
        self._terminals: Mapping[str, ShownTerminal] = {}

    # Reading

    @property
    def height(self) -> int:
        """The number of lines."""
        self._sum()
        return self._starts[-1] + self._heights[-1] if self._heights else 0

    @property
    def positions(self) -> range:
        """The positions of all items."""
        return range(-len(self._older), len(self._heights) - len(self._older))

    @property
    def is_settled(self) -> bool:
        """Whether every height is measured."""
        return not self._estimated

    def lines(self, start: int, count: int, state: SessionState) -> list[RailLine]:
        """Return the lines from a place on; fewer at the end."""
        shown: list[RailLine] = []
        self._sum()
        index = max(0, bisect_right(self._starts, start) - 1)
        while index < len(self._heights) and len(shown) < count:
            lines = self._lines_of(state, index - len(self._older))
            self._sum()  # its height may have been an estimate
            skipped = max(0, start - self._starts[index]) if not shown else 0
            shown += lines[skipped : skipped + count - len(shown)]
            index += 1
        return shown

    def item_at(self, line: int) -> int | None:
        """Return the position of the item that a line belongs to."""
        if not 0 <= line < self.height:
            return None
        return max(0, bisect_right(self._starts, line) - 1) - len(self._older)

    def place_of(self, position: int) -> tuple[int, int]:
        """Return the first line of an item, and how many it has."""
        self._sum()
        index = position + len(self._older)
        return self._starts[index], self._heights[index]

    def blocks_at(self, position: int, state: SessionState) -> list[Block]:
        """Return the blocks of an item."""
        return list(block_of(self.item(position, state), position, self._terminals, self._watched))

    def item(self, position: int, state: SessionState) -> TimelineItem:
        """Return the item at a position."""
        return state.timeline[position] if position >= 0 else self._older[position]

    # Changing

    def set_view(self, view: RailView, state: SessionState) -> None:
        """Use another width, or open and close the long parts: everything is laid out again."""
        if view.is_open != self.view.is_open:
            self._opened.clear()
        self.view = view
        self.redraw()
        self.update(state)
        self._measure_again(state)

    def redraw(self) -> None:
        """Write all lines again that are asked for; the heights stay."""
        self._cache.clear()
        self._cached_lines = 0
        self._markdown.clear()

    def toggle(self, position: int, state: SessionState) -> bool:
        """Open or close the long parts of one item; False if that changes nothing."""
        before = self._lines_of(state, position)
        self._opened[position] = not self._opened.get(position, self.view.is_open)
        self._drop(position)
        self._measure(state, position)
        return self._lines_of(state, position) != before

    def rewrite(self, position: int, state: SessionState) -> int:
        """Write one item again. Returns: by how many lines its height grew."""
        before = self.place_of(position)[1]
        self._drop(position)
        self._measure(state, position)
        return self.place_of(position)[1] - before

    def prepend(
        self, items: Sequence[TimelineItem], state: SessionState, ends: Mapping[int, TurnBlock] | None = None
    ) -> int:
        """Add items that came before the first one. Returns the number of lines that they add.

        Args:
            items: What is added.
            state: The session.
            ends: The ends of turns, by the number of the item in `items` that they stand behind.
        """
        before = self.height
        self._older[:0] = items
        self._older_ends |= {number - len(self._older): end for number, end in (ends or {}).items()}
        self._heights[:0] = [1] * len(items)
        self._starts = []
        for position in range(-len(self._older), -len(self._older) + len(items)):
            self._measure(state, position)
        return self.height - before

    def update(self, state: SessionState, watched: WatchedSession | None = None) -> bool:
        """Take in what changed; False if nothing did."""
        self._watched = watched or self._watched
        calls = state.tool_calls
        noted = {calls[id].position for id in self._watched.take_changed() if id in calls}
        children = state.subagents
        noted |= {children[id].position for id in self._watched.take_changed_children() if id in children}
        if state.revision == self._revision and not noted:
            return False
        self._revision = state.revision
        self._terminals = self._watched.terminals
        if state.terminals:
            self._terminals = {**self._terminals, **agent_terminals(state)}
        laid_out, count = len(self._heights) - len(self._older), len(state.timeline)
        changed = self._changed(state, laid_out) | self._ended_turns(state, laid_out)
        changed |= {position for position in noted if position < laid_out}
        for position in changed:
            self._drop(position)
            self._measure(state, position)
        if laid_out < count:
            self._append(state, laid_out, count)
        return bool(changed) or laid_out < count

    def tick(self, state: SessionState) -> bool:
        """Write the calls near the end again whose time grows; False if there is none."""
        has_dropped = False
        for position in range(max(0, len(state.timeline) - _NEAR_END), len(state.timeline)):
            item = state.timeline[position]
            if isinstance(item, ToolCallState) and item.is_running and self._watched.is_running(item.id):
                self._drop(position)
                has_dropped = True
        return has_dropped

    def settle(self, state: SessionState, count: int, anchor: int | None = None) -> int:
        """Measure some heights that were estimated, those of the end first.

        Returns: by how many lines the item at `anchor`, a position, moved down.
        """
        moved = 0
        for position in sorted(self._estimated, reverse=True)[:count]:
            index = position + len(self._older)
            before = self._heights[index]
            self._measure(state, position)
            if anchor is not None and position < anchor:
                moved += self._heights[index] - before
        return moved

    # What changed

    def _changed(self, state: SessionState, laid_out: int) -> set[int]:
        self._mark, places = state.changed_since(self._mark)
        timeline = state.timeline
        if places is None:  # more than the state remembers
            places = frozenset(range(laid_out))
        changed = set()
        for position in places:
            if position < laid_out:
                changed.add(position)
                self._watch(position, timeline[position])
        for position, revision in list(self._live.items()):
            item = timeline[position]
            if isinstance(item, Passage) and item.revision != revision:
                changed.add(position)
                self._live[position] = item.revision
        return changed

    def _watch(self, position: int, item: TimelineItem) -> None:
        if isinstance(item, Passage):
            self._live[position] = item.revision
            self._live.move_to_end(position)
            while len(self._live) > _GROWING:
                self._live.popitem(last=False)

    def _ended_turns(self, state: SessionState, laid_out: int) -> set[int]:
        """Find where turns have ended since the last look: the end is drawn behind the last item of the turn."""
        changed = set()
        turns = state.turns
        while self._turns < len(turns) and (end := turns[self._turns].end) is not None:
            if end > 0:
                self._ends.setdefault(end - 1, []).append(self._turns)
                if end - 1 < laid_out:
                    changed.add(end - 1)
            self._turns += 1
        return changed

    def _append(self, state: SessionState, laid_out: int, count: int) -> None:
        for position in range(laid_out, count):
            item = state.timeline[position]
            if position >= count - _GROWING:
                self._watch(position, item)
            self._heights.append(0)
            if position >= count - _MEASURED:
                self._measure(state, position)
            else:
                self._estimate(position, item)

    # Heights

    def _measure_again(self, state: SessionState) -> None:
        positions = self.positions
        for position in positions:
            if position >= positions.stop - _MEASURED:
                self._measure(state, position)
            else:
                self._estimate(position, self.item(position, state))

    def _measure(self, state: SessionState, position: int) -> None:
        self._estimated.discard(position)
        is_near = position >= len(state.timeline) - _NEAR_END
        height = len(self._lines_of(state, position) if is_near else self._write(state, position, is_drawn=False))
        self._set_height(position, height)

    def _estimate(self, position: int, item: TimelineItem) -> None:
        height = 2
        if isinstance(item, Message):
            text = item.text
            is_closed = item.role == "thought" and not self.view.is_open
            height = 1 if is_closed else max(1, text.count("\n") + len(text) // max(20, self.view.width))
        self._estimated.add(position)
        self._set_height(position, height)

    def _set_height(self, position: int, height: int) -> None:
        index = position + len(self._older)
        if self._heights[index] != height:
            self._heights[index] = height
            del self._starts[index + 1 :]

    def _sum(self) -> None:
        """Find the first lines of the items behind the last one whose first line is known."""
        summed = len(self._starts)
        if summed < len(self._heights):
            first = self._starts[-1] + self._heights[summed - 1] if summed else 0
            sums = accumulate(self._heights[summed:-1], initial=first)
            self._starts += sums

    # Lines

    def _lines_of(self, state: SessionState, position: int) -> list[RailLine]:
        lines = self._cache.get(position)
        if lines is not None:
            self._cache.move_to_end(position)
            return lines
        lines = self._write(state, position, is_drawn=True)
        if position in self._estimated:
            self._estimated.discard(position)
        self._set_height(position, len(lines))
        self._cache[position] = lines
        self._cached_lines += len(lines)
        while len(self._cache) > _KEPT_BLOCKS or (self._cached_lines > _KEPT_LINES and len(self._cache) > 1):
            _, gone = self._cache.popitem(last=False)
            self._cached_lines -= len(gone)
        return lines

    def _drop(self, position: int) -> None:
        self._cached_lines -= len(self._cache.pop(position, ()))

    def _write(self, state: SessionState, position: int, *, is_drawn: bool) -> list[RailLine]:
        """Write the lines of one item. Only those that are drawn are highlighted: that does not change heights."""
        view = self.view._replace(is_open=self._opened.get(position, self.view.is_open))
        if not is_drawn:
            view = view._replace(highlight=no_highlight)
        item = self.item(position, state)
        blocks: Iterable[Block] = block_of(item, position, self._terminals, self._watched)
        growing = self._growing(position, item, view) if is_drawn else None
        lines: list[RailLine] = []
        for block in blocks:
            lines += rail_lines(block, view, growing)
        if isinstance(item, SubagentState):
            lines += self._child_lines(item.session_id, view)
        for index in self._ends.get(position, ()):
            lines += rail_lines(turn_end(state.turns[index], self._watched), view)
        if position in self._older_ends:
            lines += rail_lines(self._older_ends[position], view)
        return lines

    def _child_lines(self, session_id: str, view: RailView) -> list[RailLine]:
        """Write the session of a subagent, moved to the right: its last blocks, or all of them if it is opened."""
        child = self._watched.children.get(session_id)
        if child is None:
            return []
        # Only those that are drawn are made: this is done again for each piece that comes.
        before = 0 if view.is_open else max(0, len(child.timeline) - _CHILD_BLOCKS)
        inner = view._replace(width=view.width - 2, highlight=no_highlight, has_picture=no_picture)
        lines: list[RailLine] = []
        if before:
            text = f"  {view.glyphs.agent} … {before} blocks before, Enter or Ctrl+T to read"
            lines.append(fitted(((text, "dim"),), view.width, view.glyphs))
        for block in blocks_of(child, first=before):
            lines += [(("  ", ""), *line) for line in rail_lines(block, inner)]
        return lines

    def _growing(self, position: int, item: TimelineItem, view: RailView) -> MarkdownLines | None:
        """Return the lines of a message of the agent that were written before, for one that still grows."""
        if position not in self._live or not isinstance(item, Message) or item.role != "agent" or item.meta:
            return None
        growing = self._markdown.get(position)
        if growing is None:
            from dragoman.view.rails.markdown import MarkdownLines

            growing = self._markdown[position] = MarkdownLines(view.glyphs.agent, view)
            while len(self._markdown) > _GROWING:
                self._markdown.popitem(last=False)
        return growing


def text_of(state: SessionState, view: RailView, *, last: int | None = None) -> str:
    """Return the session as text with rails: for a pager, or to be printed when the screen is left.

    Args:
        state: the session.
        view: the width and the glyphs.
        last: how many lines of the end; None for all of it.
    """
    if last is None:
        lines = [line for block in blocks_of(state) for line in rail_lines(block, view)]
    else:
        layout = SessionLayout(view)
        layout.update(state)
        lines = layout.lines(max(0, layout.height - last), last, state)
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)
