"""The newest output of a command as text.

Owns the limit in bytes, the cut between characters and the line ends of a terminal. Does not know descriptors.
"""

from __future__ import annotations

import codecs

from dragoman.process.ring import Ring

# A terminal writes `\r\n` for `\n`, and `\r\r\n` where a program wrote `\r\n` itself.
_MOST_RETURNS = 2


class Tail:
    """Keeps the last `limit_bytes` of what was added; with `is_tty` a line ends with `\\n` alone."""

    __slots__ = ("_held", "_is_tty", "_ring", "limit_bytes")

    def __init__(self, limit_bytes: int, *, is_tty: bool) -> None:
        self.limit_bytes = limit_bytes
        self._is_tty = is_tty
        self._ring = Ring(max(limit_bytes, 1))
        self._held = b""  # returns at the end: what comes next decides whether they belong to a line end

    def add(self, data: bytes) -> None:
        if self._is_tty:
            data = self._held + data
            end = len(data)
            while end > 0 and len(data) - end < _MOST_RETURNS and data[end - 1] == 0x0D:
                end -= 1
            data, self._held = data[:end], data[end:]
            for _ in range(_MOST_RETURNS):
                data = data.replace(b"\r\n", b"\n")
        self._ring.add(data)

    def read(self, *, is_final: bool) -> tuple[str, bool]:
        """The kept text, at most `limit_bytes` when encoded (rule 287), and whether something is missing before it.

        A character whose other half may still come is left out, unless this `is_final`.
        """
        is_cut = self._ring.total_bytes + len(self._held) > self.limit_bytes
        if self.limit_bytes == 0:
            return "", is_cut
        data = self._ring.kept() + self._held
        # Half a character can only be in front if something was cut off there.
        whole = _from_boundary(data) if is_cut else data
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(whole, is_final)
        encoded = text.encode()
        if len(encoded) <= self.limit_bytes:
            return text, is_cut
        # Every byte that is not text became a replacement character of three bytes.
        return _from_boundary(encoded[-self.limit_bytes :]).decode(), True


def _from_boundary(data: bytes) -> bytes:
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
