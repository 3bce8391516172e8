"""The rows of an event log in SQLite, as its threads read and write them.

Many events are one row, a segment: their marks, and their bodies as lines. A row per event would cost more than
everything else that happens to an update. A commit writes the events of all sessions as one row of the journal, as they
are: that touches a few pages, where each session would touch pages of its own, and nothing is done for a single event.
After a second they are put in their places as segments; a file that was not closed has the rest in its journal.

Owns no thread; every function works on the connection that it is given.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.store.blob_files import BLOB_BYTES
from dragoman.store.event_log import (
    MOVING,
    Already,
    EventKind,
    Hole,
    LogEvent,
    OwnershipLost,
    SessionRecord,
    Stored,
    lost_events,
    number_events,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from dragoman.store.blob_files import BlobFiles
    from dragoman.store.event_log import ListPlace
    from dragoman.store.log_writes import Kept, LogWrite

# The library lets go of the interpreter for each statement and then waits for it again, behind the event loop if that
# is busy. So the segments of a commit are few statements with many rows; these sizes keep them in the statement cache.
_ROWS: Final = (64, 8, 1)
_INSERT: Final = "INSERT INTO segments (session, first, last, at, version, kinds, bodies) VALUES "
_COLUMNS: Final = "id, principal, agent, agent_session, cwd, facts, created_at, updated_at"
_HEAD: Final = "max(head, coalesce((SELECT last FROM segments WHERE session=hosted.id ORDER BY first DESC LIMIT 1), 0))"
_RECORD: Final = f"SELECT {_COLUMNS}, {_HEAD}, oldest FROM hosted"

SegmentRow = tuple[str, int, int, float, int, bytes, bytes]
Journal = dict[str, list[LogEvent]]
"""Events that are committed and not in their places yet, by session."""
# What was committed within this time is one segment, up to this size: readers take segments as a whole.
_TOGETHER_SECONDS: Final = 1.0
_TOGETHER_BYTES: Final = 64 * 1024


class SegmentMark(msgspec.Struct, array_like=True, omit_defaults=True):
    """What a segment has of an event besides its body; the number only if events in front of it were joined."""

    kind: EventKind
    turn: int
    number: int | None = None
    hash: str | None = None
    after: float = 0.0
    """Seconds from the time of the segment, which is that of its first event."""


_write_mark: Final = msgspec.json.Encoder().encode


@lru_cache(1024)
def _plain_mark(kind: EventKind, turn: int) -> bytes:
    return _write_mark(SegmentMark(kind, turn))


_read_marks: Final = msgspec.json.Decoder(list[SegmentMark]).decode
_write_journal: Final = msgspec.msgpack.Encoder().encode
_read_journal: Final = msgspec.msgpack.Decoder(Journal).decode


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Keep what the block writes as a whole, or nothing of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


# Writing


def write_batch(
    db: sqlite3.Connection, batch: Sequence[LogWrite], heads: dict[str, int], epoch: int
) -> tuple[list[Kept], Journal]:
    """Write a batch in the transaction that is open.

    Args:
        db: The connection of the writer.
        batch: What to write.
        heads: The last numbers of the sessions that have an owner here.
        epoch: The one in which they are owned.

    Returns:
        What became of each write, and for after the commit the events that are in the journal.

    Raises:
        OwnershipLost: another program has opened the file.
    """
    if read_epoch(db) != epoch:
        raise OwnershipLost("another program has opened the event log")
    added: Journal = {}
    moved: dict[str, float] = {}
    described: dict[str, LogWrite] = {}
    results: list[Kept] = []
    for write in batch:
        owner = write.owner
        session = owner.record.id
        earlier = added.get(session)
        head = earlier[-1].number if earlier else heads.get(session)
        if head is None or owner.lost.done():
            results.append(None)
            continue
        if write.prompt_id is not None:
            already = _accept(db, session, write.prompt_id, head + len(write.events))
            if already is not None:
                results.append(already)
                continue
        if write.record is not None:
            described[session] = write
        events = number_events(write.events, head, write.at)
        results.append(events)
        if events:
            added[session] = [*earlier, *events] if earlier else events
            if write.is_durable and any(event.kind in MOVING for event in events):
                moved[session] = write.at
    if added:
        db.execute("INSERT INTO journal (events) VALUES (?)", (_write_journal(added),))
    _update(db, "updated_at=max(updated_at, column2)", 2, list(moved.items()))
    facts = []
    for session, write in described.items():
        record = write.record
        assert record is not None
        head = added[session][-1].number if session in added else heads[session]
        facts.append((session, record.agent_session, record.facts, head, record.updated_at))
        if record.keys != write.owner.record.keys:
            db.execute("DELETE FROM keys WHERE session=?", (session,))
            insert_keys(db, record)
    _update(db, "agent_session=column2, facts=column3, head=column4, updated_at=max(updated_at, column5)", 5, facts)
    return results, added


def read_epoch(db: sqlite3.Connection) -> int:
    """Return the epoch of the file: another program that opens it begins the next one."""
    return int(db.execute("SELECT number FROM epoch").fetchone()[0])


def distribute(db: sqlite3.Connection, blobs: BlobFiles, journal: Journal) -> None:
    """Put the events of the journal in their places, in the transaction that is open."""
    insert_segments(db, [row for session, events in journal.items() for row in pack(db, blobs, session, events)])
    db.execute("DELETE FROM journal")


def recover(db: sqlite3.Connection, blobs: BlobFiles) -> None:
    """Distribute what a program that was killed has left in the journal, in the transaction that is open."""
    journal: Journal = {}
    for (data,) in db.execute("SELECT events FROM journal ORDER BY number"):
        for session, events in _read_journal(data).items():
            journal.setdefault(session, []).extend(events)
    if journal:
        sessions = {row[0] for row in db.execute("SELECT id FROM hosted")}
        distribute(db, blobs, {session: journal[session] for session in sessions & journal.keys()})


def _accept(db: sqlite3.Connection, session: str, prompt_id: str, number: int) -> Already | None:
    row = db.execute("SELECT number FROM prompts WHERE session=? AND prompt_id=?", (session, prompt_id)).fetchone()
    if row is not None:
        return Already(row[0])
    db.execute("INSERT INTO prompts (session, prompt_id, number) VALUES (?,?,?)", (session, prompt_id, number))
    return None


def _update(db: sqlite3.Connection, change: str, columns: int, rows: Sequence[tuple[Any, ...]]) -> None:
    """Change records, many in one statement; the first value of a row is the id."""
    start, row = 0, f"({','.join('?' * columns)})"
    for size in _ROWS:
        while len(rows) - start >= size:
            part = rows[start : start + size]
            start += size
            values = ",".join([row] * size)
            db.execute(
                f"UPDATE hosted SET {change} FROM (VALUES {values}) WHERE id=column1",
                [value for found in part for value in found],
            )


def insert_keys(db: sqlite3.Connection, record: SessionRecord) -> None:
    """Write the keys of a session."""
    rows = [(record.principal, key, record.id) for key in dict.fromkeys(record.keys)]
    db.executemany("INSERT INTO keys (principal, key, session) VALUES (?,?,?)", rows)


def insert_record(db: sqlite3.Connection, record: SessionRecord) -> None:
    """Write the record of a new session."""
    db.execute(f"INSERT INTO hosted ({_COLUMNS}, head, oldest) VALUES (?,?,?,?,?,?,?,?,?,?)", tuple(record)[:10])
    insert_keys(db, record)


def insert_segments(db: sqlite3.Connection, rows: list[SegmentRow]) -> None:
    """Write segments, many in one statement."""
    start = 0
    for size in _ROWS:
        while len(rows) - start >= size:
            part = rows[start : start + size]
            start += size
            db.execute(_INSERT + ",".join(["(?,?,?,?,?,?,?)"] * size), [value for row in part for value in row])


def pack(db: sqlite3.Connection, blobs: BlobFiles, session: str, events: Sequence[LogEvent]) -> list[SegmentRow]:
    """Pack the events into few rows.

    A large body is a file of its own, on disk before the row that names it: a crash leaves at most a file too many.
    """
    rows = []
    start = size = 0
    for place, event in enumerate(events):
        if place > start:
            first, before = events[start], events[place - 1]
            # A turn ends a segment, because old turns are joined by segments.
            is_apart = event.version != first.version or before.kind == "end" or size > _TOGETHER_BYTES
            if is_apart or not 0 <= event.at - first.at < _TOGETHER_SECONDS:
                rows.append(_segment(db, blobs, session, events[start:place]))
                start, size = place, 0
        size += len(event.body)
    if events:
        rows.append(_segment(db, blobs, session, events[start:]))
    return rows


def _segment(db: sqlite3.Connection, blobs: BlobFiles, session: str, events: Sequence[LogEvent]) -> SegmentRow:
    first, last = events[0], events[-1]
    is_joined = last.number - first.number >= len(events)
    marks, bodies = [], []
    for event in events:
        body, after = event.body, event.at - first.at
        if is_joined or after or len(body) > BLOB_BYTES:
            hash = None
            if len(body) > BLOB_BYTES:
                hash, size = blobs.keep(body), len(body)
                body = b""
                db.execute(
                    "INSERT INTO blobs (session, number, hash, size) VALUES (?,?,?,?)",
                    (session, event.number, hash, size),
                )
            mark = SegmentMark(event.kind, event.turn, event.number if is_joined else None, hash, after)
            marks.append(_write_mark(mark))
        else:
            marks.append(_plain_mark(event.kind, event.turn))
        bodies.append(body)
    kinds = b"[%b]" % b",".join(marks)
    return session, first.number, last.number, first.at, first.version, kinds, b"\n".join(bodies)


def replace_events(
    db: sqlite3.Connection, blobs: BlobFiles, session: str, through: int, events: Sequence[LogEvent]
) -> set[str]:
    """Put joined events in the place of old ones, in the transaction that is open; gives the bodies to look after."""
    found = db.execute("SELECT oldest FROM hosted WHERE id=?", (session,)).fetchone()
    if found is None:
        return set()
    # A segment can reach over the border: what was committed together with the end of a turn stays as it was.
    over = db.execute(
        "SELECT first, at, version, kinds, bodies FROM segments WHERE session=? AND first<=? AND last>?",
        (session, through, through),
    ).fetchall()
    # Whole, or not at all: a body that cannot be read now may be there again tomorrow, from a backup.
    rest = [event for row in over for event in unpack(blobs, *row, is_whole=True) if event.number > through]
    hashes = {row[0] for row in db.execute("SELECT hash FROM blobs WHERE session=?", (session,))}
    # Before the segments go: a session may be left without any.
    db.execute(f"UPDATE hosted SET head={_HEAD} WHERE id=?", (session,))
    span = (session, found[0], rest[-1].number if rest else through)
    db.execute("DELETE FROM segments WHERE session=? AND first>=? AND first<=?", span)
    db.execute("DELETE FROM blobs WHERE session=? AND number>=? AND number<=?", span)
    insert_segments(db, [row for part in (events, rest) for row in pack(db, blobs, session, part)])
    db.execute("UPDATE hosted SET oldest=? WHERE id=?", (through + 1, session))
    return hashes


def remove_unused(db: sqlite3.Connection, blobs: BlobFiles, hashes: set[str]) -> None:
    """Remove large bodies that no event names any more."""
    for hash in hashes:
        if db.execute("SELECT 1 FROM blobs WHERE hash=? LIMIT 1", (hash,)).fetchone() is None:
            blobs.remove(hash)


# Reading


def unpack(
    blobs: BlobFiles, first: int, at: float, version: int, kinds: bytes, bodies: bytes, *, is_whole: bool = False
) -> list[LogEvent]:
    """Return the events of one segment; in the place of one whose large body is lost there is a notice.

    Raises:
        StoreError: a body is lost, with `is_whole`.
    """
    events = []
    for place, (mark, body) in enumerate(zip(_read_marks(kinds), bodies.split(b"\n"), strict=True)):
        number, then = first + place if mark.number is None else mark.number, at + mark.after
        data: bytes | None = body
        if mark.hash is not None:
            data = blobs.read(mark.hash) if is_whole else blobs.find(mark.hash)
        if data is None:
            events.append(lost_events(number, number, turn=mark.turn, at=then, version=version))
        else:
            events.append(LogEvent(number, mark.kind, data, mark.turn, then, version))
    return events


def read_events(
    db: sqlite3.Connection,
    blobs: BlobFiles,
    session: str,
    after: int,
    limit: int,
    *,
    head: int,
    journal: Sequence[LogEvent],
) -> list[LogEvent]:
    """Return at least one and about `limit` events behind the number `after`; empty at the end.

    `journal` has the events that were not in their places when this was called; they may be there now.

    Raises:
        Hole: the next events are missing.
    """
    found = db.execute("SELECT oldest FROM hosted WHERE id=?", (session,)).fetchone()
    if found is None:
        return []
    events: list[LogEvent] = []
    # The segment that `after` is in is found by the key: of a long session the ones before it are not looked at.
    rows = db.execute(
        "SELECT first, at, version, kinds, bodies FROM segments WHERE session=?1 AND last>?2 AND "
        "first>=coalesce((SELECT first FROM segments WHERE session=?1 AND first<=?2+1 ORDER BY first DESC LIMIT 1), 0) "
        "ORDER BY first",
        (session, after),
    )
    expected = max(after + 1, int(found[0]))  # numbers before the oldest were joined, and have gaps
    behind_hole = head + 1 if head >= expected else 0
    for first, *rest in rows:
        if first > expected:
            behind_hole = first
            break
        events += [event for event in unpack(blobs, first, *rest) if event.number > after]
        expected = max(expected, events[-1].number + 1)
        if len(events) >= limit:
            break
    else:
        # What was put in its place meanwhile came with the segments.
        waiting = [event for event in journal if event.number >= expected]
        if waiting and waiting[0].number > expected:
            behind_hole = waiting[0].number
        else:
            events += waiting[: limit - len(events)]
    rows.close()
    if not events and behind_hole:
        raise Hole(expected, behind_hole - 1)
    return events  # a hole behind them is reported to the next reader


def surplus(db: sqlite3.Connection, session: str, before: float, size_bytes: int) -> int:
    """Return the last event that is older than `before`, or has `size_bytes` of events behind it; 0: none."""
    behind = 0
    rows = db.execute(
        "SELECT last, at, length(bodies) + (SELECT coalesce(sum(size), 0) FROM blobs WHERE session=?1 "
        "AND number BETWEEN first AND last) FROM segments WHERE session=?1 AND first>="
        "(SELECT oldest FROM hosted WHERE id=?1) ORDER BY first DESC",
        (session,),
    )
    for last, at, size in rows:
        if at < before or behind >= size_bytes:
            rows.close()
            return int(last)
        behind += size
    return 0


_SIZE: Final = (
    "(SELECT coalesce(sum(length(bodies) + length(kinds)), 0) FROM segments WHERE session=hosted.id)"
    " + (SELECT coalesce(sum(size), 0) FROM blobs WHERE session=hosted.id)"
)


def stored(db: sqlite3.Connection, principal: str | None) -> dict[str, Stored]:
    """Return how many sessions and bytes each principal has; of one, or of all."""
    which, values = ("", ()) if principal is None else ("WHERE principal=? ", (principal,))
    rows = db.execute(f"SELECT principal, count(*), sum({_SIZE}) FROM hosted {which}GROUP BY principal", values)
    return {name: Stored(count, size) for name, count, size in rows}


def sizes(db: sqlite3.Connection, sessions: Sequence[str]) -> dict[str, int]:
    """Return how many bytes sessions have."""
    found = (db.execute(f"SELECT id, {_SIZE} FROM hosted WHERE id=?", (session,)).fetchone() for session in sessions)
    return {row[0]: row[1] for row in found if row is not None}


def find_record(db: sqlite3.Connection, session: str, principal: str | None = None) -> SessionRecord | None:
    """Return the record of a session, of this principal or of any."""
    rows = db.execute(f"{_RECORD} WHERE id=?", (session,)).fetchall()
    found = _records(db, rows)
    return found[0] if found and principal in (None, found[0].principal) else None


def find_keyed(db: sqlite3.Connection, principal: str, key: str) -> list[SessionRecord]:
    """Return the sessions of a principal that have a key."""
    chosen = f"{_RECORD} WHERE id IN (SELECT session FROM keys WHERE principal=? AND key=?)"
    return _records(db, db.execute(chosen, (principal, key)).fetchall())


def list_records(
    db: sqlite3.Connection,
    principal: str | None,
    agent: str | None,
    cwd: str | None,
    before: ListPlace | None,
    limit: int,
) -> list[SessionRecord]:
    """Return records in the order of lists; an index gives the order, so that only these rows are read."""
    conditions, values = [], []
    for column, value in (("principal", principal), ("agent", agent), ("cwd", cwd)):
        if value is not None:
            conditions.append(f"{column}=?")
            values.append(value)
    place: tuple[float | str, ...] = ()
    if before is not None:
        conditions.append("(updated_at, id) < (?, ?)")
        place = tuple(before)
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    chosen = f"{_RECORD} {where}ORDER BY updated_at DESC, id DESC LIMIT ?"
    return _records(db, db.execute(chosen, (*values, *place, limit)).fetchall())


def _records(db: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> list[SessionRecord]:
    keys: dict[str, list[str]] = {}
    for start in range(0, len(rows), 500):  # SQLite has a limit of values in one statement
        ids = [row[0] for row in rows[start : start + 500]]
        places = ",".join("?" * len(ids))
        for session, key in db.execute(f"SELECT session, key FROM keys WHERE session IN ({places})", ids):
            keys.setdefault(session, []).append(key)
    return [SessionRecord._make((*row, (*keys.get(row[0], ()),))) for row in rows]
