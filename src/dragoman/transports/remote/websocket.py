"""A WebSocket as a transport: each line of the peer is one text message. Both ends use it, after their handshake.

Theory of operation
-------------------
It is the `asyncio.Protocol` of its socket. What comes goes through the sans-I/O part of `websockets`, which answers
pings and the closing handshake by itself; complete text messages are fed as lines, other messages are dropped. While
reading is paused the socket is not read, and messages that were already parsed wait in `_held`.

Frames of a server are written by hand, all lines of one write together: the header is at most ten bytes, and this is
the path every update takes. Frames of a client are masked by the library.

The peer is pinged every PING_SECONDS; one that leaves DEAD_PINGS of them unanswered counts as gone.
Pings are counted, not seconds: a loop that stood still for a while must not end every connection.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from websockets.frames import Opcode
from websockets.protocol import SERVER, State

from dragoman.errors import ConnectionClosed
from dragoman.transports import LOW_MARK_BYTES
from dragoman.transports.remote.buffers import bound_buffers, end_writing
from dragoman.transports.remote.messages import one_line
from dragoman.wire import LIMIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from websockets.frames import Frame
    from websockets.protocol import Event, Protocol

    from dragoman.rpc.transport import Receiver

MAX_MESSAGE_BYTES: Final = LIMIT_BYTES  # a message may be as long on every transport
PING_SECONDS: Final = 15.0
DEAD_PINGS: Final = 3
FLUSH_SECONDS: Final = 2.0

_PONG: Final = 0x80 | Opcode.PONG
_UNREAD_BYTES: Final = 1024 * 1024
_SHARED_BYTES: Final = 1024 * 1024

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
WRONG: Final = 1002
NOT_TEXT: Final = 1007
LIMIT: Final = 1008
TOO_LONG: Final = 1009
INTERNAL: Final = 1011


class WebSocketTransport(asyncio.Protocol):
    """One end of a WebSocket, open already."""

    def __init__(
        self,
        frames: Protocol,
        io: asyncio.Transport,
        *,
        peer: str,
        intercept: Callable[[bytes], bool] | None = None,
        ping_seconds: float = PING_SECONDS,
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        """Take over a socket whose handshake is done; `attach` starts the reading.

        Args:
            frames: The state of the WebSocket.
            io: Its socket.
            peer: What the other end is called in errors.
            intercept: Sees each message first; True if it is not to be fed.
            ping_seconds: How long the peer may be silent before it is asked for a sign of life.
            flush_seconds: How long `close` waits for a peer that does not read.
        """
        self._frames = frames
        self._io = io
        self._peer = peer
        self._intercept = intercept
        self._is_server = frames.side is SERVER
        self._loop = asyncio.get_running_loop()
        self._receiver: Receiver | None = None
        self._held: deque[bytes] = deque()
        self._parts = bytearray()  # not a list: fragments without data would fill it
        self._is_text = False
        self._is_paused = False
        self._is_closed = False
        self._lost: ConnectionClosed | None = None
        self._is_over = False
        self._farewell = (NORMAL, "")
        self._flush_seconds = flush_seconds
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._silences = 0
        self._ping_seconds = ping_seconds
        self._timer = self._loop.call_later(ping_seconds, self._check_life)
        io.set_write_buffer_limits(high=LOW_MARK_BYTES, low=LOW_MARK_BYTES)
        bound_buffers(io)

    def attach(self, already: bytes = b"") -> None:
        """Read from the socket from now on; `already` came with the handshake."""
        self._io.set_protocol(self)
        if already:
            self.data_received(already)

    # Transport

    def start(self, receiver: Receiver) -> None:
        """Let data flow to `receiver`; needs a running event loop."""
        self._receiver = receiver
        self._loop.call_soon(self._feed_held)

    def write(self, data: bytes) -> None:
        """Send each line as one message."""
        if self._is_closed or self._lost is not None or self._frames.state is not State.OPEN:
            return
        if self._is_server:
            self._io.write(_framed_lines(data))
            return
        for line in data.split(b"\n"):
            if line:
                self._frames.send_text(line)
        self._send()

    @property
    def unsent_bytes(self) -> int:
        """What the socket has not taken yet."""
        return 0 if self._lost is not None else self._io.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Stop feeding."""
        if not self._is_paused:
            self._is_paused = True
            if self._lost is None:
                self._io.pause_reading()

    def resume_reading(self) -> None:
        """Feed again."""
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._feed_held)
            if self._lost is None and not self._io.is_closing():
                self._io.resume_reading()

    def set_close(self, code: int, reason: str) -> None:
        """Take the code and the sentence that `close` will send."""
        self._farewell = (code, reason)

    def close(self) -> None:
        """Say goodbye and close; the receiver is called no more."""
        self.close_with(*self._farewell)

    def close_with(self, code: int, reason: str) -> None:
        """Close with a code of RFC 6455 and a sentence, which is cut to what a close frame holds."""
        if self._is_closed:
            return
        self._is_closed = True
        self._held.clear()
        self._timer.cancel()
        if self._lost is not None:
            return
        if self._frames.state is State.OPEN:
            self._frames.send_close(code, reason.encode()[:120].decode("utf-8", "ignore"))
            self._send()
        if self._is_paused:  # its closing handshake is still read
            self._io.resume_reading()
        self._timer = self._loop.call_later(self._flush_seconds, self._io.abort)

    async def wait_closed(self) -> None:
        """Return when the socket is closed."""
        await asyncio.shield(self._gone)

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        self._silences = 0
        frames = self._frames
        frames.receive_data(data)
        events = frames.events_received()
        self._send()  # pongs and the answer to a close leave before what the messages lead to
        self.take(events)

    @property
    def incomplete_bytes(self) -> int:
        """What was received of messages that are not complete."""
        return len(self._frames.reader.buffer) + len(self._parts)

    def take(self, events: list[Event]) -> None:
        """Handle what was parsed."""
        for event in events:
            self._on_frame(cast("Frame", event))
        if self._frames.close_expected() and not self._io.is_closing():
            self._io.close()

    def eof_received(self) -> bool:
        self._frames.receive_eof()
        self._send()
        return False

    def resume_writing(self) -> None:
        if self._receiver is not None and not self._is_closed:
            self._receiver.drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._lost = ConnectionClosed(self._why(exc))
        if not self._gone.done():
            self._gone.set_result(None)
        if not self._is_closed and self._receiver is not None:
            self._loop.call_soon(self._feed_held)

    # Inside

    def _on_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.TEXT or frame.opcode is Opcode.BINARY:
            self._is_text = frame.opcode is Opcode.TEXT
        elif frame.opcode is not Opcode.CONT:
            return
        if not self._is_text:
            return
        if frame.fin and not self._parts:
            message = bytes(frame.data)
        else:
            self._parts += frame.data
            if not frame.fin:
                return
            message = bytes(self._parts)
            self._parts = bytearray()
        if self._is_closed:  # until the peer answers our close, its messages are read and dropped
            return
        if not _is_utf8(message):
            self._fail(NOT_TEXT, "a text message is not UTF-8")
        elif self._intercept is None or not self._intercept(message):
            self._deliver(one_line(message))

    def _deliver(self, line: bytes) -> None:
        if self._receiver is None or self._is_paused or self._held:  # behind what is held, to keep the order
            self._held.append(line)
        else:
            self._receiver.feed(line)

    def _feed_held(self) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        # A socket that is lost can give nothing more, so what it gave is fed, paused or not, and then its end.
        while self._held and not self._is_closed and (not self._is_paused or self._lost is not None):
            receiver.feed(self._held.popleft())
        if self._lost is not None and not self._held and not self._is_closed and not self._is_over:
            self._is_over = True
            receiver.end(self._lost)

    def _send(self) -> None:
        for data in self._frames.data_to_send():
            if not data:
                end_writing(self._io)
            elif data[0] != _PONG or self._io.get_write_buffer_size() < _UNREAD_BYTES:
                # RFC 6455 lets pings go unanswered that another one follows: otherwise a peer that sends pings and
                # reads nothing would fill the memory.
                self._io.write(data)

    def _fail(self, code: int, reason: str) -> None:
        """End it for a fault of the peer; the receiver gets the end when the socket is closed."""
        self._frames.fail(code, reason)
        self._send()
        self._io.close()

    def _check_life(self) -> None:
        if not self._is_paused:  # while it is, the answers of the peer are not read
            self._silences += 1
        if self._silences > DEAD_PINGS:
            self._io.abort()
            return
        if self._frames.state is State.OPEN:
            self._frames.send_ping(b"")
            self._send()
        self._timer = self._loop.call_later(self._ping_seconds, self._check_life)

    def _why(self, exc: Exception | None) -> str:
        closed = self._frames.close_rcvd
        if closed is not None and closed.code not in (1005, NORMAL):
            return f"{self._peer} closed the connection ({closed.code}{': ' if closed.reason else ''}{closed.reason})"
        if closed is not None:
            return f"{self._peer} closed the connection"
        failed = self._frames.close_sent
        if failed is not None:
            return f"the connection was closed for a fault of {self._peer} ({failed.code}: {failed.reason})"
        return f"{self._peer} is gone" + (f" ({exc})" if exc is not None else "")


_last_framed: tuple[bytes, bytes] = (b"", b"")


def _framed_lines(data: bytes) -> bytes:
    """Frame each line as a text message. A host writes the same object to each of its clients: it is framed once."""
    global _last_framed
    last = _last_framed
    if last[0] is data:
        return last[1]
    framed = b"".join([_framed(line) for line in data.split(b"\n") if line])
    if len(data) <= _SHARED_BYTES:  # it is kept until the next one
        _last_framed = (data, framed)
    return framed


def _framed(line: bytes) -> bytes:
    """Frame a text message of a server: final, not masked."""
    size = len(line)
    if size < 126:
        return b"\x81%c%b" % (size, line)
    if size < 65536:
        return struct.pack("!BBH", 0x81, 126, size) + line
    return struct.pack("!BBQ", 0x81, 127, size) + line


def _is_utf8(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True
