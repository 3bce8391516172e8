"""The last bytes of an endless stream.

Owns keeping a bounded tail of what a child wrote on stderr. Does not know descriptors.
"""

from __future__ import annotations

from typing import Final

KEEP_BYTES: Final = 1 << 20  # enough for the traceback of any agent seen, small next to the agent itself
TAIL_BYTES: Final = 4096  # what goes into an error: a screen or two
_SLACK_BYTES: Final = 256 << 10  # trimmed in big steps, so that a flood of one-byte writes stays linear


class Ring:
    """The last `keep_bytes` of what was added."""

    __slots__ = ("_bytes", "_keep_bytes", "total_bytes")

    def __init__(self, keep_bytes: int = KEEP_BYTES) -> None:
        self._bytes = bytearray()
        self._keep_bytes = keep_bytes
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        self.total_bytes += len(data)
        self._bytes += data[-self._keep_bytes :] if len(data) > self._keep_bytes else data
        if len(self._bytes) > self._keep_bytes + _SLACK_BYTES:
            del self._bytes[: -self._keep_bytes]

    def kept(self) -> bytes:
        """Return the last `keep_bytes`."""
        return bytes(self._bytes[-self._keep_bytes :])

    def tail(self, size_bytes: int = TAIL_BYTES) -> str:
        """Return the last `size_bytes` as text; a character cut in half at the front is dropped."""
        tail = self._bytes[-size_bytes:]
        if len(tail) < len(self._bytes):
            while tail and tail[0] & 0xC0 == 0x80:
                del tail[0]
        return tail.decode("utf-8", "replace")
