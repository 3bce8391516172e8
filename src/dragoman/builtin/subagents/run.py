"""One run of a subagent by the built-in agent: a turn in a session of its own, inside a tool call of its parent.

Theory of operation. A run has a row in the store, the session of the subagent, and is a `TurnLog` and a `Loop` like any
turn, so that its chunks are committed as they come, its context window is its own, and it can be resumed. Its context
differs from its parent's in this: the tools are chosen from the parent's, the permissions are the parent's narrowed,
what it uses is counted in the parent's session, and a question goes to the user through the parent's session, as a
call with the subagent's name. The parent sees the run as the growing output of one call, a few times a second.

What can race: the parent's turn is cancelled while the run works. Then its loop is cancelled with a bounded time to
clean up, and its message is stored before the parent goes on. A process that dies leaves the log; the next one that
opens the parent's session ends it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from dragoman.agent.cancellation import complete, was_asked_for
from dragoman.builtin.cancellation import wait_or_cancel
from dragoman.builtin.context.environment_block import add_environment
from dragoman.builtin.context.history import ModelConversation
from dragoman.builtin.context.instruction_changes import add_instruction_changes
from dragoman.builtin.context.system_prompt import OwnPrompt, system_prompt
from dragoman.builtin.context.window.size import LearnedWindows
from dragoman.builtin.loop import Loop
from dragoman.builtin.models.choice import effort_for
from dragoman.builtin.past import StoredPast
from dragoman.builtin.replay import new_projector, without_terminal
from dragoman.builtin.subagents.declaration import choose_tools
from dragoman.builtin.subagents.progress import RunProgress
from dragoman.builtin.tools.jobs import close_jobs
from dragoman.builtin.turn import Spending, TurnContext, TurnLog, error_text, left_open_by
from dragoman.builtin.waits import Retries
from dragoman.errors import DragomanError, StoreError
from dragoman.policy.modes import MODES
from dragoman.schema import UNSET, v1
from dragoman.store.ids import new_id
from dragoman.store.messages import message_to_row
from dragoman.uistream import chunks as c
from dragoman.uistream.fold import ERROR
from dragoman.uistream.messages import StepStartPart, TextPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dragoman.builtin.models.model import Model
    from dragoman.builtin.refusals import UserAnswer
    from dragoman.builtin.subagents.declaration import AgentDeclaration, ChosenTools
    from dragoman.builtin.subagents.subagents import SessionSubagents
    from dragoman.builtin.tools.tool import ToolAccess
    from dragoman.builtin.turn import Spent
    from dragoman.policy.decide import Option
    from dragoman.store.sessions import SessionRow, UsageRow

_log = logging.getLogger("dragoman.builtin")

STEPS: Final = 100
"""Model calls of one run, if its declaration names no other number: half of what a turn has."""
SHOW_SECONDS: Final = 0.5
_CANCELLED: Final = "cancelled"

_ROLE: Final = """\
# Your role

You are the subagent {name}. Another agent gave you the task below. It reads nothing but your last message, and knows
nothing of what you saw: that message must answer the task completely by itself. No user reads what you write, and you
cannot ask: choose what is most likely meant, and state it. A call that is refused stays refused; do the rest, and
report what you could not do.{only_reads}

{prompt}"""
_ONLY_READS: Final = " Nothing may be changed: you read, search and think."


class RunEnd(Struct, frozen=True):
    """How a run ended. `failure` is empty if it answered."""

    answer: str
    failure: str = ""
    unknown_tools: tuple[str, ...] = ()


class DelegatedSpending(Spending):
    """The count of the calls of a run in its parent's session, at once, so that the limits of all loops see them."""

    def __init__(self, subagents: SessionSubagents, progress: RunProgress) -> None:
        super().__init__()
        self._usage = subagents.session.usage
        self._progress = progress

    @property
    def turn(self) -> Spent:
        return self._usage.spending.turn

    @property
    def session(self) -> Spent:
        return self._usage.spending.session

    def add(self, call: UsageRow) -> None:
        self._usage.delegate(call)
        self._progress.used(call)


class SubagentRun:
    """A run that has not begun yet.

    Args:
        parent: the context of the call that starts it.
        access: file and command access for its tools.
        memory: what its tools remember, kept for when it is resumed.
    """

    def __init__(
        self,
        subagents: SessionSubagents,
        declared: AgentDeclaration,
        row: SessionRow,
        parent: TurnContext,
        *,
        access: ToolAccess,
        memory: dict[str, Any],
        progress: RunProgress,
        is_background: bool = False,
    ) -> None:
        assert parent.subagents is not None
        self._subagents = subagents
        self._declared = declared
        self._row = row
        self._parent = parent
        self._access = access
        self._memory = memory
        self._progress = progress
        self._is_background = is_background
        self._scope = parent.subagents.below(declared.name, parent.tool_call_id)
        self._projector = new_projector(starts_on_input=False, shows_compactions=False)
        self._asked: set[str] = set()
        """Calls that the user was asked about: these are shown in the parent's session."""
        self._prompt_id = new_id("msg")  # before that of the answer: messages are sorted by their ids
        self._log = TurnLog(subagents.session.store, new_id("msg"), self._show)

    async def run(self, prompt: str) -> RunEnd:
        """Do the task. Raises: ToolError if it could not begin, StoreError if it could not be stored."""
        store = self._subagents.session.store
        history: list[UIMessage] = []
        past = StoredPast(store, self._row.id)
        await past.open()
        await past.read(history)
        message = UIMessage(self._prompt_id, "user", [TextPart(prompt)])
        view = ModelConversation(history).view()
        await asyncio.to_thread(add_environment, message, self._parent.cwd, view.noted)
        session = self._subagents.session
        if session.viewer is not None:
            await add_instruction_changes(session, session.viewer, message, view)
        chosen = choose_tools(self._declared, self._parent.tools, may_delegate=self._scope.may_delegate)
        context = await self._context((*history, message), chosen)
        beginning = store.begin_turn(self._row.id, message_to_row(message), self._log.message.id)
        was_cancelled = await complete(asyncio.ensure_future(beginning))
        writer = asyncio.create_task(self._log.write())
        usage: list[UsageRow] = []
        error: Exception | None = None
        try:
            if not was_cancelled:
                loop = Loop(
                    context,
                    usage,
                    spending=DelegatedSpending(self._subagents, self._progress),
                    windows=LearnedWindows(session),
                    retries=Retries(sleep=session.retries.sleep),
                )
                running = asyncio.create_task(loop.run())
                await wait_or_cancel(running, context.limits.cleanup_seconds / 2)
        except asyncio.CancelledError as failure:
            was_cancelled = was_asked_for()
            if not was_cancelled:
                error = RuntimeError("the run was cancelled without a request")
                error.__cause__ = failure
        except Exception as failure:  # whatever it is, the run is ended and stored; below it is logged or returned
            error = failure
        await complete(asyncio.ensure_future(self._end(writer, usage, error, was_cancelled=was_cancelled)))
        if was_cancelled:
            raise asyncio.CancelledError
        if error is not None and not isinstance(error, DragomanError):
            _log.error("a subagent failed", exc_info=error)
        failed = "" if error is None else error_text(error)
        return RunEnd(_answer(self._log.message), failed, chosen.unknown)

    async def _context(self, history: Sequence[UIMessage], chosen: ChosenTools) -> TurnContext:
        parent, session = self._parent, self._subagents.session
        model = self._subagents.model_of(self._declared, parent.model)
        steps = min(self._declared.steps or STEPS, parent.limits.steps)
        return structs.replace(
            parent,
            session_id=self._row.id,
            message=self._log.message,
            history=tuple(history),
            model=model,
            tools=chosen.tools,
            permissions=parent.permissions.narrowed(MODES.get(self._declared.mode), self._ask),
            access=self._access,
            emit=self._log.emit,
            memory=self._memory,
            system=await self._system(model, has_skills="skill" in chosen.tools),
            effort=effort_for(model.name, session.row.effort),
            limits=structs.replace(parent.limits, steps=steps),
            questions=[],
            modes=None,
            # What is changed after the turn has ended belongs to no turn.
            checkpoint=None if self._is_background else parent.checkpoint,
            subagents=self._scope,
            tool_call_id="",
        )

    async def _system(self, model: Model, *, has_skills: bool) -> str:
        session, parent = self._subagents.session, self._parent
        mode = MODES.get(self._declared.mode) or session.mode
        role = _ROLE.format(
            name=self._declared.name,
            prompt=self._declared.prompt,
            only_reads=_ONLY_READS if "plan" in (mode.id, session.mode.id) else "",
        )
        settings = session.settings
        own = OwnPrompt(settings.system_prompt, settings.append_system_prompt)
        instructions = await self._subagents.instructions()
        skills = session.skills.index() if has_skills else ""
        return system_prompt(
            parent.cwd, parent.roots, mode, instructions, model=model.name, own=own, role=role, skills=skills
        )

    async def _end(
        self, writer: asyncio.Task[None], usage: Sequence[UsageRow], error: Exception | None, *, was_cancelled: bool
    ) -> None:
        """Close the log and store the message, with its usage in the parent's session."""
        log, session = self._log, self._subagents.session
        log.close(_CANCELLED if was_cancelled else left_open_by(error))
        if was_cancelled:
            log.message.metadata["cancelled"] = True
        elif error is not None:
            log.message.metadata[ERROR] = error_text(error)
        try:
            await log.settle()
            await session.store.finish_message(session.row.id, message_to_row(log.message), usage)
        except StoreError as failure:
            _log.warning("the end of a subagent could not be stored: %s", failure)
        finally:
            writer.cancel()
            await asyncio.wait({writer})
            await close_jobs(self._memory)  # commands that it left in the background end with it
            self._memory.pop("jobs", None)
        for call_id in self._asked:
            call = self._progress.calls.get(call_id)
            if call is None or not call.is_over:
                await self._subagents.show(v1.ToolCallUpdate(call_id, status="failed"))

    # What is shown

    async def _show(self, chunks: Sequence[c.Chunk]) -> None:
        """Take committed chunks: into the progress, to clients that show the session of a subagent, and asked calls."""
        updates: list[v1.SessionUpdate] = []
        for chunk in chunks:
            if isinstance(chunk, c.Data) and chunk.name == "limit":
                self._progress.limit = str(chunk.data.get("limit", ""))
            updates += self._projector.project(without_terminal(chunk))
        for update in updates:
            self._progress.take(update)
            if isinstance(update, v1.ToolCallUpdate) and update.tool_call_id in self._asked:
                await self._subagents.show(structs.replace(update, title=UNSET))
        await self._subagents.show_child(self._row.id, updates)

    async def _ask(self, tool_call_id: str, options: Sequence[Option]) -> UserAnswer:
        """Ask the user through the parent's session, with the name of the subagent."""
        await self._log.settle()
        call = self._projector.calls.patch(tool_call_id)
        title = f"{' > '.join(self._scope.path)}: {call.title or ''}"
        if tool_call_id not in self._asked:
            self._asked.add(tool_call_id)
            await self._subagents.announce(structs.replace(call, title=title), self._scope.call_id)
        self._progress.note = "waits for a permission"
        try:
            return await self._subagents.ask(structs.replace(call, title=title), options)
        finally:
            self._progress.note = ""


def _answer(message: UIMessage) -> str:
    """Return the text of the last step; that of an earlier one if the last has none."""
    texts: list[str] = []
    found = ""
    for part in message.parts:
        if isinstance(part, StepStartPart):
            found, texts = "\n\n".join(texts).strip() or found, []
        elif isinstance(part, TextPart):
            texts.append(part.text)
    return "\n\n".join(texts).strip() or found


async def report_progress(progress: RunProgress, show: Callable[[str], Awaitable[None]]) -> None:
    """Show the progress a few times a second, until cancelled."""
    while True:
        text = progress.due()
        if text is not None:
            with suppress(StoreError):  # the run itself reports that the disk is full
                await show(text)
        await asyncio.sleep(SHOW_SECONDS)
