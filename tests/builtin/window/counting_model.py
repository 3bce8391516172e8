"""A model that counts the tokens of every request, and refuses what is larger than its window.

It plays an agent that calls the tool `look` until the user's wish is fulfilled, and summarises when it is asked to.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from dragoman.builtin.context.history import output_text
from dragoman.builtin.context.window.summary import HEADINGS, SYSTEM
from dragoman.builtin.models.model import ContextOverflowError, Model, ModelRequest, StepEnd
from dragoman.builtin.models.overflow import overflow_in
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import TextPart, ToolPart, UIMessage, Usage

GOOD_SUMMARY = "\n".join(f"## {heading}\nwhat matters" for heading in HEADINGS)


def text_of(request: ModelRequest) -> str:
    """Everything of a request that a provider would count."""
    tools = "".join(tool.description + msgspec.json.encode(tool.parameters).decode() for tool in request.tools)
    return request.system + tools + "\n".join(map(message_text, request.messages))


def message_text(message: UIMessage) -> str:
    texts = []
    for part in message.parts:
        if isinstance(part, TextPart):
            texts.append(part.text)
        elif isinstance(part, ToolPart):
            texts += [msgspec.json.encode(part.input).decode(), output_text(part)]
        elif hasattr(part, "raw"):
            texts.append(msgspec.json.encode(part.raw).decode())
    return "\n".join(texts)


def is_summary(request: ModelRequest) -> bool:
    return request.system.startswith(SYSTEM[:80])


class CountingModel(Model):
    """`steps` is how often it calls `look` in each turn, with the number of the call as its argument."""

    is_scripted = True
    name = "counting:one"
    context_tokens: int | None = None

    def __init__(self, window: int, *, steps: int = 1, states_window: bool = False) -> None:
        self.window = window
        self.context_tokens = window if states_window else None
        self.steps = steps
        self.requests: list[ModelRequest] = []
        self.texts: list[str] = []
        """The text of every step's request, as it was when it was sent."""
        self.open_calls: list[str] = []
        """Calls without a result in any request."""
        self.refused = 0
        self.summaries: list[ModelRequest] = []
        self.bytes_per_token = 3.0
        self.refusal: Callable[[int, int], ContextOverflowError | None] = lambda used, window: overflow_in(
            400, f"prompt is too long: {used} tokens > {window} maximum"
        )
        self.summarise: Callable[[ModelRequest], Any] = lambda request: GOOD_SUMMARY
        self.counts_at_most: int | None = None
        """A server that cuts the beginning without an error."""
        self.calls = 0

    def tokens(self, text: str) -> int:
        return int(len(text.encode()) / self.bytes_per_token)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[c.Chunk | StepEnd, None]:
        used = self.tokens(text_of(request))
        if is_summary(request):
            self.summaries.append(request)
            self._check(used)
            answer = self.summarise(request)
            if hasattr(answer, "__await__"):
                answer = await answer
            for item in self._spoken(answer, used):
                yield item
            return
        self._check(used)
        self.requests.append(request)
        self.texts.append(text_of(request))
        self.open_calls += calls_without_result(request)
        counted = used if self.counts_at_most is None else min(used, self.counts_at_most)
        if self._looks(request) < self.steps:
            self.calls += 1
            id = f"call_{self.calls}"
            yield c.ToolInputStart(id, "look")
            yield c.ToolInputAvailable(id, "look", {"value": str(self.calls)})
            yield StepEnd("tool-calls", Usage(input=counted, output=20), model=self.name)
            return
        for item in self._spoken(f"done {self.calls}", counted):
            yield item

    def _looks(self, request: ModelRequest) -> int:
        """How many calls this turn made. Those that were summarised are counted in a note of the test's tool."""
        return self.calls - self._calls_before

    _calls_before = 0

    def begin_turn(self) -> None:
        self._calls_before = self.calls

    def _check(self, used: int) -> None:
        if used > self.window:
            self.refused += 1
            error = self.refusal(used, self.window)
            assert error is not None
            raise error

    def _spoken(self, text: str, used: int) -> list[c.Chunk | StepEnd]:
        usage = Usage(input=used, output=self.tokens(text))
        return [
            c.TextStart("t"),
            c.TextDelta("t", text),
            c.TextEnd("t"),
            StepEnd("stop", usage, model=self.name),
        ]


def calls_without_result(request: ModelRequest) -> list[str]:
    """Calls in a request that have no outcome, which providers refuse."""
    calls = [part for message in request.messages for part in message.parts if isinstance(part, ToolPart)]
    return [call.tool_call_id for call in calls if not call.is_over]


def words(count: int, word: str = "word") -> str:
    """A text of about so many tokens of three bytes."""
    return " ".join(re.sub("x", str(number % 10), f"{word[:3]}x") for number in range(count * 3 // 5))
