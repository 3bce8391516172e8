"""The boundary between the peer and the transport that moves its bytes.

Owns the two protocols every transport is written against. Does not know framing, JSON or processes.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from dragoman.errors import ConnectionClosed


class Receiver(Protocol):
    """What gets the bytes that a transport reads. Called on the event loop, in order; must not block."""

    def feed(self, data: bytes) -> None:
        """Take bytes as they came, split anywhere."""

    def end(self, reason: ConnectionClosed) -> None:
        """Take note that nothing more will come. Called once, after the last `feed`; not after a `close` of our own."""

    def drained(self) -> None:
        """Take note that `unsent_bytes` fell to the low mark again."""


class Transport(Protocol):
    """A way to move bytes in both directions. After `end` it can still be written to, until it is closed."""

    def start(self, receiver: Receiver) -> None:
        """Let data flow to `receiver`; needs a running event loop."""

    def write(self, data: bytes) -> None:
        """Take all of `data` without blocking. Does nothing once the transport is closed or broken."""

    @property
    def unsent_bytes(self) -> int:
        """What was written and has not left yet: the measure for backpressure."""

    def pause_reading(self) -> None:
        """Stop feeding. If the transport ends meanwhile, what already arrived is fed before `end`."""

    def resume_reading(self) -> None:
        """Feed again."""

    def close(self) -> None:
        """Release everything and call the receiver no more. What was written is still flushed, within a bound."""

    async def wait_closed(self) -> None:
        """Return when everything is released: file descriptors closed, process reaped."""


@runtime_checkable
class ClosesWithCode(Protocol):
    """A transport that can say at its end why it ends."""

    def set_close(self, code: int, reason: str) -> None:
        """Take the code and the sentence that `close` will send."""


@runtime_checkable
class SizesBuffers(Protocol):
    """A transport that can hold more on its way while many sessions stream at once."""

    def note_streams(self, count: int) -> None:
        """Take note of how many sessions wait for the answer to a prompt now."""
