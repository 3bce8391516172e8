"""The client's end of a connection: routes what the agent sends, and refuses what was not advertised.

Owns the open sessions of a connection and the check of every outgoing call against the agent's capabilities. The
agent's requests go to `requests.py`, the updates of a session to its `SessionLink`.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, runtime_checkable

from dragoman.client.early_updates import EarlyUpdates
from dragoman.client.requests import RequestHandler
from dragoman.client.session_link import SessionLink
from dragoman.errors import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    AuthRequired,
    CapabilityError,
    ConnectionClosed,
    LocalProtocolError,
    ProtocolError,
    RequestError,
)
from dragoman.rpc import DEFAULT_LIMITS, Call, Limits, Observer, Peer
from dragoman.schema import (
    AGENT_METHODS,
    CLIENT_METHODS,
    PROTOCOL_VERSION,
    UNSET,
    Unknown,
    decode,
    decoder,
    v1,
)
from dragoman.schema.gates import is_advertised
from dragoman.schema.v1.stability import MEMBERS  # by name: `UNSTABLE_MEMBERS` would define every type

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

    from msgspec import Raw
    from msgspec.json import Decoder

    from dragoman.client.services import ClientServices
    from dragoman.rpc import Transport
    from dragoman.schema import Loss, Method

_log = logging.getLogger("dragoman.client")
E = TypeVar("E", bound=Exception | None)


@runtime_checkable
class HasStderr(Protocol):
    """A transport to a program whose last lines on stderr are kept."""

    @property
    def stderr_tail(self) -> str: ...


@runtime_checkable
class HasPid(Protocol):
    """A transport to a program that this one started."""

    @property
    def pid(self) -> int: ...


class ClientConnection:
    """The client role of the protocol over one transport."""

    hot_mark = b'"session/update"'  # without the name before it, which some agents follow with a space

    def __init__(
        self,
        transport: Transport,
        services: ClientServices,
        *,
        unstable: bool | Collection[str] = False,
        limits: Limits = DEFAULT_LIMITS,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._transport = transport
        self.hot_decoder: Decoder[Any] | None = decoder(v1.UpdateFrame)
        self.is_unstable = is_unstable = unstable is True
        self._unstable_methods = frozenset(() if isinstance(unstable, bool) else unstable)
        self.limits = limits
        self.links: dict[str, SessionLink] = {}  # the open sessions by id
        self.initialized = v1.InitializeResponse(PROTOCOL_VERSION)  # until the agent has answered
        self.protocol_version = PROTOCOL_VERSION  # until another one is agreed on
        # Called when the connection has ended, with the sessions that were open.
        self.when_lost: Callable[[ConnectionClosed, list[SessionLink]], None] | None = None
        # Called with a session's id before each prompt, for the `_meta` of it.
        self.prompt_meta: Callable[[str], Mapping[str, Any]] | None = None
        # Called with the updates of any session and their lines, in arrival order.
        self.on_updates: Callable[[str, Sequence[v1.SessionUpdate], Sequence[bytes]], None] | None = None
        self.changes = services.changes
        self.early = EarlyUpdates(limits)
        self._services = services
        self._requests = RequestHandler(services, self.links, self.early, is_unstable=is_unstable)
        self._tasks: set[asyncio.Task[None]] = set()
        self._endings: set[asyncio.Task[None]] = set()
        self.peer = Peer(transport, self, limits=limits, observers=observers, noise_limit=limits.noise_lines)

    @property
    def capabilities(self) -> v1.AgentCapabilities:
        """What the agent advertised; nothing before it has answered `initialize`."""
        return self.initialized.agent_capabilities or v1.AgentCapabilities()

    @property
    def client_capabilities(self) -> v1.ClientCapabilities:
        """What `initialize` advertises: exactly what the services can do."""
        return self._requests.capabilities

    async def call(
        self,
        method: str,
        params: object,
        *,
        on_result: Callable[[Any], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> Any:
        """Call an agent method; `on_result` or `on_error` is called before any later frame is handled.

        Raises: LocalProtocolError for an unknown or unstable method, CapabilityError for one the agent did not
        advertise, RequestError when the agent answers with an error, AuthRequired if the user has to log in.
        """
        known = self._check(method, params)
        try:
            if self.protocol_version == 2:
                return await self._call_in_version2(method, params, on_result, on_error)
            return await self.peer.request(method, params, known.result, on_result=on_result, on_error=on_error)
        except RequestError as error:
            raise self.explain(error) from None

    def ask(
        self, method: str, params: object, settle: Callable[[Any, Exception | None], None], *, lane: object
    ) -> None:
        """Do what `call` does, but give the result or the error to `settle` in arrival order; no task waits for it."""
        kind, read = self._check(method, params).result, None
        if self.protocol_version == 2:
            from dragoman.client.version2.calls import outgoing

            method, params, kind, read = outgoing(method, params)

        def settled(result: Any, error: Exception | None) -> None:
            settle(result if read is None or error is not None else read(result), self.explain(error))

        self.peer.ask(method, params, kind, settled, lane=lane)

    async def _call_in_version2(
        self,
        method: str,
        params: object,
        on_result: Callable[[Any], None] | None,
        on_error: Callable[[Exception], None] | None,
    ) -> Any:
        from dragoman.client.version2.calls import outgoing

        sent = outgoing(method, params)
        made: list[Any] = []

        def read(result: Any) -> None:
            made.append(sent.read(result))
            if on_result is not None:
                on_result(made[0])

        await self.peer.request(sent.method, sent.params, sent.result, on_result=read, on_error=on_error)
        return made[0]

    def explain(self, error: E) -> E | AuthRequired:
        """Return the same error.

        One that asks for a login gets the agent's login methods, an internal one the agent's last words.
        """
        if isinstance(error, RequestError) and error.code == AUTH_REQUIRED and not isinstance(error, AuthRequired):
            return AuthRequired(error.message, error.data, self.initialized.auth_methods or ())
        if isinstance(error, RequestError) and error.code == INTERNAL_ERROR and isinstance(self._transport, HasStderr):
            error.stderr_tail = self._transport.stderr_tail
        return error

    @property
    def pid(self) -> int | None:
        """The agent's process, if it is a child of this one."""
        return self._transport.pid if isinstance(self._transport, HasPid) else None

    def speak_version2(self) -> None:
        """Read what arrives from now on as version 2, since the agent has answered `initialize` with that."""
        from dragoman.client.version2.requests import Version2Requests
        from dragoman.schema import v2

        self.protocol_version = 2
        self._requests = Version2Requests(self._services, self.links, self.early, is_unstable=self.is_unstable)
        self.peer.read_hot(decoder(v2.UpdateFrame))

    def new_link(self, session_id: str) -> SessionLink:
        """Make this end of a session that is being opened."""
        if self.protocol_version == 2:
            from dragoman.client.version2.link import Version2Link

            return Version2Link(self, session_id)
        return SessionLink(self, session_id)

    async def close_session(self, session_id: str) -> None:
        """End a session at the agent; one that the agent does not know any more counts as closed (rule 121)."""

        def forget(_: object) -> None:
            link = self.links.pop(session_id, None)
            if link is not None:
                self.end(link, None)

        try:
            await self.call("session/close", v1.CloseSessionRequest(session_id), on_result=forget)
        except RequestError as error:
            if error.code != -32002:
                raise
            forget(None)

    async def close(self, reason: str) -> None:
        """End the connection; return when the services have released everything of its sessions."""
        await self.peer.close(reason)
        if self._endings:
            await asyncio.wait(self._endings)

    def adopt(self, link: SessionLink) -> None:
        """Register an open session. Updates that arrived too early are delivered first."""
        self.links[link.id] = link
        for updates, share_bytes in self.early.take(link.id):
            link.deliver(updates, share_bytes)
        self.early.release(link.id)

    def end(self, link: SessionLink, reason: ConnectionClosed | None) -> None:
        """End a session for its readers and for the services."""
        link.end(reason)
        for work in self._requests.end(link.session):
            task = asyncio.get_running_loop().create_task(self._run("the end of a session", work))
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)

    def _check(self, method: str, params: Any) -> Method:
        known = AGENT_METHODS.get(method)
        if known is None:
            raise LocalProtocolError(f"{method} is not a method of ACP; use request() for extension methods")
        if not known.is_stable and not self.is_unstable and method not in self._unstable_methods:
            raise LocalProtocolError(f"{method} is not stable; connect with unstable=True to use it")
        if known.gate is not None and not is_advertised(self.capabilities, known.gate):
            raise CapabilityError(f"the agent does not offer {method} (agentCapabilities.{known.gate})")
        if not self.is_unstable:
            for member in MEMBERS.get(type(params).__name__, ()):
                if getattr(params, member) is not UNSET:
                    raise LocalProtocolError(f"{member!r} of {method} is not stable; connect with unstable=True")
        return known

    # Called by the peer, in arrival order

    def on_hot(self, frames: list[v1.UpdateFrame], lines: list[bytes]) -> None:
        if len(frames) == 1:  # the pace of a conversation
            params = frames[0].params
            self._route(params.session_id, [params.update], lines, len(lines[0]))
            return
        share_bytes = sum(map(len, lines)) // len(frames)
        session_id = frames[0].params.session_id
        updates = [frame.params.update for frame in frames if frame.params.session_id == session_id]
        if len(updates) == len(frames):
            self._route(session_id, updates, lines, share_bytes)
            return
        if self.on_updates is not None:
            # It sees all sessions, and so the order between them.
            start = 0
            for id, group in groupby(frames, lambda frame: frame.params.session_id):
                updates = [frame.params.update for frame in group]
                self._route(id, updates, lines[start : start + len(updates)], share_bytes)
                start += len(updates)
            return
        # Only the order within each session matters: no session sees the updates of another.
        runs: dict[str, list[v1.SessionUpdate]] = {}
        for frame in frames:
            runs.setdefault(frame.params.session_id, []).append(frame.params.update)
        for session_id, updates in runs.items():
            self._route(session_id, updates, (), share_bytes)

    def on_request(self, call: Call) -> Coroutine[Any, Any, object]:
        return self._requests.serve(call, self._reporter(call.method))

    def on_notification(self, method: str, params: Raw | None, line: bytes) -> None:
        if method == "session/update" and params is not None:
            self._read_forgiving(params, line)
        elif method in CLIENT_METHODS or method.startswith("_"):
            work = self._requests.notice(method, params)
            if work is not None:
                task = asyncio.get_running_loop().create_task(self._run(method, work))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def on_close(self, reason: ConnectionClosed) -> None:
        for task in self._tasks:
            task.cancel()
        links = list(self.links.values())
        for link in links:
            self.end(link, reason)
        self.links.clear()
        if self.when_lost is not None:
            self.when_lost(reason, links)

    def _read_forgiving(self, params: Raw, line: bytes) -> None:
        """Decode an update that strict decoding refused: unknown variants are kept, bad optional members dropped."""
        kind: Any = v1.SessionNotification
        if self.protocol_version == 2:
            from dragoman.schema import v2

            kind = v2.UpdateSessionNotification
        try:
            notification = decode(kind, params, self._reporter("session/update"))
        except ProtocolError:
            # No session can fold it. A program that passes lines on may have readers that understand it.
            match decode(Any, params):
                case {"sessionId": str(id), "update": dict(update)} if self.on_updates is not None:
                    self._report(id, [Unknown(str(update.get("sessionUpdate", "")), update)], [line])
            raise
        self._route(notification.session_id, [notification.update], [line], len(memoryview(params)))

    def _route(
        self, session_id: str, updates: list[v1.SessionUpdate], lines: Sequence[bytes], share_bytes: int
    ) -> None:
        link = self.links.get(session_id)
        shown: Sequence[v1.SessionUpdate] = updates
        if link is not None:
            shown = link.deliver(updates, share_bytes)
        else:
            self.early.keep(session_id, updates, share_bytes)
            if self.protocol_version == 2 and self.on_updates is not None:
                from dragoman.state.version2.reading import read_update

                shown = [read_update(update) or update for update in cast("list[Any]", updates)]
        if self.on_updates is not None:  # after the fold: who is called finds the updates in the state
            self._report(session_id, shown, lines)

    def _report(self, session_id: str, updates: Sequence[v1.SessionUpdate], lines: Sequence[bytes]) -> None:
        try:
            if self.on_updates is not None:
                self.on_updates(session_id, updates, lines)
        except Exception:  # the session has its updates; what a program does with them ends nothing
            _log.exception("on_updates failed")

    def _reporter(self, method: str) -> Callable[[Loss], None]:
        return lambda loss: self.peer.observers.lost(method, loss)

    @staticmethod
    async def _run(method: str, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except ProtocolError as error:
            _log.warning("ignored %s: %s", method, error)
        except Exception:
            _log.exception("the handler of %s failed", method)
