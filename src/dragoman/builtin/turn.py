"""A running turn: the log of its chunks, and the context its tool calls work in.

Theory of operation. Every chunk of a turn takes one path: `TurnLog.emit` folds it into the assistant message and
queues it; one writer task commits the queue to the store; only then are the chunks shown to the client. So nothing
that a client saw is lost when the process dies. The emitter does not wait for the commit, only for the queue to be
short: chunks that arrive during a commit go into the next one, and pieces of one text become few chunks there, so a
fast stream needs few commits, and few updates to clients. `settle` waits until everything emitted so far was shown; a
question to the user needs that, because the client must know the call it is about. When a commit fails, the writer
stops, and `emit` and `settle` raise the StoreError.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Struct

from dragoman.builtin.hooks.open_hooks import FolderHooks
from dragoman.builtin.limits import TurnLimits
from dragoman.builtin.models.model import ModelError
from dragoman.errors import DragomanError, StoreError
from dragoman.store.messages import message_to_row
from dragoman.store.sessions import UsageRow
from dragoman.uistream import chunks as c
from dragoman.uistream.fold import ERROR, INTERRUPTED, Reducer
from dragoman.uistream.join import joined
from dragoman.uistream.messages import UIMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dragoman.builtin.checkpoints import TurnCheckpoint
    from dragoman.builtin.mode_switch import ModeSwitch
    from dragoman.builtin.models.model import Model, StepEnd
    from dragoman.builtin.permission import ToolPermissions
    from dragoman.builtin.placement import Placement
    from dragoman.builtin.refusals import UserAnswer
    from dragoman.builtin.skills.session_skills import SessionSkills
    from dragoman.builtin.subagents.subagents import SubagentScope
    from dragoman.builtin.tools.tool import Tool, ToolAccess
    from dragoman.policy import Request, Verdict
    from dragoman.policy.decide import Decision, Option
    from dragoman.store.sessions import LiveLog, Store
    from dragoman.uistream.display import ToolOutput

# Chunks that wait for a commit before the emitter waits too; a commit takes about a millisecond.
_UNWRITTEN = 512
PREVIEW = "tool-preview"
"""Name of the data chunk that shows incomplete arguments. It repeats what the deltas hold, so it is not stored."""


# Members of `_meta` with W3C trace ids (rule 330). They are passed on to model and MCP requests, never interpreted.
_TRACE_IDS = ("traceparent", "tracestate", "baggage")
_LONGEST_TRACE_ID = 8192  # the limit that the W3C baggage specification requires to be supported


def trace_of(meta: Any) -> dict[str, str]:
    """Return the trace ids in a `_meta`."""
    trace: dict[str, str] = {}
    for name in _TRACE_IDS if isinstance(meta, Mapping) else ():
        value = meta.get(name)
        if isinstance(value, str) and 0 < len(value) <= _LONGEST_TRACE_ID:
            trace[name] = value
    return trace


class TurnEnd(Struct, frozen=True):
    """How a turn ended. `error` is what the prompt is answered with, `usage` the sum of its model calls."""

    message_id: str
    was_cancelled: bool = False
    error: Exception | None = None
    usage: UsageRow | None = None


class Spent(Struct, frozen=True):
    """Sum over model calls: tokens the model wrote, reasoning included, and the cost as far as it is known."""

    tokens: int = 0
    cost_usd: float | None = None

    def plus(self, call: UsageRow) -> Spent:
        cost = self.cost_usd if call.cost_usd is None else (self.cost_usd or 0.0) + call.cost_usd
        return Spent(self.tokens + call.output + call.reasoning, cost)


class Spending:
    """What a turn and its session used so far, the calls of subagents included."""

    def __init__(self, session: Spent | None = None) -> None:
        self._turn = Spent()
        self._session = session or Spent()

    @property
    def turn(self) -> Spent:
        return self._turn

    @property
    def session(self) -> Spent:
        """What the session used, this turn and those before it."""
        return self._session

    def add(self, call: UsageRow) -> None:
        self._turn, self._session = self._turn.plus(call), self._session.plus(call)


def usage_row(end: StepEnd, model: Model) -> UsageRow | None:
    """Return what a model call used, for the store; None if that is not known."""
    if end.usage is None:
        return None
    return UsageRow(end.model or model.name, cost_usd=end.cost_usd, **msgspec.structs.asdict(end.usage))


class TurnContext(Struct):
    """Everything one turn works with, and each of its tool calls: `for_call` gives a tool its own copy."""

    session_id: str
    message: UIMessage
    """The assistant's message; it grows as chunks are emitted."""
    history: Sequence[UIMessage]
    """All stored messages before it. `context/history.py` makes of them what the model is given."""
    model: Model
    tools: Mapping[str, Tool]
    permissions: ToolPermissions
    access: ToolAccess
    emit: Callable[[c.Chunk], Awaitable[None]]
    cwd: str
    roots: tuple[str, ...]
    overflow_dir: str
    """Folder for output that is too long for the model; created when first needed."""
    memory: dict[str, Any]
    """What the session's tools remember between calls, such as the to-do list or which files were read."""
    system: str = ""
    effort: str | None = None
    limits: TurnLimits = TurnLimits()
    questions: list[str] = []
    """Questions that a tool asks in words. The loop shows them and ends the turn."""
    trace: Mapping[str, str] = {}
    """Trace ids of the prompt, for requests to other programs."""
    edits: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held while a file is changed; a turn and its subagents share it."""
    subagents: SubagentScope | None = None
    """Starts subagents; None where there can be none."""
    skills: SessionSkills | None = None
    """The skills of the session; None where there are none."""
    searched_tools: frozenset[str] | None = None
    """Names of tools that are found with `tool_search` instead of being listed; None: all are listed."""
    modes: ModeSwitch | None = None
    """The session's mode, for a tool that lets the user change it; None where no user can be asked."""
    folder: FolderHooks = FolderHooks()
    """Commands of the user before and after tool calls, after edits and at the end of the turn."""
    checkpoint: TurnCheckpoint | None = None
    """Follows what the turn changes in the folders; None where it is not followed."""
    tool_call_id: str = ""

    def for_call(self, tool_call_id: str) -> TurnContext:
        return msgspec.structs.replace(self, tool_call_id=tool_call_id, permissions=self.permissions.for_call())

    @property
    def model_name(self) -> str:
        return self.model.name

    @property
    def placement(self) -> Placement:
        """Where the command of this call runs, as permission was given for it."""
        return self.permissions.placement

    async def choose(self, options: Sequence[Option]) -> str | None:
        """Ask the user about this call. The question and the answer are chunks too, so that they are stored."""
        from dragoman.policy.decide import is_allowing

        asking = f"choice_{self.tool_call_id}.{time.time_ns():x}"
        await self.emit(c.ToolApprovalRequest(asking, self.tool_call_id))
        answer = await self.permissions.ask(self.tool_call_id, options)
        chosen = next((option for option in options if option.id == answer.option_id), None)
        await self.emit(c.ToolApprovalResponse(asking, chosen is not None and is_allowing(chosen.kind)))
        return None if chosen is None else chosen.id

    async def decide_outside(self, request: Request) -> Decision:
        """Ask the user whether a command that failed in the sandbox may run outside.

        The question and the answer are chunks too, so that they are stored.
        """
        asking = f"outside_{self.tool_call_id}"

        async def ask(options: Sequence[Option]) -> UserAnswer:
            await self.emit(c.ToolApprovalRequest(asking, self.tool_call_id))
            return await self.permissions.ask(self.tool_call_id, options)

        decision = await self.permissions.decide_outside(request, ask)
        if decision.was_asked:
            reason = UNSET if decision.is_allowed else decision.reason
            await self.emit(c.ToolApprovalResponse(asking, decision.is_allowed, reason))
        return decision

    def ask_in_words(self, text: str) -> None:
        self.questions.append(text)

    async def progress(self, output: ToolOutput) -> None:
        """Show the output so far; each call replaces the last."""
        await self.emit(c.ToolOutputAvailable(self.tool_call_id, msgspec.to_builtins(output), preliminary=True))

    async def data(self, name: str, data: Any, id: str | None = None) -> None:
        """Emit a `data-NAME` chunk, such as the plan."""
        await self.emit(c.Data(name, data, UNSET if id is None else id))

    def verdict(self, request: Request) -> Verdict:
        """Judge something a tool meets while it runs, such as a redirect. The user is not asked."""
        return self.permissions.verdict(request)


def left_open_by(error: Exception | None) -> str | None:
    """Return the reason that ends what a turn left open when it failed; None if the loop has emitted the end."""
    if error is None or isinstance(error, ModelError):
        return None
    return str(error) if isinstance(error, DragomanError) else INTERRUPTED


def error_text(error: Exception) -> str:
    """Return what a user reads about a failed turn: the error's own text if that is written for users."""
    return str(error) if isinstance(error, DragomanError) else "Internal error"


class TurnLog:
    """The chunks of a running turn: folded, committed, then shown."""

    def __init__(self, store: Store, message_id: str, show: Callable[[Sequence[c.Chunk]], Awaitable[None]]) -> None:
        self.message = UIMessage(message_id, "assistant", [])
        """Text that still grows is complete in it after a step, and when the log is closed."""
        self.chunks: list[c.Chunk] = []
        """All committed chunks of this turn. A client that attaches later is shown these first."""
        self._store = store
        self._show = show
        self._reducer = Reducer(self.message)
        self._unwritten: list[c.Chunk] = []
        self._is_closed = False
        self._wake = asyncio.Event()
        self._written = asyncio.Event()
        self._failure: StoreError | None = None

    async def emit(self, chunk: c.Chunk) -> None:
        """Add a chunk; waits while the store does not keep up. Raises: StoreError."""
        if self._is_closed:
            return  # from a tool that ignored its cancellation; the turn is over
        self._reducer.feed(chunk)
        self._unwritten.append(chunk)
        self._wake.set()
        await self._wait_until_fewer_than(_UNWRITTEN)

    async def settle(self) -> None:
        """Return when everything emitted so far was committed and shown. Raises: StoreError."""
        await self._wait_until_fewer_than(1)

    async def _wait_until_fewer_than(self, count: int) -> None:
        while len(self._unwritten) >= count and self._failure is None:
            self._written.clear()
            await self._written.wait()
        if self._failure is not None:
            raise self._failure

    def close(self, why: str | None) -> None:
        """Accept no more chunks.

        Args:
            why: ends what is still open, and aborts the turn with this reason; None if the turn ended by itself.
        """
        if self._is_closed:
            return
        if why is not None:
            self._unwritten += self._reducer.close(why)
            self._unwritten.append(c.Abort(why))
            self._wake.set()
        assert self._reducer.message is self.message  # reading it completes its text
        self._is_closed = True

    async def write(self) -> None:
        """Commit and show chunks until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            count = len(self._unwritten)
            batch = joined(self._unwritten)
            kept = [chunk for chunk in batch if not (isinstance(chunk, c.Data) and chunk.name == PREVIEW)]
            try:
                if kept:
                    await self._store.append_log(self.message.id, len(self.chunks), list(map(c.encode_chunk, kept)))
            except StoreError as error:
                self._failure = error
                self._written.set()
                return
            self.chunks += kept
            await self._show(batch)
            del self._unwritten[:count]
            if self._unwritten:
                self._wake.set()
            self._written.set()


async def recover_turn(store: Store, session_id: str, log: LiveLog) -> UIMessage:
    """Fold the log of a turn that has no end, and end it if its process died. Raises: StoreError.

    A turn that another live process runs is only shown: it is not ours to end.
    """
    reducer = Reducer(UIMessage(log.message_id, "assistant", []), is_tolerant=True)
    usage: list[UsageRow] = []
    for line in log.chunks:
        chunk = c.decode_chunk(line)
        reducer.feed(chunk)
        if isinstance(chunk, c.Data) and chunk.name == "usage":
            cost = {"cost_usd": chunk.data.get("call_cost_usd")}
            usage.append(msgspec.convert({**chunk.data, **cost}, UsageRow))
    if not log.is_alive:
        reducer.close(INTERRUPTED)
        reducer.message.metadata["interrupted"] = True
        reducer.message.metadata.setdefault(ERROR, "the agent ended before the turn was over")
        await store.finish_message(session_id, message_to_row(reducer.message), usage)
    return reducer.message
