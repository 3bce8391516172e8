"""How much of each principal was received and is not complete, or not answered: memory that a client decides about.

Each socket counts what it holds. A principal that would hold too much over all of its sockets is refused: a request
over HTTP with 429, a WebSocket with the close code 1008.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from dragoman.transports.remote.gate import GateRefusal

IN_FLIGHT_BYTES: Final = 64 * 1024 * 1024
SENTENCE: Final = "This token has too much data under way; send less at a time."
TOO_MUCH: Final = GateRefusal(429, SENTENCE, ((b"retry-after", b"1"),))


class InFlightBytes:
    """The bytes under way of all principals."""

    def __init__(self, limit_bytes: int = IN_FLIGHT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._held: Counter[str] = Counter()

    def of(self, principal: str) -> int:
        """Return what a principal holds now."""
        return self._held[principal]

    def add(self, principal: str, size: int) -> None:
        self._held[principal] += size
        if self._held[principal] <= 0:
            del self._held[principal]


class HeldBytes:
    """What one socket holds for its principal; set it to 0 at the end."""

    __slots__ = ("_principal", "_size", "_total")

    def __init__(self, total: InFlightBytes, principal: str) -> None:
        self._total = total
        self._principal = principal
        self._size = 0

    def fits(self, size: int) -> bool:
        """Whether the socket may hold so much."""
        return self._total.of(self._principal) - self._size + size <= self._total.limit_bytes

    def set(self, size: int) -> bool:
        """Take note of how much the socket holds now; return False if that is too much for its principal."""
        if size == self._size:
            return True
        is_fine = size < self._size or self.fits(size)
        self._total.add(self._principal, size - self._size)
        self._size = size
        return is_fine
