"""Splits a byte stream into lines without losing a byte.

Owns the split into a line and its end, for recordings that must reproduce the stream exactly: blank lines, `\\r\\n`
and a byte order mark are kept, which `wire.Framer` drops. Does not decode lines.
"""

from __future__ import annotations

from io import BytesIO
from typing import Final

from dragoman.wire import LIMIT_BYTES

_NEWLINE: Final = b"\n"

Line = tuple[bytes, bytes]
"""A line and its end: `\\n`, `\\r\\n`, or nothing."""


class ExactLines:
    """Takes bytes and returns lines. A line longer than the limit is returned in pieces."""

    __slots__ = ("_buffer", "_held_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._buffer = BytesIO()
        self._held_bytes = 0

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that `data` completes, and pieces of one that is too long."""
        lines = data.split(_NEWLINE)
        rest = lines.pop()
        if lines and self._held_bytes:
            self._buffer.write(lines[0])
            lines[0] = self._take()
        whole = [_with_end(line) for line in lines]
        if rest:
            self._held_bytes += self._buffer.write(rest)
            if self._held_bytes >= self.limit_bytes:
                whole.append((self._take(), b""))
        return whole

    def end(self) -> list[Line]:
        """Return the bytes after the last newline."""
        return [(self._take(), b"")] if self._held_bytes else []

    def _take(self) -> bytes:
        taken = self._buffer.getvalue()
        self._buffer = BytesIO()
        self._held_bytes = 0
        return taken


def _with_end(line: bytes) -> Line:
    return (line[:-1], b"\r\n") if line.endswith(b"\r") else (line, _NEWLINE)
