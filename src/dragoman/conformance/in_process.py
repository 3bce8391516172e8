"""A transport around one end of a memory pair, for agents and clients that run in the judge's own process.

Owns passing calls and data through unchanged. What else a link needs is added by `agent/in_process.py` and
`client/in_process.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.errors import ConnectionClosed
    from dragoman.rpc import Receiver, Transport


class WrappedTransport:
    """A transport around another, whose receiver it is; a subclass changes what it needs to."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._receiver: Receiver | None = None
        self.write = inner.write
        self.pause_reading = inner.pause_reading
        self.resume_reading = inner.resume_reading
        self.close = inner.close

    @property
    def unsent_bytes(self) -> int:
        return self._inner.unsent_bytes

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._inner.start(self)

    async def wait_closed(self) -> None:
        await self._inner.wait_closed()

    def feed(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.feed(data)

    def end(self, reason: ConnectionClosed) -> None:
        if self._receiver is not None:
            self._receiver.end(reason)

    def drained(self) -> None:
        if self._receiver is not None:
            self._receiver.drained()
