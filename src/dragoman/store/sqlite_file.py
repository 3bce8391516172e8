"""The file of an event log in SQLite: its tables, how an older one gets their form, and the threads that have it open.

A migration is never changed after its release; a change of the tables is a new one at the end of the list.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from dragoman.errors import StoreError
from dragoman.store.database import make_private_file, missing_descriptors, use_wal
from dragoman.store.event_log import StoreUnavailable
from dragoman.store.sqlite_events import recover

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

    from dragoman.store.blob_files import BlobFiles

T = TypeVar("T")

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """
        CREATE TABLE hosted (
            id TEXT PRIMARY KEY, principal TEXT NOT NULL, agent TEXT NOT NULL, agent_session TEXT, cwd TEXT NOT NULL,
            facts BLOB NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL,
            head INTEGER NOT NULL, oldest INTEGER NOT NULL
        ) WITHOUT ROWID
        """,
        "CREATE INDEX hosted_by_time ON hosted (updated_at, id)",
        """
        CREATE TABLE segments (
            session TEXT NOT NULL REFERENCES hosted ON DELETE CASCADE,
            first INTEGER NOT NULL, last INTEGER NOT NULL, at REAL NOT NULL, version INTEGER NOT NULL,
            kinds BLOB NOT NULL, bodies BLOB NOT NULL,
            PRIMARY KEY (session, first)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE blobs (
            session TEXT NOT NULL REFERENCES hosted ON DELETE CASCADE, number INTEGER NOT NULL, hash TEXT NOT NULL,
            size INTEGER NOT NULL,
            PRIMARY KEY (session, number)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX blobs_by_hash ON blobs (hash)",
    ),
    (
        # From here on `head` is only what it was when the record was written last: the segments say more.
        "CREATE INDEX hosted_by_principal ON hosted (principal, updated_at, id)",
        "CREATE INDEX hosted_by_folder ON hosted (principal, cwd, updated_at, id)",
        """
        CREATE TABLE prompts (
            session TEXT NOT NULL REFERENCES hosted ON DELETE CASCADE, prompt_id TEXT NOT NULL,
            number INTEGER NOT NULL,
            PRIMARY KEY (session, prompt_id)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE keys (
            principal TEXT NOT NULL, key TEXT NOT NULL, session TEXT NOT NULL REFERENCES hosted ON DELETE CASCADE,
            PRIMARY KEY (principal, key, session)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX keys_by_session ON keys (session)",
        "CREATE TABLE epoch (number INTEGER NOT NULL)",
        "INSERT INTO epoch VALUES (0)",
    ),
    ("CREATE TABLE journal (number INTEGER PRIMARY KEY, events BLOB NOT NULL)",),
)
_KEYED_FACTS: Final = ("key", "name", "chat")  # what sessions were found by before there were keys


def connect(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """Open the file for the thread that calls. Raises: StoreError."""
    import sqlite3

    connection = None
    try:
        make_private_file(path)
        # Bound to this thread: what is done in the thread of an event loop by mistake fails there.
        connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=True)
        use_wal(connection, busy_seconds)
        for pragma in ("synchronous=NORMAL", "foreign_keys=ON", "wal_autocheckpoint=4000"):
            connection.execute(f"PRAGMA {pragma}")
    except (sqlite3.Error, OSError) as error:
        if connection is not None:
            connection.close()
        failure = explain(path, error)
        raise failure from failure.__cause__
    return connection


def migrate(connection: sqlite3.Connection, path: Path, blobs: BlobFiles) -> int:
    """Bring the tables to their last form and begin an epoch; gives its number. Raises: StoreError."""
    import sqlite3

    try:
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise StoreError(
                f"{path} was written by a newer dragoman (format {version}, this one reads {len(MIGRATIONS)}); "
                "update dragoman, or move the file away"
            )
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            for statement in statements:
                connection.execute(statement)
            if number == 2:
                _fill_keys(connection)
            connection.execute(f"PRAGMA user_version={number}")
        recover(connection, blobs)
        connection.execute("UPDATE epoch SET number=number+1")
        (epoch,) = connection.execute("SELECT number FROM epoch").fetchone()
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        failure = explain(path, error)
        raise failure from failure.__cause__
    return int(epoch)


def _fill_keys(connection: sqlite3.Connection) -> None:
    for session, principal, facts in connection.execute("SELECT id, principal, facts FROM hosted").fetchall():
        found: Any = msgspec.json.decode(facts)
        words = [f"{name}:{found[name]}" for name in _KEYED_FACTS if isinstance(found, dict) and found.get(name)]
        connection.executemany("INSERT INTO keys VALUES (?,?,?)", [(principal, word, session) for word in words])


def explain(path: Path, error: Exception) -> StoreError:
    """Return the error of a file, with a remedy."""
    found = StoreUnavailable(f"the event log {path} cannot be used ({error}); check its folder and the disk")
    found.__cause__ = missing_descriptors()
    return found


class FileThread:
    """A thread with a connection to the file of its own; what it is given runs in order."""

    def __init__(self, path: Path, name: str, busy_seconds: float) -> None:
        """Start the thread and open the file in it. Raises: StoreError."""
        self._path = path
        self._busy_seconds = busy_seconds
        self._jobs: SimpleQueue[Callable[[sqlite3.Connection], None] | None] = SimpleQueue()
        opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(opened,), name=name, daemon=True)
        self._thread.start()
        opened.result()
        self._is_closed = False

    def call(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work and wait for it, where there is no event loop yet."""
        done: Future[T] = Future()

        def job(db: sqlite3.Connection) -> None:
            try:
                done.set_result(work(db))
            except Exception as error:
                done.set_exception(error)

        self._jobs.put(job)
        return done.result()

    def post(self, work: Callable[[sqlite3.Connection], T], done: Callable[[T | None, Exception | None], None]) -> None:
        """Run work, and call back in the event loop with its result or its error."""
        loop = asyncio.get_running_loop()

        def job(db: sqlite3.Connection) -> None:
            result, failure = None, None
            try:
                result = work(db)
            except Exception as error:
                failure = self._explain(error)
            with suppress(RuntimeError):  # the loop has ended, and with it everything that waits
                loop.call_soon_threadsafe(done, result, failure)

        self._jobs.put(job)

    def run_later(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Run work without a result, which raises nothing, behind what the thread was given so far."""
        self._jobs.put(work)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work and return its result. Raises: StoreError."""
        if self._is_closed:
            raise StoreError(f"the log {self._path} is closed")
        found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(result: T | None, error: Exception | None) -> None:
            if found.done():  # the caller was cancelled
                return
            if error is not None:
                found.set_exception(error)
            else:
                found.set_result(result)

        self.post(work, done)
        result: T = await found
        return result

    def close(self) -> None:
        """Close the file and end the thread, behind what it was given."""
        self._is_closed = True
        self._jobs.put(None)
        self._thread.join()

    def _run(self, opened: Future[None]) -> None:
        try:
            db = connect(self._path, self._busy_seconds)
        except BaseException as error:
            opened.set_exception(error)
            return
        opened.set_result(None)
        while (job := self._jobs.get()) is not None:
            job(db)
        db.close()

    def _explain(self, error: Exception) -> Exception:
        import sqlite3

        return explain(self._path, error) if isinstance(error, sqlite3.Error | OSError) else error
