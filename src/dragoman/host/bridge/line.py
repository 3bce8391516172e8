"""A transport that carries JSON-RPC messages as Python objects, for both ends of the bridge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.wire import Framer

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.errors import ConnectionClosed
    from dragoman.rpc import Transport

FULL_BYTES: Final = 1024 * 1024
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class JsonLine:
    """Messages over a transport."""

    def __init__(
        self,
        transport: Transport,
        *,
        on_message: Callable[[Any], None],
        on_end: Callable[[ConnectionClosed], None],
        on_drained: Callable[[], None],
        on_malformed: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare a line; `start` opens it.

        Args:
            on_message: Called with each message, decoded.
            on_end: Called once when the other end is gone.
            on_drained: Called when what was sent has left.
            on_malformed: Called for a line that is not JSON.
        """
        self._transport = transport
        self._on_message = on_message
        self._on_end = on_end
        self._on_drained = on_drained
        self._on_malformed = on_malformed
        self._framer = Framer()

    def start(self) -> None:
        self._transport.start(self)

    def send(self, message: Any) -> None:
        self._transport.write(_encode(message) + b"\n")

    @property
    def is_full(self) -> bool:
        """Whether the other end does not read as fast as it is written to."""
        return self._transport.unsent_bytes > FULL_BYTES

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        self._transport.resume_reading()

    async def close(self) -> None:
        """Close, after what was sent has left."""
        self._transport.close()
        await self._transport.wait_closed()

    # Receiver

    def feed(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            self._take(frame)

    def end(self, reason: ConnectionClosed) -> None:
        for frame in self._framer.end():
            self._take(frame)
        self._on_end(reason)

    def drained(self) -> None:
        self._on_drained()

    def _take(self, frame: object) -> None:
        try:
            message = _decode(frame) if isinstance(frame, bytes) else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            message = None
        if message is None:
            self._on_malformed()
        else:
            self._on_message(message)
