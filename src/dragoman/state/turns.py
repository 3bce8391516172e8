"""The turns of a session: for each prompt its blocks, its response, and the agent's text between them.

Text is taken from the messages, in the order in which they began, so the texts of interleaved messages are not mixed.
Does not read updates: messages.py reports which message is written to, session.py when a turn begins and ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.schema.v1 import ContentBlock, StopReason, Usage
    from dragoman.state.message import Message


class _Span:
    """The part of a message that belongs to one turn: all of it, unless its id came again in a later turn."""

    __slots__ = ("end", "message", "start", "turn")

    def __init__(self, turn: _GrowingTurn, message: Message, start: int) -> None:
        self.turn = turn
        self.message = message
        self.start = start
        self.end: int | None = None


class TurnState:
    """One prompt and the agent's response to it."""

    __slots__ = (
        "_at",
        "_current",
        "_echoed",
        "_end",
        "_index",
        "_is_lost",
        "_is_running",
        "_is_stale",
        "_prompt",
        "_read",
        "_spans",
        "_start",
        "_stop_reason",
        "_text",
        "_usage",
    )

    def __init__(self, index: int, prompt: tuple[ContentBlock, ...], start: int) -> None:
        self._index = index
        self._prompt = prompt
        self._echoed = 0  # prompt blocks the agent has sent back
        self._start = start
        self._end: int | None = None
        self._is_running = True
        self._is_lost = False
        self._stop_reason: StopReason | None = None
        self._usage: Usage | None = None
        self._spans: list[_Span] = []
        self._current: _Span | None = None
        self._text = ""  # spans before _read in full, and _read up to _at
        self._read = 0
        self._at = 0
        self._is_stale = False

    @property
    def index(self) -> int:
        """Its place in `SessionState.turns`; messages and tool calls refer to it in `.turn`."""
        return self._index

    @property
    def prompt(self) -> tuple[ContentBlock, ...]:
        """The content blocks of the prompt."""
        return self._prompt

    @property
    def is_running(self) -> bool:
        """True until the prompt was answered or failed."""
        return self._is_running

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the agent stopped; None while the turn runs, and for a turn that ended without a response."""
        return self._stop_reason

    @property
    def is_lost(self) -> bool:
        """True if the agent was lost during the turn: how much of it was done is not known."""
        return self._is_lost

    @property
    def usage(self) -> Usage | None:
        """The tokens reported with the response."""
        return self._usage

    @property
    def is_in_context(self) -> bool:
        """False after a refusal: the next prompt's context has neither this prompt nor what followed it (rule 183)."""
        return self._stop_reason != "refusal"

    @property
    def start(self) -> int:
        """Where in the timeline this turn begins, with its prompt."""
        return self._start

    @property
    def end(self) -> int | None:
        """Where in the timeline this turn ends; None while it runs. `timeline[turn.start:turn.end]` is the turn."""
        return self._end

    @property
    def messages(self) -> tuple[Message, ...]:
        """The agent's messages that have text or content of this turn."""
        return tuple(span.message for span in self._spans)

    @property
    def lost_characters(self) -> int:
        """How much of the text of its messages was dropped, see `SessionState`."""
        return sum(span.message.lost_characters for span in self._spans)

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of this turn in each of `messages`."""
        return tuple(span.message.text[span.start : span.end] for span in self._spans)

    @property
    def text(self) -> str:
        """The agent's text of this turn: the texts of its messages, joined without a separator."""
        spans = self._spans
        if not spans:
            return ""
        if len(spans) == 1 and spans[0].start == 0 and spans[0].end is None:
            return spans[0].message.text
        if self._is_stale:
            self._text = ""
            self._read = self._at = 0
            # While a message before the last one is the open one, every read starts again: it may have grown.
            self._is_stale = self._current is not spans[-1]
        pieces = []
        while True:
            span = spans[self._read]
            piece = span.message.text[max(self._at, span.start) : span.end]
            pieces.append(piece)
            self._at = max(self._at, span.start) + len(piece)
            if self._read + 1 == len(spans):
                break
            self._read += 1
            self._at = 0
        text = self._text  # grown in place, as in Passage
        self._text = ""
        text += "".join(pieces)
        self._text = text
        return text

    def __repr__(self) -> str:
        return f"TurnState({self._index}, stop_reason={self._stop_reason!r}, is_running={self._is_running})"


class _GrowingTurn(TurnState):
    """A turn together with the methods that change it."""

    __slots__ = ()

    def takes_echo(self, block: ContentBlock) -> bool:
        """Whether this is the next block of the prompt, sent back by the agent."""
        if self._echoed < len(self._prompt) and self._prompt[self._echoed] == block:
            self._echoed += 1
            return True
        return False

    def add(self, span: _Span) -> None:
        """Take note that the span's message is written to from now on, for the first time in this turn."""
        self._spans.append(span)
        self._current = span

    def resume(self, span: _Span) -> None:
        """Take note that the span's message, known in this turn, is written to again."""
        if span is not self._spans[-1]:
            self._is_stale = True
        self._current = span

    def forget(self, message: Message) -> None:
        """Forget a message of whose text nothing is left in this turn."""
        for span in self._spans:
            if span.message is message:
                span.start = span.end = 0
        self._is_stale = True

    def invalidate(self) -> None:
        """Take note that a text that was already read has changed."""
        self._is_stale = True

    def finish(self, end: int, stop_reason: StopReason | None, usage: Usage | None, *, is_lost: bool) -> None:
        self._end = end
        self._is_running = False
        self._is_lost = is_lost
        self._stop_reason = stop_reason
        self._usage = usage


class Turns:
    """All turns of a session. At most one is running; a cancelled one stays current until the next begins."""

    __slots__ = ("_spans", "current_index", "items", "late", "running")

    def __init__(self) -> None:
        self.items: list[_GrowingTurn] = []
        self.running: _GrowingTurn | None = None
        self.late: _GrowingTurn | None = None  # a cancelled turn, until the next one begins
        self.current_index: int | None = None  # of the turn that new items belong to
        self._spans: dict[Message, _Span] = {}  # each message's last one

    def begin(self, prompt: tuple[ContentBlock, ...], start: int) -> TurnState:
        """Begin a turn at this position of the timeline."""
        turn = _GrowingTurn(len(self.items), prompt, start)
        self.items.append(turn)
        self.running = turn
        self.late = None
        self.current_index = turn.index
        return turn

    def end(self, end: int, stop_reason: StopReason | None, usage: Usage | None, *, is_lost: bool) -> None:
        """End the running turn at this position of the timeline."""
        turn = self.running
        if turn is not None:
            turn.finish(end, stop_reason, usage, is_lost=is_lost)
            self.running = None
            self.late = turn if stop_reason == "cancelled" else None
            self.current_index = turn.index if stop_reason == "cancelled" else None

    def enter(self, message: Message) -> None:
        """Count the message's next text for the running turn, or for the cancelled one, or for the one it began in."""
        span = self._spans.get(message)
        turn = self.running or self.late or (span.turn if span is not None else None)
        if turn is None:
            return
        if span is not None and span.turn is turn:
            turn.resume(span)
            return
        length = len(message.text)
        if span is not None:
            span.end = length
        self._spans[message] = span = _Span(turn, message, length)
        turn.add(span)

    def rewrite(self, message: Message) -> None:
        """Count the message's new text, which took the place of all before, for the turn it was last written in."""
        span = self._spans.get(message)
        if span is None:
            self.enter(message)
            span = self._spans.get(message)
            if span is None:
                return
        if span.start:
            for turn in self.items:
                turn.forget(message)
        span.start = 0
        span.end = None
        span.turn.resume(span)
        span.turn.invalidate()
