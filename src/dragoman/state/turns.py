"""What one prompt brought: its blocks, its answer, and the agent's text that came in between.

Text is taken from the messages, in the order in which they began, so interleaved messages are not shuffled into one
another. Knows no update; messages.py says who speaks, session.py when a turn begins and ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.schema.v1 import ContentBlock, StopReason, Usage
    from dragoman.state.messages import Message


class Span:
    """The part of a message that belongs to one turn: all of it, unless its id came again in a later turn."""

    __slots__ = ("_end", "_message", "_start", "_turn")

    def __init__(self, turn: TurnState, message: Message, start: int) -> None:
        self._turn = turn
        self._message = message
        self._start = start
        self._end: int | None = None


class TurnState:
    """One prompt and what came of it."""

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
        "_prompt_message",
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
        self._prompt_message: Message
        self._echoed = 0  # prompt blocks the agent has sent back
        self._start = start
        self._end: int | None = None
        self._is_running = True
        self._is_lost = False
        self._stop_reason: StopReason | None = None
        self._usage: Usage | None = None
        self._spans: list[Span] = []
        self._current: Span | None = None
        self._text = ""  # spans before _read in full, and _read up to _at
        self._read = 0
        self._at = 0
        self._is_stale = False

    @property
    def index(self) -> int:
        """Its place in `SessionState.turns`; messages and tool calls name it in `.turn`."""
        return self._index

    @property
    def prompt(self) -> tuple[ContentBlock, ...]:
        """What was asked."""
        return self._prompt

    @property
    def is_running(self) -> bool:
        """True until the prompt was answered or failed."""
        return self._is_running

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the agent stopped; None while it runs, and for a turn that broke off without an answer."""
        return self._stop_reason

    @property
    def is_lost(self) -> bool:
        """True if the agent was lost in the middle of it: it may have done anything, or nothing."""
        return self._is_lost

    @property
    def usage(self) -> Usage | None:
        """The tokens reported with the answer."""
        return self._usage

    @property
    def is_in_context(self) -> bool:
        """False after a refusal: the agent will not see this prompt, nor what followed, in the next one (rule 183)."""
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
        """The agent's messages that spoke in this turn."""
        return tuple(span._message for span in self._spans)

    @property
    def texts(self) -> tuple[str, ...]:
        """What each of `messages` said in this turn."""
        return tuple(span._message.text[span._start : span._end] for span in self._spans)

    @property
    def text(self) -> str:
        """The agent's text of this turn, its messages put together as they are."""
        spans = self._spans
        if not spans:
            return ""
        if len(spans) == 1 and spans[0]._start == 0 and spans[0]._end is None:
            return spans[0]._message.text
        if self._is_stale:
            self._text = ""
            self._read = self._at = 0
            # While a message before the last one is the open one, every read starts again: it can grow unseen.
            self._is_stale = self._current is not spans[-1]
        return self._read_on()

    def _read_on(self) -> str:
        spans = self._spans
        pieces = []
        while True:
            span = spans[self._read]
            piece = span._message.text[max(self._at, span._start) : span._end]
            pieces.append(piece)
            self._at = max(self._at, span._start) + len(piece)
            if self._read + 1 == len(spans):
                break
            self._read += 1
            self._at = 0
        text = self._text  # grown in place, as in Passage
        self._text = ""
        text += "".join(pieces)
        self._text = text
        return text

    def _enter(self, message: Message) -> None:
        """This message speaks next."""
        span = message._span
        if span is None or span._turn is not self:
            said = len(message.text)
            if span is not None:
                span._end = said
            span = message._span = Span(self, message, said)
            self._spans.append(span)
        elif span is not self._spans[-1]:
            self._is_stale = True
        self._current = span

    def _takes_echo(self, block: ContentBlock) -> bool:
        """Whether this is the next block of the prompt, sent back."""
        if self._echoed < len(self._prompt) and self._prompt[self._echoed] == block:
            self._echoed += 1
            return True
        return False

    def __repr__(self) -> str:
        return f"TurnState({self._index}, stop_reason={self._stop_reason!r}, is_running={self._is_running})"
