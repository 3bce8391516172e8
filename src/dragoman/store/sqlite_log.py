"""The event log in an SQLite file.

Theory of operation
-------------------
A row is a *segment*: the events of one session that were committed together, joined. A row per event would cost more
than everything else that happens to an update.

What is appended in one turn of the event loop is committed together at its end, with `synchronous=NORMAL`: it survives
the death of this program. If a durable event is among it, the commit runs in a thread with `synchronous=FULL`, because
it waits for the disk; what is appended meanwhile waits for the next commit. So there is one order, and `committed` is
called in it.

A commit that fails calls `failed` with the reason and keeps its events; the host then takes no prompts. They are tried
again with the next commit.

A large body (an image, the diff of a long file) is a file of its own, named by its hash; `blob_files.py` has these. It
is written before the row that names it, so a crash leaves at most a file without a row.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import StoreError
from dragoman.store.blob_files import BLOB_BYTES, BlobFiles
from dragoman.store.event_log import DURABLE, LogEvent, NewEvent, SessionRecord, number_events
from dragoman.store.sqlite_events import SegmentMark, SqliteReader, read_events, unpack
from dragoman.workspace.private import make_private_folder, open_private

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

_FORMAT: Final = 1
_BUSY_SECONDS: Final = 5.0
_CHECKPOINT_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 1.0

_TABLES: Final = """
CREATE TABLE hosted (
    id TEXT PRIMARY KEY, principal TEXT NOT NULL, agent TEXT NOT NULL, agent_session TEXT, cwd TEXT NOT NULL,
    facts BLOB NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL,
    head INTEGER NOT NULL, oldest INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX hosted_by_time ON hosted (updated_at, id);
CREATE TABLE segments (
    session TEXT NOT NULL REFERENCES hosted ON DELETE CASCADE,
    first INTEGER NOT NULL, last INTEGER NOT NULL, at REAL NOT NULL, version INTEGER NOT NULL,
    kinds BLOB NOT NULL, bodies BLOB NOT NULL,
    PRIMARY KEY (session, first)
) WITHOUT ROWID;
CREATE TABLE blobs (
    session TEXT NOT NULL REFERENCES hosted ON DELETE CASCADE, number INTEGER NOT NULL, hash TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
CREATE INDEX blobs_by_hash ON blobs (hash)
"""
_COLUMNS: Final = "id, principal, agent, agent_session, cwd, facts, created_at, updated_at, head, oldest"


_Waiting = tuple[str, list[LogEvent], "Callable[[list[LogEvent]], None]"]


class SqliteLog:
    """A log in a file of its own, used by one program at a time."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        failed: Callable[[StoreError | None], None] = lambda error: None,
    ) -> None:
        """Open or make the file.

        Args:
            path: The file; its folder is closed to others.
            clock: The time of events.
            failed: Called with the reason when events cannot be committed, and with None when they can be again.

        Raises:
            StoreError: the file cannot be used.
        """
        self.path = path
        self._blobs = BlobFiles(path.with_name(path.name + "-blobs"))
        self._clock = clock
        self._failed = failed
        self._has_failed = False
        self._writer = self._open()
        try:
            self._connection = self._open()  # for everything else: a commit in the thread must not be seen half done
        except BaseException:
            self._writer.close()
            raise
        self._heads: dict[str, int] = {}
        self._waiting: list[_Waiting] = []
        self._is_due = False
        self._is_busy = False
        self._is_closed = False
        self._thread: ThreadPoolExecutor | None = None
        self._settled: list[asyncio.Future[None]] = []
        self._last_checkpoint = time.monotonic()

    @property
    def folder(self) -> Path | None:
        """Where a host may keep files next to the log."""
        return self.path.parent

    def watch(self, failed: Callable[[StoreError | None], None]) -> None:
        """Call back with the reason when events cannot be committed, and with None when they can be again."""
        self._failed = failed

    # Sessions

    def create(self, record: SessionRecord) -> None:
        """Add a session; committed when it returns."""
        self._run(f"INSERT INTO hosted ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)", tuple(record))

    def describe(self, session: str, *, agent_session: str | None, facts: bytes) -> None:
        """Replace what the host keeps of a session; committed when it returns."""
        self._run("UPDATE hosted SET agent_session=?, facts=? WHERE id=?", (agent_session, facts, session))

    def delete(self, session: str) -> None:
        """Remove a session with its events."""
        self._heads.pop(session, None)
        hashes = {row[0] for row in self._all("SELECT hash FROM blobs WHERE session=?", (session,))}
        self._run("DELETE FROM hosted WHERE id=?", (session,))
        self._remove_unused(hashes, self._connection)

    def find(self, session: str) -> SessionRecord | None:
        rows = self._all(f"SELECT {_COLUMNS} FROM hosted WHERE id=?", (session,))
        return SessionRecord(*rows[0]) if rows else None

    def sessions(self, *, principal: str | None = None) -> list[SessionRecord]:
        """Sessions, the one that changed last first; those of one principal, or all."""
        rows = self._all(
            f"SELECT {_COLUMNS} FROM hosted WHERE ?1 IS NULL OR principal=?1 ORDER BY updated_at DESC, id DESC",
            (principal,),
        )
        return [SessionRecord(*row) for row in rows]

    # Events

    def append(self, session: str, events: Sequence[NewEvent], committed: Callable[[list[LogEvent]], None]) -> None:
        """Add events. `committed` is called with them, in the order of the calls, once they are kept."""
        if self._is_closed:
            raise StoreError(f"the log {self.path} is closed")
        head = self._heads.get(session)
        if head is None:
            found = self.find(session)
            if found is None:
                raise StoreError(f"the log {self.path} has no session {session}")
            head = found.head
        added = number_events(events, head, self._clock())
        self._heads[session] = head + len(added)
        self._waiting.append((session, added, committed))
        if not self._is_due and not self._is_busy:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._commit_waiting)

    def read(self, session: str, after: int, limit: int) -> list[LogEvent]:
        """At least one and about `limit` events behind the number `after`; empty at the head."""
        return read_events(self._connection, self._blobs, session, after, limit)

    def open_reader(self) -> SqliteReader:
        """What reads the log in another thread than that of the event loop; the caller closes it."""
        return SqliteReader(self._open(), self._blobs)

    async def replace(self, session: str, through: int, events: Sequence[LogEvent]) -> None:
        """Put joined events in the place of those that are kept as they were, up to the number `through`.

        Written by the thread that commits; what is appended meanwhile waits, and the event loop does not.
        """
        while self._is_busy or self._waiting:
            await self.settle()
        if self._is_closed:
            return
        self._is_busy = True
        writing = self._in_thread(lambda: self._replace(session, through, events))
        writing.add_done_callback(lambda _: self._replaced())
        await asyncio.shield(writing)

    def _replaced(self) -> None:
        self._is_busy = False
        if self._waiting and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._commit_waiting)
        self._is_settled()

    def _replace(self, session: str, through: int, events: Sequence[LogEvent]) -> None:
        import sqlite3

        db = self._writer
        try:
            oldest = db.execute("SELECT oldest FROM hosted WHERE id=?", (session,)).fetchone()
            if oldest is None:
                return
            # A segment can reach over the border: what was committed together with the end of a turn stays as it was.
            rows = db.execute(
                "SELECT first, at, version, kinds, bodies FROM segments WHERE session=? AND first<=? AND last>?",
                (session, through, through),
            ).fetchall()
            rest = [event for row in rows for event in unpack(self._blobs, *row) if event.number > through]
            hashes = {row[0] for row in db.execute("SELECT hash FROM blobs WHERE session=?", (session,))}
            db.execute("BEGIN IMMEDIATE")
            span = (session, oldest[0], rest[-1].number if rest else through)
            db.execute("DELETE FROM segments WHERE session=? AND first>=? AND first<=?", span)
            db.execute("DELETE FROM blobs WHERE session=? AND number>=? AND number<=?", span)
            for part in (events, rest):
                if part:
                    self._write_segment(db, session, list(part))
            db.execute("UPDATE hosted SET oldest=? WHERE id=?", (through + 1, session))
            db.execute("COMMIT")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise self._explain(error) from None
        self._remove_unused(hashes, db)

    def _remove_unused(self, hashes: set[str], db: sqlite3.Connection) -> None:
        for hash in hashes:
            if db.execute("SELECT 1 FROM blobs WHERE hash=? LIMIT 1", (hash,)).fetchone() is None:
                self._blobs.remove(hash)

    async def settle(self) -> None:
        """Return when everything that was appended is committed."""
        if self._waiting or self._is_busy:
            settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settled.append(settled)
            await settled

    def close(self) -> None:
        """Commit what waits and close the file."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._thread is not None:
            self._thread.shutdown()
        if self._waiting and not self._is_busy:
            self._commit(self._waiting, is_durable=True)
        self._writer.close()
        self._connection.close()

    # Committing

    def _commit_waiting(self) -> None:
        self._is_due = False
        batch, self._waiting = self._waiting, []
        if not batch or self._is_closed:
            self._is_settled()
            return
        if any(event.kind in DURABLE or len(event.body) > BLOB_BYTES for _, events, _ in batch for event in events):
            self._is_busy = True
            committing = self._in_thread(lambda: self._commit(batch, is_durable=True))
            committing.add_done_callback(lambda done: self._committed(batch, done.exception()))
            return
        try:
            self._commit(batch, is_durable=False)
        except StoreError as error:
            self._committed(batch, error)
        else:
            self._committed(batch, None)

    def _in_thread(self, work: Callable[[], None]) -> asyncio.Future[None]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "dragoman-log")
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _committed(self, batch: list[_Waiting], error: BaseException | None) -> None:
        self._is_busy = False
        loop = asyncio.get_running_loop()
        if error is not None:
            self._waiting = [*batch, *self._waiting]
            self._has_failed = True
            self._failed(error if isinstance(error, StoreError) else StoreError(str(error)))
            self._is_due = True
            loop.call_later(_RETRY_SECONDS, self._commit_waiting)
            return
        if self._has_failed:
            self._has_failed = False
            self._failed(None)
        for _, events, committed in batch:
            committed(events)
        if self._waiting and not self._is_due:
            self._is_due = True
            loop.call_soon(self._commit_waiting)
        self._is_settled()

    def _is_settled(self) -> None:
        if not self._waiting and not self._is_busy:
            settled, self._settled = self._settled, []
            for each in settled:
                if not each.done():
                    each.set_result(None)

    def _commit(self, batch: list[_Waiting], *, is_durable: bool) -> None:
        import sqlite3

        joined: dict[str, list[LogEvent]] = {}
        for session, events, _ in batch:
            joined.setdefault(session, []).extend(events)
        connection = self._writer
        try:
            connection.execute(f"PRAGMA synchronous={'FULL' if is_durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            for session, events in joined.items():
                self._write_segment(connection, session, events)
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise self._explain(error) from None
        if is_durable and time.monotonic() - self._last_checkpoint > _CHECKPOINT_SECONDS:
            self._last_checkpoint = time.monotonic()
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _write_segment(self, connection: sqlite3.Connection, session: str, events: list[LogEvent]) -> None:
        """One row, or several if the version of the protocol changes in between."""
        start = 0
        for place in range(1, len(events) + 1):
            if place < len(events) and events[place].version == events[start].version:
                continue
            part = events[start:place]
            start = place
            first, is_joined = part[0].number, part[-1].number - part[0].number >= len(part)
            marks, bodies = [], []
            for event in part:
                hash = None
                if len(event.body) > BLOB_BYTES:
                    hash = self._blobs.keep(event.body)
                    connection.execute(
                        "INSERT INTO blobs (session, number, hash, size) VALUES (?,?,?,?)",
                        (session, event.number, hash, len(event.body)),
                    )
                marks.append(SegmentMark(event.kind, event.turn, event.number if is_joined else None, hash))
                bodies.append(event.body if hash is None else b"")
            connection.execute(
                "INSERT INTO segments (session, first, last, at, version, kinds, bodies) VALUES (?,?,?,?,?,?,?)",
                (
                    session,
                    first,
                    part[-1].number,
                    part[0].at,
                    part[0].version,
                    msgspec.json.encode(marks),
                    b"\n".join(bodies),
                ),
            )
        # Joined events are behind the head.
        connection.execute(
            "UPDATE hosted SET head=?1, updated_at=?2 WHERE id=?3 AND head<?1",
            (events[-1].number, events[-1].at, session),
        )

    # The file

    def _open(self) -> sqlite3.Connection:
        import os
        import sqlite3

        connection = None
        try:
            make_private_folder(self.path.parent)
            os.close(open_private(self.path, os.O_RDWR | os.O_CREAT))
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "wal_autocheckpoint=4000"):
                connection.execute(f"PRAGMA {pragma}")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > _FORMAT:
                connection.close()
                raise StoreError(
                    f"{self.path} was written by a newer dragoman (format {version}, this one reads {_FORMAT}); "
                    "update dragoman, or move the file away"
                )
            if version == 0:
                connection.executescript(f"BEGIN;{_TABLES};PRAGMA user_version={_FORMAT};COMMIT")
        except (sqlite3.Error, OSError) as error:
            if connection is not None:
                connection.close()
            raise self._explain(error) from None
        return connection

    def _run(self, statement: str, values: tuple[object, ...]) -> None:
        import sqlite3

        try:
            self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise self._explain(error) from None

    def _all(self, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def _explain(self, error: Exception) -> StoreError:
        return StoreError(f"the event log {self.path} cannot be used ({error}); check its folder and the disk")
