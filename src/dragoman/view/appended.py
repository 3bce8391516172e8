"""A running session as lines that are only ever appended: for screen readers, logs, and terminals without a cursor.

Nothing that was written is written again. A message is written by whole lines and sentences, not by pieces; a tool call
when it starts and when it ends; a plan when its current step changes; a thought as one line when it is over. Pure: the
caller feeds the state after each change and writes the lines it gets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman.state.message import Message
from dragoman.state.plans import PlanState
from dragoman.state.tools import ToolCallState
from dragoman.text.colour import BOLD, CYAN, DIM
from dragoman.text.terminal import cells, plain
from dragoman.text.visible import label, wrapped
from dragoman.view.blocks import PlanBlock, TextPiece, ToolBlock
from dragoman.view.build import block_of, piece_of
from dragoman.view.labels import described, kind_word, outcome
from dragoman.view.lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dragoman.state import SessionState
    from dragoman.text.colour import Painter
    from dragoman.view.blocks import ShownTerminal
    from dragoman.view.watched import WatchedSession

# Behind a word: not the number of a list ("1. "), an initial or "e.g. ", and no value behind its name ("colour: red").
_SENTENCE: Final = re.compile(r"(?<=[^\W\d_]{2})[.!?][\"')\]*_]{0,3}\s")
_FENCES: Final = ("```", "~~~")
_ENDED: Final = frozenset({"completed", "failed"})
_THOUGHT_COLUMNS: Final = 200
_TABLE_RULE: Final = re.compile(r"\|\s{0,20}:?-+:?\s{0,20}(?:\|\s{0,20}:?-+:?\s{0,20}){0,100}\|?")


class AppendedLines:
    """The writer of one session."""

    def __init__(self, width: int, paint: Painter) -> None:
        self._width = max(20, width)
        self._paint = paint
        self._omits_prompts = False
        self._next = 0  # the first item that was not begun
        self._message: int | None = None  # the item that is being written
        self._written = 0  # characters of it
        self._is_code = False  # whether that place is between fences
        self._gap: int | None = None  # empty lines of it that wait for the next line; None before its first line
        self._tools: dict[int, str] = {}  # item -> what was last written of a call that has not ended
        self._plans: dict[int, str] = {}
        self._table = TableWords()
        self._watched: WatchedSession | None = None

    def omit_prompts(self) -> None:
        """Leave out the prompts of this client from now on: the terminal shows them where they were typed."""
        self._omits_prompts = True

    def resume(self, state: SessionState, position: int, written: int) -> None:
        """Begin behind an item that was written before, of which so many characters were."""
        self._next = position + 1
        for place, item in enumerate(state.timeline[: position + 1]):
            if isinstance(item, ToolCallState) and item.status not in _ENDED and not item.is_cancelled:
                self._tools[place] = "begun"
        if position >= 0 and isinstance(item := state.timeline[position], Message):
            self._message, self._written = position, written
            self._is_code, self._gap = _is_code(item.text[:written], is_code=False), 0

    def feed(
        self,
        state: SessionState,
        terminals: Mapping[str, ShownTerminal] | None = None,
        *,
        watched: WatchedSession | None = None,
        is_over: bool = False,
    ) -> Iterator[str]:
        """Yield the lines that are new.

        Args:
            state: the session as it is now.
            terminals: what is known about the terminals that tool calls show, by id.
            watched: what was seen of the session: durations, and terminals that are not in `terminals`.
            is_over: nothing more comes in this turn, so that an unfinished sentence is written too.
        """
        self._watched = watched
        all_terminals = {**(watched.terminals if watched is not None else {}), **(terminals or {})}
        yield from self._go_on(state, all_terminals)
        while self._next < len(state.timeline):
            yield from self._end_message(state)
            yield from self._begin(state, self._next, all_terminals)
            self._next += 1
        if is_over:
            yield from self._end_message(state)
        else:
            yield from self._grow(state, is_over=False)

    def _go_on(self, state: SessionState, terminals: Mapping[str, ShownTerminal]) -> Iterator[str]:
        """Yield what became of items that were begun before."""
        for position in list(self._tools):
            item = state.timeline[position]
            if isinstance(item, ToolCallState) and (item.status in _ENDED or item.is_cancelled):
                yield from self._end_message(state)
                del self._tools[position]
                yield from self._whole(state, position, terminals)
            else:
                yield from self._start(state, position, terminals)
        for position, shown in list(self._plans.items()):
            if (now := self._plan(state, position)) != shown:
                yield from self._end_message(state)
                self._plans[position] = now
                yield now

    def _begin(self, state: SessionState, position: int, terminals: Mapping[str, ShownTerminal]) -> Iterator[str]:
        item = state.timeline[position]
        match item:
            case Message():
                if item.role != "user" or item.turn is None or not self._omits_prompts:
                    self._message, self._written, self._is_code, self._gap = position, 0, False, None
                    self._table = TableWords()
            case ToolCallState() if item.status not in _ENDED and not item.is_cancelled:
                # Many agents announce a call before they know what it is about; one that waits is not shown yet.
                self._tools[position] = ""
                yield from self._start(state, position, terminals)
            case PlanState():
                self._plans[position] = line = self._plan(state, position)
                yield line
            case _:
                yield from self._whole(state, position, terminals)

    # Messages

    def _grow(self, state: SessionState, *, is_over: bool) -> Iterator[str]:
        """Yield the whole sentences that a message has grown by; of a thought nothing before its end."""
        if self._message is None:
            return
        item = state.timeline[self._message]
        assert isinstance(item, Message)
        text = item.text
        if item.role == "thought":
            if is_over and text.strip():
                words = label(" ".join(text.split()), min(_THOUGHT_COLUMNS, self._width * 2))
                yield from self._wrapped(self._paint("thought:", DIM) + " ", words, DIM)
            return
        end = len(text) if is_over else self._end_of_sentence(text)
        if end > self._written:
            piece = text[self._written : end]
            if self._written == 0:
                if not piece.strip() and not is_over:
                    return
                word, style = ("you:", CYAN) if item.role == "user" else ("agent:", BOLD)
                yield self._paint(word, style)
            starts_line = self._written == 0 or text[self._written - 1] == "\n"
            self._written = end
            for number, whole in enumerate(plain(piece.removesuffix("\n")).split("\n")):
                if whole or number > 0 or starts_line:
                    yield from self._line(whole, is_start=number > 0 or starts_line)
        if is_over:
            for line in self._table.rest():
                yield from self._wrapped("  ", line)
            others = [piece for piece in map(piece_of, item.blocks) if not isinstance(piece, TextPiece)]
            for other in others:
                yield f"  {label(described(other), self._width - 4)}"

    def _line(self, whole: str, *, is_start: bool) -> Iterator[str]:
        """Yield a line of a message, each sentence on a line of its own: it does not matter how the pieces came."""
        if is_start and whole.lstrip().startswith(_FENCES):
            self._is_code = not self._is_code
        for line in self._table.take(whole):
            if not line.strip():
                self._gap = None if self._gap is None else self._gap + 1
                continue
            yield from [""] * (self._gap or 0)
            self._gap = 0
            for part in [line] if self._is_code or line != whole or _is_row(line) else _sentences(line):
                yield from self._wrapped("  ", part)

    def _end_of_sentence(self, text: str) -> int:
        """Return where the last whole line or sentence of a growing text ends."""
        end = text.rfind("\n", self._written) + 1 or self._written
        if _is_code(text[self._written : end], is_code=self._is_code) or _is_row(text[end:]):
            return end  # code, and a row of a table, are written by whole lines
        for match in _SENTENCE.finditer(text, end):
            end = match.end()
        return end

    def _end_message(self, state: SessionState) -> Iterator[str]:
        yield from self._grow(state, is_over=True)
        self._message = None

    # Others

    def _start(self, state: SessionState, position: int, terminals: Mapping[str, ShownTerminal]) -> Iterator[str]:
        """Yield the line of a call that runs, once."""
        (block,) = block_of(state.timeline[position], position, terminals, self._watched)
        assert isinstance(block, ToolBlock)
        if self._tools[position] or block.status == "pending":
            return
        yield from self._end_message(state)
        title = label(block.title, self._width - 30)
        line = f"{self._paint('tool:', BOLD)} {label(kind_word(block.kind), 12)} {title}, {label(outcome(block), 30)}"
        self._tools[position] = line
        yield line

    def _plan(self, state: SessionState, position: int) -> str:
        for block in block_of(state.timeline[position], position, {}):
            if isinstance(block, PlanBlock):
                done = sum(step.status == "completed" for step in block.steps)
                current = next((step.text for step in block.steps if step.status == "in_progress"), "")
                now = f"; now: {label(current, self._width - 30)}" if current else ""
                word = self._paint("plan:", BOLD)
                return f"{word} removed" if block.is_removed else f"{word} {done} of {len(block.steps)} done{now}"
        return ""

    def _whole(self, state: SessionState, position: int, terminals: Mapping[str, ShownTerminal]) -> Iterator[str]:
        blocks = block_of(state.timeline[position], position, terminals, self._watched)
        yield from lines_of(blocks, self._width, self._paint)

    def _wrapped(self, lead: str, text: str, style: str = "") -> Iterator[str]:
        for number, part in enumerate(_by_words(text, self._width - 2)):
            shown = self._paint(part, style) if style else part
            yield (lead if number == 0 else "  ") + shown


def _sentences(line: str) -> Iterator[str]:
    start = 0
    for match in _SENTENCE.finditer(line):
        yield line[start : match.end()].rstrip()
        start = match.end()
    if rest := line[start:]:
        yield rest


def _is_code(text: str, *, is_code: bool) -> bool:
    """Whether the end of a text is between fences, when its beginning was or was not."""
    fences = sum(line.lstrip().startswith(_FENCES) for line in text.split("\n"))
    return is_code != (fences % 2 == 1)


def _is_row(line: str) -> bool:
    return line.lstrip().startswith("|")


def _by_words(text: str, width: int) -> Iterator[str]:
    """Break a line between words; a word that is too long is broken where it has to be."""
    line = text[: len(text) - len(text.lstrip(" "))]
    for word in text.split():
        if line.strip() and cells(line) + cells(word) + 1 > width:
            yield line
            line = ""
        line = f"{line} {word}" if line.strip() else line + word
        if cells(line) > width:
            *full, line = wrapped(line, width)
            yield from full
    yield line


class TableWords:
    """A table of Markdown in words, row by row: `header: value`, a line for each cell.

    A table in columns cannot be followed with a screen reader. It takes whole lines; the first row is kept until the
    rule below it says that it is one.
    """

    def __init__(self) -> None:
        self._header: list[str] = []
        self._first: str | None = None
        self._rows = 0

    def take(self, line: str) -> Iterator[str]:
        """Yield the lines to write in the place of one line."""
        is_row = line.lstrip().startswith("|")
        if self._first is not None:
            first, self._first = self._first, None
            if is_row and len(line) < 2_000 and _TABLE_RULE.fullmatch(line.strip()):
                self._header, self._rows = _cells_of_row(first), 0
                return
            yield first
        if not is_row:
            self._header = []
            yield line
        elif self._header:
            self._rows += 1
            if self._rows > 1:
                yield ""
            for name, cell in zip(self._header, _cells_of_row(line), strict=False):
                yield f"{name}: {cell}"
        else:
            self._first = line

    def rest(self) -> Iterator[str]:
        """Yield a first row that no rule followed."""
        if self._first is not None:
            first, self._first = self._first, None
            yield first


def _cells_of_row(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
