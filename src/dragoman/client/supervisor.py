"""An agent's supervisor, which restarts it when it ends, opens its sessions again, and stops after too many losses.

Owns when a restart happens and what is reported about it; starting an agent belongs to `connect.py`. A prompt is never
sent again automatically, because it is not known what the lost agent had already done. A restart does not wait for the
old process: its tree is ended next to the new one, within a limited time.

One task per run of the agent (`_Life`) holds the connection open and ends the process; one more task (`_keep`) waits
for the end of the current run and starts the next. `agent()` waits until that task has decided: up, or stopped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal, Protocol

from msgspec import Struct

from dragoman.client.connect import open_connection, spawn_transport
from dragoman.client.remote import Loading, RemoteAgent
from dragoman.errors import AuthRequired, ConfigError, ConnectionClosed, CrashLoop, DragomanError, ProtocolError
from dragoman.schema import UNSET, v1
from dragoman.schema.gates import is_advertised

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from typing import Unpack

    from dragoman.client.connect import ClientOptions
    from dragoman.client.connection import ClientConnection
    from dragoman.client.session import Session
    from dragoman.client.session_link import SessionLink
    from dragoman.process import Spare

_log = logging.getLogger("dragoman.client")

# Replaying a long history takes time; an agent that does not answer at all must not delay the other sessions.
REOPEN_SECONDS: Final = 60.0


class RestartPolicy(Struct, frozen=True, kw_only=True):
    """When a lost agent is started again. The defaults are those of editors and their language servers."""

    # The wait before a restart: doubled with each loss, the first again once an agent has lived for `within_seconds`.
    first_seconds: float = 1.0
    most_seconds: float = 30.0
    # This many losses within this time are a crash loop: the agent stays down until `restart()`.
    losses: int = 5
    within_seconds: float = 180.0


class Restarts:
    """The losses of an agent so far, and the wait before its next start. Pure: the caller passes the time."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._lost_at: list[float] = []
        self._next_seconds = policy.first_seconds

    def lost(self, now: float, lived_seconds: float) -> float | None:
        """Note a loss; return how long to wait before the next start, None to give up."""
        policy = self._policy
        self._lost_at = [at for at in self._lost_at if now - at < policy.within_seconds]
        self._lost_at.append(now)
        if len(self._lost_at) >= policy.losses:
            return None
        if lived_seconds >= policy.within_seconds:
            self._next_seconds = policy.first_seconds
        seconds = self._next_seconds
        self._next_seconds = min(2 * seconds, policy.most_seconds)
        return seconds


class Clock(Protocol):
    """The time, as a supervisor uses it."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class _RealClock:
    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RestartNote(Struct, frozen=True):
    """A message for the user: the agent was lost, restarted or stopped; a session was reopened or was not."""

    kind: Literal["lost", "restarted", "reopened", "not_reopened", "stopped"]
    text: str
    session: Session | None = None
    error: Exception | None = None


@asynccontextmanager
async def supervise(
    *command: str | os.PathLike[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    spare: Spare = (),
    on_stderr: Callable[[bytes], None] | None = None,
    policy: RestartPolicy | None = None,
    clock: Clock | None = None,
    on_note: Callable[[RestartNote], None] | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncIterator[Supervised]:
    """Start an agent as `spawn` does, and start it again whenever it ends by itself.

    Sessions that were open are opened again, by resume if the agent advertises it, otherwise by load: the same
    `Session` objects continue with the state they had, and a replayed history is not delivered twice. Their running
    turns have failed and stay failed.

    Args:
        command, cwd, env, spare, on_stderr, options: as for `spawn`.
        policy: when and how often the agent is started again.
        clock: the time; another one is for tests.
        on_note: called with every step, to show it to the user.

    Raises: what `spawn` raises, for the first start; an agent that never ran is not started again.
    """

    @asynccontextmanager
    async def start() -> AsyncIterator[ClientConnection]:
        transport = await spawn_transport(command, cwd=cwd, env=env, spare=spare, on_stderr=on_stderr)
        async with open_connection(transport, options) as connection:
            yield connection

    supervised = Supervised(start, policy or RestartPolicy(), clock or _RealClock(), on_note)
    try:
        await supervised.restart()
        yield supervised
    finally:
        await supervised.close()


class Supervised:
    """An agent that is started again when it ends."""

    def __init__(
        self,
        start: Callable[[], AbstractAsyncContextManager[ClientConnection]],
        policy: RestartPolicy,
        clock: Clock,
        on_note: Callable[[RestartNote], None] | None,
    ) -> None:
        self._start = start
        self._policy = policy
        self._clock = clock
        self._on_note = on_note
        self._restarts = Restarts(policy)
        self._started_at = clock.now()
        self._life: _Life | None = None
        self._lives: set[_Life] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._lost: dict[str, SessionLink] = {}
        self._is_up = False
        self._stopped_by: ConnectionClosed | None = None
        self._decided = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Whether the agent runs and its sessions are open."""
        return self._is_up

    async def agent(self) -> RemoteAgent:
        """Return the running agent, with its sessions open; wait while it is being started again.

        Raises: CrashLoop after too many losses; ConnectionClosed if this program closed it.
        """
        while True:
            await self._decided.wait()
            agent = None if self._life is None else self._life.agent
            if self._is_up and agent is not None and agent.is_open:
                return agent
            if self._stopped_by is not None:
                raise self._stopped_by
            await asyncio.sleep(0)  # it has just ended; let the keeper task run

    async def restart(self) -> RemoteAgent:
        """Start the agent at once, after a login or a crash loop; a running one is ended first.

        Raises: what `spawn` raises. The agent is then not started again.
        """
        await self._dismiss_keeper()
        self._restarts = Restarts(self._policy)
        self._is_up = False
        self._decided.clear()
        if self._life is not None:
            self._life.end()
            self._take_sessions(await asyncio.shield(self._life.lost))
        self._stopped_by = None
        try:
            agent = await self._bring_up()
        except DragomanError as error:
            self._stopped_by = ConnectionClosed(f"the agent did not start: {error}")
            self._decided.set()
            raise
        self._keeper = asyncio.create_task(self._keep(), name="dragoman-supervisor")
        return agent

    async def _keep(self) -> None:
        try:
            await self._keep_alive()
        except Exception as error:
            _log.exception("the supervisor failed")
            self._stop(CrashLoop(f"the agent is not started again: {error!r}", error))

    async def _keep_alive(self) -> None:
        while self._life is not None:
            loss = await asyncio.shield(self._life.lost)
            self._take_sessions(loss)
            self._is_up = False
            self._decided.clear()
            if loss.is_ours:
                self._stop(loss.reason)
                return
            if not await self._recover(loss.reason):
                return

    async def _recover(self, error: DragomanError) -> bool:
        """Start the agent until a start succeeds; False if it stays down."""
        while True:
            now = self._clock.now()
            seconds = self._restarts.lost(now, now - self._started_at)
            if seconds is None:
                times = f"{self._policy.losses} times within {self._policy.within_seconds:g} seconds"
                self._stop(
                    CrashLoop(f"the agent was lost {times} and is not started again; the last time: {error}", error)
                )
                return False
            self._note("lost", f"{error}; it is started again in {seconds:g} s", error=error)
            await self._clock.sleep(seconds)
            try:
                await self._bring_up()
            except (ConfigError, ProtocolError) as final:  # the next start would end in the same way
                self._stop(CrashLoop(f"the agent cannot be started again: {final}", final))
                return False
            except DragomanError as again:
                error = again
            else:
                return True

    async def _bring_up(self) -> RemoteAgent:
        is_first = self._life is None
        self._started_at = self._clock.now()
        self._life = life = _Life(self._start)
        self._lives.add(life)
        life.task.add_done_callback(lambda _: self._lives.discard(life))
        agent = await life.begin()
        for link in list(self._lost.values()):
            await self._reopen(life.connection, link)
        if agent.closed_by is not None:
            self._take_sessions(await asyncio.shield(life.lost))
            raise agent.closed_by
        if not is_first:
            self._note("restarted", "the agent runs again")
        self._is_up = True
        self._decided.set()
        return agent

    async def _reopen(self, connection: ClientConnection, link: SessionLink) -> None:
        error: Exception | None = None
        for method in _reopening_methods(connection):
            error = await _reopen_by(method, connection, link)
            if error is None or isinstance(error, ConnectionClosed | AuthRequired):
                break
        else:
            error = error or DragomanError("the agent can neither resume nor load a session")
        if isinstance(error, ConnectionClosed):
            return  # tried again with the next run of the agent
        if not isinstance(error, AuthRequired):  # after a login it can be tried again
            del self._lost[link.id]
        if error is None:
            self._note("reopened", f"session {link.id} is open again", session=link.session)
        else:
            self._note("not_reopened", f"session {link.id} is lost: {error}", session=link.session, error=error)

    def _take_sessions(self, loss: _Loss) -> None:
        self._lost.update({link.id: link for link in loss.links})

    def _stop(self, why: ConnectionClosed) -> None:
        self._stopped_by = why
        self._decided.set()
        self._note("stopped", why.reason, error=why)

    def _note(
        self,
        kind: Literal["lost", "restarted", "reopened", "not_reopened", "stopped"],
        text: str,
        *,
        session: Session | None = None,
        error: Exception | None = None,
    ) -> None:
        _log.log(logging.INFO if error is None else logging.WARNING, "%s", text)
        if self._on_note is not None:
            try:
                self._on_note(RestartNote(kind, text, session, error))
            except Exception:  # a failing callback must not stop the supervisor
                _log.exception("the listener for restarts failed")

    async def _dismiss_keeper(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait({keeper})

    async def close(self) -> None:
        """End the agent for good, with every process it started."""
        await self._dismiss_keeper()
        for life in self._lives:
            life.end()
        if self._lives:
            await asyncio.wait([life.task for life in self._lives])


class _Loss(Struct):
    """The end of a run: the reason, the sessions that were open, and whether this program ended it."""

    reason: ConnectionClosed
    links: list[SessionLink]
    is_ours: bool


class _Life:
    """One run of the agent, from its start until its process tree is gone. Its own task, so that no caller waits."""

    connection: ClientConnection

    def __init__(self, start: Callable[[], AbstractAsyncContextManager[ClientConnection]]) -> None:
        loop = asyncio.get_running_loop()
        self.agent: RemoteAgent | None = None
        self.lost: asyncio.Future[_Loss] = loop.create_future()
        self._begun: asyncio.Future[None] = loop.create_future()
        self._error: Exception | None = None
        self._is_ended = asyncio.Event()
        self.task = asyncio.create_task(self._run(start), name="dragoman-agent-life")

    async def begin(self) -> RemoteAgent:
        """Return the agent once it is initialized. Raises: what its start failed with."""
        try:
            await asyncio.shield(self._begun)
        except asyncio.CancelledError:
            self.end()
            raise
        if self.agent is None:
            assert self._error is not None
            raise self._error
        return self.agent

    def end(self) -> None:
        """Close the connection and end the process; `lost` is set at once, `task` ends when everything is gone."""
        self._is_ended.set()
        if self.agent is None:
            self.task.cancel()

    async def _run(self, start: Callable[[], AbstractAsyncContextManager[ClientConnection]]) -> None:
        try:
            async with start() as connection:
                connection.when_lost = self._on_lost
                if connection.peer.closed_by is not None:
                    raise connection.peer.closed_by
                self.connection = connection
                self.agent = RemoteAgent(connection)
                self._begun.set_result(None)
                await self._is_ended.wait()
        except Exception as error:
            self._error = error
            if self.agent is not None:
                _log.exception("the end of an agent failed")
        finally:
            if not self._begun.done():
                self._begun.set_result(None)
            if not self.lost.done():
                self.lost.set_result(_Loss(ConnectionClosed(str(self._error or "it was ended")), [], is_ours=True))

    def _on_lost(self, reason: ConnectionClosed, links: list[SessionLink]) -> None:
        if not self.lost.done():
            is_ours = self.agent is not None and self.connection.peer.is_closed_here
            self.lost.set_result(_Loss(reason, links, is_ours))
        self._is_ended.set()


def _reopening_methods(connection: ClientConnection) -> list[str]:
    """Resume first: it repeats no history. Some agents advertise it without implementing it, so load may follow."""
    gates = {"session/resume": "sessionCapabilities.resume", "session/load": "loadSession"}
    return [method for method, gate in gates.items() if is_advertised(connection.capabilities, gate)]


async def _reopen_by(method: str, connection: ClientConnection, link: SessionLink) -> Exception | None:
    kind = v1.ResumeSessionRequest if method == "session/resume" else v1.LoadSessionRequest
    params = kind(
        session_id=link.id,
        cwd=link.session.cwd,
        mcp_servers=link.session.mcp_servers,
        additional_directories=link.session.additional_directories or UNSET,
    )
    link.rejoin(connection, skips_replay=method == "session/load")
    try:
        async with asyncio.timeout(REOPEN_SECONDS):
            await Loading(connection, method, params, link)
    except TimeoutError:
        connection.links.pop(link.id, None)
        return DragomanError(f"{method} was not answered within {REOPEN_SECONDS:g} seconds")
    except DragomanError as error:
        return error
    link.reopen()
    return None
