"""A transport whose other end speaks another version of the protocol, and the lines that go through a translator.

Owns framing, bad lines and the waiting that a translator asks for; `dragoman.versions` says what a frame becomes. Does
not know which versions these are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import INTERNAL_ERROR
from dragoman.schema.codec import encode
from dragoman.versions.frames import OTHER
from dragoman.wire import Framer, Malformed, read_message, refuse, write_error
from dragoman.wire.bounds import find_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.errors import ConnectionClosed
    from dragoman.rpc.transport import Receiver, Transport
    from dragoman.versions import Frame, Lost, Side, Translator
    from dragoman.wire.ndjson import Frame as Line

_NAMES: Final = {"client": "the client", "agent": "the agent"}
# The translator answers some requests itself. A peer that sends them and does not read is not read above this.
_FLOOD_BYTES: Final = 16 << 20


class LineTranslation:
    """Lines of two sides through a translator; needs a running event loop when a translator waits for time.

    Args:
        deliver: Called with the side a line is for, and the line with its end.
        on_loss: Called once for each kind of loss.
        on_noise: Called with a sentence about a line that is not a message.
    """

    def __init__(
        self,
        translator: Translator,
        deliver: Callable[[Side, bytes], None],
        on_loss: Callable[[Lost], None],
        on_noise: Callable[[str], None],
    ) -> None:
        self._translator = translator
        self._deliver = deliver
        self._on_loss = on_loss
        self._on_noise = on_noise
        self._framers: dict[Side, Framer] = {"client": Framer(), "agent": Framer()}
        self._reported: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, side: Side, data: bytes) -> None:
        """Take bytes that `side` sent, split anywhere."""
        for line in self._framers[side].feed(data):
            self._take(side, line)
        self._look_around()

    def take(self, side: Side, line: Line) -> None:
        """Take a line that `side` sent, for callers that have lines and not bytes."""
        self._take(side, line)
        self._look_around()

    def end(self, side: Side) -> None:
        """Take note that `side` sends nothing more."""
        for line in self._framers[side].end():
            self._take(side, line)
        self._send(self._translator.closed(side))
        self._look_around()

    def stop(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take(self, side: Side, line: Line) -> None:
        frame = self._read(line) if isinstance(line, bytes) else None
        if frame is not None:
            self._send(self._translator.feed(side, frame))
            return
        bad = read_message(line) if isinstance(line, bytes) else refuse(line)
        if isinstance(bad, Malformed):
            self._refuse(side, bad)

    @staticmethod
    def _read(line: bytes) -> Frame | None:
        """Return the frame of a line; None for one that has to be looked at more closely."""
        if find_fault(line) is not None:
            return None
        try:
            value: Any = msgspec.json.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
            return None
        is_message = isinstance(value.get("method"), str) or "result" in value or "error" in value
        return value if is_message else None

    def _refuse(self, side: Side, bad: Malformed) -> None:
        self._on_noise(f"{_NAMES[side]} sent a line that is not a message: {bad.why}")
        if bad.kind == "response":
            reason = {"code": INTERNAL_ERROR, "message": f"the response could not be read: {bad.why}"}
            if bad.id is not msgspec.UNSET:
                self._send(self._translator.feed(side, {"jsonrpc": "2.0", "id": bad.id, "error": reason}))
        elif side == "client" or bad.kind == "request":  # what an agent prints by mistake is not answered
            request_id = None if bad.id is msgspec.UNSET else bad.id
            self._deliver(side, write_error(request_id, bad.code, bad.why))

    def _send(self, sent: list[tuple[Side, Frame]]) -> None:
        for side, frame in sent:
            self._deliver(side, encode(frame) + b"\n")

    def _look_around(self) -> None:
        """Report new losses, and begin or end waiting."""
        for lost in self._translator.losses:
            if lost.kind not in self._reported:
                self._reported.add(lost.kind)
                self._on_loss(lost)
        seconds = self._translator.wait_seconds
        if seconds is None:
            self.stop()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._elapsed)

    def _elapsed(self) -> None:
        self._timer = None
        self._send(self._translator.elapsed())
        self._look_around()


class TranslatedTransport:
    """The transport of a role of version 1 whose peer speaks another version.

    Args:
        inner: Leads to the peer; it is closed with this one.
        own_side: What this program is.
        on_loss: Called once for each kind of loss.
        on_noise: Called with a sentence about a line that is not a message.
    """

    def __init__(
        self,
        inner: Transport,
        translator: Translator,
        own_side: Side,
        *,
        on_loss: Callable[[Lost], None],
        on_noise: Callable[[str], None],
    ) -> None:
        self._inner = inner
        self._own_side: Side = own_side
        self._lines = LineTranslation(translator, self._deliver, on_loss, on_noise)
        self._receiver: Receiver | None = None
        # What is for our own role is fed in a later turn of the loop: it may be in the middle of a write.
        self._waiting: deque[bytes] = deque()
        self._is_closed = False
        self._is_paused = False
        self._is_flooded = False

    def start(self, receiver: Receiver) -> None:
        """Let data flow to `receiver`; needs a running event loop."""
        self._receiver = receiver
        self._inner.start(self)

    def take_over(self, receiver: Receiver) -> None:
        """Let data flow to `receiver`, as `start` does, when the inner transport runs already.

        Its receiver passes on to this one what it is called with.
        """
        self._receiver = receiver

    def write(self, data: bytes) -> None:
        """Translate and write; nothing happens after `close`."""
        if not self._is_closed:
            self._lines.feed(self._own_side, data)

    @property
    def unsent_bytes(self) -> int:
        """What was written and has not left yet."""
        return self._inner.unsent_bytes

    def pause_reading(self) -> None:
        """Stop feeding; the end of the peer is still noticed."""
        self._is_paused = True
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        """Feed again."""
        self._is_paused = False
        if not self._is_flooded:
            self._inner.resume_reading()

    def close(self) -> None:
        """Release everything and call the receiver no more."""
        self._is_closed = True
        self._waiting.clear()
        self._lines.stop()
        self._inner.close()

    async def wait_closed(self) -> None:
        """Return when everything is released."""
        await self._inner.wait_closed()

    # Receiver: what the inner transport calls

    def feed(self, data: bytes) -> None:
        """Take bytes of the peer."""
        self._feed_waiting()
        self._lines.feed(OTHER[self._own_side], data)
        self._feed_waiting()
        if self._inner.unsent_bytes > _FLOOD_BYTES and not self._is_flooded and not self._is_closed:
            self._is_flooded = True
            self._inner.pause_reading()

    def end(self, reason: ConnectionClosed) -> None:
        """Take note that the peer is gone: what it leaves unanswered is answered first."""
        self._lines.end(OTHER[self._own_side])
        self._feed_waiting()
        self._lines.stop()
        if self._receiver is not None and not self._is_closed:
            self._receiver.end(reason)

    def drained(self) -> None:
        """Take note that there is room for more."""
        if self._is_flooded and not self._is_closed:
            self._is_flooded = False
            if not self._is_paused:
                self._inner.resume_reading()
        if self._receiver is not None and not self._is_closed:
            self._receiver.drained()

    def _deliver(self, side: Side, line: bytes) -> None:
        if side != self._own_side:
            self._inner.write(line)
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._feed_waiting)
        self._waiting.append(line)

    def _feed_waiting(self) -> None:
        while self._waiting and self._receiver is not None and not self._is_closed:
            lines, self._waiting = self._waiting, deque()
            self._receiver.feed(b"".join(lines))
