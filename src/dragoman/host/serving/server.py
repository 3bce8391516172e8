"""A host with network endpoints, from its sockets to its end.

Theory of operation
-------------------
Every request passes the gate (`transports/remote/gate.py`), which asks `_find` whose token it carries and `_admit`
whether that token may do this now. A new ACP connection becomes a task that runs `Host.serve` for it; the task is
remembered with the token it came with. Once a second the tokens are looked at: a task whose token was revoked or has
expired is cancelled, which ends its connection. Sessions belong to the user of a token and live on.

The end: `drain` closes the listening sockets, so that a second server can take the port, notifies the open sessions,
and waits for turns. `close` cancels what still runs, with an answer to its clients.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from dragoman.agent.serving import as_header, bind_port, is_loopback, known_names, read_address
from dragoman.errors import ConfigError, StoreError
from dragoman.host.host import Visitor
from dragoman.host.serving.limits import Buckets, ServeLimits
from dragoman.host.serving.metrics import CONTENT_TYPE, CountingTransport
from dragoman.host.serving.page_files import PageFiles
from dragoman.host.serving.routes import EVERYWHERE, Route, RouteTable, names_with_ports, own_origins, safe_headers
from dragoman.host.serving.tokens import TICKET_SECONDS, Tickets
from dragoman.host.serving.ui_stream.endpoint import PATH as UI_STREAM
from dragoman.host.serving.ui_stream.endpoint import ChatUser, UiStreamEndpoint
from dragoman.policy.paths import is_below
from dragoman.transports.remote.answers import JSON, HttpReply, text_answer
from dragoman.transports.remote.gate import ALL_RIGHTS, Entered, GateRefusal, GateRules, Principal
from dragoman.transports.remote.in_flight import InFlightBytes
from dragoman.transports.remote.server import NewConnection, RemoteServer, ServerLimits
from dragoman.transports.unix import UnixServer, UnixTransport, bind_unix

if TYPE_CHECKING:
    import ssl

    from dragoman.host.host import Host
    from dragoman.host.serving.access_log import AccessLog
    from dragoman.host.serving.metrics import HostMetrics
    from dragoman.host.serving.tokens import HostToken, HostTokens
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Transport
    from dragoman.transports.remote.answers import AnsweredRequest

_log = logging.getLogger("dragoman.host")
_UNIX: Final = "unix:"
_LOOK_SECONDS: Final = 1.0
_TURN_LOOK_SECONDS: Final = 0.05
_CANCEL_SECONDS: Final = 5.0


class ServeOptions(msgspec.Struct, frozen=True):
    """Where a host listens, and for whom."""

    folders: tuple[str, ...] | None = None
    """Where sessions of the network may work; None: everywhere."""
    hosts: tuple[str, ...] = ()
    """Names by which clients call this server, with or without a port."""
    origins: tuple[str, ...] = ()
    """Pages that may use it, such as `https://agents.example`."""
    is_behind_proxy: bool = False
    limits: ServeLimits = ServeLimits()
    drain_seconds: float = 30.0
    ui_stream: bool = False
    """AI SDK clients are served too."""
    web: bool = False
    """The web page is served too, and devices can be paired."""


class ListeningAddress(NamedTuple):
    """A place at which the host can be reached."""

    kind: Literal["http", "https", "unix"]
    address: str

    @property
    def url(self) -> str:
        """What `dragoman connect` takes."""
        if self.kind == "unix":
            return f"{_UNIX}{self.address}"
        return f"{'wss' if self.kind == 'https' else 'ws'}://{self.address}/acp"

    @property
    def ui_stream_url(self) -> str:
        """Where AI SDK clients post chats."""
        return f"{self.kind}://{self.address}{UI_STREAM}"


class _Served(NamedTuple):
    """A connection that is served, and the token it came with."""

    name: str
    digest: str


class HostServer:
    """The server of a host on ports and Unix sockets."""

    def __init__(
        self,
        host: Host,
        tokens: HostTokens,
        options: ServeOptions,
        *,
        metrics: HostMetrics,
        access_log: AccessLog,
        page: PageFiles | None = None,
    ) -> None:
        """Prepare a server; `listen` opens it.

        Args:
            host: What it serves.
            tokens: Who may connect.
            options: Where it listens, and for whom.
            metrics: What counts.
            access_log: Where requests and connections are noted.
            page: The web page, if `options` wants one; by default that of this installation.
        """
        self._host = host
        self._tokens = tokens
        self._options = options
        self._metrics = metrics
        self._access_log = access_log
        self._tickets = Tickets()
        limits = options.limits
        self._in_flight = InFlightBytes(limits.in_flight_bytes)
        self._requests = Buckets(limits.requests_per_second, limits.requests_per_second * 2)
        self._connects = Buckets(limits.connections_per_minute / 60, max(1.0, limits.connections_per_minute / 2))
        self._servers: list[RemoteServer] = []
        self._unix: list[tuple[UnixServer, str]] = []
        self._served: dict[asyncio.Task[None], _Served | None] = {}
        self._chats = UiStreamEndpoint(host, self._opened, self._chat_user, most_turns=limits.connections)
        self.page = page or PageFiles() if options.web else None
        self.routes = RouteTable(self._routes())
        self._sweep: asyncio.TimerHandle | None = None
        self._is_draining = False
        metrics.gauge("dragoman_connections", lambda: len(self._served))
        metrics.gauge("dragoman_sessions_running", lambda: len(self._busy()))

    # Listening

    async def listen(self, address: str, tls: ssl.SSLContext | None = None) -> ListeningAddress:
        """Listen at `HOST:PORT`, or at `unix:PATH`.

        Raises:
            ConfigError: the address cannot be used, or is open to others without TLS.
        """
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)
        if address.startswith(_UNIX):
            path = os.path.abspath(address.removeprefix(_UNIX))  # noqa: ASYNC240 - does not touch the disk
            self._unix.append((UnixServer(bind_unix(path), self._unix_opened), path))
            return ListeningAddress("unix", path)
        return await self._listen_at_port(address, tls)

    async def _listen_at_port(self, address: str, tls: ssl.SSLContext | None) -> ListeningAddress:
        host, port = read_address(address)
        check_open_address(address, host, tls, self._options)
        sock = bind_port(host, port)
        port = sock.getsockname()[1]
        options, limits = self._options, self._options.limits
        has_tls, is_behind_proxy = tls is not None, options.is_behind_proxy
        rules = GateRules(
            hosts=known_names(host, port, names_with_ports(options.hosts, port)),
            find_principal=self._find,
            origins=frozenset(map(as_header, options.origins)),
            own_origins=own_origins(host, port, options.hosts, has_tls=has_tls, is_behind_proxy=is_behind_proxy),
            find_rule=self.routes.find_rule,
            use_ticket=self._use_ticket,
            max_body_bytes=limits.body_bytes,
            admit=self._admit,
            admit_stream=self._foreign_session,
        )
        server = RemoteServer(
            self._opened,
            rules,
            limits=ServerLimits(
                initialize_seconds=limits.initialize_seconds,
                idle_seconds=limits.idle_seconds,
                sockets=limits.sockets,
                sockets_per_address=limits.sockets if is_behind_proxy else limits.sockets_per_address,
                connections_per_principal=limits.connections,
            ),
            pages=self.routes.pages,
            answered=self._answered,
            in_flight=self._in_flight,
            safe_headers=safe_headers(is_secure=has_tls or is_behind_proxy),
        )
        await server.listen(sock, ssl=tls)
        self._servers.append(server)
        shown = f"[{host}]" if ":" in host else host
        return ListeningAddress("https" if tls is not None else "http", f"{shown}:{port}")

    # Who may enter

    def _routes(self) -> list[Route]:
        """Return every path that is served besides ACP."""
        found = [
            Route(b"GET", "/healthz", self._health, "open"),
            Route(b"GET", "/readyz", self._ready, "open"),
            Route(b"GET", "/metrics", self._metrics_page),
            Route(b"POST", "/ticket", self._ticket_page, "device"),
        ]
        if self._options.ui_stream:
            paths = (UI_STREAM, f"{UI_STREAM}/")
            found += [Route(how, path, self._chats.page) for path in paths for how in (b"POST", b"GET", b"DELETE")]
        if self.page is not None:
            found += self.page.routes
        return found

    def _find(self, secret: str) -> Principal | None:
        try:
            token = self._tokens.find(secret)
        except ConfigError as error:  # no client enters while the file is broken
            _log.error("%s", error)
            return None
        return None if token is None else _principal(token)

    def _use_ticket(self, ticket: str, origin: bytes | None) -> Principal | None:
        name = self._tickets.use(ticket, origin)
        token = None if name is None else self._token(name)
        return None if token is None else _principal(token)

    def _token(self, name: str) -> HostToken | None:
        try:
            return self._tokens.get(name)
        except ConfigError as error:
            _log.error("%s", error)
            return None

    def _admit(self, entered: Entered) -> GateRefusal | None:
        """Refuse what a known token may not do now."""
        name, path = entered.principal.name, entered.path
        if not self._requests.take(name):
            return _too_often(self._requests.seconds_until_next(name))
        if path == "/metrics" and "admin" not in entered.principal.rights:
            return GateRefusal(403, "Counters are shown to tokens with the right admin.")
        is_chat = path == UI_STREAM or path.startswith(f"{UI_STREAM}/")
        if not path.startswith("/acp") and not is_chat:
            return None
        if not is_chat and path != "/acp" and path.removeprefix("/acp/") not in self._host.agent_names():
            return GateRefusal(404, "This host does not run an agent of that name.")
        is_new = entered.is_upgrade or (entered.method == b"POST" and b"acp-connection-id" not in entered.headers)
        if is_new and not self._connects.take(name):
            return _too_often(self._connects.seconds_until_next(name))
        return None

    async def _foreign_session(self, entered: Entered, session: str) -> GateRefusal | None:
        """Refuse the stream of a session that does not exist and that of another user with the same 404."""
        token = self._token(entered.principal.name)
        live = self._host.live(session)
        record = live.record if live is not None else None
        if record is None and token is not None:
            record = await self._host.log.find(session, token.user)
        if token is None or record is None or record.principal != token.user:
            return GateRefusal(404, "Unknown Acp-Session-Id")
        return None

    # Connections

    def _opened(self, opened: NewConnection) -> None:
        token = self._token(opened.principal.name)
        if token is None or self._is_draining:  # it was revoked while the socket waited for initialize
            opened.transport.close()
            return
        visitor = Visitor(
            principal=token.user,
            rights=frozenset(token.rights),
            folders=common_folders(token.folders, self._options.folders),
            agent=opened.path.removeprefix("/acp").removeprefix("/") or None,
            is_local=False,
            may_start_programs=token.may_start_programs,
        )
        self._serve(opened.transport, visitor, _Served(token.name, token.digest), opened.peer)

    def _unix_opened(self, transport: UnixTransport) -> None:
        self._serve(transport, Visitor(), None, "unix")

    def _serve(self, transport: Transport, visitor: Visitor, served: _Served | None, peer: str) -> None:
        self._metrics.count("dragoman_connections_total")
        facts = {"peer": peer, "token": "" if served is None else served.name, "agent": visitor.agent or ""}
        self._access_log.connection("opened", **facts)
        started = asyncio.get_running_loop().time()

        async def serve() -> None:
            with suppress(asyncio.CancelledError):
                await self._host.serve(CountingTransport(transport, self._metrics), visitor)

        def over(task: asyncio.Task[None]) -> None:
            self._served.pop(task, None)
            if not task.cancelled() and task.exception() is not None:
                _log.error("serving a connection failed", exc_info=task.exception())
            seconds = round(asyncio.get_running_loop().time() - started, 3)
            self._access_log.connection("closed", **facts, seconds=seconds)

        task = asyncio.get_running_loop().create_task(serve())
        self._served[task] = served
        task.add_done_callback(over)

    def _look(self) -> None:
        """End the connections of tokens that are not valid any more."""
        for task, served in list(self._served.items()):
            if served is not None:
                token = self._token(served.name)
                if token is None or token.digest != served.digest:
                    task.cancel()
        self._sweep = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _chat_user(self, principal: Principal) -> ChatUser | None:
        token = self._token(principal.name)
        if token is None:
            return None
        folders = common_folders(token.folders, self._options.folders)
        return ChatUser(token.user, folders[0] if folders else os.getcwd())

    # Pages

    async def _health(self, entered: Entered, body: bytes) -> HttpReply:
        return text_answer(503, "draining\n") if self._is_draining else text_answer(200, "ok\n")

    async def _ready(self, entered: Entered, body: bytes) -> HttpReply:
        is_ready = not self._is_draining and self._host.store_error is None
        return text_answer(200, "ready\n") if is_ready else text_answer(503, "not ready\n")

    async def _metrics_page(self, entered: Entered, body: bytes) -> HttpReply:
        return HttpReply(200, self._metrics.text(), CONTENT_TYPE)

    async def _ticket_page(self, entered: Entered, body: bytes) -> HttpReply:
        ticket = self._tickets.issue(entered.principal.name, entered.headers.get(b"origin"))
        answer = msgspec.json.encode({"ticket": ticket, "expiresInSeconds": TICKET_SECONDS})
        return HttpReply(200, answer, JSON, ((b"cache-control", b"no-store"),))

    def _answered(self, exchange: AnsweredRequest) -> None:
        status = f'status="{exchange.status}"'
        self._metrics.count("dragoman_requests_total", labels=status)
        if exchange.status >= 400:
            self._metrics.count("dragoman_refusals_total", labels=status)
        if exchange.path.startswith(f"{UI_STREAM}/"):
            exchange = exchange._replace(path=f"{UI_STREAM}/...")  # it has the id of a chat in it
        self._access_log.request(exchange)

    # The end

    def _busy(self) -> list[HostedSession]:
        return [session for session in self._host.live_sessions() if session.is_busy]

    async def drain(self) -> int:
        """Accept nothing new and wait for turns; gives how many sessions were still busy when the time was over."""
        self._is_draining = True
        for server in self._servers:
            server.stop_listening()
        for unix, path in self._unix:
            unix.close()
            with suppress(FileNotFoundError):
                os.unlink(path)
        self._host.store_error = StoreError("the host is shutting down")
        for session in self._host.live_sessions():
            if not session.is_closed and session.attachments:
                session.notice("The host is shutting down; it takes no more prompts.")
        await self._until_idle(self._options.drain_seconds)
        return len(self._busy())

    async def _cancel_turns(self) -> None:
        """Cancel what runs; its agents have a moment to end it, so that clients get the answer of the agent."""
        for session in self._busy():
            turn = session.turn
            if turn is not None:
                session.cancel_prompt(turn["promptId"])
        await self._until_idle(_CANCEL_SECONDS)

    async def _until_idle(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._busy():  # noqa: ASYNC110 - a host has no event for the end of its last turn
                    await asyncio.sleep(_TURN_LOOK_SECONDS)

    async def close(self) -> None:
        """End every session, connection and socket."""
        self._is_draining = True
        if self._sweep is not None:
            self._sweep.cancel()
        await self._cancel_turns()
        await self._chats.close()
        await self._host.close("The host was shut down.")
        for server in self._servers:
            await server.close()
        for unix, path in self._unix:
            unix.close()
            with suppress(FileNotFoundError):
                os.unlink(path)
        if self._served:
            await asyncio.wait(list(self._served))
        self._access_log.close()


def _principal(token: HostToken) -> Principal:
    """Return the principal of a token: one of its own for the gate, so that none can use the connection of another."""
    return Principal(token.name, frozenset(right for right in ALL_RIGHTS if right in token.rights), token.folders)


def _too_often(seconds: int) -> GateRefusal:
    return GateRefusal(429, "This token sends too many requests; wait.", ((b"retry-after", b"%d" % seconds),))


def check_open_address(address: str, host: str, tls: ssl.SSLContext | None, options: ServeOptions) -> None:
    """Refuse an address that others can reach without TLS, or under no name.

    Raises:
        ConfigError: with what to do.
    """
    if is_loopback(host):
        return
    if tls is None and not options.is_behind_proxy:
        raise ConfigError(
            f"{address} can be reached by other machines: give --tls-cert and --tls-key, or --behind-proxy if a proxy "
            "in front of it speaks TLS"
        )
    if host in EVERYWHERE and not options.hosts:
        raise ConfigError(
            f"{address} has no name: give the name that clients call it by, such as --host agents.example"
        )


def common_folders(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the folders that both allow; None stands for everything."""
    if one is None or other is None:
        return other if one is None else one
    found = []
    for left in map(os.path.realpath, one):
        for right in map(os.path.realpath, other):
            if is_below(left, right):
                found.append(left)
            elif is_below(right, left):
                found.append(right)
    return tuple(dict.fromkeys(found))
