"""Splits the bytes of a response into the data of server-sent events, cut anywhere.

Owns the framing: lines end with LF, CRLF or CR, an empty line ends an event, `data:` lines of one event are joined;
comments, `event:`, `id:` and `retry:` are skipped. What is kept between two pieces is bounded. Pure.
"""

from __future__ import annotations

from typing import Final

from dragoman.adapters.values import AdapterError

# The largest event that is known is a whole image in base64.
LARGEST_EVENT_BYTES: Final = 64 * 1024 * 1024


class EventData:
    """Takes bytes as they arrive and gives the data of the events that are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._is_begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of each event that ends in this piece. Raises: AdapterError for one that is too large."""
        text = self._rest + piece
        if not self._is_begun and text:
            self._is_begun = True
            text = text.removeprefix(b"\xef\xbb\xbf")
        # A CR at the end may be the first half of a line's end.
        held = b"\r" if text.endswith(b"\r") else b""
        whole = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = whole.split(b"\n")
        self._rest = rest + held
        found = [data for line in lines if (data := self._line(line)) is not None]
        if len(self._rest) + self._data_bytes > LARGEST_EVENT_BYTES:
            raise AdapterError(f"the server sent an event of more than {LARGEST_EVENT_BYTES} bytes")
        return found

    def end(self) -> list[bytes]:
        """The event that no empty line follows, when the response has ended."""
        return self.feed(b"\n\n")

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            if not self._data:
                return None
            data, self._data, self._data_bytes = b"\n".join(self._data), [], 0
            return data
        if line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            self._data.append(value)
            self._data_bytes += len(value)
        return None
