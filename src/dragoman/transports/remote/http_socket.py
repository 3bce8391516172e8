"""One socket of the server while it speaks HTTP.

Theory of operation
-------------------
It is an `asyncio.Protocol` in one of three lives: it answers requests one after the other; or it carries one stream of
events until that ends; or it was upgraded, and `ServerWebSocket` has taken over. h11 parses.

A request is judged by its head. One that is refused is answered at once with `Connection: close`; what the client still
sends is read and thrown away for a moment, so that it sees the answer and not a reset.

The first message of a WebSocket must be `initialize` and has a deadline, and a second one is refused. The application
learns of the connection only with it, so that an open socket alone costs it nothing.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import h11
from websockets.datastructures import Headers
from websockets.http11 import Request
from websockets.protocol import SERVER, Protocol
from websockets.server import ServerProtocol

from dragoman.transports import _close_codes as close_codes
from dragoman.transports.remote.answers import AnsweredRequest, HttpReply, StreamedReply, session_of, text_answer
from dragoman.transports.remote.buffers import end_writing
from dragoman.transports.remote.first_message import answer_again, judge_first
from dragoman.transports.remote.gate import Entered, GateRefusal, Head, cross_origin_headers, examine
from dragoman.transports.remote.in_flight import SENTENCE, TOO_MUCH, HeldBytes
from dragoman.transports.remote.sse import MIME_TYPE
from dragoman.transports.remote.stream_writer import PageWriter, StreamWriter
from dragoman.transports.remote.websocket import (
    GOING_AWAY,
    LIMIT,
    MAX_MESSAGE_BYTES,
    WRONG,
    WebSocketTransport,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from websockets.typing import Subprotocol

    from dragoman.transports.remote.server import RemoteServer


# Of what a refused client still sends: enough that a request which is under way ends, little enough that it costs
# nothing to be refused.
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_DISCARD_BYTES: Final = 64 * 1024
_DISCARD_SECONDS: Final = 1.0
_UNREAD_BYTES: Final = 1024 * 1024  # of refusals that a WebSocket does not read, which are small


class HttpSocket(asyncio.Protocol):
    """One socket of the server, while it speaks HTTP."""

    def __init__(self, server: RemoteServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=server.limits.header_bytes)
        self._io: asyncio.Transport
        self.peer = ""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._entered: Entered | None = None
        self._line = ("", "")
        self._name = b""
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._began = self._loop.time()
        self._request_id = ""
        self._held: HeldBytes | None = None
        self._is_busy = False
        self._is_in_head = True
        self._discarded: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stream: StreamWriter | PageWriter | None = None
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._io = transport
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if isinstance(name, tuple) else ""
        if not self._server.admit(self):
            self._refuse(GateRefusal(503, "The server is busy; try again.", ((b"retry-after", b"5"),)))
            return
        self._deadline(self._server.limits.header_seconds)

    def data_received(self, data: bytes) -> None:
        if self._discarded is not None:
            self._discarded += len(data)
            if self._discarded > _DISCARD_BYTES:
                self._io.abort()
            return
        if self._stream is not None:
            return  # a client has nothing more to send on a stream
        self._http.receive_data(data)
        self._go_on()
        self._watch_head()

    def eof_received(self) -> bool:
        if self._discarded is None and self._stream is None:
            with suppress(h11.RemoteProtocolError):
                self._http.receive_data(b"")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.dismiss(self)
        self._server.left(self.peer)
        self._release()
        self._stop_timer()
        # The stream first: the task that answers may be the one that carries it, and finds it closed then.
        if self._stream is not None:
            self._stream.lost()
        if self._answering is not None:
            self._answering.cancel()
        if not self.gone.done():
            self.gone.set_result(None)

    def pause_writing(self) -> None:
        if self._stream is not None:
            self._stream.no_room()

    def resume_writing(self) -> None:
        if self._stream is not None:
            self._stream.has_room()

    @property
    def owes_answer(self) -> bool:
        """Whether a client waits for an answer, or has connected to ask; not for the rest of a stream."""
        is_asking = self._is_busy or self._is_in_head or self._entered is not None
        return is_asking and self._discarded is None and self._stream is None

    def shut_down(self) -> None:
        """Close the socket, because the server ends."""
        if not self._is_busy or self._stream is not None:
            self._io.close()
            self._loop.call_later(_DISCARD_SECONDS, self._io.abort)
        else:
            self._io.abort()

    # Requests

    def _go_on(self) -> None:
        """Read on, until an answer is being made."""
        while not self._is_busy and self._discarded is None:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._refuse(GateRefusal(error.error_status_hint, "The request cannot be read."))
                return
            if event is h11.NEED_DATA:
                return
            if isinstance(event, h11.Request):
                self._on_head(event)
            elif isinstance(event, h11.Data):
                self._on_body(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._on_end()
            else:  # paused behind an upgrade, or closed
                return

    def _watch_head(self) -> None:
        """Set a deadline if the head of a further request has begun; before that the socket may be silent."""
        is_between = not self._is_busy and not self._is_in_head and self._entered is None and self._discarded is None
        if is_between and self._http.trailing_data[0]:
            self._is_in_head = True
            self._deadline(self._server.limits.header_seconds)

    def _on_head(self, event: h11.Request) -> None:
        head = Head(event.method, event.target, list(event.headers), self.peer)
        path = event.target.partition(b"?")[0]
        self._line = (event.method.decode("latin-1"), path.decode("latin-1"))
        self._name = next((value for name, value in head.headers if name == b"host"), b"")
        self._began = self._loop.time()
        given = next((value for name, value in head.headers if name == b"x-request-id"), b"")
        self._request_id = given.decode() if _REQUEST_ID.fullmatch(given) else ""
        self._entered, self._body, self._body_bytes = None, [], 0
        if event.http_version != b"1.1":
            self._refuse(GateRefusal(505, "HTTP/1.1 is needed."))
            return
        found = examine(head, self._server.rules)
        if isinstance(found, GateRefusal) and found.again is not None:
            self._stop_timer()
            self._is_busy = True
            self._io.pause_reading()
            self._answering = self._loop.create_task(self._examine_again(head, found.again))
        else:
            self._examined(found)

    async def _examine_again(self, head: Head, ready: Awaitable[None]) -> None:
        """Go on with a request when the gate can decide about it. A client that leaves cancels this."""
        await ready
        self._answering, self._is_busy = None, False
        self._io.resume_reading()
        self._examined(examine(head, self._server.rules))
        self._go_on()

    def _examined(self, found: Entered | GateRefusal) -> None:
        if isinstance(found, GateRefusal):
            self._refuse(found)
            return
        self._entered, self._is_in_head = found, False
        self._held = HeldBytes(self._server.in_flight, found.principal.name)
        if not self._held.fits(int(found.headers.get(b"content-length", b"0"))):
            self._refuse(TOO_MUCH)
            return
        self._deadline(self._server.limits.body_seconds)
        if self._http.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))

    def _on_body(self, data: bytes) -> None:
        self._body_bytes += len(data)
        limit = self._server.rules.max_body_bytes if self._entered is None else self._entered.max_body_bytes
        if self._body_bytes > limit:
            self._refuse(GateRefusal(413, f"The body is longer than {limit} bytes."))
        elif self._held is not None and not self._held.set(self._body_bytes):
            self._refuse(TOO_MUCH)
        else:
            self._body.append(data)

    def _release(self) -> None:
        """Let go of the body."""
        self._body = []
        if self._held is not None:
            self._held.set(0)

    def _on_end(self) -> None:
        entered = self._entered
        assert entered is not None
        self._stop_timer()
        self._is_busy = True
        if entered.is_upgrade:
            self._upgrade(entered)
        elif entered.method == b"GET" and entered.path.startswith("/acp"):
            if session_of(entered) is None or self._server.rules.admit_stream is None:
                self._open_stream(entered)
            else:
                self._answering = self._loop.create_task(self._admit_stream(entered))
        else:
            # A client that sends on while its request is answered waits in its kernel, not in our memory.
            self._io.pause_reading()
            self._answering = self._loop.create_task(self._answer(entered, b"".join(self._body)))

    async def _admit_stream(self, entered: Entered) -> None:
        """Open the stream of a session, unless the application does not know it. A client that leaves cancels this."""
        refused = await self._server.refused_stream(entered)
        self._answering = None
        if refused is not None:
            self._refuse(refused)
        else:
            self._open_stream(entered)

    async def _answer(self, entered: Entered, body: bytes) -> None:
        answer = await self._server.answer(entered, body, self.peer)
        origin = cross_origin_headers(entered.headers.get(b"origin"), self._server.rules)
        self._release()
        if isinstance(answer, StreamedReply):
            await self._carry(answer, origin)
            return
        self._answering = None
        self._respond(answer, origin)
        if self._io.is_closing():
            return
        if self._http.our_state is h11.MUST_CLOSE:
            self._io.close()
            return
        self._http.start_next_cycle()
        self._entered, self._is_busy = None, False
        self._deadline(self._server.limits.idle_seconds)
        self._io.resume_reading()
        self._go_on()  # a request that the client sent without waiting is in h11's buffer already

    def _respond(self, answer: HttpReply, more: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        headers = [
            *answer.headers,
            *more,
            (b"content-length", b"%d" % len(answer.body)),
            *self._server.safe_headers(self._name),
        ]
        if answer.body:
            headers.append((b"content-type", answer.content_type))
        self._send(h11.Response(status_code=answer.status, headers=headers))
        if answer.body and self._line[0] != "HEAD":
            self._send(h11.Data(data=answer.body))
        self._send(h11.EndOfMessage())
        self._note(answer.status, len(answer.body))

    def _note(self, status: int, sent_bytes: int = 0) -> None:
        principal = "" if self._entered is None else self._entered.principal.name
        seconds = self._loop.time() - self._began
        sizes = (self._body_bytes, sent_bytes)
        self._server.answered(
            AnsweredRequest(self.peer, *self._line, status, principal, *sizes, seconds, self._request_id)
        )

    def _refuse(self, refusal: GateRefusal) -> None:
        """Answer without reading further, and close."""
        self._stop_timer()
        self._release()
        answer = text_answer(refusal.status, refusal.reason)
        headers = (*refusal.headers, (b"connection", b"close"))
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._respond(answer._replace(headers=headers))
        # From here on input is thrown away. Only our direction is closed: closing both while the client sends would
        # reset the connection, and with it the answer.
        self._discarded = 0
        end_writing(self._io)
        self._timer = self._loop.call_later(_DISCARD_SECONDS, self._io.abort)

    def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data and not self._io.is_closing():
            self._io.write(data)

    # Streams and upgrades

    def _open_stream(self, entered: Entered) -> None:
        origin = cross_origin_headers(entered.headers.get(b"origin"), self._server.rules)
        limits = self._server.limits
        writer = StreamWriter(self._io, limits.keep_alive_seconds, limits.stall_seconds)
        refused = self._server.open_stream(entered, writer)
        if refused is not None:
            self._finish(refused, origin)
            return
        self._stream = writer
        headers = [
            (b"content-type", MIME_TYPE),
            (b"cache-control", b"no-cache"),
            (b"connection", b"keep-alive"),
            (b"x-accel-buffering", b"no"),
            (b"transfer-encoding", b"chunked"),
            *self._server.safe_headers(self._name),
            *origin,
        ]
        self._send(h11.Response(status_code=200, headers=headers))
        self._note(200)
        writer.open()

    async def _carry(self, answer: StreamedReply, origin: tuple[tuple[bytes, bytes], ...]) -> None:
        """Send what a page makes piece by piece. The socket is read meanwhile, to see that the client goes away."""
        limits = self._server.limits
        self._stream = writer = PageWriter(self._io, limits.keep_alive_seconds, limits.stall_seconds)
        headers = [(b"content-type", answer.content_type), *answer.headers, (b"transfer-encoding", b"chunked")]
        self._send(h11.Response(status_code=200, headers=[*headers, *self._server.safe_headers(self._name), *origin]))
        self._note(200)
        self._io.resume_reading()
        await writer.run(answer.pieces)

    def _finish(self, answer: HttpReply, more: tuple[tuple[bytes, bytes], ...]) -> None:
        self._respond(answer, more)
        self._http.start_next_cycle()
        self._entered, self._is_busy = None, False
        self._deadline(self._server.limits.idle_seconds)

    def _upgrade(self, entered: Entered) -> None:
        # A page does not see the status of a refused upgrade, so that the holder of a ticket gets a socket that closes.
        is_page = entered.way == "ticket"
        if not self._server.take(entered.principal, is_forced=is_page):
            too_many = GateRefusal(429, "There are too many connections of this token; end one.")
            if not is_page:
                self._refuse(too_many)
                return
            entered = entered._replace(refused=entered.refused or too_many)
        already = self._http.trailing_data[0]
        refused = accept_upgrade(self._server, self._io, entered, self.peer, already)
        if refused is not None:
            self._server.give_back(entered.principal)
            self._refuse(refused)
            return
        self._note(101)
        # The WebSocket counts from now on. `left` is not called: it counts for the same address when it is gone.
        self._server.dismiss(self)
        self.gone.set_result(None)

    # Time

    def _deadline(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(seconds, self._too_late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        if self._http.their_state is h11.IDLE and not self._http.trailing_data[0]:
            self._io.close()  # between requests
        else:
            self._refuse(GateRefusal(408, "The request took too long."))


class ServerWebSocket(WebSocketTransport):
    """A WebSocket of a client, from its handshake on."""

    def __init__(
        self, server: RemoteServer, frames: Protocol, io: asyncio.Transport, entered: Entered, address: str
    ) -> None:
        super().__init__(
            frames, io, peer="the client", intercept=self._before_initialize, ping_seconds=server.limits.ping_seconds
        )
        self.principal = entered.principal
        self.path = entered.path
        self.address = address
        self._server = server
        self._incomplete = HeldBytes(server.in_flight, entered.principal.name)
        self._deadline = self._loop.call_later(server.limits.initialize_seconds, self._too_late)

    @property
    def gone(self) -> asyncio.Future[None]:
        return self._gone

    def shut_down(self, reason: str) -> None:
        """End with the server; the peer above learns it from the end of the socket."""
        if self._receiver is None:
            self.close_with(GOING_AWAY, reason)
        else:
            self._fail(GOING_AWAY, reason)
            self._loop.call_later(self._flush_seconds, self._io.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._incomplete.set(self.incomplete_bytes):
            self._fail(LIMIT, SENTENCE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self._incomplete.set(0)
        # The peer above ends first: when the server has counted the last one, nothing of it runs.
        super().connection_lost(exc)
        self._server.websocket_gone(self)

    def _before_initialize(self, message: bytes) -> bool:
        first = judge_first(message)
        if first.is_initialize:
            self._deadline.cancel()
            # Both before this message is passed on: the application starts the transport, then gets `initialize`.
            self._intercept = self._after_initialize
            self._server.websocket_opened(self)
            return False
        if first.answer is not None:
            self._answer(first.answer)
        elif first.wrong is not None:
            self.close_with(WRONG, first.wrong)
        return True

    def _after_initialize(self, message: bytes) -> bool:
        answer = answer_again(message)
        if answer is None:
            return False
        self._answer(answer)
        return True

    def _answer(self, answer: bytes) -> None:
        """Answer in place of the application, which would have slowed down a client that does not read."""
        if self.unsent_bytes > _UNREAD_BYTES:
            self.close_with(LIMIT, "the client does not read its answers")
        else:
            self.write(answer)

    def _too_late(self) -> None:
        self.close_with(LIMIT, "initialize did not come in time")


def accept_upgrade(
    server: RemoteServer, io: asyncio.Transport, entered: Entered, address: str, already: bytes
) -> GateRefusal | None:
    """Answer the handshake and take the socket over; the refusal if the handshake is wrong.

    Args:
        already: What the client sent behind its request.
    """

    def choose(frames: ServerProtocol, offered: object) -> Subprotocol | None:
        return entered.subprotocol  # type: ignore[return-value]  # a NewType of str, which is not imported at run time

    handshake = ServerProtocol(select_subprotocol=choose)
    headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in entered.headers.items()])
    response = handshake.accept(Request(entered.path, headers))
    if response.status_code != 101:
        return GateRefusal(response.status_code, "This is not a handshake of WebSocket version 13.")
    response.headers["Acp-Connection-Id"] = secrets.token_urlsafe(24)
    handshake.send_response(response)
    for data in handshake.data_to_send():
        io.write(data)
    # The state after the handshake: `handshake` itself would wait for a request, which h11 has read.
    websocket = ServerWebSocket(server, Protocol(SERVER, max_size=MAX_MESSAGE_BYTES), io, entered, address)
    server.upgraded(websocket)
    if entered.refused is not None:
        code = close_codes.TOO_OFTEN if entered.refused.status == 429 else close_codes.REFUSED
        websocket.attach()
        websocket.close_with(code, entered.refused.reason)  # before what came with the request is looked at
        websocket.data_received(already)
        return None
    websocket.attach(already)
    return None
