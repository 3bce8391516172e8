"""One stream of events to a client of Streamable HTTP: what waits, what was sent, and the response that carries it.

Theory of operation
-------------------
Events get numbers 1, 2, 3... as they are pushed. Those that no response has taken yet wait in `_waiting`; those that
one took stay in `_sent`, up to KEPT_BYTES, because a response that breaks loses what was on its way. A client that
comes back with the number of the last event it got has the rest moved back to `_waiting` and goes on without a gap.

The response is a `Writer`. Everything that is ready leaves in one write. Once the writer's socket is full, events wait
here until it has room, where they count as unsent and slow down the one who writes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from dragoman.transports.remote.sse import event

if TYPE_CHECKING:
    from collections.abc import Callable

# More than the buffers of the two kernels hold, so that what was lost with a response is still here.
KEPT_BYTES: Final = 8 * 1024 * 1024


class Writer(Protocol):
    """The response that carries a stream."""

    @property
    def is_full(self) -> bool:
        """Whether its socket should get no more for now."""

    @property
    def unsent_bytes(self) -> int:
        """What its socket has not taken yet."""

    @property
    def is_delivered(self) -> bool:
        """Whether the client's machine has got everything."""

    def send(self, events: bytes) -> None:
        """Send whole events."""

    def finish(self) -> None:
        """End the response."""


class Expired(NamedTuple):
    """A client asked for events that are no longer kept."""

    oldest: int
    head: int


class EventStream:
    """The events of one session, or those of the connection."""

    def __init__(self, on_progress: Callable[[int], None], *, kept_bytes: int = KEPT_BYTES) -> None:
        """Make an empty stream.

        Args:
            on_progress: Called with the change of the number of bytes that wait.
            kept_bytes: How much of what was sent is kept for a client that comes back.
        """
        self._on_progress = on_progress
        self._kept_bytes = kept_bytes
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._sent: deque[tuple[int, bytes]] = deque()
        self._sent_bytes = 0
        self._head = 0
        self._is_finished = False
        self.writer: Writer | None = None
        self.is_ours = False
        """Whether the client is Dragoman, which wants the answer to `session/load` on this stream."""

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def is_delivered(self) -> bool:
        """Whether everything has reached the client's machine; also true if no client listens."""
        return self.writer is None or (not self._waiting and self.writer.is_delivered)

    def push(self, line: bytes) -> None:
        """Add a message; `flush` sends it."""
        self._head += 1
        self._waiting.append((self._head, line))
        self._on_progress(len(line))

    def flush(self) -> None:
        """Send what waits, as far as there is room."""
        writer = self.writer
        if writer is None:
            return
        while self._waiting and not writer.is_full:
            pieces = []
            size = 0
            while self._waiting and size < 65536:
                number, line = self._waiting.popleft()
                self._sent.append((number, line))
                size += len(line)
                pieces.append(event(line, number))
            self._sent_bytes += size
            writer.send(b"".join(pieces))
            self._on_progress(-size)
        while self._sent_bytes > self._kept_bytes:
            self._sent_bytes -= len(self._sent.popleft()[1])
        if self._is_finished and not self._waiting:
            self.detach(writer)
            writer.finish()

    def attach(self, writer: Writer, after: int | None) -> Expired | None:
        """Send to `writer` from now on; the writer before it is ended.

        Args:
            after: The number of the last event the client got; None to go on with what was not sent yet.
        """
        if after is not None:
            oldest = self._sent[0][0] if self._sent else (self._waiting[0][0] if self._waiting else self._head + 1)
            if not oldest - 1 <= after <= self._head:
                return Expired(oldest, self._head)
            while self._sent and self._sent[-1][0] > after:
                number, line = self._sent.pop()
                self._sent_bytes -= len(line)
                self._waiting.appendleft((number, line))
                self._on_progress(len(line))
            while self._waiting and self._waiting[0][0] <= after:  # it got them, but we never saw them leave
                self._on_progress(-len(self._waiting.popleft()[1]))
        before, self.writer = self.writer, writer
        if before is not None:
            before.finish()
        self.flush()
        return None

    def detach(self, writer: Writer) -> None:
        if self.writer is writer:
            self.writer = None

    def finish(self) -> None:
        """End the response after what waits; no more will come."""
        self._is_finished = True
        self.flush()

    def drop(self) -> None:
        """Forget what waits and end the response."""
        waiting = sum(len(line) for _, line in self._waiting)
        self._waiting.clear()
        self._sent.clear()
        self._on_progress(-waiting)
        writer, self.writer = self.writer, None
        if writer is not None:
            writer.finish()
