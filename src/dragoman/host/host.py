"""The host: which sessions there are, which agents it can run, and who may see what.

Owns the sessions by their ids and the tasks that run in them. It serves any transport; the wires
that lead to it belong to `transports/`.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
import time
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from dragoman.errors import ConfigError, DragomanError, RequestError
from dragoman.host.connection import HostConnection
from dragoman.host.services import HostServices
from dragoman.host.session import HostedSession
from dragoman.store.event_log import SessionRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from dragoman.errors import StoreError
    from dragoman.host.agents import AgentSource
    from dragoman.rpc import Call, Transport
    from dragoman.schema import v1
    from dragoman.store.event_log import EventLog

T = TypeVar("T")
_log = logging.getLogger("dragoman.host")
_ALL: Final = frozenset(("view", "prompt", "answer", "admin"))
_SWEEP_SECONDS: Final = 30.0


class Visitor(msgspec.Struct, frozen=True):
    """Who is at the other end of a connection, and what it may do."""

    principal: str = "local"
    rights: frozenset[str] = _ALL
    folders: tuple[str, ...] | None = None
    """Where its sessions may work; None: everywhere."""
    agent: str | None = None
    """The agent that the address named."""
    is_local: bool = True
    may_start_programs: bool = True
    """Whether MCP servers that it sends may be programs."""


class HostSettings(msgspec.Struct, frozen=True):
    """How a host behaves."""

    default_agent: str | None = None
    agent_idle_seconds: float = 900.0
    """An agent without a client and a turn is ended after this, if it can come back."""
    sessions_per_principal: int = 256


class Host:
    """Runs agents and keeps their sessions alive, also while no client is connected."""

    def __init__(
        self,
        log: EventLog,
        agents: Iterable[AgentSource],
        *,
        settings: HostSettings = HostSettings(),  # noqa: B008 - frozen
        services: HostServices | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.log = log
        self.settings = settings
        self.services = services or HostServices()
        self.store_error: StoreError | None = None
        self._agents = {source.name: source for source in agents}
        self._sessions: dict[str, HostedSession] = {}
        self._connections: set[HostConnection] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._clock = clock
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_closing = False

    # Serving

    async def serve(self, transport: Transport, visitor: Visitor = Visitor()) -> None:  # noqa: B008 - frozen
        """Serve one client until it is gone; its sessions live on."""
        connection = HostConnection(self, transport, visitor)
        self._connections.add(connection)
        self._sweep_later()
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)

    @property
    def is_idle(self) -> bool:
        """Whether no client is attached and nothing runs or waits."""
        return not self._connections and not any(session.is_busy for session in self._sessions.values())

    async def close(self, why: str = "The host ends.") -> None:
        """Cancel turns, end agents, end connections."""
        self._is_closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for session in list(self._sessions.values()):
            await session.close(why)
        self._sessions.clear()
        for connection in list(self._connections):
            await connection.peer.close(why)
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.log.settle()

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run work that outlives the connection it came from; a failure is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ran)
        return task

    def _ran(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("work of a session failed", exc_info=task.exception())

    # Agents

    def agent_names(self) -> list[str]:
        return sorted(self._agents)

    def source(self, name: str) -> AgentSource:
        """The agent with this name.

        Raises:
            ConfigError: it is not enabled.
        """
        found = self.find_source(name)
        if found is not None:
            return found
        if name not in self._agents:
            raise ConfigError(f"this host does not run {name!r}; it runs: {', '.join(self.agent_names()) or 'none'}")
        return self._agents[name]

    def find_source(self, name: str) -> AgentSource | None:
        """An agent that is not in the list from the start; a host may know more than it lists."""
        return None

    def default_agent(self, cwd: str) -> str | None:
        """The agent for a session that names none."""
        return self.settings.default_agent

    def kept_facts(self, own: Mapping[str, Any], cwd: str) -> dict[str, Any]:
        """What of the `_meta.dragoman` of a local `session/new` is kept with the session."""
        return {}

    def opened(self, session: HostedSession) -> None:
        """Called when a new session is in the log."""

    def agent_meta(self, own: Mapping[str, Any], meta: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The `_meta` that the agent gets with `session/new`."""
        return meta

    def extension(self, method: str) -> Callable[[HostConnection, Call], Coroutine[Any, Any, object]] | None:
        """The handler of a `_dragoman/` method that only some hosts have."""
        return None

    def prompt_capabilities(self, agent: str | None) -> dict[str, bool]:
        """What a prompt may hold; the agent itself refuses what it does not take."""
        return {"image": True, "audio": True, "embeddedContext": True}

    # Sessions

    async def open_session(
        self,
        visitor: Visitor,
        *,
        agent: object,
        cwd: str,
        servers: Sequence[v1.McpServer],
        directories: Sequence[str],
        env: object,
        meta: Mapping[str, Any] | None,
        own: Mapping[str, Any] | None = None,
    ) -> HostedSession:
        """A new session.

        Raises:
            RequestError: the agent is not known, or could not be started.
        """
        name = agent if isinstance(agent, str) else self.default_agent(cwd)
        if name is None and len(self._agents) == 1:
            name = next(iter(self._agents))
        if name is None or (name not in self._agents and self.find_source(name) is None):
            data = {"agents": self.agent_names()}
            raise RequestError(-32602, "name an agent of this host in _meta.dragoman.agent", data)
        if len(self.records(visitor)) >= self.settings.sessions_per_principal:
            raise RequestError(-32603, "there are too many sessions; delete some", {"reason": "limit"})
        now = self._clock()
        record = SessionRecord(_new_id(), visitor.principal, name, None, cwd, b"{}", now, now, 0, 1)
        session = HostedSession(self, record)
        session.servers, session.directories = servers, directories
        session.env = env if isinstance(env, dict) else None
        session.facts.update(self.kept_facts(own or {}, cwd))
        try:
            await session.open(self.agent_meta(own or {}, meta))
        except RequestError:
            raise
        except DragomanError as error:
            raise RequestError(-32603, f"{name} could not be started: {error}", {"reason": "agent_start"}) from None
        self.log.create(record)
        session.keep_facts()
        self._sessions[session.id] = session
        session.append("agent", {"started": True}, turn=0)
        self.opened(session)
        session.release_early()
        return session

    def records(self, visitor: Visitor) -> list[SessionRecord]:
        """The sessions a visitor may see, the one that changed last first."""
        return self.log.sessions(principal=visitor.principal)

    def live_sessions(self) -> list[HostedSession]:
        """The sessions that are in memory."""
        return list(self._sessions.values())

    def live(self, id: str) -> HostedSession | None:
        return self._sessions.get(id)

    def find(self, id: str, visitor: Visitor) -> HostedSession | None:
        """A session by its id; None if it does not exist, was closed, or belongs to another principal."""
        session = self._sessions.get(id)
        if session is None:
            record = self.log.find(id)
            if record is None or record.principal != visitor.principal:
                return None
            session = HostedSession(self, record)
            session.restore()
            self._sessions[id] = session
        return session if session.record.principal == visitor.principal and not session.is_closed else None

    async def close_session(self, session: HostedSession, why: str) -> None:
        """End a session's turn and its agent; its history stays."""
        await session.close(why)
        self._sessions.pop(session.id, None)

    async def delete(self, session: HostedSession) -> None:
        await self.close_session(session, "The session was deleted.")
        self.log.delete(session.id)

    # Time

    def _sweep_later(self) -> None:
        if self._sweeper is None and not self._is_closing:
            seconds = min(_SWEEP_SECONDS, self.settings.agent_idle_seconds)
            self._sweeper = asyncio.get_running_loop().call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        oldest = monotonic() - self.settings.agent_idle_seconds
        for session in self._sessions.values():
            is_unused = not session.attachments and not session.is_busy and session.last_used < oldest
            if session.has_agent and session.can_come_back and is_unused:
                _ = self.run(session.end_agent())
        if self._sessions:
            self._sweep_later()


def _new_id() -> str:
    """128 random bits, safe as a file name and in a header."""
    return base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()
