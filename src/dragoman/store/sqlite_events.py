"""Reads the events of a log in SQLite. Many of them are one row, a segment: their marks, and their bodies as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dragoman.store.event_log import EventKind, LogEvent

if TYPE_CHECKING:
    import sqlite3

    from dragoman.store.blob_files import BlobFiles


class SegmentMark(msgspec.Struct, array_like=True, omit_defaults=True):
    """What a segment has of an event besides its body; the number only if events in front of it were joined."""

    kind: EventKind
    turn: int
    number: int | None = None
    hash: str | None = None


def unpack(blobs: BlobFiles, first: int, at: float, version: int, kinds: bytes, bodies: bytes) -> list[LogEvent]:
    """The events of one segment."""
    events = []
    marks: list[SegmentMark] = msgspec.json.decode(kinds, type=list[SegmentMark])
    for place, (mark, body) in enumerate(zip(marks, bodies.split(b"\n"), strict=True)):
        number = first + place if mark.number is None else mark.number
        data = body if mark.hash is None else blobs.read(mark.hash)
        events.append(LogEvent(number, mark.kind, data, mark.turn, at, version))
    return events


def read_events(db: sqlite3.Connection, blobs: BlobFiles, session: str, after: int, limit: int) -> list[LogEvent]:
    """At least one and about `limit` events behind the number `after`; empty at the head."""
    found: list[LogEvent] = []
    rows = db.execute(
        "SELECT first, at, version, kinds, bodies FROM segments WHERE session=? AND last>? ORDER BY first",
        (session, after),
    )
    for row in rows:
        found += [event for event in unpack(blobs, *row) if event.number > after]
        if len(found) >= limit:
            break
    rows.close()
    return found


class SqliteReader:
    """Reads a log over a connection of its own, in any one thread. `close` it."""

    def __init__(self, connection: sqlite3.Connection, blobs: BlobFiles) -> None:
        self._connection = connection
        self._blobs = blobs

    def read(self, session: str, after: int, limit: int) -> list[LogEvent]:
        """At least one and about `limit` events behind the number `after`; empty at the head."""
        return read_events(self._connection, self._blobs, session, after, limit)

    def surplus(self, session: str, *, before: float, size_bytes: int) -> int:
        """The last event that is older than `before`, or has `size_bytes` of events behind it; 0: none."""
        behind = 0
        rows = self._connection.execute(
            "SELECT last, at, length(bodies) + (SELECT coalesce(sum(size), 0) FROM blobs WHERE session=?1 "
            "AND number BETWEEN first AND last) FROM segments WHERE session=?1 AND first>="
            "(SELECT oldest FROM hosted WHERE id=?1) ORDER BY first DESC",
            (session,),
        )
        for last, at, size in rows:
            if at < before or behind >= size_bytes:
                return int(last)
            behind += size
        return 0

    def close(self) -> None:
        self._connection.close()
