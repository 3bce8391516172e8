"""The server as an ASGI application, for those who run an ASGI server already: the same gate, the same wire, the same
`opened`.

Owns the translation between ASGI events and the connections of `server.py`. Sockets, TLS, deadlines for headers and the
number of sockets are the ASGI server's. What it hides cannot be promised here: whether bytes have left its buffers is
not visible, so the answer to `session/load` waits a moment after its replay was handed over, instead of until the
client's machine has it. Each message costs one call of the server; `RemoteServer.listen` joins them and is faster.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from dragoman.transports.remote.answers import HttpReply, PageReply, StreamedReply, text_answer
from dragoman.transports.remote.asgi_websocket import AsgiWebSocket
from dragoman.transports.remote.gate import Entered, GateRefusal, GateRules, Head, cross_origin_headers, examine
from dragoman.transports.remote.in_flight import TOO_MUCH, HeldBytes
from dragoman.transports.remote.server import NewConnection, RemoteServer, ServerLimits
from dragoman.transports.remote.sse import KEEP_ALIVE, MIME_TYPE, RETRY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    from dragoman.transports.remote.http_connection import HttpConnection

T = TypeVar("T")
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_DENIAL: Final = "websocket.http.response"
_FULL_BYTES: Final = 64 * 1024  # as the write buffer of a socket of our own
# The ASGI server does not say when its buffers are empty; this long after it took the last event they mostly are.
_SETTLE_SECONDS: Final = 0.05


class AsgiStreamWriter:
    """The writer of a stream for the ASGI server, which does not return while the client does not read."""

    def __init__(
        self,
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
        keep_alive_seconds: float,
        stall_seconds: float,
    ) -> None:
        self._send_body = send
        self._keep_alive_seconds = keep_alive_seconds
        self._stall_seconds = stall_seconds
        self._waiting: list[bytes] = []
        self._is_news = asyncio.Event()
        self._is_finished = False
        self._is_lost = False
        self._sent_at = 0.0
        self._connection: HttpConnection | None = None
        self._session: str | None = None
        self.unsent_bytes = 0

    def prepare(self, connection: HttpConnection, session: str | None) -> None:
        self._connection, self._session = connection, session

    @property
    def is_full(self) -> bool:
        return self.unsent_bytes >= _FULL_BYTES

    @property
    def is_delivered(self) -> bool:
        return self.unsent_bytes == 0 and monotonic() - self._sent_at >= _SETTLE_SECONDS

    def send(self, events: bytes) -> None:
        self._waiting.append(events)
        self.unsent_bytes += len(events)
        self._is_news.set()

    def finish(self) -> None:
        self._is_finished = True
        self._is_news.set()

    def lost(self) -> None:
        """Give the stream back when the response has ended."""
        if not self._is_lost and self._connection is not None:
            self._is_lost = True
            self.unsent_bytes = 0
            self._connection.close_stream(self._session, self)

    async def run(self) -> None:
        """Send events until the stream ends, or the client does not take them for too long."""
        await self._hand_over(RETRY)
        while True:
            self._is_news.clear()  # before looking: what comes while this sends sets it again
            if self._waiting:
                waiting, self._waiting = b"".join(self._waiting), []
                await self._hand_over(waiting)
                # After it was taken: until then the connection counts it as on its way.
                self.unsent_bytes -= len(waiting)
                if self._connection is not None and not self.is_full:
                    self._connection.flush_stream(self._session)
            elif self._is_finished:
                await self._send_body({"type": "http.response.body", "body": b""})
                return
            else:
                await self._wait()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._keep_alive_seconds):
                await self._is_news.wait()
        except TimeoutError:
            await self._hand_over(KEEP_ALIVE)

    async def _hand_over(self, events: bytes) -> None:
        async with asyncio.timeout(self._stall_seconds):
            await self._send_body({"type": "http.response.body", "body": events, "more_body": True})
        self._sent_at = monotonic()


class AsgiApplication:
    """ACP over Streamable HTTP and WebSocket inside an ASGI server."""

    def __init__(
        self,
        opened: Callable[[NewConnection], None],
        rules: GateRules,
        *,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - frozen
        pages: Mapping[str, Callable[[Entered, bytes], Awaitable[PageReply]]] | None = None,
    ) -> None:
        """Prepare an application.

        Args:
            opened: Called with each new connection. It has to start the transport in this turn of the loop.
            rules: Who may enter.
            limits: How much it takes from its principals; those about sockets and headers are the ASGI server's.
            pages: Further paths, with what answers them; one that ends with a slash is for all paths below it.
        """
        self.server = RemoteServer(opened, rules, limits=limits, pages=pages)

    async def close(self) -> None:
        """End every connection. An ASGI server calls it by its lifespan, unless this is mounted in another one."""
        await self.server.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            self.server.watch_idle()
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            self.server.watch_idle()
            await self._websocket(scope, receive, send)
        else:
            raise ValueError(f"ACP is not served over {scope['type']!r}; it is over http and websocket")

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    # HTTP

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = await self._examine(scope, scope["method"].encode("latin-1"))
        if isinstance(found, Entered) and found.is_upgrade:
            found = GateRefusal(501, "This server does not speak WebSocket; its ASGI server lacks a package for it.")
        if isinstance(found, GateRefusal):
            await _respond(send, text_answer(found.status, found.reason), (*found.headers, *_ending(scope)))
            return
        origin = cross_origin_headers(found.headers.get(b"origin"), self.server.rules)
        if found.method == b"GET" and found.path.startswith("/acp"):
            await self._stream(found, receive, send, origin)
            return
        held = HeldBytes(self.server.in_flight, found.principal.name)
        try:
            body = await self._body(receive, held, found.max_body_bytes)
            if body is None:
                return
            if isinstance(body, GateRefusal):
                headers = (*body.headers, *origin, *_ending(scope))
                await _respond(send, text_answer(body.status, body.reason), headers)
                return
            reply = await _unless_gone(receive, self.server.answer(found, body, _peer(scope)))
        finally:
            held.set(0)
        if isinstance(reply, StreamedReply):
            await _unless_gone(receive, _carry(send, reply, origin))
        elif reply is not None:
            await _respond(send, reply, origin)

    async def _examine(self, scope: Scope, method: bytes) -> Entered | GateRefusal:
        headers = [(bytes(name).lower(), bytes(value)) for name, value in scope["headers"]]
        if scope["type"] == "websocket" and not any(name == b"upgrade" for name, _ in headers):
            headers.append((b"upgrade", b"websocket"))  # over HTTP/2 an upgrade has no such header
        head = Head(method, _target(scope), headers, _peer(scope))
        found = examine(head, self.server.rules)
        if isinstance(found, GateRefusal) and found.again is not None:
            await found.again
            found = examine(head, self.server.rules)
        return found

    async def _body(self, receive: Receive, held: HeldBytes, limit: int) -> bytes | GateRefusal | None:
        """Return the body; None if the client is gone."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.server.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        return GateRefusal(413, f"The body is longer than {limit} bytes.")
                    if not held.set(size):
                        return TOO_MUCH
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            return GateRefusal(408, "The request took too long.")

    async def _stream(
        self, entered: Entered, receive: Receive, send: Send, origin: tuple[tuple[bytes, bytes], ...]
    ) -> None:
        not_admitted = await self.server.refused_stream(entered)
        if not_admitted is not None:
            reply = text_answer(not_admitted.status, not_admitted.reason)
            await _respond(send, reply, (*not_admitted.headers, *origin))
            return
        limits = self.server.limits
        writer = AsgiStreamWriter(send, limits.keep_alive_seconds, limits.stall_seconds)
        refused = self.server.open_stream(entered, writer)
        if refused is not None:
            await _respond(send, refused, origin)
            return
        try:
            headers = [
                (b"content-type", MIME_TYPE),
                (b"cache-control", b"no-cache"),
                (b"x-accel-buffering", b"no"),
                (b"x-content-type-options", b"nosniff"),
                *origin,
            ]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await _unless_gone(receive, writer.run())
        except (OSError, TimeoutError):
            pass  # the client is gone, or does not read; it may come back for the rest
        finally:
            writer.lost()

    # WebSocket

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        if message["type"] != "websocket.connect":
            return
        found = await self._examine(scope, b"GET")
        if isinstance(found, Entered) and found.refused is not None:
            found = found.refused
        if isinstance(found, Entered) and not self.server.take(found.principal):
            found = GateRefusal(429, "There are too many connections of this token; end one.")
        if isinstance(found, GateRefusal):
            await self._deny(scope, send, found)
            return
        websocket = AsgiWebSocket(self.server, found, _peer(scope), receive, send)
        self.server.upgraded(websocket)
        accept = {
            "type": "websocket.accept",
            "subprotocol": found.subprotocol,
            "headers": [(b"acp-connection-id", secrets.token_urlsafe(24).encode())],
        }
        await websocket.run(accept)

    async def _deny(self, scope: Scope, send: Send, refusal: GateRefusal) -> None:
        if _DENIAL not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": 1008})  # the ASGI server answers 403
            return
        body = refusal.reason.encode()
        headers = [*refusal.headers, (b"content-type", b"text/plain; charset=utf-8")]
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": f"{_DENIAL}.start", "status": refusal.status, "headers": headers})
        await send({"type": f"{_DENIAL}.body", "body": body})


async def _respond(send: Send, reply: HttpReply, more: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    headers = [*reply.headers, *more, (b"x-content-type-options", b"nosniff")]
    if reply.status != 204:
        headers.append((b"content-length", b"%d" % len(reply.body)))
    if reply.body:
        headers.append((b"content-type", reply.content_type))
    with suppress(OSError):  # the client is gone
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})


async def _carry(send: Send, reply: StreamedReply, more: tuple[tuple[bytes, bytes], ...]) -> None:
    headers = [(b"content-type", reply.content_type), *reply.headers, *more, (b"x-content-type-options", b"nosniff")]
    try:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for piece in reply.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except OSError:
        pass  # the client is gone
    finally:
        await reply.pieces.aclose()


async def _unless_gone(receive: Receive, work: Awaitable[T]) -> T | None:
    """Return the result of `work`, which is cancelled if the client goes away first."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.wait((working, watching))


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _ending(scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
    """Return the header that closes the socket behind a refusal: the rest of a smuggled request is not read as another
    one.
    """
    return ((b"connection", b"close"),) if scope.get("http_version", "1.1").startswith("1") else ()


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _target(scope: Scope) -> bytes:
    """Return the path as it came, below the place where the application is mounted.

    Mounted at a path, that path is `/acp`.
    """
    raw = scope.get("raw_path")
    path = bytes(raw) if raw else scope["path"].encode("utf-8", "surrogateescape")
    root = scope.get("root_path", "").encode("utf-8", "surrogateescape").rstrip(b"/")
    if not root:
        return path
    inside = path[len(root) :] if path == root or path.startswith(root + b"/") else path
    return b"/acp" if inside in (b"", b"/") else inside
