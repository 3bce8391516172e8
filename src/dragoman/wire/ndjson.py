"""Cuts a stream of bytes into lines, whatever the chunks it arrives in.

Owns framing: `\\n` ends a frame and nothing else does; one line never takes more than its limit.
Does not know what a line means, beyond asking whether the last one is a complete JSON object.
"""

from __future__ import annotations

from io import BytesIO
from typing import Final, TypeAlias

import msgspec

# 32 MiB is what the reference SDK accepts (rule 14): a larger message could not be sent to it either.
LIMIT_BYTES: Final = 32 * 1024 * 1024

# What is kept of a line that is not delivered. Recorded messages name their id and kind within 50 bytes of the start,
# except that one agent writes the id last: so there is a tail, with room for an id of 200 characters.
HEAD_BYTES: Final = 4096
TAIL_BYTES: Final = 256

# Where searching for the next newline begins to pay.
_LONG_BYTES: Final = 1024

BOM: Final = b"\xef\xbb\xbf"


class TooLong(msgspec.Struct, frozen=True, gc=False):
    """A line over the limit; only its first 4 KiB and its last 256 bytes were kept."""

    head: bytes
    tail: bytes
    size_bytes: int
    limit_bytes: int


class Truncated(msgspec.Struct, frozen=True, gc=False):
    """The stream ended inside a line; `head` is the first 4 KiB of it."""

    head: bytes
    size_bytes: int


Frame: TypeAlias = bytes | TooLong | Truncated


class _AnyObject(msgspec.Struct, gc=False):
    """Every member is skipped: decoding to this type asks only whether the text is one JSON object."""


_decode_object = msgspec.json.Decoder(_AnyObject).decode


class Framer:
    """Bytes in, frames out: lines without their end, in order, blank ones dropped.

    Sizes count the bytes between two newlines, a `\\r` included, so that the verdict about a line does not depend
    on how it was chunked. An over-long line is reported when its newline arrives: only then is its size known, and
    nothing behind it could have been handled earlier.
    """

    __slots__ = ("_buffer", "_head", "_opening", "_piece", "_size_bytes", "_tail", "limit_bytes")

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        # The unfinished line. One piece is the usual case and needs no buffer. A second one starts the buffer: it
        # grows in place and gives out its own bytes, so 50 MB in 64 KiB chunks peak at 1.1 times the line, where
        # a list of chunks and a join take twice the memory and twice the time.
        self._piece = b""
        self._buffer: BytesIO | None = None
        self._size_bytes = 0
        self._head: bytes | None = None  # set while an over-long line is discarded
        self._tail = b""
        # A byte order mark may come in three chunks: its possible beginning is held here until that is settled.
        self._opening: bytes | None = b""

    @property
    def held_bytes(self) -> int:
        """How much of an unfinished line is kept in memory."""
        kept = self._size_bytes if self._head is None else len(self._head) + len(self._tail)
        return kept + len(self._opening or b"")

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes."""
        if self._opening is not None:
            data = self._skip_mark(data)
        end = data.find(b"\n")
        if end < 0:
            if data:
                self._hold(data)
            return []
        if end == len(data) - 1 and not self._size_bytes and data.startswith(b"{") and end <= self.limit_bytes:
            return [data[:end].removesuffix(b"\r")]  # one message and nothing else: the pace of a conversation
        lines = _split(data)
        tail = lines.pop()
        first = self._close(lines.pop(0)) if self._size_bytes else None
        frames = self._judge(lines) if len(data) > self.limit_bytes else _tidy(lines, b"\r" in data)
        if first is not None:
            frames[:0] = first
        if tail:
            self._hold(tail)
        return frames

    def end(self) -> list[Frame]:
        """Return the last line, if the stream did not end with a newline (rule 13); the framer is as new afterwards."""
        if self._opening:
            self._hold(self._opening)
        self._opening = b""
        size_bytes = self._size_bytes
        frames = self._close(b"") if size_bytes else []
        if frames and isinstance(line := frames[0], bytes) and not _is_object(line):
            return [Truncated(line[:HEAD_BYTES], size_bytes)]
        return frames

    def _skip_mark(self, data: bytes) -> bytes:
        data = (self._opening or b"") + data
        if len(data) < len(BOM) and BOM.startswith(data):
            self._opening = data
            return b""
        self._opening = None
        return data.removeprefix(BOM)

    def _hold(self, piece: bytes) -> None:
        """Keep a piece of a line whose newline is still to come."""
        had_bytes = self._size_bytes
        self._size_bytes += len(piece)
        if self._size_bytes > self.limit_bytes:
            self._discard(piece)
        elif not had_bytes:
            self._piece = piece
        else:
            if self._buffer is None:
                self._buffer = BytesIO()
                self._buffer.write(self._piece)
                self._piece = b""
            self._buffer.write(piece)

    def _discard(self, piece: bytes) -> None:
        """Remember the two ends of an over-long line and forget the rest."""
        if self._head is None:
            held = self._piece if self._buffer is None else self._buffer.getvalue()
            self._piece, self._buffer = b"", None
            self._head, self._tail = held[:HEAD_BYTES], held[-TAIL_BYTES:]
        if len(self._head) < HEAD_BYTES:
            self._head += piece[: HEAD_BYTES - len(self._head)]
        self._tail = (self._tail + piece[-TAIL_BYTES:])[-TAIL_BYTES:]

    def _close(self, rest: bytes) -> list[Frame]:
        """Return the held line, now that `rest` finished it; empty if it is blank."""
        if rest:
            self._hold(rest)
        size_bytes, head, tail, buffer, line = self._size_bytes, self._head, self._tail, self._buffer, self._piece
        self._piece, self._buffer, self._size_bytes, self._head, self._tail = b"", None, 0, None, b""
        if head is not None:
            return [TooLong(head, tail, size_bytes, self.limit_bytes)]
        if buffer is not None:
            line = buffer.getvalue()
        return _tidy([line], line.endswith(b"\r"))

    def _judge(self, lines: list[bytes]) -> list[Frame]:
        """Return the lines of a chunk that is itself larger than the limit."""
        frames: list[Frame] = []
        for line in lines:
            if len(line) > self.limit_bytes:
                frames.append(TooLong(line[:HEAD_BYTES], line[-TAIL_BYTES:], len(line), self.limit_bytes))
            else:
                frames += _tidy([line], True)
        return frames


def _split(data: bytes) -> list[bytes]:
    """Split as `data.split` does, which looks at each byte by itself: for long lines a search is five times faster."""
    if data.count(b"\n") * _LONG_BYTES > len(data):
        return data.split(b"\n")
    lines: list[bytes] = []
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        lines.append(data[start:end])
        start = end + 1
    lines.append(data[start:])
    return lines


def _tidy(lines: list[bytes], has_returns: bool) -> list[Frame]:
    if has_returns:
        lines = [line.removesuffix(b"\r") for line in lines]
    return [line for line in lines if line and not line.isspace()]


def _is_object(line: bytes) -> bool:
    try:
        _decode_object(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
