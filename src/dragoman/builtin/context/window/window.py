"""The context window of a turn: what the model is given, how full that is, and what happens when it is too full.

Theory of operation. Before each step `prepare` estimates the request from what the provider counted last and what was
added since. From 85 % of the limit on, outputs of old calls are left out; above the limit the head of the conversation
is replaced by a summary (`summariser.py`) while its tail stays as it is (`plan.py`). Both are stored as facts
(`facts.py`), each in one chunk: a process that dies, or a turn that is cancelled, before that chunk leaves the session
as it was. When a provider refuses a request as too long, `recover` learns the size from the error, shortens, and the
step runs again; each further refusal shortens more. A turn whose window fills again and again is stopped.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.builtin.context.history import KeptConversation
from dragoman.builtin.context.own_commands import AnswerModel
from dragoman.builtin.context.window.estimate import TokenCounter, tokens_in, tokens_of_output, tokens_of_tools
from dragoman.builtin.context.window.facts import CONTEXT, Counted, counted_in
from dragoman.builtin.context.window.limits import ADVICE, WindowLimits
from dragoman.builtin.context.window.size import is_local, output_limit_of, window_of
from dragoman.builtin.growing import running_step
from dragoman.builtin.models.model import ContextOverflowError, ModelError, ModelRequest
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import ToolPart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dragoman.builtin.context.history import ModelView
    from dragoman.builtin.context.window.compactor import Compactor, Shortened
    from dragoman.builtin.context.window.size import LearnedWindows
    from dragoman.builtin.models.model import StepEnd, ToolSpec
    from dragoman.builtin.turn import TurnContext
    from dragoman.builtin.waits import Retries

_log = logging.getLogger("dragoman.builtin")

_KEY: Final = "context"
_MOST_OVERFLOWS: Final = 3
"""Refusals of one step. The last attempt before has nothing but the summary and the user's message."""
_THRASH: Final = (3, 5)
"""So many compactions within so many steps: what the turn needs does not fit, and each costs a model call."""
_TRUNCATED_SHARE: Final = 0.5
"""A server that counts less than this share of the estimate has cut the conversation."""
_STAGNANT_STEPS: Final = 2
_NOTABLE_TOKENS: Final = 200
_TRUNCATED_TOKENS: Final = 1_000
"""No server is started with a smaller window."""


class WindowMemory:
    """What a session keeps between turns. None of it is needed: another process starts without it."""

    def __init__(self) -> None:
        self.conversation = KeptConversation()
        self.counter = TokenCounter()
        self.factors: dict[str, float] = {}
        """What a provider counts for one token of our estimate, by model."""
        self.guesses: dict[str, int] = {}
        """Windows that follow from refusals without a number, by model."""
        self.noticed: set[str] = set()
        self.last = ("", 0, 0)
        """Of the last step: the newest fact, tokens counted for the request, our estimate of all."""
        self.stagnant = 0
        """Steps in a row that added to the conversation, but not to what was counted."""


def window_memory(memory: dict[str, Any]) -> WindowMemory:
    """Return what a session keeps of its context window, among what its tools remember."""
    kept: WindowMemory | None = memory.get(_KEY)
    if kept is None:
        kept = memory[_KEY] = WindowMemory()
    return kept


class ContextWindow:
    """The context window of one turn."""

    def __init__(
        self,
        context: TurnContext,
        specs: tuple[ToolSpec, ...],
        account: Callable[[StepEnd, int], Awaitable[None]],
        *,
        windows: LearnedWindows,
        retries: Retries,
    ) -> None:
        """Args:
        account: records a call of the model that summarised, and shows how full the window is afterwards.
        """
        self._context = context
        self._specs = specs
        self._account = account
        self._windows = windows
        self._retries = retries
        self._memory = window_memory(context.memory)
        self._conversation = self._memory.conversation.of(context.history)
        self.overhead = tokens_in(context.system) + tokens_of_tools(specs)
        """Tokens of the system prompt and the tools, which every request has."""
        self._max_output: int | None = None
        self._expected = 0
        self._steps = 0
        self._compacted_at: list[int] = []
        self._overflows = 0
        self._has_guessed = False

    @cached_property
    def _compactor(self) -> Compactor:
        from dragoman.builtin.context.window.compactor import Compactor  # most turns need none

        return Compactor(self._context, self, self._retries)

    # What the model is given

    @property
    def view(self) -> ModelView:
        return self._conversation.view(self._context.message)

    @property
    def size(self) -> int:
        return self._size()[0]

    @property
    def known_size(self) -> int | None:
        """The size if it is known, rather than assumed."""
        size, is_known = self._size()
        return size if is_known else None

    @property
    def limits(self) -> WindowLimits:
        return WindowLimits(self.size, output_limit_of(self._context.model))

    @property
    def goal(self) -> int:
        """The most tokens after the conversation was shortened."""
        return self.limits.goal(int(self.overhead * self._factor))

    def request(self) -> ModelRequest:
        """Return the request of the next step."""
        context, view = self._context, self.view
        return ModelRequest(
            view.messages,
            context.system,
            self._specs,
            context.effort,
            self._max_output,
            context.session_id,
            view.stable_until,
        )

    def _size(self) -> tuple[int, bool]:
        model = self._context.model
        guess = self._memory.guesses.get(model.name)
        size, is_known = window_of(model, self._windows)
        return (size, is_known) if guess is None else (min(size, guess), True)

    # How full it is

    def estimate(self, view: ModelView | None = None) -> int:
        """Return how many tokens a request with this conversation has, about."""
        view = view or self.view
        for number in view.counted:
            entry, *later_entries = view.since(number)
            counted = counted_in(entry.source)
            if counted is None or counted.last_fact != view.last_fact:
                continue
            parts = entry.message.parts
            step, end = (max(at - entry.start, 0) for at in (counted.step, counted.parts))
            added = sum(tokens_of_output(part) for part in parts[step:end] if isinstance(part, ToolPart))
            added += self._memory.counter.parts(parts[end:])
            for later in later_entries:
                is_finished = later.index < len(self._context.history)
                added += self._memory.counter.message(later.message, is_finished=is_finished)
            return counted.tokens + int(added * self._factor)
        return int((self.overhead + self._memory.counter.conversation(view.messages)) * self._factor)

    @property
    def _factor(self) -> float:
        """The correction of our estimate by what this provider counted before, in this process or an earlier one."""
        factors, name = self._memory.factors, self._context.model.name
        if name not in factors:
            for message in reversed(self._context.history[-50:]):
                counted = counted_in(message)
                if counted is not None and counted.estimate:
                    return _bounded(counted.tokens / counted.estimate)
        return factors.get(name, 1.0)

    async def counted(self, end: StepEnd) -> None:
        """Store what the provider counted for the step that just ended."""
        self._overflows = 0
        context = self._context
        if end.usage is None or not end.usage.context:
            return
        used = end.usage.context
        view, parts = self.view, context.message.parts
        whole = self.overhead + self._memory.counter.conversation(view.messages)
        if await self._was_truncated(used - end.usage.output - end.usage.reasoning, whole, view.last_fact):
            return
        self._memory.factors[context.model.name] = _bounded(used / max(whole, 1))
        if used > self.size:
            await self._learn(used)  # what was learned or assumed is too low
        record = Counted(used, whole, running_step(parts), len(parts), view.last_fact)
        await context.emit(c.MessageMetadata({CONTEXT: msgspec.to_builtins(record)}))

    async def _was_truncated(self, counted: int, whole: int, last_fact: str) -> bool:
        """Whether a server cut the beginning of the conversation without an error, as Ollama does.

        Either it counts far less than was sent, or its count stays the same while the conversation grows.
        """
        context, memory = self._context, self._memory
        if not is_local(context.model.name) and context.model.context_tokens is not None:
            return False
        fact_before, last_counted, last_whole = memory.last
        memory.last = (last_fact, counted, whole)
        added = whole - last_whole
        has_stopped = last_fact == fact_before and added >= _NOTABLE_TOKENS and counted - last_counted < added // 4
        memory.stagnant = memory.stagnant + 1 if has_stopped else 0
        is_far_below = counted < self._expected * _TRUNCATED_SHARE
        if counted < _TRUNCATED_TOKENS or not (is_far_below or memory.stagnant >= _STAGNANT_STEPS):
            return False
        memory.stagnant = 0
        # What was counted of a part is not a measure for the whole.
        memory.factors[context.model.name] = 1.0
        await self._learn(counted)
        await self._notice(
            f"The model was given only the end of the conversation: its window has about {counted:,} tokens",
            f"The server counted {counted:,} tokens of about {whole:,} and cut the rest without an error. From now on "
            "the conversation is shortened in time. A larger window is set at the server, at Ollama with "
            "OLLAMA_CONTEXT_LENGTH or num_ctx.",
        )
        return True

    # Before a step

    async def prepare(self) -> None:
        """Shorten the conversation if the next request would not fit. Raises: ModelError when that does not help."""
        if isinstance(self._context.model, AnswerModel):
            return  # its answer does not depend on the conversation
        self._steps += 1
        await self._report_assumed_size()
        limits = self.limits
        self._expected = self.estimate()
        if self._expected > limits.prune_at and await self._compactor.prune(limits):
            self._expected = self.estimate()
        if self._expected > limits.limit:
            await self.compact()
            self._expected = self.estimate()

    async def recover(self, error: ModelError) -> bool:
        """Return whether the step can run again, because the conversation is shorter now.

        Raises: ModelError when shortening does not help.
        """
        if not self._is_overflow(error):
            return False
        self._overflows += 1
        if self._overflows > _MOST_OVERFLOWS:
            raise ModelError(f"{error}; it was shortened as far as possible: {ADVICE}", status=error.status) from error
        _log.warning("the conversation is too long for %s: %s", self._context.model.name, error)
        window = error.window if isinstance(error, ContextOverflowError) else None
        used = error.used if isinstance(error, ContextOverflowError) else None
        if used is not None and self._expected:
            corrected = self._factor * used / self._expected
            self._memory.factors[self._context.model.name] = _bounded(corrected)
        if window is not None:
            await self._learn(window)
            if used is not None and used < self.limits.limit and self._max_output is None:
                # The input fits by itself: the answer that was asked for did not fit next to it.
                self._max_output = max(window - used - self.limits.window // 50, 256)
                return True
        else:
            size = int(min(self.size, max(self._expected, 1)) * 0.8)
            self._memory.guesses[self._context.model.name] = max(size, self.size // 4)
        shares = (None, self.limits.tail // 4, 0)
        if await self.compact(tail_tokens=shares[self._overflows - 1], is_needed=True) is None:
            raise ModelError(f"{error}; there is nothing that could be shortened: {ADVICE}") from error
        self._expected = self.estimate()
        return True

    def _is_overflow(self, error: ModelError) -> bool:
        if isinstance(error, ContextOverflowError):
            return True
        # Some gateways give no reason. In a nearly full window it is the likely one; once, as it may be another.
        is_likely = error.status in (400, 413) and self._expected > self.limits.limit * 0.8 and not self._has_guessed
        self._has_guessed = self._has_guessed or is_likely
        return is_likely

    async def _learn(self, window: int) -> None:
        self._memory.guesses.pop(self._context.model.name, None)
        await self._windows.learn(self._context.model.name, window)

    async def compact(
        self, focus: str = "", *, tail_tokens: int | None = None, is_needed: bool = False
    ) -> Shortened | None:
        """Replace the head of the conversation by a summary. Returns None if there is nothing to replace.

        Raises: ModelError when it does not fit however it is shortened, or when it fills again at once.
        """
        most, steps = _THRASH
        if sum(at > self._steps - steps for at in self._compacted_at) >= most:
            raise ModelError(
                f"the context window was full again {most} times within {steps} steps, so the turn is stopped; {ADVICE}"
            )
        done: Shortened | None = None
        compactor = self._compactor
        try:
            done = await compactor.compact(focus, tail_tokens, is_needed=is_needed, by_model=self._overflows <= 1)
        finally:
            # Also if no summary could be used, or the turn was cancelled meanwhile: the calls are paid for.
            used = self.estimate() if done is None else done.after
            while compactor.calls:
                await self._account(compactor.calls.pop(0), used)
        if done is None:
            return None
        self._compacted_at.append(self._steps)
        self._memory.counter = TokenCounter()
        if done.made_by == "dropped":
            await self._notice(
                "A large part of the conversation was left out",
                "It did not fit in the context window, and no summary of it could be made. All of it is still stored.",
            )
        return done

    # Messages to the user

    async def _report_assumed_size(self) -> None:
        size, is_known = self._size()
        name = self._context.model.name
        if is_known or name in self._memory.noticed or self._context.model.is_loading:
            return
        self._memory.noticed.add(name)
        if not await self._windows.is_first_notice(name):
            return
        await self._notice(
            f"The context window of {name} is not known; {size:,} tokens are assumed",
            "The conversation is shortened before that many are reached. The size is corrected when the server states "
            "it.",
        )

    async def _notice(self, title: str, description: str) -> None:
        notice = {"severity": "warning", "title": title, "description": description}
        await self._context.emit(c.Data("notice", notice, transient=True))


def _bounded(factor: float) -> float:
    """Keep a factor within bounds.

    A count that is far from the estimate is an error of one of them; it must not make the window useless.
    """
    return min(max(factor, 0.5), 4.0)
