"""An ACP agent that does tasks for another program: each task is a turn, and its result a short report.

Theory of operation
-------------------
A task agent is *kept* inside `async with`: it connects at the first task, further tasks share the connection, and the
end of the block ends the agent with everything it started. Without the block each task has a connection of its own,
which ends with the task. A connection that the program opened itself (a `RemoteAgent`) is never closed here.

A session that is named is continued where it is open; in another process it is resumed or loaded, if the agent can. One
session does one task at a time; tasks of different sessions run side by side. A task that is cancelled cancels its turn
and waits, for a limited time, for the agent to end it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from dragoman.client import RemoteAgent, connect
from dragoman.errors import ConfigError, DragomanError, LocalProtocolError
from dragoman.rpc.binding import bind
from dragoman.schema import v1
from dragoman.schema.gates import is_advertised
from dragoman.scripting.named import spawn
from dragoman.scripting.policies import deny_all
from dragoman.state.tools import FINISHED
from dragoman.text.terminal import plain, sentence

if TYPE_CHECKING:
    from types import TracebackType

    from dragoman.client import PromptTurn, Session
    from dragoman.state import SessionState

AgentName = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | RemoteAgent
MAX_CHARACTERS: Final = 20_000
_URLS: Final = ("ws://", "wss://", "http://", "https://", "unix:")
_CHANGING: Final = frozenset(("edit", "delete", "move"))
_ALLOWING: Final = frozenset(("allow_once", "allow_always"))
_SESSION: Final[dict[str, Callable[[Any, Any], Any]]] = {"session": lambda _, session: session}


class TaskProgress(NamedTuple):
    """What an agent is doing right now."""

    message: str
    """The title of the tool call that runs, or the step of the plan."""
    steps: int
    """How many times something was reported; it only grows."""


Report = Callable[[TaskProgress], Awaitable[None]]


class TaskResult(Struct, frozen=True):
    """The result of a task."""

    text: str
    """The agent's last message, cut to the limit."""
    session_id: str
    """With which a further task continues the conversation."""
    stop_reason: str
    files: tuple[str, ...] = ()
    """Files that the agent reported to have changed."""
    refused: tuple[str, ...] = ()
    """What it asked for and was not permitted."""
    used_tokens: int | None = None
    """How full the agent's context window is."""

    def __str__(self) -> str:
        """Return the text, with what a reader has to know about how it came to be."""
        notes = []
        if self.files:
            notes.append(f"[Files changed: {', '.join(self.files)}]")
        if self.refused:
            notes.append(f"[Not permitted: {'; '.join(self.refused)}]")
        if self.stop_reason != "end_turn":
            notes.append(f"[The agent did not finish: {self.stop_reason}]")
        return "\n\n".join([self.text or "[The agent gave no answer.]", *notes])


class TaskAgent:
    """An agent that does tasks.

    Args:
        agent: its name, its command, its URL, or a connection to it.
        cwd: the folder it works in.
        token: for a URL: the bearer token.
        max_characters: how long the text of a result may be.
        options: services of the connection; see `dragoman.client.ClientOptions`. Without a permission service
            everything that the agent asks for is refused.

    Raises:
        ConfigError: services were given for a connection that is open already.
    """

    def __init__(
        self,
        agent: AgentName,
        *,
        cwd: str | os.PathLike[str] = ".",
        token: str | None = None,
        max_characters: int = MAX_CHARACTERS,
        **options: Any,
    ) -> None:
        if isinstance(agent, RemoteAgent) and options:
            raise ConfigError(f"{', '.join(options)}: give services to the connection when you open it, not here")
        self._agent = agent
        self._cwd = os.path.abspath(os.path.expanduser(cwd))
        self._token = token
        self._max_characters = max_characters
        service = options.pop("permission", None) or deny_all
        self._permit = bind("session/request_permission", service, _SESSION, _members)
        self._options: Any = options
        self._refused: dict[str, list[str]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._sessions: dict[str, Session] = {}
        self._stack: AsyncExitStack | None = None
        self._remote: RemoteAgent | None = None
        self._connecting: asyncio.Lock | None = None

    @property
    def name(self) -> str:
        """What to call the agent, in words."""
        if isinstance(self._agent, RemoteAgent):
            return self._agent.info.name if self._agent.info is not None else "agent"
        if isinstance(self._agent, str | os.PathLike):
            text = os.fspath(self._agent)
            return text.rstrip("/").rsplit("/", 1)[-1] if text.startswith(_URLS) else os.path.basename(text)
        words = [os.path.basename(os.fspath(word)) for word in self._agent]
        scripts = [word for word in words if word.endswith((".py", ".js", ".mjs"))]
        return (scripts or words)[0].rpartition(".")[0] or words[0]

    @property
    def is_kept(self) -> bool:
        """Whether sessions stay open between tasks."""
        return self._connecting is not None or isinstance(self._agent, RemoteAgent)

    async def __aenter__(self) -> TaskAgent:
        if self._connecting is not None:
            raise LocalProtocolError("this agent is kept by another async with block already")
        self._connecting = asyncio.Lock()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connecting = None
        await self._disconnect()

    async def run(
        self,
        task: str | v1.ContentBlock | Sequence[str | v1.ContentBlock],
        *,
        session_id: str | None = None,
        on_progress: Report | None = None,
        on_session: Callable[[Session], None] | None = None,
        timeout: float | None = None,
    ) -> TaskResult:
        """Do a task: one turn of the agent.

        Args:
            task: what to do.
            session_id: the session to continue; None begins a new one.
            on_progress: called when the agent begins something else.
            on_session: called with the session before the task is sent.
            timeout: how many seconds the task may take; None sets no limit.

        Raises:
            ConfigError: there is no such agent, or it cannot be started.
            DragomanError: the agent failed, or does not know the session.
            TimeoutError: the time is over; the turn was cancelled.
        """
        async with asyncio.timeout(timeout), AsyncExitStack() as stack:
            if session_id is not None:
                await stack.enter_async_context(self._locks.setdefault(session_id, asyncio.Lock()))
            remote = await self._connected(stack)
            session = await self._open(remote, session_id)
            if session_id is None:
                await stack.enter_async_context(self._locks.setdefault(session.id, asyncio.Lock()))
            if on_session is not None:
                on_session(session)
            refused = self._refused[session.id] = []
            try:
                async with session.prompt(task) as turn:
                    await self._follow(turn, session, on_progress)
                    return self._result(session, turn.result, refused)
            finally:
                self._refused.pop(session.id, None)
                if not self.is_kept:
                    self._locks.pop(session.id, None)

    # Connections and sessions

    async def _connected(self, stack: AsyncExitStack) -> RemoteAgent:
        if isinstance(self._agent, RemoteAgent):
            return self._agent
        if self._connecting is None:
            return await self._connect(stack)
        async with self._connecting:
            if self._remote is None or not self._remote.is_open:
                await self._disconnect()
                self._stack = AsyncExitStack()
                self._remote = await self._connect(self._stack)
            return self._remote

    async def _connect(self, stack: AsyncExitStack) -> RemoteAgent:
        agent: Any = self._agent
        options = {**self._options, "permission": self._permission}
        if isinstance(agent, str) and agent.startswith(_URLS):
            return await stack.enter_async_context(connect(agent, token=self._token, **options))
        words = [agent] if isinstance(agent, str | os.PathLike) else list(agent)
        return await stack.enter_async_context(spawn(*words, cwd=self._cwd, **options))

    async def _disconnect(self) -> None:
        stack, self._stack, self._remote = self._stack, None, None
        self._sessions.clear()
        if stack is not None:
            await stack.aclose()

    async def _open(self, remote: RemoteAgent, session_id: str | None) -> Session:
        if session_id is None:
            session = await remote.new_session(self._cwd)
        else:
            known = self._sessions.get(session_id)
            if known is not None and not known.is_closed:
                return known
            session = await self._come_back(remote, session_id)
        if self.is_kept:
            self._sessions[session.id] = session
        return session

    async def _come_back(self, remote: RemoteAgent, session_id: str) -> Session:
        if is_advertised(remote.capabilities, "sessionCapabilities.resume"):
            return await remote.resume_session(session_id, self._cwd)
        if is_advertised(remote.capabilities, "loadSession"):
            return await remote.load_session(session_id, self._cwd)
        raise DragomanError(
            f"{self.name} cannot open a session again in another process; keep it open: async with the tool"
        )

    # Turns

    async def _permission(self, request: v1.RequestPermissionRequest, session: Session) -> Any:
        answer = await self._permit(request, session)
        chosen = answer if isinstance(answer, str) else getattr(answer, "option_id", None)
        kinds = [option.kind for option in request.options if option.option_id == chosen]
        if not any(kind in _ALLOWING for kind in kinds):
            call = session.state.tool_calls.get(request.tool_call.tool_call_id)
            title = request.tool_call.title or (call.title if call is not None else "")
            self._refused.get(session.id, []).append(sentence(title or "a tool call"))
        return answer

    async def _follow(self, turn: PromptTurn, session: Session, on_progress: Report | None) -> None:
        steps, last = 0, ""
        async for update in turn:
            message = _doing(update, session.state)
            if on_progress is not None and message and message != last:
                steps, last = steps + 1, message
                await on_progress(TaskProgress(message, steps))

    def _result(self, session: Session, response: v1.PromptResponse, refused: list[str]) -> TaskResult:
        state, usage = session.state, session.state.usage
        messages = [
            message.text
            for message in state.messages
            if message.role == "agent" and message.turn == state.turns[-1].index
        ]
        written = [text for text in messages if text.strip()]
        return TaskResult(
            bounded(plain(written[-1] if written else "").strip(), self._max_characters),
            session.id,
            response.stop_reason,
            _changed_files(state, session.cwd),
            tuple(dict.fromkeys(refused)),
            None if usage is None else usage.used,
        )


def bounded(text: str, most: int) -> str:
    """Return the text with its middle left out if it is longer: the beginning and the end matter most."""
    if len(text) <= most:
        return text
    mark = f"\n[... {len(text) - most} characters or more left out ...]\n"
    room = max(most - len(mark), 0)
    return (text[: room - room // 3] + mark + text[len(text) - room // 3 :])[:most]


def _doing(update: v1.SessionUpdate, state: SessionState) -> str:
    """Return what an update says that the agent does now.

    The state may be further than the update, so it only names calls.
    """
    if isinstance(update, v1.ToolCall | v1.ToolCallUpdate) and update.status not in FINISHED:
        call = state.tool_calls.get(update.tool_call_id)
        return sentence(update.title or ("" if call is None else call.title))
    if isinstance(update, v1.Plan):
        return next((sentence(entry.content) for entry in update.entries if entry.status == "in_progress"), "")
    return ""


def _changed_files(state: SessionState, cwd: str) -> tuple[str, ...]:
    turn = state.turns[-1].index
    found: dict[str, None] = {}
    for call in state.tool_calls.values():
        if call.turn != turn or call.status != "completed":
            continue
        diffs = [item.path for item in call.content if isinstance(item, v1.Diff)]
        places = [location.path for location in call.locations] if call.kind in _CHANGING else []
        for path in diffs or places:
            inside = os.path.relpath(os.path.join(cwd, path), cwd)
            found[sentence(path if inside.startswith("..") else inside)] = None
    return tuple(found)


def _members() -> Sequence[str]:
    return v1.RequestPermissionRequest.__struct_fields__
