"""The model loop: send the conversation to the model, run the tool calls it makes, and repeat until it makes none.

Owns one turn from `start` to `finish`: steps, retries, limits, parallel tool calls and the permission check before
each. Everything it does is a chunk passed to `emit`. Does not know which clients are attached, where chunks are stored,
or how a turn is cancelled: its task is cancelled, and the loop ends there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from dragoman.builtin.models.model import ModelError, ModelRequest, StepEnd, ToolSpec
from dragoman.builtin.tools.tool import ToolError
from dragoman.builtin.turn import PREVIEW, Spent
from dragoman.store.sessions import UsageRow
from dragoman.text.secrets import Secrets
from dragoman.uistream import chunks as c
from dragoman.uistream.display import ToolDisplay, with_display
from dragoman.uistream.messages import ToolPart
from dragoman.uistream.partial_json import parse_partial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.refusals import UserAnswer
    from dragoman.builtin.tools.tool import Tool
    from dragoman.builtin.turn import TurnContext
    from dragoman.policy.decide import Option

_log = logging.getLogger("dragoman.builtin")

# A model writes up to a hundred pieces a second; more than ten redraws a second cannot be seen.
PREVIEW_SECONDS: Final = 0.1
# Each preview parses all that has arrived so far, so longer arguments are shown only when they are complete.
PREVIEW_CHARACTERS: Final = 64 * 1024


class WantedCall(msgspec.Struct, frozen=True):
    """A call the model made. `tool` is None if its input was wrong, which was reported already."""

    id: str
    tool: Tool | None = None
    arguments: Any = None


class Loop:
    """The loop of one turn."""

    def __init__(self, context: TurnContext, usage: list[UsageRow]) -> None:
        """Args:
        usage: receives a row for each model call.
        """
        self._context = context
        self._usage = usage
        self._spent = Spent()
        # A turn keeps its tools, and every request must describe them in the same bytes for the provider's cache.
        self._specs = tuple(map(tool_spec, context.tools.values()))
        # Two edits of one file that both read before either wrote would lose one of them.
        self._edits = asyncio.Lock()
        self._previewed: dict[str, float] = {}

    async def run(self) -> None:
        """Run the turn. Raises: ModelError when the model cannot answer; the chunks then end with an `error`."""
        context = self._context
        await context.emit(c.Start(context.message.id))
        try:
            await context.emit(c.Finish(await self._steps()))
        except ModelError as error:
            await context.emit(c.ErrorChunk(str(error)))
            await context.emit(c.Finish("error"))
            raise

    async def _steps(self) -> str:
        """Run the steps and return the finish reason."""
        context = self._context
        for _ in range(context.limits.steps):
            reached = self._limit_reached()
            if reached is not None:
                return await self._stop_at(*reached)
            await self._emit_steering()
            await context.emit(c.StartStep())
            end, wanted = await self._ask_model()
            await asyncio.gather(*map(self._call, wanted))
            await context.emit(c.FinishStep())
            if end.usage is not None:
                await self._account(end)
            if context.questions:
                await self._emit_questions()
                if not context.steering:
                    return "stop"
            if not wanted and not context.steering:
                return "stop" if end.reason == "tool-calls" else end.reason
        return await self._stop_at("steps")

    async def _emit_steering(self) -> None:
        context = self._context
        while context.steering:
            part = {"type": "text", "text": context.steering.pop(0)}
            await context.emit(c.SteeringMessage(f"{context.message.id}.s{time.time_ns():x}", [part]))

    async def _emit_questions(self) -> None:
        """Show questions of tools as text of the agent, in a step of its own: the results of the calls come first."""
        context = self._context
        id, text = f"{context.message.id}.q{time.time_ns():x}", "\n\n".join(context.questions)
        context.questions.clear()
        for chunk in (c.StartStep(), c.TextStart(id), c.TextDelta(id, text), c.TextEnd(id), c.FinishStep()):
            await context.emit(chunk)

    def _limit_reached(self) -> tuple[str, str] | None:
        """The limit that forbids another model call, and a sentence about it for the user."""
        limits = self._context.limits
        for spent, tokens, cost_usd, scope in (
            (self._spent, limits.tokens, limits.cost_usd, "turn"),
            (self._context.spent, limits.session_tokens, limits.session_cost_usd, "session"),
        ):
            if tokens is not None and spent.tokens >= tokens:
                return "tokens", f"the {scope}'s limit of {tokens} tokens is reached"
            if cost_usd is not None and (spent.cost_usd or 0.0) >= cost_usd:
                return "cost", f"the {scope}'s limit of {cost_usd:g} USD is reached"
        return None

    async def _stop_at(self, limit: str, reason: str = "") -> str:
        if reason:
            notice = {"severity": "warning", "title": f"The turn ends here: {reason}"}
            await self._context.emit(c.Data("notice", notice, transient=True))
        await self._context.emit(c.Data("limit", {"limit": limit}, transient=True))
        return "tool-calls" if limit == "steps" else "length"

    # The model

    async def _ask_model(self) -> tuple[StepEnd, list[WantedCall]]:
        """Run one step of the model; repeat it while the provider reports an error that may pass."""
        tries = 0
        while True:
            try:
                return await self._stream()
            except ModelError as error:
                if not error.is_retryable or tries >= self._context.limits.retries:
                    raise
                await self._wait_to_retry(error, tries)
                tries += 1

    async def _stream(self) -> tuple[StepEnd, list[WantedCall]]:
        context = self._context
        request = ModelRequest((*context.history, context.message), context.system, self._specs, context.effort)
        wanted: list[WantedCall] = []
        has_begun = False
        stream = context.model.stream(request)
        try:
            async for item in stream:
                if isinstance(item, StepEnd):
                    return item, wanted
                if isinstance(item, c.ToolInputStart):
                    item = self._described(item, context.tools.get(item.tool_name), {})
                elif isinstance(item, c.ToolInputAvailable):
                    item, call = self._checked(item)
                    wanted.append(call)
                elif isinstance(item, c.ToolInputError):
                    wanted.append(WantedCall(item.tool_call_id))
                has_begun = True
                await context.emit(item)
                if isinstance(item, c.ToolInputDelta):
                    await self._preview(item.tool_call_id)
        except ModelError as error:
            if has_begun and error.is_retryable:
                await context.emit(c.ResetStep())
            raise
        finally:
            # Hang up when the rest is not wanted, so that it is not paid for.
            await stream.aclose()
        raise ModelError("the model's answer broke off", is_retryable=True)

    async def _wait_to_retry(self, error: ModelError, tries: int) -> None:
        context = self._context
        waits = context.limits.retry_seconds
        seconds = error.retry_after_seconds
        if seconds is None:
            seconds = waits[min(tries, len(waits) - 1)]
        if seconds > context.limits.longest_wait_seconds:
            raise error
        _log.warning("the model failed, next try in %g s: %s", seconds, error)
        notice = {"severity": "warning", "title": f"The model did not answer: trying again in {seconds:g} s"}
        await context.emit(c.Data("notice", {**notice, "description": str(error)}, transient=True))
        context.set_retrying(True)
        try:
            await context.sleep(seconds)
        finally:
            context.set_retrying(False)

    async def _account(self, end: StepEnd) -> None:
        """Record what a model call used, and show it."""
        context = self._context
        assert end.usage is not None
        tokens = msgspec.structs.asdict(end.usage)
        call = UsageRow(end.model or context.model.name, cost_usd=end.cost_usd, **tokens)
        self._usage.append(call)
        self._spent, context.spent = self._spent.plus(call), context.spent.plus(call)
        usage = {"used": end.usage.context, "size": context.model.context_tokens, "model": call.model, **tokens}
        if end.cost_usd is not None:
            usage["call_cost_usd"] = end.cost_usd
        if context.spent.cost_usd is not None:
            usage["cost_usd"] = context.spent.cost_usd
        await context.emit(c.Data("usage", usage, "usage", transient=True))

    # What is shown of a call

    def _checked(self, call: c.ToolInputAvailable) -> tuple[c.ToolInputAvailable | c.ToolInputError, WantedCall]:
        """Decode the arguments. Wrong ones become an error that says what is wrong, for the model."""
        context = self._context
        tool = context.tools.get(call.tool_name)
        if tool is None:
            known = ", ".join(sorted(context.tools))
            why = f"there is no tool {call.tool_name!r}; there are: {known}"
        else:
            try:
                arguments = msgspec.convert(call.input, tool.arguments, strict=False)
            except msgspec.ValidationError as error:
                why = f"the arguments of {call.tool_name} are wrong: {error}"
            else:
                wanted = WantedCall(call.tool_call_id, tool, arguments)
                return self._described(call, tool, call.input if isinstance(call.input, dict) else {}), wanted
        dynamic = True if tool is None else call.dynamic
        wrong = c.ToolInputError(call.tool_call_id, call.tool_name, call.input, why, call.title, dynamic)
        return self._described(wrong, tool, {}), WantedCall(call.tool_call_id)

    def _described(self, chunk: Any, tool: Tool | None, arguments: dict[str, Any]) -> Any:
        """The chunk with the title, kind, locations and diffs that the tool gives it."""
        if tool is None:
            return chunk
        preview = tool.preview(arguments, self._context.cwd)
        return with_display(chunk, preview.title, ToolDisplay(tool.kind, preview.locations, preview.diffs))

    async def _preview(self, tool_call_id: str) -> None:
        """Show what incomplete arguments say so far, at most ten times a second."""
        context = self._context
        now = time.monotonic()
        if now - self._previewed.get(tool_call_id, -1.0) < PREVIEW_SECONDS:
            return
        for part in reversed(context.message.parts):
            if isinstance(part, ToolPart) and part.tool_call_id == tool_call_id:
                break
        else:
            return
        tool = context.tools.get(part.name)
        arguments = parse_partial(part.input_text) if len(part.input_text) <= PREVIEW_CHARACTERS else None
        if tool is None or not arguments:
            return
        self._previewed[tool_call_id] = now
        preview = tool.preview(arguments, context.cwd)
        display = msgspec.to_builtins(ToolDisplay(tool.kind, preview.locations, preview.diffs))
        shown = {"tool_call_id": tool_call_id, "input": arguments, "title": preview.title, "display": display}
        await context.emit(c.Data(PREVIEW, shown, transient=True))

    # Tools

    async def _call(self, call: WantedCall) -> None:
        """Run one tool call: permission, work, outcome. What a tool raises is an outcome that the model reads."""
        tool = call.tool
        if tool is None:
            return
        context = self._context.for_call(call.id)
        try:
            requests = tool.requests(call.arguments, context)
            decision = await context.permissions.decide(requests, partial(self._ask, call.id))
            if decision.was_asked:
                reason = UNSET if decision.is_allowed else decision.reason
                await context.emit(c.ToolApprovalResponse(f"ask_{call.id}", decision.is_allowed, reason))
            if not decision.is_allowed:
                denied = c.ToolOutputDenied(call.id)
                await context.emit(denied if decision.was_asked else c.ToolOutputError(call.id, decision.reason))
                return
            await context.emit(c.Data("tool-start", {"tool_call_id": call.id}, transient=True))
            if tool.kind in ("edit", "delete", "move"):
                async with self._edits:
                    output = await tool.run(call.arguments, context)
            else:
                output = await tool.run(call.arguments, context)
        except ToolError as error:
            await context.emit(c.ToolOutputError(call.id, Secrets(os.environ).mask(str(error))))
        except Exception as error:
            _log.exception("tool %s failed", tool.name)
            why = Secrets(os.environ).mask(f"{tool.name} failed: {type(error).__name__}: {error}")
            await context.emit(c.ToolOutputError(call.id, why))
        else:
            await context.emit(c.ToolOutputAvailable(call.id, msgspec.to_builtins(output)))

    async def _ask(self, tool_call_id: str, options: Sequence[Option]) -> UserAnswer:
        """Ask the user. The question is a chunk too, as is the answer, so that they are stored."""
        await self._context.emit(c.ToolApprovalRequest(f"ask_{tool_call_id}", tool_call_id))
        return await self._context.ask(tool_call_id, options)


def tool_spec(tool: Tool) -> ToolSpec:
    """Describe a tool to the model."""
    schema = tool.schema
    if schema is None:
        _, components = msgspec.json.schema_components([tool.arguments], ref_template="#/$defs/{name}")
        schema = {**components.pop(tool.arguments.__name__)}
        if components:
            schema["$defs"] = components
    return ToolSpec(tool.name, tool.description, schema)
