"""The event log in an SQLite file.

Theory of operation
-------------------
The thread of the event loop never touches the file. A thread that writes and a thread that reads have a connection
each, which SQLite refuses to every other thread; write-ahead logging lets both work at the same time, and the reader
sees all that was committed.

`log_writes.py` gives the writer one batch at a time: what all sessions appended in a turn of the loop, or while the
batch before was written. A batch is one transaction. It is written with `synchronous=NORMAL`, which survives the death
of this program, or with `FULL` if an event in it has to survive a power cut; then the writer waits for the disk, and
what comes meanwhile is the next batch. The callbacks run in the loop after the commit, so nothing is shown before it.

The events of a commit are first in the journal, and after a second in their places (`sqlite_events.py`). `_journal`
has them meanwhile, by session. A reader takes them from there and the others from their places: what the loop knows to
be committed is in one of the two, because the loop is called back after `_journal` has changed.

Numbers are given by the writer, because only there it is known whether a prompt was accepted before. `_heads` belongs
to that thread; owners in the loop learn the number with the commit.

*Epoch.* A counter in the file, raised when it is opened. Each commit compares it, so that a program whose file was
opened by another one writes nothing more: `OwnershipLost`, for all its sessions. Within one program a session has one
owner; `take` with `force` makes another one.

A commit that fails (a full disk, a file that another program keeps busy) is reported to `watch`, and tried again with
pauses; the host then takes no prompts. What fails elsewhere is raised to the caller as `StoreUnavailable`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from dragoman.errors import StoreError
from dragoman.store import sqlite_events
from dragoman.store.blob_files import BLOB_BYTES, BlobFiles
from dragoman.store.database import BUSY_SECONDS
from dragoman.store.event_log import KeyInUse, NoSession, OwnedElsewhere, RecordChange, page_of
from dragoman.store.log_writes import LogWrites
from dragoman.store.sqlite_events import transaction
from dragoman.store.sqlite_file import FileThread, migrate

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from dragoman.store.event_log import ListPlace, LogEvent, OwnedSession, RecordPage, SessionRecord, Stored
    from dragoman.store.log_writes import Kept, LogWrite
    from dragoman.store.sqlite_events import Journal

_log = logging.getLogger("dragoman.store")
T = TypeVar("T")
_CHECKPOINT_SECONDS: Final = 5.0
_JOURNAL_SECONDS: Final = 1.0
_JOURNAL_BYTES: Final = 4 * 1024 * 1024
_MOST_JOURNAL_BYTES: Final = 64 * 1024 * 1024
# A commit costs as much as the way of several updates to clients, and with many sessions that stream there would be one
# for almost each of them. The first update after a pause does not wait, and an event that is acted upon hardly does.
_APART_SECONDS: Final = 0.002


class SqliteLog:
    """A log in a file of its own, used by one program at a time."""

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.time, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        """Open or make the file; blocks until that is done.

        Args:
            path: The file; its folder is closed to others.
            clock: The time of events.
            busy_seconds: How long another program may keep the file locked.

        Raises:
            StoreError: the file cannot be used.
        """
        self.path = path
        self._blobs = BlobFiles(path.with_name(path.name + "-blobs"))
        self._writer = FileThread(path, "dragoman-log-write", busy_seconds)
        try:
            self._epoch = self._writer.call(lambda db: migrate(db, path, self._blobs))
            self._reader = FileThread(path, "dragoman-log-read", busy_seconds)
        except BaseException:
            self._writer.close()
            raise
        self._writes = LogWrites(clock, self._commit, self._replace, apart_seconds=_APART_SECONDS)
        self._taking: set[str] = set()
        self._is_closed = False
        # Of the thread that writes, and the epoch too from here on:
        self._heads: dict[str, int] = {}
        self._journal: Journal = {}
        self._journal_bytes = 0
        self._distributed_at = time.monotonic()
        self._is_full = False
        self._last_checkpoint = time.monotonic()

    @property
    def folder(self) -> Path | None:
        """Where a host may keep files next to the log."""
        return self.path.parent

    def watch(self, failed: Callable[[StoreError | None], None]) -> None:
        """Call back with the reason when events cannot be committed, and with None when they can be again."""
        self._writes.watch = failed

    # Sessions

    async def create(self, record: SessionRecord, key: str | None = None) -> OwnedSession:
        """Add a session; see `EventLog`."""
        if key is not None:
            record = record._replace(keys=(*dict.fromkeys((*record.keys, key)),))

        def create(db: sqlite3.Connection) -> int:
            with transaction(db):
                if key is not None and (found := sqlite_events.find_keyed(db, record.principal, key)):
                    raise KeyInUse(found[0].id)
                sqlite_events.insert_record(db, record)
            self._heads[record.id] = record.head
            return self._epoch

        owner = self._writes.own(record, await self._writer.run(create))
        self._writes.listeners.note(owner.record)
        return owner

    async def take(self, session: str, *, force: bool = False) -> OwnedSession:
        """Become the owner of a session; see `EventLog`."""
        earlier = self._writes.owners.get(session)
        if session in self._taking or (earlier is not None and not force):
            raise OwnedElsewhere(session, "this host")
        if earlier is not None:
            # Before its place is read: it must not append anything behind that.
            self._writes.owners.pop(session).lose(f"the session {session} was taken by another owner")

        def take(db: sqlite3.Connection) -> tuple[SessionRecord, int]:
            self._distribute(db)
            with transaction(db):
                found = sqlite_events.find_record(db, session)
                if found is None:
                    raise NoSession(session)
                if earlier is not None:
                    db.execute("UPDATE epoch SET number=number+1")
                    self._epoch += 1
            self._heads[session] = found.head
            return found, self._epoch

        self._taking.add(session)
        try:
            return self._writes.own(*await self._writer.run(take))
        finally:
            self._taking.discard(session)

    async def find(self, session: str, principal: str | None) -> SessionRecord | None:
        """Return a session of this principal, or of any."""
        found = await self._reader.run(lambda db: sqlite_events.find_record(db, session, principal))
        return None if found is None else self._with_heads([found])[0]

    async def find_keyed(self, principal: str, key: str) -> list[SessionRecord]:
        """Return the sessions of this principal that have a key."""
        return self._with_heads(await self._reader.run(lambda db: sqlite_events.find_keyed(db, principal, key)))

    async def page(
        self,
        principal: str | None,
        *,
        agent: str | None = None,
        cwd: str | None = None,
        before: ListPlace | None = None,
        limit: int,
    ) -> RecordPage:
        """Return records, the one that changed last first; see `EventLog`."""
        found = await self._reader.run(
            lambda db: sqlite_events.list_records(db, principal, agent, cwd, before, limit + 1)
        )
        return page_of(self._with_heads(found), limit)

    async def stored(self, principal: str | None = None) -> dict[str, Stored]:
        """Return how much is kept, by principal; see `EventLog`."""
        await self._writer.run(self._distribute)
        return await self._reader.run(lambda db: sqlite_events.stored(db, principal))

    async def sizes(self, sessions: Sequence[str]) -> dict[str, int]:
        """Return how many bytes these sessions have in the log."""
        await self._writer.run(self._distribute)
        return await self._reader.run(lambda db: sqlite_events.sizes(db, sessions))

    def _with_heads(self, records: list[SessionRecord]) -> list[SessionRecord]:
        """Return the records with heads that are in the journal only."""
        journal = self._journal
        return [
            record._replace(head=max(record.head, journal[record.id][-1].number)) if record.id in journal else record
            for record in records
        ]

    def changes(self, principal: str) -> AsyncIterator[RecordChange]:
        """Follow the records of a principal as they change or go, from now on."""
        return self._writes.listeners.follow(principal)

    async def delete(self, session: str) -> None:
        """Remove a session with its events."""

        def delete(db: sqlite3.Connection) -> None:
            self._distribute(db)
            with transaction(db):
                hashes = {row[0] for row in db.execute("SELECT hash FROM blobs WHERE session=?", (session,))}
                db.execute("DELETE FROM hosted WHERE id=?", (session,))
            self._heads.pop(session, None)
            sqlite_events.remove_unused(db, self._blobs, hashes)

        await self._writer.run(delete)
        self._writes.dropped(session)

    # Events

    async def read(self, session: str, after: int, limit: int, *, head: int = 0) -> list[LogEvent]:
        """Return at least one and about `limit` events behind the number `after`; see `EventLog`."""
        # Taken before the segments are read: what is put in its place meanwhile is then seen twice, and never missed.
        journal = [*self._journal.get(session, ())]
        return await self._reader.run(
            lambda db: sqlite_events.read_events(db, self._blobs, session, after, limit, head=head, journal=journal)
        )

    async def surplus(self, session: str, *, before: float, size_bytes: int) -> int:
        """Return the last event that is too old or too much; see `EventLog`."""
        if session in self._journal:
            await self._writer.run(self._distribute)
        return await self._reader.run(lambda db: sqlite_events.surplus(db, session, before, size_bytes))

    async def close(self) -> None:
        """Commit what waits and close the file."""
        if not self._is_closed:
            self._is_closed = True
            await self._writes.finish()
            with suppress(StoreError):  # a file that cannot be written keeps its journal
                await self._writer.run(self._distribute)
            for thread in (self._writer, self._reader):
                await asyncio.to_thread(thread.close)

    # In the thread that writes

    def _commit(self, batch: list[LogWrite], is_durable: bool) -> None:
        def write(db: sqlite3.Connection) -> list[Kept]:
            return self._write(db, batch, is_durable)

        def done(kept: list[Kept] | None, error: Exception | None) -> None:
            if error is not None:
                known = error if isinstance(error, StoreError) else StoreError(str(error))
                self._writes.failed(batch, known)
            else:
                self._writes.committed(batch, kept or [])

        self._writer.post(write, done)

    def _write(self, db: sqlite3.Connection, batch: list[LogWrite], is_durable: bool) -> list[Kept]:
        import sqlite3

        if is_durable != self._is_full:
            db.execute(f"PRAGMA synchronous={'FULL' if is_durable else 'NORMAL'}")
            self._is_full = is_durable
        if self._journal_bytes > _MOST_JOURNAL_BYTES:
            # It failed before. If it fails now, this batch is not written and is tried again, and the host learns why.
            self._distribute(db)
        with transaction(db):
            results, added = sqlite_events.write_batch(db, batch, self._heads, self._epoch)
        is_due = time.monotonic() - self._distributed_at > _JOURNAL_SECONDS
        for session, events in added.items():
            self._heads[session] = events[-1].number
            self._journal.setdefault(session, []).extend(events)
            size = sum([len(event.body) for event in events])
            self._journal_bytes += size
            is_due = is_due or size > BLOB_BYTES  # what becomes a file is not kept in memory for long
        is_due = is_due or self._journal_bytes > _JOURNAL_BYTES
        # Not in front of the answer that clients of a durable event wait for.
        if is_due and is_durable:
            self._writer.run_later(self._try_to_distribute)
        elif is_due:
            self._try_to_distribute(db)
        if is_durable and time.monotonic() - self._last_checkpoint > _CHECKPOINT_SECONDS:
            self._last_checkpoint = time.monotonic()
            with suppress(sqlite3.Error):  # the batch is committed; the next checkpoint does the rest
                db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return results

    def _try_to_distribute(self, db: sqlite3.Connection) -> None:
        """Put the events of the journal in their places, or leave them there: they are committed, and readers see them.

        Whatever fails here must not be taken for an error of the commit before, which would be made a second time, and
        must not end the thread.
        """
        try:
            self._distribute(db)
        except Exception as error:
            _log.warning("events of %s stay in its journal for now: %s", self.path, error)

    def _distribute(self, db: sqlite3.Connection) -> None:
        """Put the events of the journal in their places."""
        self._distributed_at = time.monotonic()
        if self._journal:
            with transaction(db):
                # A program that opened the file after this one has done it already.
                if sqlite_events.read_epoch(db) == self._epoch:
                    sqlite_events.distribute(db, self._blobs, self._journal)
            self._journal, self._journal_bytes = {}, 0

    def _replace(self, session: str, through: int, events: Sequence[LogEvent]) -> asyncio.Future[None]:
        def replace(db: sqlite3.Connection) -> None:
            self._distribute(db)
            with transaction(db):
                hashes = sqlite_events.replace_events(db, self._blobs, session, through, events)
            sqlite_events.remove_unused(db, self._blobs, hashes)

        return asyncio.ensure_future(self._writer.run(replace))
