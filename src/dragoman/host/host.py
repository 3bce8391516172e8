"""The host: which sessions there are, which agents it can run, and who may see what.

Owns the sessions by their ids, the connections, and the tasks that run in them. It serves any transport; the wires that
lead to it belong to `transports/`. Read `session.py` for what happens in a session.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
import time
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from dragoman.errors import ConfigError, DragomanError, RequestError, StoreError
from dragoman.host.agent_descriptions import AgentDescriptions
from dragoman.host.clients.opening_keys import FACT, OpeningKeys
from dragoman.host.clients.session_list import SessionPlaces
from dragoman.host.connection import HostConnection
from dragoman.host.foreign_sessions import ForeignSessions
from dragoman.host.history.facts import CLOSED, session_key
from dragoman.host.history.keeping import KEPT_BYTES, KEPT_SECONDS, SlicedJoin
from dragoman.host.list_changes import ListChanges
from dragoman.host.logins import AgentLogins
from dragoman.host.services import HostServices
from dragoman.host.session import HostedSession
from dragoman.host.session_log import read_page
from dragoman.host.working.agent_end import end_members
from dragoman.host.working.push_subscriptions import PushSubscriptions
from dragoman.host.working.uploads import Uploads
from dragoman.runs.opening import SessionOpening
from dragoman.store.event_log import SessionRecord
from dragoman.transports import _close_codes as close_codes
from dragoman.wire import LIMIT_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from dragoman.host.agent_descriptions import AgentDescription
    from dragoman.host.agents import AgentSource
    from dragoman.host.quotas import Quotas
    from dragoman.host.serving.pairing import Pairing
    from dragoman.host.serving.turn_spans import TurnSpans
    from dragoman.host.serving.watched_requests import WatchedRequests
    from dragoman.registry.agents import AgentEntry
    from dragoman.rpc import Call, Transport
    from dragoman.runs.agent_run import GuardedRun
    from dragoman.store.event_log import EventLog, ListPlace, LogEvent, OwnedSession
    from dragoman.store.ledger import Ledger

T = TypeVar("T")
_log = logging.getLogger("dragoman.host")
_ALL: Final = frozenset(("view", "prompt", "answer", "admin"))
_SWEEP_SECONDS: Final = 30.0
_JOIN_SECONDS: Final = 600.0
_JOINED_TOGETHER: Final = 100


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
    token: str | None = None
    """The name of the token that it came with."""
    device: str | None = None
    """The id of the paired device that it is; None for a token and for clients on this machine."""


class HostSettings(msgspec.Struct, frozen=True):
    """How a host behaves."""

    default_agent: str | None = None
    agent_idle_seconds: float = 900.0
    """An agent without a client and a turn is ended after this, if it can come back."""
    sessions_per_principal: int = 256
    is_shared: bool = False
    """Several principals use this host, so that only administrators log in and out of agents."""
    enters_asking_mode: bool = False
    """Put a well-known agent into the mode in which it asks, in each new session; a client may choose another."""
    unstable: bool = False
    """Use the unstable parts of the protocol with agents."""
    forks: bool = False
    """Copy sessions for clients that use unstable methods, where the agent offers it: one unstable method, no other."""
    delegates: bool = False
    """Files and terminals of a session are those of the client that opens it, unless the client says otherwise."""
    initialize_seconds: float = 10.0
    away_seconds: float = 10.0
    """How long the client that serves a session may be away before the host decides without it."""
    cancel_seconds: float = 10.0
    """How long an agent may take to end a cancelled turn."""
    restart_seconds: float = 1.0
    """The pause after the first start of an agent that failed; it grows with each."""
    behind_bytes: int = LIMIT_BYTES + 16 * 1024 * 1024
    behind_seconds: float = 60.0
    """A client that is further behind is cut off; one message of any permitted size is not too far."""
    kept_seconds: float = KEPT_SECONDS
    kept_bytes: int = KEPT_BYTES
    """Events of a session are kept as they came for so long; older turns are joined."""


class Host:
    """A host of agents, which keeps their sessions alive also while no client is connected."""

    keeps_traffic = False
    """Whether the last lines to and from each agent are kept for its user."""
    is_outdated = False
    """Whether its files are of another version than what it has loaded."""
    is_retiring = False
    """Whether it begins no turn and no session any more: those are for the host after it."""
    on_kept: Callable[[HostedSession], None] | None = None
    """During a hand-over: called with each session whose prompts are kept in the log for the host after this one."""
    ends_because: str = ""
    """Why it takes no prompts and opens no sessions any more, for its clients; empty while it does."""
    quotas: Quotas | None = None
    """What its users may use; None where there is one user, who may use everything."""
    pairing: Pairing | None = None
    """How browsers become devices of it; None where no page is served."""
    request_watch: WatchedRequests | None = None
    """What follows the requests of clients to their answers."""
    spans: TurnSpans | None = None
    """The spans of turns, whose ids agents get with their prompts."""

    def __init__(
        self,
        log: EventLog,
        agents: Iterable[AgentSource],
        *,
        settings: HostSettings = HostSettings(),  # noqa: B008 - frozen
        services: HostServices | None = None,
        ledger: Ledger | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make a host; it starts nothing by itself.

        Args:
            log: Where sessions are kept.
            agents: The agents that it may run.
            settings: How it behaves.
            services: What it offers to agents.
            ledger: The ledger of sessions that `exec` writes; hosted sessions are entered there too.
            clock: The time, in seconds since 1970.
        """
        self.log = log
        self.settings = settings
        self.services = services or HostServices()
        self.ledger = ledger
        self.store_error: StoreError | None = None
        self.uploads = Uploads(log.folder, clock)
        self.push = PushSubscriptions(log.folder, clock)
        self._sources = {source.name: source for source in agents}
        self.descriptions = AgentDescriptions(log.folder)
        self.logins = AgentLogins(self)
        self._foreign = ForeignSessions(self)
        self.kept_sessions: set[str] = set()
        """Sessions of the host before this one that have prompts which it kept for this one."""
        self.inherited_servers: dict[str, list[Any]] = {}
        """The MCP servers of sessions of the host before this one, by session; their keys are nowhere else."""
        self.opening_keys = OpeningKeys(self)
        self.list_changes = ListChanges()
        self.places = SessionPlaces()
        self._sessions: dict[str, HostedSession] = {}
        self._restoring: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._entering: set[asyncio.Future[None]] = set()
        self._locks: dict[str, asyncio.Lock] = {}
        self._connections: set[HostConnection] = set()
        self._principals: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._clock = clock
        self._sweeper: asyncio.TimerHandle | None = None
        self._joined_at = monotonic()
        self._is_closing = False
        self._has_broken_log = False
        log.watch(self._log_failed)

    # Serving

    async def serve(self, transport: Transport, visitor: Visitor = Visitor()) -> None:  # noqa: B008 - frozen
        """Serve one client until it is gone; its sessions live on."""
        connection = HostConnection(self, transport, visitor)
        self._connections.add(connection)
        self._principals.add(visitor.principal)
        self._sweep_later()
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)

    @property
    def connections(self) -> list[HostConnection]:
        """The clients that are connected."""
        return list(self._connections)

    @property
    def is_idle(self) -> bool:
        """Whether no client is attached and nothing runs or waits."""
        return not self._connections and not any(session.is_busy for session in self._sessions.values())

    async def close(self, why: str = "The host ends.", kind: str | None = None) -> None:
        """Cancel turns, end agents, end connections.

        Args:
            why: For the clients.
            kind: For those that know the host.
        """
        self._is_closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.uploads.close()
        await self._close_sessions(why, kind)
        for connection in list(self._connections):
            await connection.end(why, close_codes.DRAINING)
        while waiting := [*self._tasks, *self._restoring.values(), *self._entering]:
            await asyncio.wait(waiting)
        await self._close_sessions(why, kind)  # those that were on their way into memory
        if self.quotas is not None:
            self.quotas.close()
        await self.settle()

    async def _close_sessions(self, why: str, kind: str | None) -> None:
        await asyncio.gather(*(session.close(why, kind) for session in list(self._sessions.values())))
        self._sessions.clear()

    async def settle(self) -> None:
        """Return when everything is in the log, or when the log cannot be written."""
        if not self._has_broken_log:
            await asyncio.gather(*(session.settle() for session in list(self._sessions.values())))

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

    def visitors(self) -> list[Visitor]:
        """Return who is connected, each connection by itself."""
        return [connection.visitor for connection in self._connections]

    def is_looked_at_by(self, user: str) -> bool:
        """Whether a page of this user is in sight, so that no notification is needed."""
        return any(connection.visitor.principal == user and connection.is_visible for connection in self._connections)

    def require_work(self, what: str) -> None:
        """Refuse what would begin something in a host that ends; `what` begins the sentence. Raises: RequestError."""
        if self.ends_because:
            raise RequestError(-32603, f"{what} now: {self.ends_because}", {"reason": "draining"})

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        return self._clock()

    def _log_failed(self, error: StoreError | None) -> None:
        """Take no new prompts while the log cannot be written; what can be read is still served."""
        was_broken, self._has_broken_log = self._has_broken_log, error is not None
        self.store_error = error
        if error is not None and not was_broken:
            _log.error("%s", error)
            for session in list(self._sessions.values()):
                session.prompts.store_failed(error)

    # Agents

    def source(self, name: str) -> AgentSource:
        """Return the agent with this name.

        Raises:
            ConfigError: it is not enabled.
        """
        found = self.find_source(name)
        if found is None:
            raise ConfigError(f"this host does not run {name!r}; it runs: {', '.join(self.agent_names()) or 'none'}")
        return found

    def agent_names(self) -> list[str]:
        """Return the agents that clients may choose from."""
        return sorted(self._sources)

    def agent_entries(self, cwd: str | None) -> list[tuple[str, AgentEntry | None]]:
        """Return the agents that clients may choose from, with what is known of their programs. Blocks.

        `cwd` is the folder of a new session, whose project may have agents of its own.
        """
        return [(name, getattr(source, "entry", None)) for name, source in sorted(self._sources.items())]

    def find_source(self, name: str) -> AgentSource | None:
        """Return an agent by its name; a host may know more of them than it lists."""
        return self._sources.get(name)

    def default_agent(self, cwd: str) -> str | None:
        """Return the agent for a session that names none."""
        if self.settings.default_agent is None and len(self._sources) == 1:
            return next(iter(self._sources))
        return self.settings.default_agent

    def named_agents(self) -> list[str]:
        """Return the agents that a client elsewhere may choose from."""
        return self.agent_names()

    def may_use(self, agent: str, visitor: Visitor) -> bool:
        """Whether a visitor may choose an agent that the host can run."""
        return True

    def require_agent(self, name: object, visitor: Visitor) -> str:
        """Return the name, if this host runs such an agent for the visitor. Raises: RequestError."""
        if not isinstance(name, str) or not self.may_use(name, visitor) or self.find_source(name) is None:
            data = {"agents": self.agent_names() if visitor.is_local else self.named_agents()}
            raise RequestError(-32602, "name an agent of this host in _meta.dragoman.agent", data)
        return name

    def known_agents(self) -> dict[str, AgentDescription | None]:
        """Return the agents, with what those answered that were ever started."""
        return {name: self.description_of(name) for name in self.agent_names()}

    def description_of(self, name: str) -> AgentDescription | None:
        """Return what an agent answered to `initialize`, if it was ever started."""
        source = self.find_source(name)
        return None if source is None else self.descriptions.find(source)

    async def describe_agents(
        self, bound: str | None, env: Mapping[str, str] | None = None
    ) -> dict[str, AgentDescription | None]:
        """Return the agents; the one that a connection is bound to is started once if it was never seen.

        `env` is that of the client, if it is known.
        """
        if bound is None:
            return self.known_agents()
        if self.description_of(bound) is None:
            await self.logins.describe(bound, env)
        return {**self.known_agents(), bound: self.description_of(bound)}

    def may_log_in(self, visitor: Visitor) -> bool:
        """Whether a visitor may log in. One login serves all: with several principals only administrators change it."""
        return "admin" in visitor.rights or not (self.settings.is_shared or len(self._principals) > 1)

    def running_agent(self, name: str, visitor: Visitor) -> GuardedRun | None:
        """Return an agent of this name that runs for one of the visitor's sessions."""
        for session in self._sessions.values():
            record = session.record
            if record.agent == name and record.principal == visitor.principal and session.agent.is_running:
                return session.agent.run
        return None

    def notify_sessions_of(self, agent: str, text: str) -> None:
        """Send a notice to every client with a session of this agent."""
        for session in self._sessions.values():
            if session.record.agent == agent:
                session.notice(text)

    # What a kind of host may add

    async def kept_facts(self, own: Mapping[str, Any], cwd: str) -> dict[str, Any]:
        """Return what of the `_meta.dragoman` of a local `session/new` is kept with the session."""
        return {}

    def opened(self, session: HostedSession) -> None:
        """Take note of a new session that is in the log."""

    def agent_meta(self, own: Mapping[str, Any], meta: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the `_meta` that the agent gets with `session/new`."""
        return meta

    def kept_seconds(self, session: HostedSession) -> int | None:
        """Return for how long after a prompt a session goes on that cannot come back; None for one that can."""
        return None

    def why_held(self) -> str:
        """Return why a host that retires holds a request, for its client."""
        return "the host is being replaced; connect again, and the next one does it"

    def ledger_for(self, session: HostedSession) -> Ledger | None:
        """Return the ledger that the next turn of a session is written into; None for none."""
        return self.ledger

    def extension(self, method: str) -> Callable[[HostConnection, Call], Coroutine[Any, Any, object]] | None:
        """Return the handler of a `_dragoman/` method that only this kind of host has, for clients on its machine."""
        return None

    # Sessions

    @asynccontextmanager
    async def opening(self, visitor: Visitor, *, agent: object, cwd: str) -> AsyncIterator[HostedSession]:
        """Make a session, which is opened in this block; meanwhile it counts as one of its user's.

        Raises:
            RequestError: the agent is not known, or the visitor has too many sessions.
        """
        # The one that is used if none is named is the choice of the host's user, whatever it is.
        is_named = isinstance(agent, str)
        name = self.require_agent(agent if is_named else self.default_agent(cwd), visitor if is_named else Visitor())
        user, now = visitor.principal, self._clock()
        record = SessionRecord(new_id(), user, name, None, cwd, b"{}", now, now, 0, 1)
        async with self.opening_keys.room.held(user, record.id):
            yield HostedSession(self, record)

    async def open_session(self, session: HostedSession, meta: Mapping[str, Any] | None) -> None:
        """Start the agent of a new session, and enter the session in the log. Raises: RequestError."""
        asks = self.settings.enters_asking_mode
        await self._open(session, SessionOpening(servers=session.servers, meta=meta or {}, enters_asking_mode=asks))

    async def fork_session(self, session: HostedSession, parent: HostedSession) -> None:
        """Open a session that continues another one; the agent must be able to open it in a process of its own."""
        original = await parent.agent.ensure()
        if not original.can_come_back:
            raise RequestError(-32603, "the agent cannot open a forked session", {"reason": "agent_lost"})
        with parent.agent.forking():
            try:
                forked = await original.agent.fork_session(
                    original.session.id, session.record.cwd, mcp_servers=session.servers
                )
                if original.can("sessionCapabilities.close"):  # this process has no use for it
                    await original.agent.close_session(forked.id)
            except DragomanError as error:
                refused = error if isinstance(error, RequestError) else RequestError(-32603, str(error))
                raise refused from None
        session.facts["parent"] = {"id": parent.id, "number": parent.head}
        session.facts["prompt"] = parent.facts.get("prompt")
        if "terms" in parent.facts:  # a copy has no more permission than its original
            session.facts["terms"] = parent.facts["terms"]
        await self._open(session, SessionOpening(session_id=forked.id, servers=session.servers), keeps_early=False)
        session.append("fork", session.facts["parent"], turn=0)
        title = parent.facts.get("title")
        if (
            title and "title" not in session.facts
        ):  # the agent has not named it: two sessions with one title cannot be distinguished
            session.facts["title"] = f"{title} (fork)"
            session.describe()
            session.append("update", {"sessionUpdate": "session_info_update", "title": session.facts["title"]}, turn=0)

    async def _open(self, session: HostedSession, opening: SessionOpening, *, keeps_early: bool = True) -> None:
        over = asyncio.get_running_loop().create_future()
        self._entering.add(over)
        try:
            await self._start_agent(session, opening)
            try:
                owned = await self._enter_in_log(session)
            except BaseException:  # also if the client goes away meanwhile: without a session nothing ends its agent
                await session.agent.end()
                raise
        finally:
            self._entering.discard(over)
            over.set_result(None)
        self._add(session, owned)
        session.append("agent", {"started": True}, turn=0)
        self.opened(session)
        session.agent.release_early(keeps=keeps_early)

    async def _start_agent(self, session: HostedSession, opening: SessionOpening) -> None:
        try:
            await session.agent.open(opening)
        except RequestError:
            raise
        except DragomanError as error:
            data = {"reason": "agent_start", **end_members(error, with_code=False)}
            raise RequestError(-32603, f"{session.record.agent} could not be started: {error}", data) from None

    async def _enter_in_log(self, session: HostedSession) -> OwnedSession:
        session.facts["servers"] = [server.name for server in session.servers if hasattr(server, "name")]
        session.facts["directories"] = list(session.directories)
        key = session.facts.get(FACT)
        try:
            record = session.described(session.record)
            return await self.log.create(record, None if key is None else session_key(FACT, key))
        except StoreError as error:
            raise RequestError(-32603, f"no session is opened now: {error}", {"reason": "store"}) from None
        except asyncio.CancelledError:
            _ = self.run(self.log.delete(session.id))  # it may be written behind this moment: no client has its id
            raise

    async def foreign_sessions(self, agent: str, visitor: Visitor) -> list[SessionRecord]:
        """Return sessions that only an agent knows, if it runs and the visitor may see them."""
        return await self._foreign.list(agent, visitor) if self.may_log_in(visitor) else []

    def live_sessions(self) -> list[HostedSession]:
        """Return the sessions that are in memory."""
        return list(self._sessions.values())

    def live(self, id: str) -> HostedSession | None:
        return self._sessions.get(id)

    def find_live(self, id: str, visitor: Visitor) -> HostedSession | None:
        """Return a session in memory; None if it is not there, was closed, or belongs to another principal."""
        session = self._sessions.get(id)
        is_seen = session is not None and session.record.principal == visitor.principal and not session.is_closed
        return session if is_seen else None

    async def find(self, id: str, visitor: Visitor) -> HostedSession | None:
        """Return a session by its id; None if it does not exist, was closed, or belongs to another principal.

        Raises:
            RequestError: the log cannot be read.
        """
        if id not in self._sessions:
            # Shielded: others may wait for the same session.
            await asyncio.shield(self.restore(id, visitor))
        return self.find_live(id, visitor)

    def is_restoring(self, id: str, visitor: Visitor) -> bool:
        """Whether a session is on its way into memory."""
        return (id, visitor.principal) in self._restoring

    def restore(self, id: str, visitor: Visitor) -> asyncio.Task[None]:
        """Read a session into memory, if there is such a one. Two that ask at the same time wait for one task.

        Those who wait go on in the order in which they came, each with its next step before any further message is
        read: so a cancel behind a prompt finds the prompt.
        """
        place = (id, visitor.principal)
        task = self._restoring.get(place)
        if task is None:
            task = self._restoring[place] = asyncio.get_running_loop().create_task(self._restore(id, visitor))
            task.add_done_callback(lambda done: self._restored(place, done))
        return task

    def _restored(self, place: tuple[str, str], task: asyncio.Task[None]) -> None:
        del self._restoring[place]
        if not task.cancelled() and task.exception() is not None:
            _log.warning("a session could not be read: %s", task.exception())

    async def _restore(self, id: str, visitor: Visitor) -> None:
        try:
            async with self._alone(id):
                if id in self._sessions:
                    return
                record = await self.log.find(id, visitor.principal)
                owned = await (self._foreign.adopt(id, visitor) if record is None else self.log.take(id))
                if owned is not None:
                    session = HostedSession(self, owned.record)
                    await session.restore()
                    session.servers = self.inherited_servers.pop(id, session.servers)
                    self._add(session, owned)
                    self.kept_sessions.discard(id)
                    session.prompts.go_on()
        except StoreError as error:
            raise RequestError(-32603, f"the session cannot be read now: {error}", {"reason": "store"}) from None

    def _add(self, session: HostedSession, owned: OwnedSession) -> None:
        session.log.own(owned)
        self._sessions[session.id] = session
        self.list_changes.note(session)
        owned.lost.add_done_callback(lambda lost: self._lost(session, str(lost.result())))

    def _lost(self, session: HostedSession, why: str) -> None:
        if self._sessions.get(session.id) is session and not session.is_ending:
            del self._sessions[session.id]
            _log.error("%s", why)
            _ = self.run(session.abandon(f"{why}; connect again"))

    @asynccontextmanager
    async def _alone(self, id: str) -> AsyncIterator[None]:
        """Be the only one that becomes the owner of a session, or gives it up."""
        lock = self._locks.setdefault(id, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked() and self._locks.get(id) is lock:
                del self._locks[id]

    def alone_in(self, folder: str) -> AbstractAsyncContextManager[None]:
        """Be the only one that looks at the changes of a folder, or takes some back."""
        return self._alone(f"changes in {folder}")

    async def read(self, session: str, after: int, limit: int, *, head: int = 0) -> list[LogEvent]:
        """Return a page of the events of a session, in memory or not."""
        return await read_page(self.log, session, after, limit, head=head)

    async def ancestry(self, session: HostedSession) -> list[tuple[str, int | None]]:
        """Return the logs that make up the history of a session: ids, and up to which number; None for all of it."""
        found: list[tuple[str, int | None]] = [(session.id, None)]
        facts, seen = session.facts, {session.id}
        while isinstance(parent := facts.get("parent"), dict) and parent["id"] not in seen:
            record = await self.log.find(parent["id"], session.record.principal)
            if record is None:
                break
            seen.add(record.id)
            found.insert(0, (record.id, parent["number"]))
            facts = msgspec.json.decode(record.facts)
        return found

    async def close_session(self, session: HostedSession, why: str) -> None:
        """End a session's turn and its agent; its history stays."""
        session.facts[CLOSED] = True
        session.describe()
        await session.close(why)  # which gives it up, before it can be found in the log again
        self._sessions.pop(session.id, None)
        self.list_changes.note(session)

    async def delete(self, session: HostedSession) -> None:
        """Remove a session, and the agent's copy of it if the agent can."""
        run, name, id = session.agent.run, session.record.agent, session.agent_session
        if id is not None and session.agent_can("sessionCapabilities.delete") and self.description_of(name) is not None:
            try:
                if run is not None:
                    await run.agent.delete_session(id)
                else:
                    async with self.logins.short_agent(name, None, session.env, session.record.principal) as started:
                        await started.delete_session(id)
            except DragomanError as error:
                _log.warning("the agent did not delete its copy of a session: %s", error)
        await self.close_session(session, "The session was deleted.")
        await self.log.delete(session.id)
        self.list_changes.note(session)
        await self.uploads.forget_session(session.id)
        if self.quotas is not None:
            await self.quotas.measure(session.record.principal)

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
            if session.agent.is_running and self.can_be_ended(session) and is_unused:
                _ = self.run(session.agent.end())
        if monotonic() - self._joined_at > _JOIN_SECONDS:
            self._joined_at = monotonic()
            _ = self.run(self.join_old_events())
        if self._sessions:
            self._sweep_later()

    def can_be_ended(self, session: HostedSession) -> bool:
        """Whether its agent may be ended while it is idle: the next prompt starts it again."""
        return session.agent.can_come_back and self.kept_seconds(session) is None

    async def join_old_events(self) -> None:
        """Join the events of old turns, in every session that is not in use; other work goes on meanwhile."""
        before = self._clock() - self.settings.kept_seconds
        place: ListPlace | None = None
        while not self._is_closing:
            page = await self.log.page(None, before=place, limit=_JOINED_TOGETHER)
            for record in page.records:
                await self.settle()
                if not self._is_in_use(record.id):
                    size = self.settings.kept_bytes
                    try:
                        surplus = await self.log.surplus(record.id, before=before, size_bytes=size)
                        await self._join(record, surplus)
                    except StoreError as error:  # of this session: the others are joined all the same
                        _log.warning("old turns of the session %s are not joined: %s", record.id, error)
            place = page.next
            if place is None:
                return

    async def _join(self, record: SessionRecord, surplus: int) -> None:
        joining = SlicedJoin(self.log, record.id, record.oldest - 1, surplus)
        while not self._is_closing:
            found = await joining.next()
            if found is None:
                return
            through, events = found
            async with self._alone(record.id):
                live = self._sessions.get(record.id)
                if self._is_in_use(record.id):
                    return
                if live is not None:
                    await live.log.replace(through, events)
                else:
                    owned = await self.log.take(record.id)
                    await owned.replace(through, events)
                    await owned.release()

    def _is_in_use(self, id: str) -> bool:
        """Whether a turn runs in a session, or a client has still to get events of it."""
        live = self._sessions.get(id)
        return live is not None and (live.is_busy or any(client.cursor < live.head for client in live.attachments))


def new_id() -> str:
    """Make an id of 128 random bits, safe as a file name and in a header."""
    return base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()
