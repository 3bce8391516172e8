"""A linked pair of transports in one program.

Behaves like a real connection: delivery in a later turn of the loop, order, pauses that hold
the writer's bytes back, an end after the last byte. Both ends live on one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from dragoman.errors import ConnectionClosed
from dragoman.transports import LOW_MARK_BYTES

if TYPE_CHECKING:
    from dragoman.rpc.transport import Receiver

_TURN_BYTES: Final = 1 << 16  # delivered in one turn of the loop, as much as one read of a pipe


class MemoryTransport:
    """One end of a pair; see `memory_pair`."""

    def __init__(self) -> None:
        self.unsent_bytes = 0
        self._other: MemoryTransport = self
        self._inbox: deque[bytes] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receiver: Receiver | None = None
        self._turn: asyncio.Handle | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._is_paused = False
        self._is_closed = False
        self._is_over = False

    def start(self, receiver: Receiver) -> None:
        """Let data flow to `receiver`; needs a running event loop."""
        self._loop = asyncio.get_running_loop()
        self._receiver = receiver
        self._schedule()

    def write(self, data: bytes) -> None:
        """Hand `data` to the other end, which gets it in a later turn; does nothing once either end is closed."""
        other = self._other
        if self._is_closed or other._is_closed or not data:
            return
        self.unsent_bytes += len(data)
        other._inbox.append(data)
        other._schedule()

    def pause_reading(self) -> None:
        """Leave what comes with the other end, which sees it as unsent."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Feed again."""
        self._is_paused = False
        self._schedule()

    def close(self) -> None:
        """Call the receiver no more; the other end gets what was written, then its end."""
        if self._is_closed:
            return
        self._is_closed = True
        self._inbox.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        other = self._other
        if other.unsent_bytes and other._loop is not None:
            other._loop.call_soon(other._drained)
        other.unsent_bytes = 0
        other._schedule()

    async def wait_closed(self) -> None:
        """Return after `close`; there is nothing to release."""
        if not self._is_closed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _schedule(self) -> None:
        """Take a turn of the loop if there is something to do; the end of the other side counts even while paused."""
        has_news = self._other._is_closed or (self._inbox and not self._is_paused)
        if has_news and self._turn is None and self._loop is not None and not (self._is_closed or self._is_over):
            self._turn = self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._turn = None
        assert self._receiver is not None
        other, left = self._other, _TURN_BYTES
        if other._is_closed and not self._inbox:
            self._is_over = True
            self._receiver.end(ConnectionClosed("the peer closed the connection"))
            return
        try:
            while self._inbox and left > 0 and (not self._is_paused or other._is_closed):
                data = self._inbox.popleft()
                other.unsent_bytes -= len(data)
                left -= len(data)
                self._receiver.feed(data)
        finally:  # a receiver that fails gets the rest all the same
            if left < _TURN_BYTES and other.unsent_bytes <= LOW_MARK_BYTES:
                other._drained()
            self._schedule()

    def _drained(self) -> None:
        if self._receiver is not None and not self._is_closed:
            self._receiver.drained()


def memory_pair() -> tuple[MemoryTransport, MemoryTransport]:
    """Return two linked transports: what is written to one arrives at the other."""
    one, two = MemoryTransport(), MemoryTransport()
    one._other, two._other = two, one
    return one, two
