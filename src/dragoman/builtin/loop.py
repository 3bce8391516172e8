"""The model loop: send the conversation to the model, run the tool calls it makes, and repeat until it makes none.

Owns one turn from `start` to `finish`: steps, retries, limits, parallel tool calls and the permission check before
each. Everything it does is a chunk passed to `emit`. Does not know which clients are attached, where chunks are stored,
or how a turn is cancelled: its task is cancelled, and the loop ends there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Struct

from dragoman.builtin.limits import Limits
from dragoman.builtin.models.model import ModelError, ModelRequest, StepEnd, ToolSpec
from dragoman.builtin.tools.tool import ToolError, ToolOutput
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import Message, Usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dragoman.builtin.models.model import Model
    from dragoman.builtin.permission import ToolPermissions
    from dragoman.builtin.tools.tool import Tool, ToolAccess
    from dragoman.policy import Request, Verdict
    from dragoman.policy.decide import Option

_log = logging.getLogger("dragoman.builtin")


class ModelCall(Struct, frozen=True):
    """What one answer of the model cost."""

    model: str
    usage: Usage
    cost_usd: float | None


class Spent(Struct, frozen=True):
    """What model calls added up to: tokens the model wrote, thoughts included, and what is known of the cost."""

    tokens: int = 0
    cost_usd: float | None = None

    def plus(self, call: ModelCall) -> Spent:
        cost = self.cost_usd if call.cost_usd is None else (self.cost_usd or 0.0) + call.cost_usd
        return Spent(self.tokens + call.usage.output + call.usage.reasoning, cost)


class TurnWork(Struct):
    """Everything one turn works with. `message` is the assistant's, and grows as chunks are emitted."""

    session_id: str
    message: Message
    history: Sequence[Message]
    model: Model
    tools: Mapping[str, Tool]
    permissions: ToolPermissions
    access: ToolAccess
    emit: Callable[[c.Chunk], Awaitable[None]]
    ask: Callable[[str, Sequence[Option]], Awaitable[str | None]]
    """Puts a call's options to a person; None when there is no answer."""
    cwd: str
    roots: tuple[str, ...]
    overflow_dir: str
    memory: dict[str, Any]
    system: str = ""
    effort: str | None = None
    limits: Limits = Limits()
    spent: Spent = Spent()
    """What the session has used before this turn."""
    steer: Callable[[], Sequence[str]] = tuple
    """Words of the user that arrived since the last step."""
    retrying: Callable[[bool], None] = lambda is_retrying: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    trace: Mapping[str, str] = {}
    """Trace ids of the prompt, for whoever is asked because of it."""


class CallContext:
    """The surroundings of one tool call."""

    def __init__(self, work: TurnWork, tool_call_id: str) -> None:
        self.session_id = work.session_id
        self.tool_call_id = tool_call_id
        self.cwd = work.cwd
        self.roots = work.roots
        self.access = work.access
        self.overflow_dir = work.overflow_dir
        self.memory = work.memory
        self.trace = work.trace
        self._emit = work.emit
        self._permissions = work.permissions

    async def progress(self, output: ToolOutput) -> None:
        await self._emit(c.ToolOutputAvailable(self.tool_call_id, msgspec.to_builtins(output), preliminary=True))

    async def data(self, name: str, data: Any, id: str | None = None) -> None:
        await self._emit(c.Data(name, data, UNSET if id is None else id))

    def verdict(self, request: Request) -> Verdict:
        return self._permissions.verdict(request)


class Loop:
    """One turn."""

    def __init__(self, work: TurnWork) -> None:
        self._work = work
        self.calls: list[ModelCall] = []
        """What the model was asked, in order; for the record."""
        self._spent = Spent()
        # A turn keeps its tools, and the model must be told of them in the same bytes at every step.
        self._specs = tuple(tool_spec(tool) for tool in work.tools.values())
        # Two edits of one file that read before either wrote would lose one of them.
        self._edits = asyncio.Lock()

    async def run(self) -> None:
        """Runs the turn. Raises: ModelError when the model cannot answer; the chunks then end with an `error`."""
        work = self._work
        await work.emit(c.Start(work.message.id))
        try:
            await work.emit(c.Finish(await self._steps()))
        except ModelError as error:
            await work.emit(c.Failure(str(error)))
            await work.emit(c.Finish("error"))
            raise

    async def _steps(self) -> str:
        work = self._work
        for _ in range(work.limits.steps):
            reached = self._limit_reached()
            if reached is not None:
                return await self._stop_at(*reached)
            await self._take_steering()
            await work.emit(c.StartStep())
            end, wanted = await self._ask_model()
            await asyncio.gather(*(self._call(call) for call in wanted if isinstance(call, c.ToolInputAvailable)))
            await work.emit(c.FinishStep())
            await self._account(end)
            if not wanted and not await self._take_steering():
                return "stop" if end.reason == "tool-calls" else end.reason
        return await self._stop_at("steps")

    async def _take_steering(self) -> bool:
        words = self._work.steer()
        for text in words:
            part = {"type": "text", "text": text}
            await self._work.emit(c.SteeringMessage(f"{self._work.message.id}.s{time.time_ns():x}", [part]))
        return bool(words)

    async def _stop_at(self, limit: str, words: str = "") -> str:
        if words:
            notice = {"severity": "warning", "title": f"The turn ends here: {words}"}
            await self._work.emit(c.Data("notice", notice, transient=True))
        await self._work.emit(c.Data("limit", {"limit": limit}, transient=True))
        return "tool-calls" if limit == "steps" else "length"

    # The model

    async def _ask_model(self) -> tuple[StepEnd, list[c.Chunk]]:
        """One step of the model, tried again while the provider says that this may help."""
        limits, tries = self._work.limits, 0
        while True:
            try:
                return await self._stream()
            except ModelError as error:
                if not error.is_retryable or tries >= limits.retries:
                    raise
                await self._wait_to_retry(error, tries)
                tries += 1

    async def _stream(self) -> tuple[StepEnd, list[c.Chunk]]:
        work = self._work
        request = ModelRequest(
            (*work.history, work.message),
            work.system,
            self._specs,
            work.effort,
        )
        wanted: list[c.Chunk] = []
        has_begun = False
        stream = work.model.stream(request)
        try:
            async for item in stream:
                if isinstance(item, StepEnd):
                    return item, wanted
                if isinstance(item, c.ToolInputAvailable):
                    item = self._checked(item)
                if isinstance(item, (c.ToolInputAvailable, c.ToolInputError)):
                    wanted.append(item)
                has_begun = True
                await work.emit(item)
        except ModelError as error:
            if has_begun and error.is_retryable:
                await work.emit(c.ResetStep())
            raise
        finally:
            # Whoever stops listening hangs up: nobody pays for an answer that is not heard.
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        raise ModelError("the model's answer broke off", is_retryable=True)

    async def _wait_to_retry(self, error: ModelError, tries: int) -> None:
        work = self._work
        waits = work.limits.retry_seconds
        seconds = error.retry_after_seconds
        if seconds is None:
            seconds = waits[min(tries, len(waits) - 1)]
        if seconds > work.limits.longest_wait_seconds:
            raise error
        _log.warning("the model failed, next try in %g s: %s", seconds, error)
        notice = {"severity": "warning", "title": f"The model did not answer: trying again in {seconds:g} s"}
        await work.emit(c.Data("notice", {**notice, "description": str(error)}, transient=True))
        work.retrying(True)
        try:
            await work.sleep(seconds)
        finally:
            work.retrying(False)

    def _checked(self, call: c.ToolInputAvailable) -> c.ToolInputAvailable | c.ToolInputError:
        """The call, or what is wrong with its arguments in words the model can act on."""
        tool = self._work.tools.get(call.tool_name)
        if tool is None:
            known = ", ".join(sorted(self._work.tools))
            return _input_error(call, f"there is no tool {call.tool_name!r}; there are: {known}", is_dynamic=True)
        try:
            msgspec.convert(call.input, tool.arguments, strict=False)
        except msgspec.ValidationError as error:
            return _input_error(call, f"the arguments of {call.tool_name} are wrong: {error}")
        return call

    async def _account(self, end: StepEnd) -> None:
        if end.usage is None:
            return
        model = self._work.model
        call = ModelCall(end.model or model.name, end.usage, end.cost_usd)
        self.calls.append(call)
        self._spent, self._work.spent = self._spent.plus(call), self._work.spent.plus(call)
        usage = {"used": end.usage.context, "size": model.context_tokens, **msgspec.structs.asdict(end.usage)}
        usage["model"] = call.model
        if end.cost_usd is not None:
            usage["call_cost_usd"] = end.cost_usd
        if self._work.spent.cost_usd is not None:
            usage["cost_usd"] = self._work.spent.cost_usd
        await self._work.emit(c.Data("usage", usage, "usage", transient=True))

    def _limit_reached(self) -> tuple[str, str] | None:
        """The limit that stands in the way of another call of the model, and how it is told."""
        limits = self._work.limits
        for spent, tokens, cost_usd, whose in (
            (self._spent, limits.tokens, limits.cost_usd, "turn"),
            (self._work.spent, limits.session_tokens, limits.session_cost_usd, "session"),
        ):
            if tokens is not None and spent.tokens >= tokens:
                return "tokens", f"the {whose}'s limit of {tokens} tokens is reached"
            if cost_usd is not None and (spent.cost_usd or 0.0) >= cost_usd:
                return "cost", f"the {whose}'s limit of {cost_usd:g} USD is reached"
        return None

    # Tools

    async def _call(self, call: c.ToolInputAvailable) -> None:
        """One tool call: permission, work, outcome. Whatever a tool raises is an outcome the model reads."""
        work = self._work
        tool = work.tools[call.tool_name]
        arguments = msgspec.convert(call.input, tool.arguments, strict=False)
        context = CallContext(work, call.tool_call_id)
        try:
            requests = tool.requests(arguments, context)
            decision = await work.permissions.decide(requests, lambda options: self._ask(call, options))
            if not decision.is_allowed:
                return await self._refuse(call, decision.reason, was_asked=decision.was_asked)
            await work.emit(c.Data("tool-start", {"tool_call_id": call.tool_call_id}, transient=True))
            if tool.kind in ("edit", "delete", "move"):
                async with self._edits:
                    output = await tool.run(arguments, context)
            else:
                output = await tool.run(arguments, context)
        except ToolError as error:
            await work.emit(c.ToolOutputError(call.tool_call_id, str(error)))
        except Exception as error:
            _log.exception("tool %s failed", tool.name)
            await work.emit(
                c.ToolOutputError(call.tool_call_id, f"{tool.name} failed: {type(error).__name__}: {error}")
            )
        else:
            await work.emit(c.ToolOutputAvailable(call.tool_call_id, msgspec.to_builtins(output)))
        return None

    async def _ask(self, call: c.ToolInputAvailable, options: Sequence[Option]) -> str | None:
        """The question and its answer are on record, whatever becomes of the tool."""
        approval_id = f"ask_{call.tool_call_id}"
        await self._work.emit(c.ToolApprovalRequest(approval_id, call.tool_call_id))
        chosen = await self._work.ask(call.tool_call_id, options)
        is_yes = any(option.id == chosen and option.kind.startswith("allow") for option in options)
        await self._work.emit(c.ToolApprovalResponse(approval_id, is_yes, UNSET if chosen else "nobody answered"))
        return chosen

    async def _refuse(self, call: c.ToolInputAvailable, reason: str, *, was_asked: bool) -> None:
        if was_asked:
            await self._work.emit(c.ToolOutputDenied(call.tool_call_id))
        else:
            await self._work.emit(c.ToolOutputError(call.tool_call_id, reason))


def tool_spec(tool: Tool) -> ToolSpec:
    """What the model is told of a tool."""
    schema = getattr(tool, "schema", None)
    if schema is None:
        _, components = msgspec.json.schema_components([tool.arguments], ref_template="#/$defs/{name}")
        schema = {**components.pop(tool.arguments.__name__)}
        if components:
            schema["$defs"] = components
    return ToolSpec(tool.name, tool.description, schema)


def _input_error(call: c.ToolInputAvailable, why: str, *, is_dynamic: bool = False) -> c.ToolInputError:
    dynamic = True if is_dynamic else call.dynamic
    return c.ToolInputError(call.tool_call_id, call.tool_name, call.input, why, call.title, dynamic)
