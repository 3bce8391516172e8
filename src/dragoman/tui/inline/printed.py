"""A session as lines that are printed once: each block when it is finished, a growing answer by its closed parts.

What is not finished is not printed; `open_lines` has it, for the live region. Calls that run next to each other are
printed in the order in which they end. Pure: the caller feeds the state after each change.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman.state.message import Message
from dragoman.state.plans import PlanState
from dragoman.state.tools import ToolCallState
from dragoman.tui.inline.coloured import texts_of
from dragoman.view.blocks import MessageBlock, TextPiece, ToolBlock
from dragoman.view.build import agent_terminals, block_of, turn_end
from dragoman.view.rails.drawing import rail_lines
from dragoman.view.rails.markdown import MarkdownLines, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dragoman.state import SessionState
    from dragoman.view.blocks import Block
    from dragoman.view.rails import RailLine, RailView
    from dragoman.view.watched import WatchedSession

_ENDED: Final = frozenset({"completed", "failed"})
_BLANK_LINES: Final = re.compile(r"(?:[^\S\n]*\n)+")


class PrintedBlocks:
    """The printed blocks of one session."""

    def __init__(self, view: Callable[[], RailView], *, has_colour: bool) -> None:
        self._view = view
        self._has_colour = has_colour
        self._next = 0  # the first item that was not begun
        self._turns = 0  # whose end is printed
        self._tools: list[int] = []  # calls that have not ended
        self._plans: dict[int, tuple[str, ...]] = {}  # the plan of the turn, and what was last printed of it
        self._message: int | None = None  # the message that grows
        self._markdown: MarkdownLines | None = None
        self._closed = 0  # characters of it that are final
        self._count = 0  # lines of it that are printed
        self._watched: WatchedSession | None = None

    def omit_prompts(self) -> None:
        """Omit nothing: a prompt is printed when its turn begins, since the input leaves no trace of it."""

    def resume(self, state: SessionState, position: int, written: int) -> None:
        """Begin behind an item that was printed before, of which so many characters were."""
        self._next = position + 1
        self._turns = sum(turn.end is not None and turn.end <= position + 1 for turn in state.turns)
        for place, item in enumerate(state.timeline[: position + 1]):
            if isinstance(item, ToolCallState) and not _is_over(item):
                self._tools.append(place)
        if position >= 0 and isinstance(item := state.timeline[position], Message) and written < len(item.text):
            self._begin_message(position)
            if self._markdown is not None:
                self._count = len(self._markdown.feed(item.text[:written]))
                self._closed = written

    def feed(
        self, state: SessionState, *, watched: WatchedSession | None = None, is_over: bool = False
    ) -> Iterator[str]:
        """Yield the lines of what is finished by now. `is_over`: nothing more comes in this turn."""
        self._watched = watched
        yield from self._end_tools(state)
        yield from self._plan_steps(state)
        while self._next < len(state.timeline):
            yield from self._end_message(state)
            yield from self._turn_ends(state)
            yield from self._begin(state, self._next)
            self._next += 1
        if is_over:
            yield from self._end_message(state)
            yield from self._turn_ends(state)
        else:
            yield from self._grow(state)

    def open_lines(self, state: SessionState, count: int) -> list[RailLine]:
        """Return the last lines of what is not finished."""
        lines: list[RailLine] = []
        for position in self._tools[-count:]:
            for block in self._blocks(state, position):
                lines += rail_lines(block, self._view())
        if self._message is not None:
            item = state.timeline[self._message]
            if isinstance(item, Message) and item.role == "agent" and self._markdown is not None:
                lines += MarkdownLines(self._view().glyphs.agent, self._view()).feed(item.text[self._closed :])
            elif isinstance(item, Message) and item.role == "thought":
                for block in self._blocks(state, self._message):
                    lines += rail_lines(block, self._view()._replace(is_open=True))
        return lines[-count:] if count > 0 else []

    def whole(self, state: SessionState) -> list[str]:
        """Return the last block that was printed shortened, whole: a thought, or a call with long output."""
        view = self._view()
        for position in range(len(state.timeline) - 1, -1, -1):
            for block in self._blocks(state, position):
                is_short = isinstance(block, ToolBlock) or (isinstance(block, MessageBlock) and block.role == "thought")
                lines = rail_lines(block, view._replace(is_open=True)) if is_short else []
                if lines and lines != rail_lines(block, view):
                    return texts_of(lines, has_colour=self._has_colour)
        return []

    # Items

    def _begin(self, state: SessionState, position: int) -> Iterator[str]:
        item = state.timeline[position]
        match item:
            case Message(role="user"):
                yield ""
                yield from self._whole(state, position)
            case Message():
                self._begin_message(position)
            case ToolCallState() if not _is_over(item):
                self._tools.append(position)
            case PlanState():
                self._plans[position] = ()
                yield from self._plan_steps(state)
            case _:
                yield from self._whole(state, position)

    def _end_tools(self, state: SessionState) -> Iterator[str]:
        for position in list(self._tools):
            item = state.timeline[position]
            if not isinstance(item, ToolCallState) or _is_over(item):
                self._tools.remove(position)
                yield from self._whole(state, position)

    def _plan_steps(self, state: SessionState) -> Iterator[str]:
        """Yield a plan is printed whole when it comes, and once more when its last step is done."""
        for position, before in list(self._plans.items()):
            lines = tuple(self._whole(state, position))
            item = state.timeline[position]
            entries = item.entries if isinstance(item, PlanState) else ()
            is_done = all(entry.status == "completed" for entry in entries)
            if lines != before and (not before or is_done):
                yield from lines
                self._plans[position] = lines
            if is_done:
                del self._plans[position]

    def _turn_ends(self, state: SessionState) -> Iterator[str]:
        turns = state.turns
        while self._turns < len(turns) and (end := turns[self._turns].end) is not None and end <= self._next:
            yield from self._texts([turn_end(turns[self._turns], self._watched)])
            self._turns += 1

    # The message that grows

    def _begin_message(self, position: int) -> None:
        self._message, self._closed, self._count = position, 0, 0
        self._markdown = MarkdownLines(self._view().glyphs.agent, self._view())

    def _grow(self, state: SessionState) -> Iterator[str]:
        """Yield the parts of an answer that are closed. A thought, and a message with images, wait for their end."""
        item = None if self._message is None else state.timeline[self._message]
        if not isinstance(item, Message) or item.role != "agent" or self._markdown is None or len(item.blocks) > 1:
            return
        rest = item.text[self._closed :]
        skipped = blank.end() if (blank := _BLANK_LINES.match(rest)) else 0
        closed = sum(size for _, is_closed, size in parts_of(rest[skipped:]) if is_closed)
        if closed:
            self._closed += skipped + closed
            yield from self._rest(item.text[: self._closed])

    def _rest(self, text: str) -> Iterator[str]:
        assert self._markdown is not None
        lines = self._markdown.feed(text)
        yield from texts_of(lines[self._count :], has_colour=self._has_colour)
        self._count = len(lines)

    def _end_message(self, state: SessionState) -> Iterator[str]:
        position, self._message = self._message, None
        item = None if position is None else state.timeline[position]
        if not isinstance(item, Message) or position is None:
            return
        if item.role == "agent" and (self._count or len(item.blocks) <= 1):
            yield from self._rest(item.text)
            for block in self._blocks(state, position):
                if isinstance(block, MessageBlock):
                    others = tuple(piece for piece in block.content if not isinstance(piece, TextPiece))
                    yield from self._texts([MessageBlock(position, None, "agent", others)] if others else [])
        else:
            yield from self._whole(state, position)

    # Lines

    def _blocks(self, state: SessionState, position: int) -> list[Block]:
        known = {**(self._watched.terminals if self._watched is not None else {}), **agent_terminals(state)}
        return list(block_of(state.timeline[position], position, known, self._watched))

    def _whole(self, state: SessionState, position: int) -> Iterator[str]:
        yield from self._texts(self._blocks(state, position))

    def _texts(self, blocks: list[Block]) -> Iterator[str]:
        for block in blocks:
            yield from texts_of(rail_lines(block, self._view()), has_colour=self._has_colour)


def _is_over(item: ToolCallState) -> bool:
    return item.status in _ENDED or item.is_cancelled
