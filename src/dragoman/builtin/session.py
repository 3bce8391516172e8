"""An open session of the built-in agent: its history, settings, tools, client and prompts.

Theory of operation. One `OpenSession` exists per session, with one client, its `Viewer`. A client that loads or resumes
a session takes it over from the one before; a turn that runs goes on, and is shown to the new client from its
beginning. A question that was open is withdrawn from the client before and asked again, of the new one, which can
cancel the turn as well. The session stays open while its client is attached or a turn is running. Prompts wait in one
queue, on disk, and run one after the other. A turn is a `TurnLog` (chunks are folded, committed, then shown) and a
`Loop` that emits the chunks. Cancelling a prompt withdraws it from the queue, or cancels its loop, which has a bounded
time to clean up; then the log is closed, committed and stored as a message. A turn that a crash left without an end is
ended when the session is opened again.

What can race: a client that takes the session over while a turn runs takes the history and the committed chunks in one
step with its registration (`viewer.py`), so it misses nothing and sees nothing twice. A tool that ignores its
cancellation may emit after the end of its turn; the closed log drops that.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec

from dragoman.agent.cancellation import complete, was_asked_for
from dragoman.builtin.cancellation import wait_or_cancel
from dragoman.builtin.context.command import Invocation
from dragoman.builtin.context.commands import commands_update, find_command, invoked, read_commands
from dragoman.builtin.context.instructions import read_instructions
from dragoman.builtin.context.titles import begin_title
from dragoman.builtin.context.window.size import LearnedWindows
from dragoman.builtin.context.window.window import window_memory
from dragoman.builtin.hooks.open_hooks import OpenHooks
from dragoman.builtin.loop import Loop
from dragoman.builtin.models.find import find_model
from dragoman.builtin.models.model import ModelAuthError
from dragoman.builtin.models.providers import default_model
from dragoman.builtin.models.refreshed import ModelLists
from dragoman.builtin.past import StoredPast
from dragoman.builtin.permission import SessionRules
from dragoman.builtin.queued_prompt import QueuedPrompt
from dragoman.builtin.refusals import UserAnswer
from dragoman.builtin.skills.session_skills import SessionSkills
from dragoman.builtin.steering import Steering
from dragoman.builtin.subagents.subagents import SessionSubagents
from dragoman.builtin.tools.jobs import close_jobs
from dragoman.builtin.tools.table import built_in_tools
from dragoman.builtin.turn import TurnContext, TurnEnd, TurnLog, error_text, left_open_by, recover_turn
from dragoman.builtin.turn_preparation import ask_hooks, prepare_message, prepare_turn, turn_command
from dragoman.builtin.usage import SessionUsage, total
from dragoman.builtin.viewer import Viewer, notice_chunk
from dragoman.builtin.waits import Retries
from dragoman.errors import ConfigError, ConnectionClosed, DragomanError, StoreError
from dragoman.policy.modes import MODES
from dragoman.schema import v1
from dragoman.store.ids import new_id
from dragoman.store.messages import message_from_row, message_to_row
from dragoman.uistream import chunks as c
from dragoman.uistream.fold import ERROR
from dragoman.uistream.messages import TextPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dragoman.agent import AgentSession
    from dragoman.builtin.context.command import Command
    from dragoman.builtin.context.instructions import Instructions
    from dragoman.builtin.environment import UserEnvironment
    from dragoman.builtin.mcp.servers import McpServers
    from dragoman.builtin.models.model import Model
    from dragoman.builtin.settings import AgentSettings
    from dragoman.builtin.tools.tool import Tool
    from dragoman.policy.decide import Option
    from dragoman.policy.modes import Mode
    from dragoman.store.sessions import SessionRow, Store, UsageRow

_log = logging.getLogger("dragoman.builtin")

T = TypeVar("T")
State: TypeAlias = Literal["idle", "busy", "retrying", "error"]
CANCELLED = "cancelled"
# Messages of the past that are folded and counted before others get a turn: a few milliseconds of work.
_AT_ONCE = 512


class OpenSession:
    """A session that is open, and its client."""

    is_closed = False
    has_sandbox = False
    was_refused = False
    """Whether the last call of the model failed because of its key."""

    def __init__(
        self,
        settings: AgentSettings,
        store: Store,
        row: SessionRow,
        environment: UserEnvironment | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.row = row
        self.history: list[UIMessage] = []
        """The finished messages in memory, oldest first: those after `past`."""
        self.past = StoredPast(store, row.id)
        self.viewer: Viewer | None = None
        """The client that opened the session last; None if it has left."""
        self.state: State = "idle"
        self.turn: TurnLog | None = None
        """The running turn."""
        self.prompts: set[asyncio.Task[TurnEnd]] = set()
        """Prompts that run or wait."""
        self._questions: set[asyncio.Future[Any]] = set()
        """Requests that wait for an answer of the client."""
        self.background: set[asyncio.Future[None]] = set()
        """Tasks next to the turns, such as finding a title."""
        self.memory: dict[str, Any] = {}
        self.tools: dict[str, Tool] = {**built_in_tools()}
        self.servers: McpServers | None = None
        self.commands: dict[str, Command] = {}
        self.usage = SessionUsage(store, row.id)
        self.subagents = SessionSubagents(self)
        self.skills = SessionSkills(self)
        self.has_rewound = False
        """Turns were taken back or brought back since the past was read."""
        self.mode_changed = asyncio.Event()
        """Set when the mode is changed; the next change has another event."""
        self.environment = environment
        self.env: Mapping[str, str] = os.environ if environment is None else environment.models
        """The environment of its models: with the stored keys, which no command gets."""
        self._queue = asyncio.Lock()
        self._reading = asyncio.Lock()
        self.steering = Steering()
        self.retries = Retries(self._set_retrying)
        self._unfinished: tuple[UIMessage, Sequence[UsageRow]] | None = None
        self._left_prompts: list[str] = []
        """Ids of prompts that wait in the stored queue because their process died."""
        self._instructions: dict[tuple[str, ...], asyncio.Future[Instructions]] = {}
        self.rules = SessionRules(settings, store, row.id)
        self.hooks = OpenHooks(self)
        self.model_lists = ModelLists()
        self._model: Model | None = None
        self._models: list[Model] = []
        """All models used so far; a turn may still run with an earlier one."""

    @classmethod
    async def open(
        cls, settings: AgentSettings, store: Store, row: SessionRow, environment: UserEnvironment | None = None
    ) -> OpenSession:
        """Open a stored session; its messages are read when they are needed.

        A turn whose process died is ended now, with its open calls as failed.

        Raises: StoreError.
        """
        session = cls(settings, store, row, environment)
        await session.past.open()
        log = await store.live_log(row.id)
        if log is not None:
            session.history.append(await recover_turn(store, row.id, log))
        for waiting in await store.queued(row.id):
            session.history.append(message_from_row(waiting))
            session._left_prompts.append(waiting.id)
        await session.subagents.recover()
        await session.usage.load()
        await session.rules.load()
        return session

    async def read_past(self) -> None:
        """Read what the model is given, if that was not done, or if turns were taken back. Raises: StoreError."""
        async with self._reading:  # a client may load the session while a prompt of the one before begins
            if self.has_rewound:
                past = StoredPast(self.store, self.row.id)
                await past.open()
                # In one step: a client that attaches takes both.
                self.past, self.has_rewound = past, False
                self.history.clear()
            await self.past.read(self.history)

    def read_soon(self, session: AgentSession) -> None:
        """Read, fold and count what the model is given after the answer that opens the session.

        The user who resumes a session writes a prompt next, and finds that done.
        """

        async def read() -> None:
            await session.wait_until_open()
            with suppress(StoreError):  # the prompt that needs it meets the error
                await self.read_past()
                await self.prepare_conversation()

        reading = asyncio.ensure_future(read())
        self.background.add(reading)
        reading.add_done_callback(self.background.discard)

    async def prepare_conversation(self) -> None:
        """Fold and count what the model is given, so that the first prompt need not."""
        memory = window_memory(self.memory)
        for end in range(memory.conversation.length + _AT_ONCE, len(self.history) + _AT_ONCE, _AT_ONCE):
            if self._queue.locked():
                return  # a prompt makes the conversation of all of them
            memory.counter.finished(memory.conversation.of(self.history[:end]).view().messages)
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Cancel everything that runs, and release the servers' and models' resources."""
        self.is_closed = True
        running: set[asyncio.Future[Any]] = {*self.prompts, *self.background, *self._instructions.values()}
        for future in running:
            future.cancel()
        if running:
            await asyncio.wait(running)
        await self.subagents.close()
        await close_jobs(self.memory)
        await self.hooks.close()
        if self.servers is not None:
            await self.servers.close()
        for model in self._models:
            await model.close()
        self._models.clear()
        self._model = None

    # The client

    async def attach(self, session: AgentSession) -> Viewer:
        """Make a client the one of this session. The client before it is shown and asked nothing more."""
        # In one step with the viewer's look at the past: see `viewer.py`.
        viewer = self.viewer = Viewer(self, session)
        # In the same step, so that an answer of the client before counts only if it came before. `ask_client` asks
        # this one.
        for question in self._questions:
            question.cancel()
        self._connect_servers(viewer)
        self.warm_up()
        _ = self.begin_instructions(viewer)
        reading = asyncio.to_thread(read_commands, viewer.cwd, self.settings.config_dir)
        listing = (self.subagents.prepare(viewer), self.skills.prepare(viewer))
        commands, *_ = await asyncio.gather(reading, asyncio.to_thread(viewer.guard.prepare), *listing)
        self.commands = self._with_prompts(commands)
        self.has_sandbox = self.has_sandbox or viewer.guard.has_sandbox
        return viewer

    @property
    def live_chunks(self) -> tuple[c.Chunk, ...]:
        """The committed chunks of the running turn, from its first."""
        return () if self.turn is None else tuple(self.turn.chunks)

    async def warn(self, title: str, description: str) -> None:
        """Show a notice to the client, if it is still there."""
        await self._show([notice_chunk("warning", title, description)])

    async def _show(self, chunks: Sequence[c.Chunk]) -> None:
        viewer = self.viewer
        if viewer is None:
            return
        try:
            await viewer.show_chunks(chunks)
        except Exception:
            # Its connection is gone. What it missed is stored, for the client that opens the session next.
            _log.debug("the client is gone", exc_info=True)
            if self.viewer is viewer:  # another one may have come meanwhile
                self.viewer = None

    def _connect_servers(self, viewer: Viewer) -> None:
        """Connect MCP servers in the background; the first turn waits for their tools, the response does not."""
        if self.servers is not None:
            self.servers.announce_roots()  # another client may have brought other folders
            return
        configured = self.rules.mcp_servers(viewer.cwd)
        if not (viewer.session.mcp_servers or configured):
            return
        from dragoman.builtin.mcp.servers import McpServers
        from dragoman.builtin.mcp.session_side import SessionSide

        after = None if self.environment is None else self.environment.ready
        self.servers = McpServers(
            viewer.session.mcp_servers,
            configured,
            self.tools,
            self.warn,
            viewer.cwd,
            after=after,
            side=SessionSide(self),
            config_dir=self.settings.config_dir,
            on_change=lambda: self._show_commands(self._with_prompts(self.commands)),
        )
        self.servers.start()

    def _with_prompts(self, commands: Mapping[str, Command]) -> dict[str, Command]:
        """Return the commands with the prompts that MCP servers offer now."""
        others = {name: command for name, command in commands.items() if command.source != "mcp"}
        return others if self.servers is None else {**others, **self.servers.commands(others)}

    def _show_commands(self, commands: dict[str, Command]) -> None:
        if commands != self.commands:
            self.commands = commands
            if self.viewer is not None:
                self.viewer.session.update_when_open(commands_update(commands))

    # Settings

    @property
    def mode(self) -> Mode:
        mode = MODES.get(self.row.mode or "", MODES[self.settings.mode])
        return mode if mode in self.modes else MODES["edit"]

    @property
    def modes(self) -> list[Mode]:
        """Modes the user can choose."""
        return [mode for mode in MODES.values() if self.has_sandbox or not mode.is_sandboxed]

    @property
    def model_name(self) -> str:
        return self.row.model or self.settings.model or default_model(self.env) or ""

    @property
    def model_names(self) -> list[str]:
        """Models to offer: the session's, the agent's own, some of each provider with a key, and those used before."""
        used = (model.name for model in self._models)
        names = (self.model_name, self.settings.model, *self.model_lists.offered(self.env), *used)
        return list(dict.fromkeys(filter(None, names)))

    @property
    def model(self) -> Model:
        """The session's model. Raises: ConfigError when there is none of its name."""
        if self._model is None or self._model.name != self.model_name:
            self._model = find_model(self.model_name)
            self._model.environment = self.env
            self._models.append(self._model)
        return self._model

    def warm_up(self) -> None:
        """Begin to load the model in the background, if that takes long."""
        with suppress(ConfigError):  # reported when the model is used
            self.model.warm_up()

    async def set(self, **choices: Any) -> None:
        """Store a choice of the user: mode, model, effort or title. Raises: StoreError."""
        stamp = await self.store.update_session(self.row.id, **choices)
        self.row = msgspec.structs.replace(self.row, updated_at=stamp, **choices)

    async def choose(self, *, is_answered: bool = False, **choice: Any) -> None:
        """Store a mode, model or effort, and show it to the client, unless that chose it and is answered."""
        await self.set(**choice)
        if "mode" in choice:
            self.mode_changed.set()
            self.mode_changed = asyncio.Event()
        self.warm_up()
        if not is_answered and self.viewer is not None:
            await self.viewer.show_options()

    async def rename(self, title: str, **choices: Any) -> None:
        """Store a title and show it to the client."""
        await self.set(title=title, **choices)
        if self.viewer is not None:
            await self.viewer.show(v1.SessionInfoUpdate(title=title, updated_at=self.row.updated_at))

    # Prompts

    def submit(self, prompt: QueuedPrompt) -> asyncio.Task[TurnEnd]:
        """Queue a prompt. The result is how its turn ended; cancelling it withdraws the prompt or cancels the turn."""
        first = prompt.parts[0] if prompt.parts else None
        called = invoked(first.text) if isinstance(first, TextPart) and first.text.startswith("/") else None
        if called is not None:
            prompt.command = self._invocation(*called, prompt.viewer)
            prompt.metadata |= prompt.command.metadata
        running = asyncio.create_task(self.prompt(prompt))
        self.prompts.add(running)
        running.add_done_callback(self.prompts.discard)
        if prompt.is_for_model and self.settings.title_model is not None and self.row.title is None:
            begin_title(self, prompt.parts)
        return running

    def cancel(self) -> None:
        """Cancel the running turn and withdraw the prompts that wait, whichever client sent them."""
        for running in self.prompts:
            if not running.cancelling():  # a second cancellation would interrupt its clean-up
                running.cancel()

    def steer(self, text: str) -> bool:
        """Pass text to the running turn, for its next step. False if none is running, or it ends: prompt instead."""
        return self.steering.add(text)

    async def prompt(self, prompt: QueuedPrompt) -> TurnEnd:
        """Run one turn: the user's message, then the agent's. Waits while another turn runs, with the prompt on disk.

        Raises: StoreError when the message could not be stored; nothing ran then.
        """
        message = UIMessage(new_id("msg"), "user", prompt.parts, prompt.metadata)
        queued_id = message.id if self._queue.locked() else None
        if queued_id is not None:
            await self.store.enqueue(self.row.id, message_to_row(message))
        try:
            await self._queue.acquire()
        except BaseException:
            if queued_id is not None:
                await asyncio.shield(self.store.drop_queued(queued_id))
            raise
        try:
            if queued_id is not None:
                message.id = new_id("msg")  # so that it sorts after the messages of the turns before
            if self._unfinished is not None or self._left_prompts:
                await self._settle_past()
            try:
                await ask_hooks(self, prompt, message)
            except BaseException:
                if queued_id is not None:
                    await asyncio.shield(self.store.drop_queued(queued_id))
                raise
            return await self._run(prompt, message, queued_id)
        finally:
            self._queue.release()

    async def _settle_past(self) -> None:
        """Store what an earlier turn could not store, and prompts that never became a turn, before the next message."""
        if self._unfinished is not None:
            message, usage = self._unfinished
            await self.store.finish_message(self.row.id, message_to_row(message), usage)
            self._unfinished = None
        while self._left_prompts:
            await self.store.dequeue(self._left_prompts[0], new_id=new_id("msg"))
            del self._left_prompts[0]

    async def _run(self, prompt: QueuedPrompt, message: UIMessage, queued_id: str | None) -> TurnEnd:
        log = TurnLog(self.store, new_id("msg"), self._show)
        preparing = asyncio.ensure_future(prepare_message(self, prompt, message))
        was_cancelled = await complete(preparing)
        preparing.result()
        row = message_to_row(message)
        beginning = asyncio.ensure_future(self.store.begin_turn(self.row.id, row, log.message.id, queued_id=queued_id))
        was_cancelled = await complete(beginning) or was_cancelled
        self.history.append(message)
        self.turn, self.state = log, "busy"
        self.steering.begin()
        self.usage.begin_turn()
        writer = asyncio.create_task(log.write())
        usage: list[UsageRow] = []
        error: Exception | None = None
        try:
            if not was_cancelled:
                context = await self.context_of(prompt, log)
                loop = Loop(
                    context,
                    usage,
                    spending=self.usage.spending,
                    windows=LearnedWindows(self),
                    retries=self.retries,
                    steering=self.steering,
                    command=None if prompt.command is None else turn_command(self, prompt, prompt.command),
                )
                running = asyncio.create_task(loop.run())
                await wait_or_cancel(running, self.settings.limits.cleanup_seconds)
        except asyncio.CancelledError as failure:
            was_cancelled = was_asked_for()
            if not was_cancelled:
                error = RuntimeError("the turn was cancelled without a request")
                error.__cause__ = failure
        except Exception as failure:  # whatever it is, the turn is ended and stored; `_end` makes it the result
            error = failure
        if prompt.checkpoint is not None:
            was_cancelled = await complete(asyncio.ensure_future(prompt.checkpoint.end())) or was_cancelled
        ending = asyncio.ensure_future(self._end(log, writer, usage, was_cancelled=was_cancelled, error=error))
        await complete(ending)
        return ending.result()

    async def context_of(self, prompt: QueuedPrompt, log: TurnLog) -> TurnContext:
        """Return what the turn of a prompt works with."""
        return await prepare_turn(self, prompt, log)

    async def _end(
        self,
        log: TurnLog,
        writer: asyncio.Task[None],
        usage: Sequence[UsageRow],
        *,
        was_cancelled: bool,
        error: Exception | None,
    ) -> TurnEnd:
        """Close the log, commit the rest and store the message. If the disk is full, that waits for the next prompt."""
        log.close(CANCELLED if was_cancelled else left_open_by(error))
        self.steering.end()
        self.steering.texts.clear()
        if was_cancelled:
            log.message.metadata["cancelled"] = True
        elif error is not None:
            log.message.metadata[ERROR] = error_text(error)
        rows = self.usage.end_turn(log.message.id, usage)
        try:
            await log.settle()
            await self.store.finish_message(self.row.id, message_to_row(log.message), rows)
        except StoreError as failure:
            self._unfinished = (log.message, rows)
            error = error or failure
        finally:
            writer.cancel()
            await asyncio.wait({writer})
            self.turn = None
        self.history.append(log.message)
        self.state = "idle" if error is None else "error"
        self.was_refused = isinstance(error, ModelAuthError)
        if error is not None and not isinstance(error, DragomanError):
            _log.error("a turn failed", exc_info=error)
        used = total([*rows, *self.usage.take_delegated()])
        return TurnEnd(log.message.id, was_cancelled, None if was_cancelled else error, used)

    async def settle(self) -> None:
        """Return when the client was shown everything the running turn emitted so far."""
        if self.turn is not None:
            await self.turn.settle()

    def _set_retrying(self, is_retrying: bool) -> None:
        self.state = "retrying" if is_retrying else "busy"

    def _invocation(self, name: str, arguments: str, viewer: Viewer) -> Invocation:
        # Read synchronously, so that the next prompt cannot overtake this one; and again, because the user may just
        # have written the template.
        commands = self._with_prompts(read_commands(viewer.cwd, self.settings.config_dir))
        self._show_commands(commands)
        return Invocation(name, arguments, find_command(commands, name))

    def begin_instructions(self, viewer: Viewer) -> asyncio.Future[Instructions]:
        """Begin to read the instruction files of the user and the project.

        They are read once for the same folders: a session keeps what it began with.
        """
        reading = self._instructions.get(viewer.roots)
        if reading is None:
            folders = viewer.session.additional_directories
            work = asyncio.to_thread(read_instructions, viewer.cwd, folders, self.settings.config_dir)
            reading = self._instructions[viewer.roots] = asyncio.ensure_future(work)
        return reading

    # Permission

    async def ask(self, tool_call_id: str, options: Sequence[Option]) -> UserAnswer:
        """Ask the client for permission to run a call; no answer if it has left."""
        await self.settle()  # the client must know the call it is asked about
        if self.viewer is not None and self.viewer.is_connected:
            hooks = (await self.hooks.of(self.viewer.cwd)).hooks
            if hooks is not None:
                hooks.notification("The agent waits for your permission")
        try:
            return await self.ask_client(lambda viewer: viewer.ask(tool_call_id, options))
        except ConnectionClosed:
            return UserAnswer()

    async def ask_client(self, ask: Callable[[Viewer], Awaitable[T]]) -> T:
        """Ask the client something. One that takes the session over meanwhile is asked instead, and its answer counts.

        Args:
            ask: sends the request when the client is `ready`.

        Raises: ConnectionClosed if no client is there, or it leaves without an answer; and what `ask` raises.
        """
        while True:
            viewer = self.viewer
            if viewer is None or not viewer.is_connected:
                raise ConnectionClosed("the session has no client to ask")
            question = asyncio.ensure_future(ask(viewer))
            self._questions.add(question)
            try:
                return await question
            except ConnectionClosed:
                # It has left, maybe in the moment in which another one took the session over.
                if self.viewer is viewer:
                    raise
            except asyncio.CancelledError:
                # Either the turn is cancelled, or `attach` has withdrawn the question.
                if was_asked_for() or self.viewer is viewer:
                    raise
            finally:
                self._questions.discard(question)
