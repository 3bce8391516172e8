"""The server: listens, keeps the connections over HTTP by their ids, and gives each ACP connection to the application.

Owns the listening sockets, of which none is lost at the end, and the counts that limits are about. `http_socket.py`
speaks HTTP on one socket.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from dragoman.rpc.transport import Transport
from dragoman.transports._acceptor import Acceptor
from dragoman.transports.remote.answers import JSON, AnsweredRequest, HttpReply, PageReply, session_of, text_answer
from dragoman.transports.remote.event_stream import Writer
from dragoman.transports.remote.gate import Entered, GateRefusal, GateRules, Principal
from dragoman.transports.remote.http_connection import HttpConnection, NotServed
from dragoman.transports.remote.http_socket import HttpSocket
from dragoman.transports.remote.in_flight import IN_FLIGHT_BYTES, InFlightBytes
from dragoman.transports.remote.messages import CONNECTION_ID, POST_NUMBER, Seen, look
from dragoman.transports.remote.websocket import PING_SECONDS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping

SERVER_MARK: Final = b"dragoman-server"
OURS: Final = b"dragoman-client"
_BATCH: Final = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"JSON-RPC batches are not supported"}}'
_NO_SNIFF: Final = ((b"x-content-type-options", b"nosniff"),)
_LOOK_SECONDS: Final = 0.01
_log = logging.getLogger("dragoman.transports")


class ServerLimits(msgspec.Struct, frozen=True):
    """How much the server takes from its principals."""

    header_bytes: int = 32 * 1024
    """Four times what browsers and proxies send at most."""
    header_seconds: float = 10.0
    """Less than the patience of who opens sockets and sends a byte now and then; a client on a slow line needs one."""
    body_seconds: float = 60.0
    """For a whole body: a picture in a prompt over a slow line."""
    initialize_seconds: float = 10.0
    """For the first message of a connection."""
    answer_seconds: float = 60.0
    """For the answer to `initialize`, while an agent starts."""
    idle_seconds: float = 1800.0
    """A connection over HTTP without an open stream and without a post is ended after this."""
    keep_alive_seconds: float = 15.0
    """Between signs of life on a stream; proxies cut a silent one after 30 to 60."""
    ping_seconds: float = PING_SECONDS
    """Between pings of a WebSocket; a client that leaves three of them unanswered is cut."""
    stall_seconds: float = 30.0
    """A stream that the client does not read is cut after this; the client may come back for the rest. Less than the
    time after which a peer ends the whole connection."""
    sockets: int = 4096
    sockets_per_address: int = 512
    connections_per_principal: int = 256
    in_flight_bytes: int = IN_FLIGHT_BYTES
    """Of one principal: received, and not complete or not answered."""


class NewConnection(NamedTuple):
    """An ACP connection that was opened: its `initialize` is about to be fed."""

    transport: Transport
    principal: Principal
    path: str
    peer: str


class ServedWebSocket(Transport, Protocol):
    """A WebSocket of a client, on a socket of ours or of an ASGI server."""

    principal: Principal
    path: str
    address: str

    @property
    def gone(self) -> asyncio.Future[None]:
        """Done when the socket is closed."""

    def shut_down(self, reason: str) -> None:
        """End with the server."""


class StreamResponse(Writer, Protocol):
    """A response that can carry a stream."""

    def prepare(self, connection: HttpConnection, session: str | None) -> None:
        """Take what the response is to carry."""


class RemoteServer:
    """A server of ACP over Streamable HTTP and WebSocket."""

    def __init__(
        self,
        opened: Callable[[NewConnection], None],
        rules: GateRules,
        *,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - frozen
        pages: Mapping[str, Callable[[Entered, bytes], Awaitable[PageReply]]] | None = None,
        answered: Callable[[AnsweredRequest], None] = lambda exchange: None,
        in_flight: InFlightBytes | None = None,
        safe_headers: Callable[[bytes], tuple[tuple[bytes, bytes], ...]] = lambda name: _NO_SNIFF,
    ) -> None:
        """Prepare a server; `listen` opens it.

        Args:
            opened: Called with each new connection. It has to start the transport in this turn of the loop.
            rules: Who may enter.
            limits: How much it takes from its principals.
            pages: Further paths, with what answers them; one that ends with a slash is for all paths below it.
            answered: Called with each request when its answer, or the head of its stream, is written.
            in_flight: Counts what principals have under way, for several servers together.
            safe_headers: Returns the headers that each answer has, by the name in the header Host of its request.
        """
        self._opened = opened
        self.rules = rules
        self.limits = limits
        self.in_flight = in_flight or InFlightBytes(limits.in_flight_bytes)
        self._pages = pages or {}
        self.answered = answered
        self.safe_headers = safe_headers
        self._listeners: list[PortListener] = []
        self._sockets: set[HttpSocket] = set()
        self._addresses: Counter[str] = Counter()
        self._principals: Counter[str] = Counter()
        self._connections: dict[str, HttpConnection] = {}
        self._websockets: set[ServedWebSocket] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._sweep: asyncio.TimerHandle | None = None

    async def listen(self, sock: socket.socket, *, ssl: ssl.SSLContext | None = None) -> None:
        """Accept connections on a bound socket."""
        handshake_seconds = self.limits.header_seconds
        listener = PortListener(sock, lambda: HttpSocket(self), ssl=ssl, handshake_seconds=handshake_seconds)
        self._listeners.append(listener)
        self.watch_idle()

    def watch_idle(self) -> None:
        """End connections that are not used, from now on."""
        if self._sweep is None and not self._is_closing:
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_later(self.limits.idle_seconds / 4, self._end_idle)

    @property
    def connections(self) -> int:
        """How many ACP connections are open."""
        return len(self._connections) + len(self._websockets)

    def stop_listening(self) -> None:
        """Accept no more sockets; those that are open are served on."""
        for listener in self._listeners:
            listener.close()

    async def finish_answers(self, seconds: float) -> None:
        """Accept no more, and return when each client that was accepted has its answer; at most after so long."""
        self.stop_listening()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._owes_answers():  # noqa: ASYNC110 - there is no event for what happens once in its life
                    await asyncio.sleep(_LOOK_SECONDS)

    def _owes_answers(self) -> bool:
        is_opening = any(listener.is_opening for listener in self._listeners)
        return is_opening or any(http_socket.owes_answer for http_socket in self._sockets)

    @property
    def sockets(self) -> int:
        """How many sockets are open, those of WebSockets included."""
        return len(self._sockets) + len(self._websockets)

    async def close(self, reason: str = "Server shutting down") -> None:
        """Stop listening and end every connection."""
        self._is_closing = True  # first: a socket that is accepted while this waits is refused by `admit`
        if self._sweep is not None:
            self._sweep.cancel()
        self.stop_listening()
        # Before the sockets are counted below: what was accepted may still become one.
        for listener in self._listeners:
            await listener.finish()
        for connection in list(self._connections.values()):  # a copy: each takes itself out when it ends
            connection.end(reason)
            connection.close()
        for websocket in list(self._websockets):
            websocket.shut_down(reason)
        for http_socket in list(self._sockets):
            http_socket.shut_down()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        while self._sockets or self._websockets:
            await asyncio.wait(
                [http_socket.gone for http_socket in self._sockets] + [websocket.gone for websocket in self._websockets]
            )

    # Counting

    def admit(self, http_socket: HttpSocket) -> bool:
        """Count a socket; False if there are too many."""
        self._sockets.add(http_socket)
        self._addresses[http_socket.peer] += 1
        return (
            not self._is_closing
            and self.sockets <= self.limits.sockets
            and self._addresses[http_socket.peer] <= self.limits.sockets_per_address
        )

    def dismiss(self, http_socket: HttpSocket) -> None:
        self._sockets.discard(http_socket)

    def left(self, peer: str) -> None:
        """Count one socket of this address less."""
        self._addresses[peer] -= 1
        if self._addresses[peer] <= 0:
            del self._addresses[peer]

    def take(self, principal: Principal, *, is_forced: bool = False) -> bool:
        """Count a connection of a principal; False if it has too many, which is counted only if it is forced."""
        has_room = self._principals[principal.name] < self.limits.connections_per_principal
        if has_room or is_forced:
            self._principals[principal.name] += 1
        return has_room

    def give_back(self, principal: Principal) -> None:
        self._principals[principal.name] -= 1
        if self._principals[principal.name] <= 0:
            del self._principals[principal.name]

    def run(self, work: Awaitable[None]) -> None:
        async def ran() -> None:
            await work

        task = asyncio.get_running_loop().create_task(ran())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # WebSocket

    def upgraded(self, websocket: ServedWebSocket) -> None:
        self._websockets.add(websocket)

    def websocket_opened(self, websocket: ServedWebSocket) -> None:
        self._opened(NewConnection(websocket, websocket.principal, websocket.path, websocket.address))

    def websocket_gone(self, websocket: ServedWebSocket) -> None:
        self._websockets.discard(websocket)
        self.left(websocket.address)
        self.give_back(websocket.principal)

    # HTTP

    async def answer(self, entered: Entered, body: bytes, peer: str) -> PageReply:
        """Answer everything but a stream of ACP and an upgrade."""
        try:
            return await self._answer(entered, body, peer)
        except Exception:
            # A page is the application's. The client gets an answer whatever happens in it, and no text of exceptions.
            _log.exception("%s %s could not be answered", entered.method.decode("latin-1"), entered.path)
            return text_answer(500, "Internal Server Error")

    async def _answer(self, entered: Entered, body: bytes, peer: str) -> PageReply:
        page = self._pages.get(entered.path) or self._pages.get(entered.path[: entered.path.find("/", 1) + 1])
        if page is not None:
            return await page(entered, body)
        try:
            if entered.method == b"POST":
                return await self._post(entered, body, peer)
            if entered.method == b"DELETE":
                connection = self.find(entered)
                connection.end("the client ended the connection")
                connection.close()
                return HttpReply(202, b"")
        except NotServed as refused:
            return text_answer(refused.status, str(refused))
        return text_answer(405, "Method Not Allowed")

    async def _post(self, entered: Entered, body: bytes, peer: str) -> HttpReply:
        seen = look(body)
        if seen is None:
            return text_answer(400, "Invalid JSON")
        if seen.kind == "batch":
            return HttpReply(400, _BATCH, JSON)
        if body.lstrip()[:1] != b"{":
            return text_answer(400, "Invalid JSON-RPC message")
        if not seen.is_initialize:
            number = entered.headers.get(POST_NUMBER, b"")
            await self.find(entered).post(body, seen, session_of(entered), int(number) if is_number(number) else None)
            return HttpReply(202, b"")
        if CONNECTION_ID in entered.headers:
            return text_answer(400, "Initialize not allowed on existing connection")
        if seen.id in (None, b"null"):
            return text_answer(400, "Initialize request must include an ID")
        return await self._initialize(entered, body, seen, peer)

    async def _initialize(self, entered: Entered, body: bytes, seen: Seen, peer: str) -> HttpReply:
        if not self.take(entered.principal):
            return text_answer(429, "There are too many connections of this token; end one.")
        connection = HttpConnection(entered.principal, self._ended)
        # Known before the application is: it may look the connection up, or end it at once.
        self._connections[connection.id] = connection
        self._opened(NewConnection(connection, entered.principal, entered.path, peer))
        try:
            answer = await connection.initialize(body, seen, self.limits.answer_seconds)
        except (NotServed, TimeoutError) as error:
            connection.end("initialize was not answered")
            connection.close()
            why = str(error) or f"no answer within {self.limits.answer_seconds:g} seconds"
            return HttpReply(500, _initialize_failed(seen, why), JSON)
        except asyncio.CancelledError:
            # Its id was never sent, so no client could end or use the connection.
            connection.end("the client went away before initialize was answered")
            connection.close()
            raise
        return HttpReply(200, answer, JSON, ((CONNECTION_ID, connection.id.encode()), (SERVER_MARK, b"1")))

    async def refused_stream(self, entered: Entered) -> GateRefusal | None:
        """Ask the application whether a principal may have the stream of a session; return the refusal if not."""
        session, admit = session_of(entered), self.rules.admit_stream
        if session is None or admit is None:
            return None
        try:
            return await admit(entered, session)
        except Exception:
            _log.exception("a stream could not be admitted")
            return GateRefusal(500, "Internal Server Error")

    def open_stream(self, entered: Entered, writer: StreamResponse) -> HttpReply | None:
        """Let `writer` carry the stream that a GET asks for; the answer if that is refused."""
        after = entered.headers.get(b"last-event-id", b"")
        session = session_of(entered)
        try:
            connection = self.find(entered)
            writer.prepare(connection, session)
            number = int(after) if is_number(after) else None
            expired = connection.open_stream(session, writer, number, is_ours=OURS in entered.headers)
        except NotServed as refused:
            return text_answer(refused.status, str(refused))
        return None if expired is None else HttpReply(410, b'{"oldest":%d,"head":%d}' % expired, JSON)

    def find(self, entered: Entered) -> HttpConnection:
        """Return the connection that a request names. One of another principal is unknown to it.

        Raises:
            NotServed: there is none.
        """
        id = entered.headers.get(CONNECTION_ID)
        if id is None:
            raise NotServed(400, "Missing Acp-Connection-Id")
        connection = self._connections.get(id.decode("latin-1"))
        if connection is None or connection.is_closed or connection.principal.name != entered.principal.name:
            raise NotServed(404, "Unknown Acp-Connection-Id")
        return connection

    def _ended(self, connection: HttpConnection) -> None:
        if self._connections.pop(connection.id, None) is not None:
            self.give_back(connection.principal)

    def _end_idle(self) -> None:
        oldest = monotonic() - self.limits.idle_seconds
        for connection in list(self._connections.values()):
            if not connection.has_stream and connection.last_used < oldest:
                connection.end("the connection was not used")
                connection.close()
        self._sweep = asyncio.get_running_loop().call_later(self.limits.idle_seconds / 4, self._end_idle)


def is_number(text: bytes) -> bool:
    return text.isdigit() and len(text) < 16


def _initialize_failed(seen: Seen, why: str) -> bytes:
    assert seen.id is not None
    error = {"code": -32603, "message": "Initialize failed", "data": why}
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (seen.id, msgspec.json.encode(error))


class PortListener:
    """A listening socket that loses no accepted connection at its end.

    Every accepted socket belongs to a task until a protocol has it, and `finish` waits for these tasks.
    """

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[], asyncio.Protocol],
        *,
        ssl: ssl.SSLContext | None = None,
        handshake_seconds: float | None = None,
    ) -> None:
        """Start to listen.

        Args:
            sock: Bound already; it is owned here.
            make: Makes the protocol of a connection.
            ssl: For connections with TLS.
            handshake_seconds: How long a handshake of TLS may take.
        """
        self._make = make
        self._ssl = ssl
        self._handshake_seconds = None if ssl is None else handshake_seconds
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._acceptor = Acceptor(sock, self._accepted)

    @property
    def is_opening(self) -> bool:
        """Whether a connection that was accepted has no protocol yet."""
        return bool(self._opening)

    def close(self) -> None:
        """Accept no more; what was accepted is opened."""
        self._acceptor.close()

    async def finish(self) -> None:
        """Return when each connection that was accepted has a protocol, or is closed; handshakes are given up."""
        self.close()
        if self._ssl is not None:
            for task in self._opening:
                task.cancel()
        while self._opening:
            await asyncio.wait(self._opening)

    def _accepted(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            # asyncio does this only for sockets whose protocol number is known, which it is not after `accept`: a
            # small answer behind another one then waits 40 ms for the client's acknowledgement.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._open(sock))
        self._opening.add(task)
        # A task that is cancelled before its first step has not come to its own `finally`.
        task.add_done_callback(lambda done: self._opened(done, sock))

    async def _open(self, sock: socket.socket) -> None:
        await self._loop.connect_accepted_socket(
            self._make, sock, ssl=self._ssl, ssl_handshake_timeout=self._handshake_seconds
        )

    def _opened(self, task: asyncio.Task[None], sock: socket.socket) -> None:
        self._opening.discard(task)
        if task.cancelled():
            sock.close()
        elif (error := task.exception()) is not None:
            _log.debug("a connection was not opened: %s", error)
            sock.close()
