"""The server-sent events in the bytes of a response.

Owns the framing: lines end with LF or CRLF, an empty line ends an event, `data:` lines of one event are joined. Only
the members that model servers use are read; comments, `id:` and `retry:` are skipped. A body that is JSON is one event:
some servers answer so when they do not stream, or report an error. What is kept between two pieces is bounded, so a
server that never ends its line cannot fill the memory. Loaded with `http.py`, when a session makes its first model.
"""

from __future__ import annotations

from typing import Final

# The largest event that is known is a whole image of an answer in base64.
LARGEST_EVENT_BYTES: Final = 64 * 1024 * 1024


class EventTooLarge(ValueError):
    """One event is larger than any server sends."""


class NotAStream(ValueError):
    """The body is a web page, as wrong addresses and portals answer."""


class Events:
    """A splitter that takes bytes as they arrive and returns the events that are complete."""

    def __init__(self) -> None:
        self._is_begun = False
        self._is_json = False
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._event = ""
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, piece: bytes) -> list[tuple[str, bytes]]:
        """Return the events that end in this piece, each as its type and its data.

        Raises: EventTooLarge, NotAStream.
        """
        if not self._is_begun:
            self._begin(piece.lstrip()[:1])
        end = piece.rfind(b"\n")
        if end < 0 or self._is_json:
            self._keep(piece)
            return []
        whole = b"".join([*self._rest, piece[:end]]) if self._rest else piece[:end]
        self._rest, self._rest_bytes = [], 0
        if end + 1 < len(piece):
            self._keep(piece[end + 1 :])
        if b"\r" in whole:
            whole = whole.replace(b"\r\n", b"\n").removesuffix(b"\r")
        return self._read(whole.split(b"\n"))

    def end(self) -> list[tuple[str, bytes]]:
        """Return the event that was not followed by an empty line, when the response has ended."""
        if self._is_json:
            return [("", b"".join(self._rest))]
        return self._read([b"".join(self._rest).removesuffix(b"\r"), b""])

    def _begin(self, first: bytes) -> None:
        self._is_begun = bool(first)
        self._is_json = first in (b"{", b"[") if first else False
        if first == b"<":
            raise NotAStream("a web page instead of an answer")

    def _read(self, lines: list[bytes]) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
                self._data_bytes += len(line)
                if self._data_bytes > LARGEST_EVENT_BYTES:
                    raise EventTooLarge(f"an event of more than {LARGEST_EVENT_BYTES} bytes")
            elif not line:
                if data:
                    found.append((self._event, data[0] if len(data) == 1 else b"\n".join(data)))
                    data.clear()
                self._event, self._data_bytes = "", 0
            elif line.startswith(b"event:"):
                self._event = line[6:].strip().decode(errors="replace")
        return found

    def _keep(self, piece: bytes) -> None:
        self._rest.append(piece)
        self._rest_bytes += len(piece)
        if self._rest_bytes > LARGEST_EVENT_BYTES:
            raise EventTooLarge(f"a line of more than {LARGEST_EVENT_BYTES} bytes")
