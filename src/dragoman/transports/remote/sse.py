"""Server-sent events: how events are written, and how a stream of them is read, split anywhere. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from dragoman.errors import RemoteProtocolError

MIME_TYPE: Final = b"text/event-stream"
KEEP_ALIVE: Final = b":\n\n"
RETRY_MILLISECONDS: Final = 2000
RETRY: Final = b"retry: %d\n\n" % RETRY_MILLISECONDS


def event(line: bytes, number: int | None = None) -> bytes:
    """Return an event with one line of JSON; its number is its id, with which a client that comes back can go on."""
    if number is None:
        return b"data: %b\n\n" % line
    return b"id: %d\ndata: %b\n\n" % (number, line)


class Event(NamedTuple):
    """An event that was read."""

    data: bytes
    id: str | None


class EventReader:
    """A reader of events from bytes as they come.

    A line ends with CR, LF or both; a CR at the end of a piece may be the first half of both.
    """

    def __init__(self, limit_bytes: int, last_id: str | None = None) -> None:
        self._limit_bytes = limit_bytes
        self._id = last_id  # of the event that is being read; it counts when the event is complete
        self._rest = bytearray()
        self._searched = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._is_first = True
        self.last_id = last_id
        self.retry_milliseconds: int | None = None

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events that `data` completes.

        Raises:
            RemoteProtocolError: an event is longer than the limit.
        """
        self._rest += piece
        if self._is_first and len(self._rest) >= 3:
            self._is_first = False
            if self._rest.startswith(b"\xef\xbb\xbf"):
                del self._rest[:3]
        events = []
        for line in self._lines():
            found = self._line(line)
            if found is not None:
                events.append(found)
        if len(self._rest) + self._data_bytes > self._limit_bytes:
            raise RemoteProtocolError(f"an event is longer than {self._limit_bytes} bytes")
        return events

    def _lines(self) -> list[bytes]:
        if b"\r" in self._rest:
            return self._lines_with_returns()
        end = self._rest.rfind(b"\n", self._searched)
        self._searched = len(self._rest)
        if end < 0:
            return []
        lines = bytes(self._rest[:end]).split(b"\n")
        del self._rest[: end + 1]
        self._searched = len(self._rest)
        return lines

    def _lines_with_returns(self) -> list[bytes]:
        held = self._rest.endswith(b"\r")
        text = bytes(self._rest[:-1] if held else self._rest).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        whole, separator, rest = text.rpartition(b"\n")
        self._rest = bytearray(rest)
        if held:
            self._rest += b"\r"
        self._searched = 0
        return whole.split(b"\n") if separator else []

    def _line(self, line: bytes) -> Event | None:
        if not line:
            self.last_id = self._id
            if not self._data:
                return None
            data, self._data, self._data_bytes = b"\n".join(self._data), [], 0
            return Event(data, self.last_id)
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._data_bytes += len(value)
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self.retry_milliseconds = int(value[:9])
        return None
