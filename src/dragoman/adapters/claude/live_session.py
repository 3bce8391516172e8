"""One open session: its running program, the prompt that it works on, and what happens between prompts.

Owns where each message goes, asking the user, interrupting, and starting the program again after it has ended.

Theory of operation. One program is one session. Messages arrive in `_on_message`, which only sorts them: to the turn of
the prompt that runs (`prompt` reads it), or to the background, whose task shows them outside of turns. The background
gets what belongs to a turn that Claude started by itself, and what sub-agents in the background do, also while a
prompt runs: they outlive it. Questions are in the same order as the messages, so that a call is shown before it is
asked about; each is then asked in a task of its own, because sub-agents work and ask side by side. Claude withdraws a
question that an interrupt made obsolete: its task is cancelled, and nothing is answered.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from dragoman.adapters.claude.choices import EFFORT, MODE, MODEL, ClaudeChoices, commands_of
from dragoman.adapters.claude.connection import ClaudeConnection
from dragoman.adapters.claude.events import ClaudeEvents, background_notice, failure_of, notice
from dragoman.adapters.claude.plan_entries import PlanEntries
from dragoman.adapters.claude.program import (
    ClaudeStart,
    check_version,
    command_line,
    remove_mcp_config,
    write_mcp_config,
)
from dragoman.adapters.claude.prompt_content import content_of
from dragoman.adapters.claude.prompted_turn import PromptedTurn
from dragoman.adapters.claude.questions import decide, elicit
from dragoman.adapters.claude.transcripts import ClaudeTranscripts
from dragoman.adapters.values import AdapterError
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.claude.questions import AskedClient
    from dragoman.adapters.context import PromptContext
    from dragoman.adapters.session import AdapterSession
    from dragoman.adapters.values import AskAnswer, AskOption
    from dragoman.schema import v1

_log = logging.getLogger("dragoman.adapters")

_START_SECONDS: Final = 60.0  # it loads 290 MB first, and waits for MCP servers
_ANSWER_SECONDS: Final = 20.0
# An interrupt takes 10 to 40 ms. A cancelled turn waits two seconds for the source (`adapters/turn.py`).
_INTERRUPT_SECONDS: Final = 1.6
_CANCELLED: Final = {"behavior": "deny", "message": "Cancelled", "interrupt": True}
_SETTINGS: Final = "dragoman/settings"  # a message of our own: the program reported its mode and model
_SHOWN: Final = "dragoman/shown"  # another one: everything before it was shown
_MOST_WAITING: Final = 1024  # messages, before the program has to wait
_FEW_WAITING: Final = 128


class ClaudeSession:
    """A session with its program.

    Args:
        session: the session as clients know it.
        program: the path of `claude`.
        arguments: further arguments of its command line.
        env: variables added to its environment.
    """

    def __init__(
        self, session: AdapterSession, program: str, arguments: Sequence[str], env: Mapping[str, str | None]
    ) -> None:
        self.session = session
        self.choices = ClaudeChoices({}, {})
        self._program = program
        self._arguments = tuple(arguments)
        self._env = dict(env)
        self._connection: ClaudeConnection | None = None
        self._turn: PromptedTurn | None = None
        self._prompting = asyncio.Lock()
        self._plan = PlanEntries()
        self._window: int | None = None
        self._questions: dict[str, tuple[asyncio.Task[None], AskedClient]] = {}
        self._withdrawn: set[str] = set()
        self._in_background: set[str] = set()
        """Calls whose work goes on in the background, and the ids of the agents that do it."""
        self._events = ClaudeEvents(self._plan, shows_commands=False)
        self._waiting: deque[dict[str, Any]] = deque()
        """What the background has to show."""
        self._next_messages: list[dict[str, Any]] = []
        """What arrived after the result of the prompt, which is still being shown."""
        self._arrived = asyncio.Event()
        self._background: asyncio.Task[None] | None = None
        self._has_shown = False
        self._is_paused = False

    # The program

    async def start(self, start: ClaudeStart) -> None:
        """Start the program and wait until it is ready. Raises: AdapterError, ConfigError, DragomanError."""
        connection = ClaudeConnection(self._on_message, self._on_end)
        config = write_mcp_config(self.session.mcp_servers)
        try:
            argv = command_line(
                self._program, start, roots=self.session.roots, arguments=self._arguments, mcp_config=config
            )
            await connection.start(argv, self.session.cwd, self._env)
            self._connection = connection
            started = await connection.request("initialize", timeout_seconds=_START_SECONDS, hooks=None)
            check_version(started.get("claude_code_version"))
            effective = await self._effective_settings(connection)
        except BaseException:
            await connection.close()
            self._connection = None
            raise
        finally:
            remove_mcp_config(config)
        self.choices = ClaudeChoices(started, effective)
        self.session.commands = commands_of(started)
        if self._background is None:
            self._background = asyncio.create_task(self._show_background())

    async def close(self) -> None:
        """End the program and everything it started."""
        for question, _ in self._questions.values():
            question.cancel()
        if self._background is not None:
            self._background.cancel()
            await asyncio.wait({self._background})
            self._background = None
        await self._stop()

    async def choose(self, setting_id: str, value: str) -> None:
        """Change a setting. Raises: AdapterError."""
        connection = await self._running()
        if setting_id == MODE:
            await connection.request("set_permission_mode", timeout_seconds=_ANSWER_SECONDS, mode=value)
            self.choices.mode = value
        elif setting_id == MODEL:
            await connection.request("set_model", timeout_seconds=_ANSWER_SECONDS, model=value)
            self.choices.model = value
            self._window = None
        elif setting_id == EFFORT:
            settings = {"effortLevel": value}
            await connection.request("apply_flag_settings", timeout_seconds=_ANSWER_SECONDS, settings=settings)
            self.choices.effort = value

    async def _effective_settings(self, connection: ClaudeConnection) -> dict[str, Any]:
        try:
            return await connection.request("get_settings", timeout_seconds=_ANSWER_SECONDS)
        except AdapterError:
            if not connection.is_running:
                raise
            return {}  # an older version; the first model of its list is the default

    async def _running(self) -> ClaudeConnection:
        """Return the program, started again if it has ended. Raises: AdapterError, ConfigError, DragomanError."""
        connection = self._connection
        if connection is not None and connection.is_running:
            return connection
        await self._stop()
        stored = await asyncio.to_thread(ClaudeTranscripts(self._env).find, self.session.id, self.session.cwd)
        await self.start(ClaudeStart(self.session.id, None if stored is None else self.session.id))
        if self._connection is None:
            raise AdapterError("claude could not be started again")
        return self._connection

    async def _stop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    # Prompts

    async def prompt(self, ctx: PromptContext) -> AsyncGenerator[Yielded, None]:
        """Run one prompt to its end. Raises: AdapterError when the program fails."""
        async with self._prompting:
            turn = PromptedTurn()
            try:
                async with aclosing(self._run(ctx, turn)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except AdapterError:
                if turn.has_begun:
                    raise
            else:
                return
            # The program was about to end by itself, and never had the prompt: another one gets it.
            async with aclosing(self._run(ctx, PromptedTurn())) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _run(self, ctx: PromptContext, turn: PromptedTurn) -> AsyncGenerator[Yielded, None]:
        connection = await self._running()
        events = ClaudeEvents(self._plan)
        events.window = self._window
        self._turn = turn
        try:
            connection.send(_user_message(content_of(ctx.blocks), turn.uuid))
            while True:
                message = await self._next(turn)
                if message.get("type") == "command_lifecycle":
                    await self._catch_up()
                for chunk in _chunks(message, events, turn):
                    yield chunk
                if message.get("type") == "control_request":
                    self._ask(message, ctx)
                if message is turn.end:
                    await ctx.settle()  # what Claude does next is shown below it
                    return
        except (asyncio.CancelledError, GeneratorExit):
            await self._interrupt(ctx, turn, events)
            raise
        finally:
            self._window = events.window
            self._turn = None
            self._end_questions(ctx)
            self._waiting.extend(self._next_messages)
            self._next_messages.clear()
            self._arrived.set()

    async def steer(self, text: str) -> bool:
        """Add text to the running turn; Claude reads it after the call that runs. False if no turn runs."""
        turn, connection = self._turn, self._connection
        if turn is None or turn.end is not None or connection is None or not connection.is_running:
            return False
        connection.send({**_user_message(text, turn.add(text)), "priority": "next"})
        return True

    async def _next(self, turn: PromptedTurn) -> dict[str, Any]:
        message = await turn.next()
        self._resume_reading()
        return message

    async def _interrupt(self, ctx: PromptContext, turn: PromptedTurn, events: ClaudeEvents) -> None:
        """End the turn inside the program too. A program that does not react is ended; it is started again later."""
        connection = self._connection
        if connection is None or not connection.is_running:
            return
        self._end_questions(ctx)
        try:
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                if turn.end is None:
                    await connection.request("interrupt", timeout_seconds=_INTERRUPT_SECONDS)
                while len(turn) or turn.end is None:
                    message = await self._next(turn)
                    await _emit(ctx, _chunks(message, events, turn))
                    if message.get("type") == "control_request":
                        connection.answer(str(message.get("request_id")), _CANCELLED)
                    elif message.get("type") == "command_lifecycle" and message.get("state") == "started":
                        # It waited behind another turn, which the first interrupt ended.
                        await connection.request("interrupt", timeout_seconds=_INTERRUPT_SECONDS)
        except (AdapterError, TimeoutError) as error:
            _log.warning("claude did not end its turn and is ended: %s", error)
            await self._stop()

    # Questions

    def _ask(self, message: dict[str, Any], asker: AskedClient) -> None:
        """Ask the user what the program asks, in a task of its own."""
        request_id = str(message.get("request_id"))
        if request_id in self._withdrawn:
            self._withdrawn.discard(request_id)
            return
        task = asyncio.create_task(self._answer(request_id, message.get("request"), asker))
        self._questions[request_id] = (task, asker)
        task.add_done_callback(lambda _task: self._questions.pop(request_id, None))

    async def _answer(self, request_id: str, request: Any, asker: AskedClient) -> None:
        connection = self._connection
        if connection is None:
            return
        subtype = request.get("subtype") if isinstance(request, dict) else None
        try:
            if subtype == "can_use_tool":
                connection.answer(request_id, await decide(request, asker))
            elif subtype == "elicitation":
                connection.answer(request_id, await elicit(request, asker))
            else:
                connection.refuse(request_id, f"the request {subtype!r} is not supported")
        except Exception as error:  # the client is gone, or answered with something else; everything unclear is a no
            _log.warning("a question of claude could not be asked: %s", error)
            if connection.is_running:
                connection.answer(request_id, {"behavior": "deny", "message": "The user could not be asked."})

    def _end_questions(self, asker: AskedClient) -> None:
        """End the questions that were asked in a turn that is over."""
        for task, asked in list(self._questions.values()):
            if asked is asker:
                task.cancel()

    # Messages

    def _on_message(self, message: dict[str, Any]) -> None:
        kind = message.get("type")
        turn = self._turn
        if kind == "control_cancel_request":
            self._withdraw(str(message.get("request_id")))
            return
        if kind == "command_lifecycle":
            if turn is not None and turn.note_state(message.get("command_uuid"), message.get("state")):
                turn.put(message)
            return
        if kind == "system":
            self._note(message)
        if turn is not None and turn.end is not None:
            self._next_messages.append(message)
        elif turn is None or self._is_background(message, turn):
            self._put_background(message)
        else:
            turn.put(message)
        if not self._is_paused and self._count_waiting() > _MOST_WAITING and self._connection is not None:
            self._is_paused = True
            self._connection.pause()

    def _on_end(self, failure: AdapterError) -> None:
        text = f"{failure}\nWhat was shown is kept. Send the prompt again: the session goes on in a new process."
        if self._turn is not None:
            self._turn.put(AdapterError(text))

    def _is_background(self, message: dict[str, Any], turn: PromptedTurn) -> bool:
        """Return whether a message that arrives while a prompt runs does not belong to it."""
        match message:
            case {"type": "control_request", "request": {"agent_id": str(agent)}}:
                return agent in self._in_background
            case {"subtype": "task_notification" | "task_progress", "tool_use_id": str(call)}:
                return call in self._in_background
            case {"type": "result"}:
                return turn.is_waiting or not turn.owns(message)
        return turn.is_waiting or str(message.get("parent_tool_use_id")) in self._in_background

    def _put_background(self, message: dict[str, Any]) -> None:
        self._waiting.append(message)
        self._arrived.set()

    def _withdraw(self, request_id: str) -> None:
        if request_id in self._questions:
            self._questions[request_id][0].cancel()
        else:
            self._withdrawn.add(request_id)

    def _note(self, message: dict[str, Any]) -> None:
        """Take over what the program reports about itself."""
        match message:
            case {"subtype": "task_started", "is_backgrounded": True, "tool_use_id": str(call)}:
                self._in_background |= {call, str(message.get("task_id"))}
            case {"subtype": "init" | "status", "permissionMode": str(mode)}:
                self._put_background({"type": _SETTINGS, "mode": mode, "model": message.get("model")})

    def _count_waiting(self) -> int:
        return len(self._waiting) + len(self._next_messages) + (0 if self._turn is None else len(self._turn))

    def _resume_reading(self) -> None:
        if self._is_paused and self._count_waiting() < _FEW_WAITING and self._connection is not None:
            self._is_paused = False
            self._connection.resume()

    # Between prompts

    async def _show_background(self) -> None:
        """Show what belongs to no prompt, until cancelled."""
        while True:
            while self._waiting:
                message = self._waiting.popleft()
                self._resume_reading()
                try:
                    await self._show(message)
                except Exception as error:  # the client is gone, or cannot be shown this
                    _log.debug("something between turns could not be shown", exc_info=error)
            self._arrived.clear()
            await self._arrived.wait()

    async def _catch_up(self) -> None:
        """Wait until everything that arrived for the background so far was shown."""
        shown: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put_background({"type": _SHOWN, "future": shown})
        await shown

    async def _show(self, message: dict[str, Any]) -> None:
        match message:
            case {"type": "dragoman/shown", "future": asyncio.Future() as shown}:
                if not shown.done():
                    shown.set_result(None)
                return
            case {"type": "dragoman/settings"}:
                await self._show_settings(message)
                return
            case {"type": "system", "subtype": "task_notification", "tool_use_id": str(call)}:
                ended = background_notice(message)
                if call in self._in_background and ended is not None:
                    await self._shown([ended])
                return
            case {"type": "control_request", "request": {"subtype": "can_use_tool"} as request}:
                await self._shown(self._events.announce(request))
                self._ask(message, _BetweenTurns(self.session))
                return
            case {"type": "control_request"}:
                self._ask(message, _BetweenTurns(self.session))
                return
            case {"type": "result", "is_error": True} if not str(message.get("terminal_reason")).startswith("aborted"):
                await self._shown([notice("Work between prompts failed", failure_of(message), "warning")])
                return
        ends = (c.Finish, c.ErrorChunk, c.Abort)
        await self._shown([chunk for chunk in self._events.feed(message) if not isinstance(chunk, ends)])

    async def _shown(self, chunks: Iterable[c.Chunk]) -> None:
        listed = list(chunks)
        if listed and not self._has_shown:
            self._has_shown = True
            await self.session.show(c.Start(f"claude_{uuid.uuid4().hex}"))
        if listed:
            await self.session.show(*listed)

    async def _show_settings(self, message: dict[str, Any]) -> None:
        """Show the mode and the model if the program changed them by itself."""
        mode = message["mode"]
        if mode != self.session.current(MODE):
            self.choices.mode = mode
            await self.session.offer(tuple(self.choices.settings()))
            await self.session.show(c.Data("mode", {"mode_id": mode}, transient=True))
        if self.choices.note_model(message["model"]) is not None:
            await self.session.offer(tuple(self.choices.settings()))


class _BetweenTurns:
    """The client, asked while no prompt runs. There are no forms then."""

    has_forms = False

    def __init__(self, session: AdapterSession) -> None:
        self._session = session

    async def ask(self, call: str, options: Sequence[AskOption] | None = None) -> AskAnswer:
        return await self._session.ask(call, options)

    async def form(self, message: str, schema: v1.ElicitationSchema) -> dict[str, Any] | None:
        return None


def _chunks(message: dict[str, Any], events: ClaudeEvents, turn: PromptedTurn) -> Iterable[c.Chunk]:
    """Return what a message of a prompt's turn shows."""
    match message:
        case {"type": "control_request", "request": {"subtype": "can_use_tool"} as request}:
            return events.announce(request)
        case {"type": "command_lifecycle", "state": "started", "command_uuid": str(command)}:
            text = turn.added.get(command)
            return () if text is None else [c.SteeringMessage(command, [{"type": "text", "text": text}])]
    return events.feed(message)


def _user_message(content: str | list[dict[str, Any]], message_uuid: str) -> dict[str, Any]:
    message = {"role": "user", "content": content}
    return {"type": "user", "message": message, "uuid": message_uuid, "parent_tool_use_id": None, "session_id": ""}


async def _emit(ctx: PromptContext, chunks: Iterable[c.Chunk]) -> None:
    for chunk in chunks:
        try:
            await ctx.emit(chunk)
        except Exception as error:  # the client is gone; the program is interrupted all the same
            _log.debug("a chunk could not be shown", exc_info=error)
