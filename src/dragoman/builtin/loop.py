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
from contextlib import suppress
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from dragoman.agent.cancellation import was_asked_for
from dragoman.builtin.context.own_commands import turn_action
from dragoman.builtin.context.window.window import ContextWindow
from dragoman.builtin.hooks.open_hooks import after_call, after_failure, as_object, before_call
from dragoman.builtin.mode_switch import PLAN
from dragoman.builtin.models.model import ContextOverflowError, ModelError, StepEnd, ToolSpec
from dragoman.builtin.steering import Steering
from dragoman.builtin.tools.built_in import schema_of
from dragoman.builtin.tools.foreign_names import our_tool_name, read_arguments, with_our_names
from dragoman.builtin.tools.jobs import ended_jobs
from dragoman.builtin.tools.preload import import_soon
from dragoman.builtin.tools.table import offered_tools
from dragoman.builtin.tools.tool import ToolError
from dragoman.builtin.turn import PREVIEW, usage_row
from dragoman.builtin.waits import SilenceWatch, silence_notice
from dragoman.telemetry import active
from dragoman.text.secrets import Secrets
from dragoman.uistream import chunks as c
from dragoman.uistream.display import ToolDisplay, ToolOutput, with_display
from dragoman.uistream.messages import TextPart
from dragoman.uistream.partial_json import parse_partial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.context.command import TurnCommand
    from dragoman.builtin.context.window.size import LearnedWindows
    from dragoman.builtin.hooks.answer import Wish
    from dragoman.builtin.refusals import UserAnswer
    from dragoman.builtin.tools.tool import Preview, Tool
    from dragoman.builtin.turn import Spending, TurnContext
    from dragoman.builtin.waits import Retries
    from dragoman.policy import Request
    from dragoman.policy.decide import Option
    from dragoman.store.sessions import UsageRow
    from dragoman.telemetry import Telemetry

_log = logging.getLogger("dragoman.builtin")


_CHANGES: Final = frozenset({"edit", "delete", "move"})
CALL_TOOL: Final = "call_tool"
"""The tool whose calls stand for calls of others; see `tools/tool_search.py`."""


class WantedCall(msgspec.Struct, frozen=True):
    """A call the model made. `tool` is None if its input was wrong, which was reported already."""

    id: str
    tool: Tool | None = None
    arguments: Any = None
    shown: Any = UNSET
    """The arguments that clients are shown, where they are not those of the model's own call."""


class Loop:
    """The loop of one turn."""

    def __init__(
        self,
        context: TurnContext,
        usage: list[UsageRow],
        *,
        spending: Spending,
        windows: LearnedWindows,
        retries: Retries,
        steering: Steering | None = None,
        command: TurnCommand | None = None,
    ) -> None:
        """Args:
        usage: receives a row for each model call.
        spending: what the turn and the session used so far, with the calls of subagents.
        windows: sizes of context windows that errors of providers stated.
        steering: texts of the user that arrived since the last step, which are taken out; None where there are none.
        command: is run instead of asking a model.
        """
        self._context = context
        self._usage = usage
        self._spending = spending
        self._retries = retries
        self._steering = Steering() if steering is None else steering
        self._command = command
        # A turn keeps its tools, and every request must describe them in the same bytes for the provider's cache.
        self._offered = offered_tools(
            context.tools,
            context.model.name,
            is_planning=context.modes is not None and context.modes.current == PLAN,
            has_skills=context.skills is not None and bool(context.skills.index()),
            searched=context.searched_tools,
        )
        self._specs = tuple(map(tool_spec, self._offered))
        # Two edits of one file that both read before either wrote would lose one of them. The permission is asked
        # inside, so that it shows the file as the edits before have left it.
        self._edits = context.edits
        self._previews = Previews()
        self._repetitions = Repetitions()
        self._window = ContextWindow(context, self._specs, self._account, windows=windows, retries=retries)

    async def run(self) -> None:
        """Run the turn. Raises: ModelError when the model cannot answer; the chunks then end with an `error`."""
        context = self._context
        await context.emit(c.Start(context.message.id))
        try:
            reason = await self._steps()
            # In one step with the last look at `steering`, so that no text is accepted and then not sent.
            self._steering.end()
            await self._emit_steering()
            await context.emit(c.Finish(reason))
        except ModelError as error:
            self._steering.end()
            await self._emit_steering()  # stored, so that the next turn has it
            await self._fail(error)
            raise
        except asyncio.CancelledError as cancelled:
            if was_asked_for():
                raise
            _log.error("a model call was cancelled without a request", exc_info=cancelled)
            why = f"the call to {context.model.name} broke off although it was not asked to stop; try again"
            broken = ModelError(why)
            await self._fail(broken)
            raise broken from cancelled

    async def _fail(self, error: ModelError) -> None:
        await self._context.emit(c.ErrorChunk(str(error)))
        await self._context.emit(c.Finish("error"))

    async def _steps(self) -> str:
        """Run the steps and return the finish reason."""
        context = self._context
        if self._command is not None:
            action = turn_action(self._command.name)
            answer = await action(self._command, context, self._window, self._specs)
            await self._emit_text(f"{context.message.id}.c", answer)
            return "stop"
        for _ in range(context.limits.steps):
            reached = self._limit_reached()
            if reached is not None:
                return await self._stop_at(*reached)
            await self._emit_steering()
            await self._window.prepare()
            await context.emit(c.StartStep())
            end, wanted = await self._ask_model()
            await asyncio.gather(*map(self._call, wanted))
            await context.emit(c.FinishStep())
            await self._account(end)
            if self._repetitions.stop_reason:
                return await self._stop_in_circle(self._repetitions.stop_reason)
            if context.questions:
                await self._emit_questions()
                if not self._steering.texts:
                    return "stop"
            if not wanted and not self._steering.texts and not await self._goes_on():
                return "stop" if end.reason == "tool-calls" else end.reason
        return await self._stop_at("steps")

    async def _goes_on(self) -> bool:
        """Whether a hook of the user's wants the turn to go on; the model reads why, as a text of the user."""
        context = self._context
        if context.folder.hooks is None:
            return False
        texts = [part.text for part in context.message.parts if isinstance(part, TextPart)]
        more = await context.folder.hooks.stop(texts[-1] if texts else "")
        if more:
            self._steering.texts.append(more)
        return bool(more)

    async def _emit_steering(self) -> None:
        context = self._context
        while self._steering.texts:
            part = {"type": "text", "text": self._steering.texts.pop(0)}
            await context.emit(c.SteeringMessage(f"{context.message.id}.s{time.time_ns():x}", [part]))

    async def _emit_questions(self) -> None:
        """Show questions of tools as text of the agent, in a step of its own: the results of the calls come first."""
        context = self._context
        id, text = f"{context.message.id}.q{time.time_ns():x}", "\n\n".join(context.questions)
        context.questions.clear()
        await self._emit_text(id, text)

    async def _emit_text(self, id: str, text: str) -> None:
        for chunk in (c.StartStep(), c.TextStart(id), c.TextDelta(id, text), c.TextEnd(id), c.FinishStep()):
            await self._context.emit(chunk)

    def _limit_reached(self) -> tuple[str, str] | None:
        """Return the limit that forbids another model call, and a sentence about it for the user."""
        limits, spending = self._context.limits, self._spending
        for spent, tokens, cost_usd, scope in (
            (spending.turn, limits.tokens, limits.cost_usd, "turn"),
            (spending.session, limits.session_tokens, limits.session_cost_usd, "session"),
        ):
            if tokens is not None and spent.tokens >= tokens:
                return "tokens", f"the {scope}'s limit of {tokens} tokens is reached"
            if cost_usd is not None and (spent.cost_usd or 0.0) >= cost_usd:
                return "cost", f"the {scope}'s limit of {cost_usd:g} USD is reached"
        return None

    async def _stop_in_circle(self, reason: str) -> str:
        """End the turn of a model that repeats itself, in words of the answer, which every client shows."""
        await self._emit_text(f"{self._context.message.id}.r", f"The turn ends here: {reason}.")
        return await self._stop_at("steps")

    async def _stop_at(self, limit: str, reason: str = "") -> str:
        if reason:
            notice = {"severity": "warning", "title": f"The turn ends here: {reason}"}
            await self._context.emit(c.Data("notice", notice, transient=True))
        await self._context.emit(c.Data("limit", {"limit": limit}, transient=True))
        return "tool-calls" if limit == "steps" else "length"

    # The model

    async def _ask_model(self) -> tuple[StepEnd, list[WantedCall]]:
        """Run one step of the model; repeat it while the provider reports an error that may pass."""
        context = self._context
        tries, was_cut = 0, False
        while True:
            try:
                end, wanted = await (self._stream() if active.telemetry is None else self._traced(active.telemetry))
                if end.reason == "context-window" and not was_cut:
                    was_cut = True
                    await context.emit(c.ResetStep())
                    await self._account(end)
                    raise ContextOverflowError("the answer was cut because the context window was full")
                await self._window.counted(end)
                return end, wanted
            except ModelError as error:
                if await self._window.recover(error):
                    continue
                await self._retries.wait(context, error, tries, context.limits.retries)
                tries += 1

    async def _traced(self, telemetry: Telemetry) -> tuple[StepEnd, list[WantedCall]]:
        context = self._context
        provider, _, _ = context.model.name.rpartition(":")
        with telemetry.model_call(context.session_id, context.model.name, provider=provider) as call:
            end, wanted = await self._stream()
            if end.usage is not None:
                call.used(input_tokens=end.usage.input, output_tokens=end.usage.output, model=end.model)
            return end, wanted

    async def _stream(self) -> tuple[StepEnd, list[WantedCall]]:
        context = self._context
        wanted: list[WantedCall] = []
        has_begun = False
        stream = context.model.stream(self._window.request())

        async def report(seconds: float) -> None:
            await context.emit(silence_notice(context.model.name, seconds, has_begun=has_begun))

        watch = SilenceWatch(context.limits.silence_seconds, report)
        try:
            async for item in stream:
                watch.note()
                if isinstance(item, StepEnd):
                    return item, wanted
                if isinstance(item, c.ToolInputStart):
                    self._previews.begin(item.tool_call_id, item.tool_name)
                    item = self._described(item, self._tool(item.tool_name), {})
                elif isinstance(item, c.ToolInputAvailable):
                    self._previews.end(item.tool_call_id)
                    item, call = self._checked(item)
                    wanted.append(call)
                elif isinstance(item, c.ToolInputError):
                    wanted.append(WantedCall(item.tool_call_id))
                if not has_begun:
                    has_begun = True
                    import_soon(self._offered)
                await context.emit(item)
                if isinstance(item, c.ToolInputDelta):
                    await self._preview(item)
        except ModelError as error:
            if has_begun and (error.is_retryable or isinstance(error, ContextOverflowError)):
                await context.emit(c.ResetStep())
            raise
        finally:
            watch.stop()
            # Hang up when the rest is not wanted, so that it is not paid for.
            await stream.aclose()
        raise ModelError("the model's answer broke off", is_retryable=True)

    async def _account(self, end: StepEnd, used: int | None = None) -> None:
        """Record what a model call used, and show it.

        Args:
            used: tokens in the window, if the call was not a step of the conversation.
        """
        context = self._context
        call = usage_row(end, context.model)
        if end.usage is None or call is None:
            return
        tokens = msgspec.structs.asdict(end.usage)
        self._usage.append(call)
        self._spending.add(call)
        fill = {"used": end.usage.context if used is None else used, "size": self._window.known_size}
        usage = {**fill, "model": call.model, **tokens}
        if end.cost_usd is not None:
            usage["call_cost_usd"] = end.cost_usd
        if self._spending.session.cost_usd is not None:
            usage["cost_usd"] = self._spending.session.cost_usd
        await context.emit(c.Data("usage", usage, "usage", transient=True))

    # What is shown of a call

    def _checked(self, call: c.ToolInputAvailable) -> tuple[c.ToolInputAvailable | c.ToolInputError, WantedCall]:
        """Decode the arguments. Wrong ones become an error that says what is wrong, for the model."""
        tool = self._tool(call.tool_name)
        if tool is None:
            names = ", ".join(sorted(self._context.tools.keys() - (self._context.searched_tools or ())))
            why = f"there is no tool {call.tool_name!r}; there are: {names}"
        else:
            try:
                tool, sent = self._meant(tool, call.input)
                arguments = read_arguments(tool, sent)
            except ToolError as error:
                why = str(error)
            else:
                sent = sent if isinstance(sent, dict) else {}
                shown = sent if self._is_through_other(call.tool_name, tool) else UNSET
                return self._described(call, tool, sent), WantedCall(call.tool_call_id, tool, arguments, shown)
        dynamic = True if tool is None else call.dynamic
        kept = call.provider_metadata
        wrong = c.ToolInputError(
            call.tool_call_id, call.tool_name, call.input, why, call.title, dynamic, provider_metadata=kept
        )
        return self._described(wrong, tool, {}), WantedCall(call.tool_call_id)

    def _tool(self, name: str) -> Tool | None:
        """Return the tool that a model called by this name, which may be one that other agents use."""
        return self._context.tools.get(name) or self._context.tools.get(our_tool_name(name))

    def _meant(self, tool: Tool, sent: Any) -> tuple[Tool, Any]:
        """Return the tool and the arguments of a call; of one through `call_tool`, those that it names.

        Raises: ToolError.
        """
        if tool.name != CALL_TOOL:
            return tool, sent
        from dragoman.builtin.tools.tool_search import unwrap

        return unwrap(sent, self._context.tools)

    def _is_through_other(self, called: str, tool: Tool) -> bool:
        return our_tool_name(called) == CALL_TOOL != tool.name

    def _described(self, chunk: Any, tool: Tool | None, arguments: dict[str, Any]) -> Any:
        """Return the chunk with the title, kind, locations and diffs that the tool gives it."""
        if tool is None:
            return chunk
        preview = tool.preview(with_our_names(tool, arguments), self._context.cwd)
        shown = arguments if self._is_through_other(chunk.tool_name, tool) else UNSET
        display = ToolDisplay(tool.kind, preview.locations, preview.diffs, mcp=preview.mcp, input=shown)
        return with_display(chunk, preview.title, display)

    async def _preview(self, delta: c.ToolInputDelta) -> None:
        """Show the title and the locations that incomplete arguments give, if it is time to. Content comes later."""
        context = self._context
        written = self._previews.add(delta.tool_call_id, delta.input_text_delta)
        tool = None if written is None else self._tool(written[0])
        if written is None or tool is None:
            return
        arguments: Any = written[1]
        if "arguments" in arguments:  # before them, the name of another tool may be incomplete
            with suppress(ToolError):
                tool, arguments = self._meant(tool, arguments)
        preview = tool.preview(with_our_names(tool, arguments if isinstance(arguments, dict) else {}), context.cwd)
        display = msgspec.to_builtins(ToolDisplay(tool.kind, preview.locations))
        shown = {"tool_call_id": delta.tool_call_id, "title": preview.title, "display": display}
        await context.emit(c.Data(PREVIEW, shown, transient=True))

    # Tools

    async def _call(self, call: WantedCall) -> None:
        """Run one tool call: permission, work, outcome. What a tool raises is an outcome that the model reads."""
        tool = call.tool
        if tool is None:
            return
        context = self._context.for_call(call.id)
        try:
            if tool.kind in _CHANGES:
                async with self._edits:
                    output = await self._permitted_run(tool, call, context)
            else:
                output = await self._permitted_run(tool, call, context)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and was_asked_for():
                raise
            noted = self._noted(call, _reason(tool, error), has_failed=True)
            await context.emit(c.ToolOutputError(call.id, self._with_jobs(noted)))
        else:
            if output is None:
                _ = self._noted(call, "refused", has_failed=True)
            else:
                noted = self._noted(call, output.text, has_failed=False)
                output = msgspec.structs.replace(output, text=self._with_jobs(noted))
                await context.emit(c.ToolOutputAvailable(call.id, msgspec.to_builtins(output)))

    def _noted(self, call: WantedCall, text: str, *, has_failed: bool) -> str:
        """Return the text of a result, with a reminder behind it if the model repeats itself."""
        assert call.tool is not None
        reminder = self._repetitions.note(call.tool.name, call.tool.kind, call.arguments, text, has_failed=has_failed)
        return f"{text}\n{reminder}" if reminder else text

    def _with_jobs(self, text: str) -> str:
        """Return the text of a result, after a line about each background job that has ended since the last one."""
        ended = ended_jobs(self._context.memory)
        return f"{ended}\n{text}" if ended else text

    async def _permitted_run(self, tool: Tool, call: WantedCall, context: TurnContext) -> ToolOutput | None:
        """Check the call, ask for permission where it is needed, and run it. None if it was refused."""
        wish: Wish = ""
        if context.folder.hooks is not None:
            before = await before_call(context.folder.hooks, tool, call.arguments, call.id)
            if before.refusal:
                await context.emit(c.ToolOutputError(call.id, before.refusal))
                return None
            wish = before.wish
            if before.is_changed:
                call = msgspec.structs.replace(call, arguments=before.arguments, shown=as_object(before.arguments))
                await self._show(call, tool.preview(call.shown, context.cwd))  # what the user permits is what runs
        began = time.monotonic()
        try:
            requests = tool.requests(call.arguments, context)
            if not await self._is_permitted(tool, call, context, requests, wish):
                return None
            began = time.monotonic()
            output = await tool.run(call.arguments, context)
        except (
            Exception,
            asyncio.CancelledError,
        ) as error:  # whatever a tool raises has failed; hooks see each of them
            if context.folder.hooks is None or (isinstance(error, asyncio.CancelledError) and was_asked_for()):
                raise
            seconds = time.monotonic() - began
            why = await after_failure(context, tool, call.arguments, _reason(tool, error), seconds)
            raise ToolError(why) from error
        return await after_call(context, tool, call.arguments, output, requests, time.monotonic() - began)

    async def _is_permitted(
        self, tool: Tool, call: WantedCall, context: TurnContext, requests: Sequence[Request], wish: Wish
    ) -> bool:
        """Check a call, show what it would do, and decide whether it runs; if not, the model reads why."""
        preview = None
        # What is denied anyway is not worth a look at the files.
        if tool.kind not in _CHANGES or all(context.verdict(request).action != "deny" for request in requests):
            preview = await tool.check(call.arguments, context)
        if preview is not None:
            await self._show(call, preview)
        decision = await context.permissions.decide(requests, partial(self._ask, call.id), wish=wish)
        if decision.was_asked:
            reason = UNSET if decision.is_allowed else decision.reason
            await context.emit(c.ToolApprovalResponse(f"ask_{call.id}", decision.is_allowed, reason))
        if not decision.is_allowed:
            denied = c.ToolOutputDenied(call.id)
            await context.emit(denied if decision.was_asked else c.ToolOutputError(call.id, decision.reason))
            return False
        if context.checkpoint is not None:
            await context.checkpoint.before(tool.kind, [path for request in requests for path in request.paths])
        await context.emit(c.Data("tool-start", {"tool_call_id": call.id}, transient=True))
        return True

    async def _show(self, call: WantedCall, preview: Preview) -> None:
        """Show what a call with complete arguments will do."""
        assert call.tool is not None
        display = ToolDisplay(call.tool.kind, preview.locations, preview.diffs, mcp=preview.mcp, input=call.shown)
        shown = {"tool_call_id": call.id, "title": preview.title, "display": msgspec.to_builtins(display)}
        await self._context.emit(c.Data("tool-display", shown, transient=True))

    async def _ask(self, tool_call_id: str, options: Sequence[Option]) -> UserAnswer:
        """Ask the user. The question is a chunk too, as is the answer, so that they are stored."""
        await self._context.emit(c.ToolApprovalRequest(f"ask_{tool_call_id}", tool_call_id))
        return await self._context.permissions.ask(tool_call_id, options)


def _reason(tool: Tool, error: BaseException) -> str:
    """Return what the model reads of a call that failed. What is not an error for the model is a defect, and logged."""
    if isinstance(error, ToolError):
        return Secrets(os.environ).mask(str(error))
    _log.error("tool %s failed", tool.name, exc_info=error)
    return Secrets(os.environ).mask(f"{tool.name} failed: {type(error).__name__}: {error}")


def tool_spec(tool: Tool) -> ToolSpec:
    """Describe a tool to the model."""
    return ToolSpec(tool.name, tool.description, schema_of(tool))


# A model writes up to a hundred pieces a second; more than ten redraws a second cannot be seen.
PREVIEW_SECONDS: Final = 0.1
# The text grows by an eighth from one preview to the next, so all previews together parse nine times its length.
PREVIEW_GROWTH: Final = 8
# The title of a call with longer arguments is known long before, or only with the last of them.
PREVIEW_CHARACTERS: Final = 64 * 1024


class Previews:
    """The arguments of one turn's calls that the model still writes, and when they are shown.

    Not more often than can be seen, and only after the text has grown by a part of its length: each preview parses it
    from its beginning, so that the work stays in proportion to the length. Only complete values count: half of a path
    is the name of another file.
    """

    def __init__(self) -> None:
        self._inputs: dict[str, _Input] = {}
        self.parsed_characters = 0
        """How much was parsed so far, all calls together."""

    def begin(self, tool_call_id: str, tool_name: str) -> None:
        self._inputs[tool_call_id] = _Input(tool_name)

    def end(self, tool_call_id: str) -> None:
        self._inputs.pop(tool_call_id, None)

    def add(self, tool_call_id: str, piece: str) -> tuple[str, dict[str, Any]] | None:
        """Add a piece. Return the tool's name and the complete arguments so far, if it is time to show them."""
        growing = self._inputs.get(tool_call_id)
        if growing is None:
            return None
        growing.pieces.append(piece)
        growing.length += len(piece)
        if growing.length > PREVIEW_CHARACTERS or growing.length < growing.next_length:
            return None
        now = monotonic()
        if now < growing.next_time:
            return None
        text = "".join(growing.pieces)
        growing.pieces = [text]
        growing.next_length = growing.length + growing.length // PREVIEW_GROWTH
        self.parsed_characters += growing.length
        arguments = parse_partial(text, is_strict=True)
        if not arguments:
            return None
        growing.next_time = now + PREVIEW_SECONDS
        return growing.tool_name, arguments


class _Input(msgspec.Struct):
    tool_name: str
    pieces: list[str] = []
    length: int = 0
    next_length: int = 0
    next_time: float = float("-inf")


REMINDED_AT: Final = 3
STOPPED_AT: Final = 5
"""Other agents ask the user at three equal calls, or stop at five; a model that is reminded has two more tries."""
_WAITING: Final = frozenset({"bash_output", "task_output"})


class Repetitions:
    """A count of the equal calls of one turn, to notice a model that goes in circles.

    A call counts as the same if its tool and its arguments are; it counts again only if its result is the same too. An
    edit that did something new changes the project, so that a test which fails in the same way after it is not a
    circle; an edit that was made before, and taken back since, is not new. Looking at a background job is waiting.
    """

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        self._changes: dict[bytes, int] = {}
        """Edits that worked. These counts stay: a model that makes and takes back one edit goes in a circle, too."""
        self._stuck_at: str | None = None

    def note(self, tool: str, kind: str, arguments: Any, result: str, *, has_failed: bool) -> str:
        """Count a call, and return the sentence that the model reads behind its result; empty if there is none."""
        if tool in _WAITING:
            return ""
        call = sha256(msgspec.json.encode([tool, msgspec.to_builtins(arguments), result], order="sorted")).digest()
        is_change = kind in _CHANGES and not has_failed
        counts = self._changes if is_change else self._counts
        count = counts[call] = counts.get(call, 0) + 1
        if is_change and count == 1:
            self._counts.clear()
        if count >= STOPPED_AT:
            self._stuck_at = tool
        if count != REMINDED_AT:
            return ""
        return (
            f"[This call of {tool} gave this result {count} times in this turn. Do not repeat it: do something else, "
            "or state what you are missing.]"
        )

    @property
    def stop_reason(self) -> str:
        """Why the turn has to end, for the user; empty if it may go on."""
        if self._stuck_at is None:
            return ""
        return f"the model called {self._stuck_at} {STOPPED_AT} times with the same arguments and the same result"
