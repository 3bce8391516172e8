"""A host with network endpoints, from its sockets to its end.

Theory of operation
-------------------
Every request passes the gate (`transports/remote/gate.py`), which asks `_find` whose token it carries and `_admit`
whether that token may do this now. A new ACP connection becomes a task that runs `Host.serve` for it; the task is
remembered with the token it came with. Twice a second the tokens are looked at: a task whose token was revoked or has
expired is cancelled, which ends its connection. Sessions belong to the user of a token and live on.

With the web page, a browser is paired by a code and is a token of the kind `device` from then on (`pairing.py`).

The end: `drain` notifies the open sessions and waits for turns. The ports stay open meanwhile: a client whose line
breaks comes back to its turn, answers are taken, history is read; prompts and new sessions are refused with the reason
`draining`. `close` cancels what still runs, with an answer to its clients. `handover.py` lets another host go on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from dragoman._version import __version__
from dragoman.agent.serving import as_header, bind_port, known_names, read_address
from dragoman.errors import ConfigError
from dragoman.host.host import Visitor
from dragoman.host.serving.acts import HostActs
from dragoman.host.serving.limits import Buckets, ServeLimits
from dragoman.host.serving.metrics import (
    CONTENT_TYPE,
    OTHER,
    CountingTransport,
    DataSize,
    LoopLag,
    watch_sessions,
)
from dragoman.host.serving.oidc.logins import LoginSettings
from dragoman.host.serving.page_files import PageFiles
from dragoman.host.serving.pairing import Pairing, PairingCodes, read_title
from dragoman.host.serving.principals import LOGIN_PATH, Principals
from dragoman.host.serving.routes import (
    Route,
    RouteTable,
    check_open_address,
    names_with_ports,
    own_origins,
    safe_headers,
)
from dragoman.host.serving.tokens import TICKET_SECONDS, common_folders, join_cookie
from dragoman.host.serving.ui_stream.endpoint import PATH as UI_STREAM
from dragoman.host.serving.ui_stream.endpoint import ChatUser, UiStreamEndpoint
from dragoman.host.serving.upload_pages import PATH as ATTACHMENT
from dragoman.host.serving.upload_pages import UploadPages
from dragoman.host.serving.watched_requests import WatchedRequests
from dragoman.rpc.transport import ClosesWithCode
from dragoman.transports import _close_codes as close_codes
from dragoman.transports.remote.answers import JSON, HttpReply, text_answer
from dragoman.transports.remote.gate import (
    DEVICE_COOKIE,
    SECURE_COOKIE,
    Entered,
    GateRefusal,
    GateRules,
    Principal,
    cookie_of,
)
from dragoman.transports.remote.in_flight import InFlightBytes
from dragoman.transports.remote.server import NewConnection, RemoteServer, ServerLimits
from dragoman.transports.unix import UnixServer, UnixTransport, bind_unix

if TYPE_CHECKING:
    import ssl

    from dragoman.host.host import Host
    from dragoman.host.retention import OldSessions
    from dragoman.host.serving.access_log import AccessLog
    from dragoman.host.serving.metrics import HostMetrics
    from dragoman.host.serving.oidc.logins import Logins
    from dragoman.host.serving.tokens import HostToken, HostTokens
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Transport
    from dragoman.transports.remote.answers import AnsweredRequest

_log = logging.getLogger("dragoman.host")
_UNIX: Final = "unix:"
_LOOK_SECONDS: Final = 0.5
WRONG_SECONDS: Final = 0.3
"""How long a wrong pairing code waits for its answer."""
_PAIR_BYTES: Final = 4096
_PAIRS_PER_MINUTE: Final = 10
_COOKIE_SECONDS: Final = 400 * 86400
"""As long as browsers keep one at most; the host decides when the device is over."""
_WRONG_CODE: Final = "This code is wrong, used, or too old. Make another one: dragoman web pair"
_PAIRING_ENDED: Final = "The pairing, the token or the login of this client has ended."
_DRAINING_WORDS: Final = "The host is shutting down."
ROOM_BYTES: Final = 64 * 1024 * 1024
"""A host with less room than this on its disk is not ready: one turn with pictures may need so much."""
_TURN_LOOK_SECONDS: Final = 0.05
_CANCEL_SECONDS: Final = 5.0
_LAST_ANSWERS_SECONDS: Final = 5.0


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
    hand_over_seconds: float = 600.0
    """How long turns may go on at the end; and while another host waits to go on, which costs no client anything."""
    ui_stream: bool = False
    """AI SDK clients are served too."""
    web: bool = False
    """The web page is served too, and devices can be paired."""
    login: LoginSettings | None = None
    """Which provider logs users in; None for none."""


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

    def page_url(self, options: ServeOptions) -> str:
        """Return where browsers open the web page."""
        if not options.hosts:
            return f"{self.kind}://{self.address}/"
        name = options.hosts[0]
        if options.is_behind_proxy:
            return f"https://{name}/"
        return f"{self.kind}://{name}/" if ":" in name else f"{self.kind}://{name}:{self.address.rpartition(':')[2]}/"

    @property
    def ui_stream_url(self) -> str:
        """Where AI SDK clients post chats."""
        return f"{self.kind}://{self.address}{UI_STREAM}"


class _Served(NamedTuple):
    """A connection that is served, and the token it came with."""

    token: HostToken
    transport: Transport


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
        acts: HostActs | None = None,
        page: PageFiles | None = None,
        logins: Logins | None = None,
    ) -> None:
        """Prepare a server; `listen` opens it.

        Args:
            host: What it serves.
            tokens: Who may connect.
            options: Where it listens, and for whom.
            metrics: What counts.
            access_log: Where requests and connections are noted.
            acts: Where it is noted who did what.
            page: The web page, if `options` wants one; by default that of this installation.
            logins: Users of a provider, who may connect too.
        """
        self._host = host
        self._tokens = tokens
        self._options = options
        self._metrics = metrics
        self._access_log = access_log
        self._principals = Principals(tokens, logins)
        self._acts = acts or HostActs()
        self.tickets = self._principals.tickets
        limits = options.limits
        self._in_flight = InFlightBytes(limits.in_flight_bytes)
        self._requests = Buckets(limits.requests_per_second, limits.requests_per_second * 2)
        self._connects = Buckets(limits.connections_per_minute / 60, max(1.0, limits.connections_per_minute / 2))
        self._pairs = Buckets(_PAIRS_PER_MINUTE / 60, _PAIRS_PER_MINUTE)
        self.wrong_seconds = WRONG_SECONDS
        self.pairing = Pairing(tokens, PairingCodes(tokens.path.with_name("codes.json"))) if options.web else None
        if self.pairing is not None:
            self.pairing.on_removed = self.end_revoked
            host.pairing = self.pairing
        self._servers: list[RemoteServer] = []
        self._unix: list[tuple[UnixServer, str]] = []
        self._served: dict[asyncio.Task[None], _Served | None] = {}
        self._chats = UiStreamEndpoint(host, self._opened, self._chat_user, most_turns=limits.connections)
        self.page = page or PageFiles() if options.web else None
        if self.pairing is not None and self.page is not None and self.page.is_complete:
            self.pairing.page = self.page.version
        self.routes = RouteTable(self._routes())
        self._sweep: asyncio.TimerHandle | None = None
        self._old_sessions = self._ages(limits.session_days)
        self.is_draining = False
        self._lag = LoopLag(metrics)
        self._data_size = DataSize(metrics, host.log.folder)
        metrics.gauge("dragoman_info", lambda: {(__version__,): 1})
        metrics.gauge("dragoman_draining", lambda: int(self.is_draining))
        metrics.gauge("dragoman_store_ok", lambda: int(host.store_error is None))
        self._is_leaving = False
        self.listening: list[tuple[str, socket.socket]] = []
        """The sockets that it listens with, by the addresses that were given for them."""
        self.handed_over: dict[str, HostedSession] = {}
        """The sessions that another host goes on with."""
        self.room_bytes = ROOM_BYTES
        metrics.gauge("dragoman_connections", lambda: len(self._served))
        watch_sessions(metrics, host.live_sessions)
        metrics.gauge("dragoman_agents_most", self._most_agents)
        host.request_watch = WatchedRequests(metrics, (self._acts,))

    def _most_agents(self) -> dict[tuple[str, ...], float]:
        most = None if self._host.quotas is None else self._host.quotas.places.most
        return {} if most is None else {(): most}

    # Listening

    async def listen(
        self, address: str, tls: ssl.SSLContext | None = None, sock: socket.socket | None = None
    ) -> ListeningAddress:
        """Listen at `HOST:PORT`, or at `unix:PATH`.

        Args:
            address: Where.
            tls: For clients that speak TLS.
            sock: Bound there already; it is owned here.

        Raises:
            ConfigError: the address cannot be used, or is open to others without TLS.
        """
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)
            self._lag.start()
        if address.startswith(_UNIX):
            path = os.path.abspath(address.removeprefix(_UNIX))  # noqa: ASYNC240 - does not touch the disk
            sock = sock or bind_unix(path)
            self._unix.append((UnixServer(sock, self._unix_opened), path))
            self.listening.append((address, sock))
            return ListeningAddress("unix", path)
        return await self._listen_at_port(address, tls, sock)

    async def _listen_at_port(
        self, address: str, tls: ssl.SSLContext | None, sock: socket.socket | None
    ) -> ListeningAddress:
        host, port = read_address(address)
        check_open_address(address, host, tls, self._options)
        sock = sock or bind_port(host, port)
        port = sock.getsockname()[1]
        options, limits = self._options, self._options.limits
        has_tls, is_behind_proxy = tls is not None, options.is_behind_proxy
        rules = GateRules(
            hosts=known_names(host, port, names_with_ports(options.hosts, port)),
            find_principal=self._principals.find,
            origins=frozenset(map(as_header, options.origins)),
            own_origins=own_origins(host, port, options.hosts, has_tls=has_tls, is_behind_proxy=is_behind_proxy),
            find_rule=self.routes.find_rule,
            find_device=self._find_device,
            use_ticket=self._principals.use_ticket,
            login_path=LOGIN_PATH.encode() if self._principals.has_logins else b"",
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
        self.listening.append((address, sock))
        shown = f"[{host}]" if ":" in host else host
        listening = ListeningAddress("https" if tls is not None else "http", f"{shown}:{port}")
        if self.pairing is not None:
            self.pairing.address = self.pairing.address or listening.page_url(options)
        return listening

    # Who may enter

    def _routes(self) -> list[Route]:
        """Return every path that is served besides ACP."""
        found = [
            Route(b"GET", "/healthz", self._health, "open"),
            Route(b"GET", "/readyz", self._ready, "open"),
            Route(b"GET", "/metrics", self._metrics_page),
            Route(b"POST", "/ticket", self._ticket_page, "device"),
            *UploadPages(self._host.uploads, self._user_of).routes(),
        ]
        if self._principals.has_logins:
            found.append(Route(b"GET", LOGIN_PATH, self._principals.login_page, "open"))
        if self._options.ui_stream:
            paths = (UI_STREAM, f"{UI_STREAM}/")
            found += [Route(how, path, self._chats.page) for path in paths for how in (b"POST", b"GET", b"DELETE")]
        if self.page is not None:
            found += [
                *self.page.routes,
                Route(b"POST", "/pair", self._pair_page, "pair", max_body_bytes=_PAIR_BYTES),
                Route(b"POST", "/unpair", self._unpair_page, "device", max_body_bytes=_PAIR_BYTES),
            ]
        return found

    def _find_device(self, cookie: str, half: str) -> Principal | None:
        return None if self.pairing is None else self._principals.find_device(cookie, half)

    def _admit(self, entered: Entered) -> GateRefusal | None:
        """Refuse what a known token may not do now."""
        name, path = entered.principal.name, entered.path
        if entered.way == "open":
            is_too_often = path == "/pair" and not self._pairs.take(entered.peer)
            return _too_often(self._pairs.seconds_until_next(entered.peer)) if is_too_often else None
        if not self._requests.take(name):
            return _too_often(self._requests.seconds_until_next(name))
        if path == "/metrics" and "admin" not in entered.principal.rights:
            return GateRefusal(403, "Counters are shown to tokens with the right admin.")
        is_chat = path == UI_STREAM or path.startswith(f"{UI_STREAM}/")
        is_ticket = path == "/ticket"
        if is_chat and self.is_draining and entered.method == b"POST":
            return GateRefusal(503, "The host ends or is replaced; send it again.", ((b"retry-after", b"5"),))
        if not path.startswith("/acp") and not is_chat and not is_ticket:
            return None
        if (
            not is_chat
            and not is_ticket
            and path != "/acp"
            and path.removeprefix("/acp/") not in self._host.named_agents()
        ):
            return GateRefusal(404, "This host does not run an agent of that name.")
        # A page sees an answer to its request for a ticket, and not one to its upgrade: that is where it is counted.
        is_upgrade = entered.is_upgrade and entered.way != "ticket"
        is_new = is_upgrade or (entered.method == b"POST" and b"acp-connection-id" not in entered.headers)
        if is_new and not self._connects.take(name):
            return _too_often(self._connects.seconds_until_next(name))
        return None

    async def _foreign_session(self, entered: Entered, session: str) -> GateRefusal | None:
        """Refuse the stream of a session that does not exist and that of another user with the same 404."""
        token = self._principals.token_of(entered.principal)
        live = self._host.live(session)
        record = live.record if live is not None else None
        if record is None and token is not None:
            record = await self._host.log.find(session, token.user)
        if token is None or record is None or record.principal != token.user:
            return GateRefusal(404, "Unknown Acp-Session-Id")
        return None

    # Connections

    def _opened(self, opened: NewConnection) -> None:
        token = self._principals.token_of(opened.principal)
        if token is None:  # it was revoked while the socket waited for initialize
            _end(opened.transport, close_codes.ENDED, _PAIRING_ENDED)
            return
        if self._is_leaving:
            _end(opened.transport, close_codes.DRAINING, _DRAINING_WORDS)
            return
        self._principals.note_use(token)
        visitor = Visitor(
            principal=token.user,
            rights=frozenset(token.rights),
            folders=common_folders(token.folders, self._options.folders),
            agent=opened.path.removeprefix("/acp").removeprefix("/") or None,
            is_local=False,
            may_start_programs=token.may_start_programs,
            token=token.name,
            device=token.name if token.kind == "device" else None,
        )
        self._serve(opened.transport, visitor, _Served(token, opened.transport), opened.peer)

    def _unix_opened(self, transport: UnixTransport) -> None:
        self._serve(transport, Visitor(), None, "unix")

    def _serve(self, transport: Transport, visitor: Visitor, served: _Served | None, peer: str) -> None:
        self._metrics.count("dragoman_connections_total")
        facts = {"peer": peer, "token": "" if served is None else served.token.name, "agent": visitor.agent or ""}
        self._access_log.connection("opened", **facts)
        self._acts.connection("connected", visitor, peer)
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
            self._acts.connection("disconnected", visitor, peer, seconds=seconds)

        task = asyncio.get_running_loop().create_task(serve())
        self._served[task] = served
        task.add_done_callback(over)

    def end_revoked(self) -> None:
        """End the connections of tokens and logins that are not valid any more."""
        for task, served in list(self._served.items()):
            if served is not None and not self._principals.is_valid(served.token):
                if isinstance(served.transport, ClosesWithCode):
                    served.transport.set_close(close_codes.ENDED, _PAIRING_ENDED)
                task.cancel()
        with suppress(ConfigError):  # a file of tokens that cannot be read says nothing about devices
            self._host.push.keep_only(lambda subscription: self._tokens.get(subscription.device) is not None)

    def _look(self) -> None:
        for token in {
            served.token.name: served.token for served in self._served.values() if served is not None
        }.values():
            self._principals.note_use(token)
        self.end_revoked()
        if self._old_sessions is not None and not self.is_draining:
            self._old_sessions.look()
        self._sweep = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _ages(self, days: float | None) -> OldSessions | None:
        if days is None:
            return None
        from dragoman.host.retention import OldSessions

        return OldSessions(self._host, days)

    def _stop_looking(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        if self._old_sessions is not None:
            self._old_sessions.close()
        self._lag.stop()

    def _user_of(self, principal: Principal) -> str | None:
        token = self._principals.token_of(principal)
        return None if token is None else token.user

    def _chat_user(self, principal: Principal) -> ChatUser | None:
        token = self._principals.token_of(principal)
        if token is None:
            return None
        folders = common_folders(token.folders, self._options.folders)
        return ChatUser(token.user, folders[0] if folders else os.getcwd())

    # Pages

    async def _health(self, entered: Entered, body: bytes) -> HttpReply:
        """Answer that the process lives, also while it ends: what restarts a dead one must not end this one sooner."""
        return text_answer(200, "ok\n")

    async def _ready(self, entered: Entered, body: bytes) -> HttpReply:
        """Answer whether it takes work, and why not."""
        why = self._why_not_ready()
        return text_answer(503, f"not ready: {why}\n") if why else text_answer(200, "ready\n")

    def _why_not_ready(self) -> str:
        if self.is_draining:
            return "draining"
        if self._host.store_error is not None:
            return f"the log cannot be written ({self._host.store_error})"
        folder = self._host.log.folder
        if folder is None:
            return ""
        try:
            free = shutil.disk_usage(folder).free
        except OSError as error:
            return f"the data folder cannot be read ({error.strerror})"
        return f"no room on disk ({free} bytes are free)" if free < self.room_bytes else ""

    async def _metrics_page(self, entered: Entered, body: bytes) -> HttpReply:
        await self._data_size.look()
        return HttpReply(200, self._metrics.text(), CONTENT_TYPE)

    async def _ticket_page(self, entered: Entered, body: bytes) -> HttpReply:
        ticket = self._principals.issue_ticket(entered)
        answer = msgspec.json.encode({"ticket": ticket, "expiresInSeconds": TICKET_SECONDS})
        return HttpReply(200, answer, JSON, (_NOT_KEPT,))

    async def _pair_page(self, entered: Entered, body: bytes) -> HttpReply:
        """Pair a browser by a code. What is sent decides nothing but the name of the device."""
        assert self.pairing is not None
        try:
            sent = msgspec.json.decode(body, type=dict[str, str])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _not_kept(400, "Send a JSON object with code and name.")
        title = read_title(sent.get("name"))
        if title is None:
            return _not_kept(400, "Give the device a name of 1 to 64 characters on one line.")
        tried = self.pairing.codes.use(sent.get("code", ""))
        if tried.device is None:
            after = f"; {tried.ended} open codes were ended" if tried.ended else ""
            _log.warning("a wrong pairing code came from %s, number %d in a row%s", entered.peer, tried.wrong, after)
            await asyncio.sleep(self.wrong_seconds)
            return _not_kept(403, _WRONG_CODE)
        agent = entered.headers.get(b"user-agent", b"").decode("latin-1")
        token, key = self.pairing.pair(tried.device, title, "".join(filter(str.isprintable, agent)))
        _log.info("%s was paired from %s, for %s: %s", token.name, entered.peer, token.user, ", ".join(token.rights))
        self._acts.note("paired", token.user, device=token.name, peer=entered.peer, rights=list(token.rights))
        answer = {
            "half": key.half,
            "device": token.name,
            "rights": list(token.rights),
            "expiresAt": None if token.expires_at is None else round(token.expires_at * 1000),
        }
        left = _COOKIE_SECONDS if token.expires_at is None else round(token.expires_at - token.created_at)
        value = join_cookie(cookie_of(entered), add=key.cookie)
        cookie = self._cookie(entered, value, min(left, _COOKIE_SECONDS))
        return HttpReply(200, msgspec.json.encode(answer), JSON, (_NOT_KEPT, cookie))

    async def _unpair_page(self, entered: Entered, body: bytes) -> HttpReply:
        token = self._principals.token_of(entered.principal)
        if self.pairing is None or token is None or token.kind != "device":
            return _not_kept(403, "This is not a paired device; a token is revoked with: dragoman serve token revoke")
        self.pairing.remove(token.name)
        _log.info("%s has unpaired itself", token.name)
        self._acts.note("unpaired", token.user, device=token.name)
        value = join_cookie(cookie_of(entered), remove=token)
        return HttpReply(200, b"{}", JSON, (_NOT_KEPT, self._cookie(entered, value, _COOKIE_SECONDS if value else 0)))

    @staticmethod
    def _cookie(entered: Entered, value: str, seconds: int) -> tuple[bytes, bytes]:
        name = SECURE_COOKIE if entered.is_secure else DEVICE_COOKIE
        flags = b"; HttpOnly; SameSite=Strict; Path=/; Max-Age=%d" % seconds
        return b"set-cookie", name + b"=" + value.encode("latin-1") + flags + (
            b"; Secure" if entered.is_secure else b""
        )

    def _answered(self, exchange: AnsweredRequest) -> None:
        status = str(exchange.status)
        self._metrics.count("dragoman_requests_total", 1, status)
        if exchange.status >= 400:
            self._metrics.count("dragoman_refusals_total", 1, status)
        path = "/acp" if exchange.path.startswith("/acp") else self.routes.find_path(exchange.path) or OTHER
        self._metrics.histogram("dragoman_http_seconds", path).observe(exchange.seconds)
        for folder in (UI_STREAM, ATTACHMENT):
            if exchange.path.startswith(f"{folder}/"):
                exchange = exchange._replace(path=f"{folder}/...")  # it has the id of a chat or attachment in it
        self._access_log.request(exchange)

    # The end

    def _busy(self) -> list[HostedSession]:
        sessions = self._host.live_sessions()
        if self._host.on_kept is not None:  # what waits is for the next host
            return [session for session in sessions if session.is_working]
        return [session for session in sessions if session.is_busy]

    @property
    def working(self) -> int:
        """How many sessions have something that is waited for at the end."""
        return len(self._busy())

    async def hand_over(self, why: str) -> None:
        """Give up sockets and sessions, so that another host goes on: nothing that waits is cancelled.

        Args:
            why: For the clients.
        """
        self.stop_listening()
        for server in self._servers:
            await server.finish_answers(_LAST_ANSWERS_SECONDS)
        self._is_leaving = True
        await self._cancel_turns()
        await self._host.settle()
        await self._chats.close()
        # Before the sessions end: what clients wait for is answered by the next host.
        await asyncio.gather(*(client.end(why, close_codes.DRAINING) for client in self._host.connections))
        self.handed_over = {session.id: session for session in self._host.live_sessions()}
        await self._host.close(why, "replaced")
        self._unix.clear()

    async def drain(self) -> int:
        """Begin nothing new and wait for turns; gives how many sessions were still busy when the time was over."""
        self.is_draining = True
        if self._old_sessions is not None:
            self._old_sessions.close()
        self._host.ends_because = "the host is shutting down"
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

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._served)

    def stop_listening(self) -> None:
        """Accept no more sockets."""
        for server in self._servers:
            server.stop_listening()
        for unix, _ in self._unix:
            unix.close()

    async def leave(self, why: str) -> None:
        """End every connection and socket of this server, and leave the host and its sessions as they are."""
        self.is_draining = self._is_leaving = True
        self._stop_looking()
        await self._chats.close()
        for task, served in list(self._served.items()):
            if served is not None and isinstance(served.transport, ClosesWithCode):
                served.transport.set_close(close_codes.DRAINING, why)
            task.cancel()
        await self._close_sockets()

    async def close(self) -> None:
        """End every session, connection and socket."""
        self.is_draining = self._is_leaving = True
        self._stop_looking()
        await self._cancel_turns()
        await self._chats.close()
        await self._host.close("The host was shut down.")
        await self._close_sockets()

    async def _close_sockets(self) -> None:
        for server in self._servers:
            await server.close()
        for unix, path in self._unix:
            unix.close()
            with suppress(FileNotFoundError):
                os.unlink(path)
        if self._served:
            await asyncio.wait(list(self._served))
        self._access_log.close()


_NOT_KEPT: Final = (b"cache-control", b"no-store")


def _not_kept(status: int, reason: str) -> HttpReply:
    return text_answer(status, reason)._replace(headers=(_NOT_KEPT,))


def _end(transport: Transport, code: int, reason: str) -> None:
    if isinstance(transport, ClosesWithCode):
        transport.set_close(code, reason)
    transport.close()


def _too_often(seconds: int) -> GateRefusal:
    return GateRefusal(429, "This token sends too many requests; wait.", ((b"retry-after", b"%d" % seconds),))
