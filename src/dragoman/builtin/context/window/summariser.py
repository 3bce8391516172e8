"""A summary from the model, and the ladder to go down if it fails.

Owns the order of the attempts: the whole transcript, again with stricter words, with shorter results, in chunks that
are merged. The last rung needs no model. Does not decide what is summarised.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.builtin.context.window.estimate import tokens_in
from dragoman.builtin.context.window.summary import (
    RESULT_CHARACTERS,
    SHORT_RESULT_CHARACTERS,
    chunks_of,
    fault_of,
    mechanical,
    system_for,
    transcript_of,
)
from dragoman.builtin.models.model import ContextOverflowError, ModelError, ModelRequest, StepEnd
from dragoman.builtin.waits import SilenceWatch, silence_notice
from dragoman.store.ids import new_id
from dragoman.uistream.chunks import ResetStep, TextDelta
from dragoman.uistream.messages import TextPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.context.window.limits import WindowLimits
    from dragoman.builtin.context.window.plan import Unit
    from dragoman.builtin.turn import TurnContext
    from dragoman.builtin.waits import Retries

_log = logging.getLogger("dragoman.builtin")

_RETRIES: Final = 2
"""Attempts after the first while the provider is busy. A summary without the model is better than a long silence."""


class Summary(Struct, frozen=True):
    """A summary, and who made it: `model` or `mechanical`."""

    text: str
    made_by: str


class Summariser:
    """The summary of the head of a conversation, for one compaction.

    Args:
        calls: receives the end of every model call, whether its answer is used or not: all are paid for.
    """

    def __init__(
        self, context: TurnContext, retries: Retries, limits: WindowLimits, calls: list[StepEnd], focus: str = ""
    ) -> None:
        self._context = context
        self._retries = retries
        self._limits = limits
        self._focus = focus
        self._calls = calls

    async def summarise(self, units: Sequence[Unit], before: str) -> Summary:
        """Return a summary that can be used, from the model if it gives one.

        Args:
            before: the summary of what came before these pieces, which is merged.
        """
        most = self._most_tokens(units, before)
        try:
            text = await self._by_model(units, before, most)
        except (ModelError, TimeoutError) as error:
            _log.warning("the model gives no summary: %s", str(error) or type(error).__name__)
            text = ""
        if text:
            return Summary(text, "model")
        return Summary(mechanical(units, before, most), "mechanical")

    def _most_tokens(self, units: Sequence[Unit], before: str) -> int:
        """Return the most tokens of a summary, which must be shorter than what it replaces."""
        whole = sum(unit.tokens for unit in units) + tokens_in(before)
        return max(min(self._limits.summary * 3 // 2, whole * 3 // 4), 50)

    async def _by_model(self, units: Sequence[Unit], before: str, most: int) -> str:
        """Climb down until an answer can be used; empty if none can. Raises: ModelError, TimeoutError."""
        earlier = [f"## Earlier summary\n{before}"] if before else []
        for result_characters, is_strict in (
            (RESULT_CHARACTERS, False),
            (RESULT_CHARACTERS, True),
            (SHORT_RESULT_CHARACTERS, True),
        ):
            text = "\n\n".join([*earlier, *transcript_of(units, result_characters)])
            if tokens_in(text) > self._room:
                continue
            try:
                answer = await self._ask(text, is_strict=is_strict)
            except ContextOverflowError as error:
                _log.info("the transcript is too long for a summary at once: %s", error)
                continue
            fault = fault_of(answer, most)
            if not fault:
                return answer
            _log.info("a summary is not used: %s", fault)
        return await self._in_chunks([*earlier, *transcript_of(units, SHORT_RESULT_CHARACTERS)], most)

    async def _in_chunks(self, texts: Sequence[str], most: int) -> str:
        merged = ""
        for chunk in chunks_of(texts, max(self._room // 2 - self._limits.summary, 200)):
            text = f"## Earlier summary\n{merged}\n\n{chunk}" if merged else chunk
            answer = await self._ask(text, is_strict=True)
            fault = fault_of(answer, most)
            if fault:
                _log.info("a summary of a chunk is not used: %s", fault)
                return ""
            merged = answer
        return merged

    @property
    def _room(self) -> int:
        return self._limits.limit - 2 * self._limits.summary

    async def _ask(self, transcript: str, *, is_strict: bool) -> str:
        """Ask once, or again while the provider is busy. Raises: ModelError, TimeoutError."""
        context = self._context
        tries = 0
        while True:
            try:
                async with asyncio.timeout(context.limits.summary_seconds):
                    return await self._stream(transcript, is_strict=is_strict)
            except ModelError as error:
                await self._retries.wait(context, error, tries, min(_RETRIES, context.limits.retries))
                tries += 1

    async def _stream(self, transcript: str, *, is_strict: bool) -> str:
        context = self._context
        # One message without tools: a provider refuses calls in a conversation for which it is given no tools.
        question = UIMessage(new_id("msg"), "user", [TextPart(f"The transcript:\n\n{transcript}")])
        request = ModelRequest(
            (question, UIMessage(new_id("msg"), "assistant", [])),
            system_for(self._limits.summary, self._focus, is_strict=is_strict),
            effort=context.effort,
            max_output_tokens=2 * self._limits.summary,
            session_id=context.session_id,
        )
        texts: list[str] = []
        stream = context.model.stream(request)

        async def report(seconds: float) -> None:
            await context.emit(silence_notice(context.model.name, seconds, has_begun=bool(texts)))

        watch = SilenceWatch(context.limits.silence_seconds, report)
        try:
            async for item in stream:
                watch.note()
                if isinstance(item, TextDelta):
                    texts.append(item.delta)
                elif isinstance(item, ResetStep):
                    texts.clear()
                elif isinstance(item, StepEnd):
                    self._calls.append(item)
        finally:
            watch.stop()
            await stream.aclose()
        return "".join(texts).strip()
