"""An SQLite file with one writer thread, one reader thread and group commit.

Owns opening the file, migrations, the two threads, and the error messages for problems with the file. Jobs that arrive
while a commit runs share the next transaction, so that waiting for the disk does not reduce the throughput. It does
not depend on the tables.
"""

from __future__ import annotations

import asyncio
import errno
import os
import queue
import threading
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dragoman.errors import StoreError
from dragoman.workspace.private import close_to_others, make_private_folder

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

T = TypeVar("T")

# Another program may be writing, such as a second editor. Its commits take milliseconds; seconds mean a problem.
BUSY_SECONDS: Final = 5.0
_WAIT_SECONDS: Final = 0.01
_DATABASE_FILES: Final = 5  # the file, its log, the index of that, its folder and a temporary file
_TOGETHER: Final = 256  # jobs in one transaction; with more, the first would wait too long for the last

_Job = tuple["Callable[[sqlite3.Connection], Any]", "Future[Any]"]

# A migration is never changed after its release; a change of the tables is a new one at the end.
MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        cwd TEXT NOT NULL,
        directories TEXT NOT NULL,
        title TEXT,
        mode TEXT,
        model TEXT,
        effort TEXT,
        parent_id TEXT,
        parent_message_id TEXT,
        metadata TEXT NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX sessions_by_time ON sessions (updated_at, id);
    CREATE INDEX sessions_by_folder ON sessions (cwd, updated_at, id);

    CREATE TABLE messages (
        id TEXT PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
        role TEXT NOT NULL,
        metadata TEXT NOT NULL,
        created_at TEXT NOT NULL,
        queued_at TEXT
    ) WITHOUT ROWID;
    CREATE INDEX messages_by_session ON messages (session_id, id);

    CREATE TABLE parts (
        message_id TEXT NOT NULL REFERENCES messages ON DELETE CASCADE,
        position INTEGER NOT NULL,
        type TEXT NOT NULL,
        tool_call_id TEXT,
        tool_state TEXT,
        data BLOB NOT NULL,
        PRIMARY KEY (message_id, position)
    );

    -- A message that is still being written, the program that writes it, and its chunks so far.
    CREATE TABLE live (
        message_id TEXT PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
        session_id TEXT NOT NULL,
        writer TEXT NOT NULL
    );
    CREATE INDEX live_by_session ON live (session_id);
    CREATE TABLE live_log (
        message_id TEXT NOT NULL REFERENCES live ON DELETE CASCADE,
        position INTEGER NOT NULL,
        chunk BLOB NOT NULL,
        PRIMARY KEY (message_id, position)
    ) WITHOUT ROWID;

    CREATE TABLE usage (
        message_id TEXT NOT NULL REFERENCES messages ON DELETE CASCADE,
        session_id TEXT NOT NULL,
        position INTEGER NOT NULL,
        model TEXT NOT NULL,
        input INTEGER NOT NULL,
        output INTEGER NOT NULL,
        reasoning INTEGER NOT NULL,
        cache_read INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        cost_usd REAL,
        PRIMARY KEY (message_id, position)
    );
    CREATE INDEX usage_by_session ON usage (session_id);

    CREATE TABLE rules (
        session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
        rule TEXT NOT NULL,
        action TEXT NOT NULL,
        added_at TEXT NOT NULL,
        PRIMARY KEY (session_id, rule, action)
    ) WITHOUT ROWID;
    """,
    """
    -- The session whose subagent this one is. It is not listed, and it is deleted with that session.
    ALTER TABLE sessions ADD COLUMN child_of TEXT REFERENCES sessions ON DELETE CASCADE;
    CREATE INDEX sessions_by_owner ON sessions (child_of) WHERE child_of IS NOT NULL;
    """,
)


class StoreUnwritable(StoreError):
    """The file cannot be opened for writing: its folder or disk is read-only, or cannot be reached."""


class Database:
    """An open database. `write` returns after the commit; `read` sees everything that was committed before it."""

    def __init__(
        self,
        path: Path,
        *,
        busy_seconds: float = BUSY_SECONDS,
        migrations: Sequence[str] = MIGRATIONS,
        name: str = "session store",
        remedy: str = "name another file with --store",
    ) -> None:
        """Open or create the file and migrate it. It blocks, so call it in a thread.

        Args:
            name: what the file is called in messages.
            remedy: how to do without the file, for messages.

        Raises: StoreError if the file cannot be used; the message names the problem and the remedy.
        """
        self.path = path
        self._busy_seconds = busy_seconds
        self._migrations = migrations
        self._name = name
        self._remedy = remedy
        make_private_file(path)
        writer = self._connect()
        try:
            self._migrate(writer)
            reader = self._connect()
        except BaseException:
            writer.close()
            raise
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._is_open = True
        self._threads = (
            threading.Thread(target=self._write_all, args=(writer,), name="dragoman-store-write", daemon=True),
            threading.Thread(target=self._read_all, args=(reader,), name="dragoman-store-read", daemon=True),
        )
        for thread in self._threads:
            thread.start()

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in the next transaction. If it raises, only its own changes are undone.

        Raises: StoreError if the disk is full, or the file is busy or damaged.
        """
        # Shielded: a cancelled caller must not cancel the future, which the thread will set, nor affect the other jobs
        # of the transaction.
        return await asyncio.shield(asyncio.wrap_future(self.post(work)))

    def post(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Do as `write`, without waiting: the future has the result after the commit. Raises: StoreError if closed."""
        return self._submit(self._jobs, work)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the connection of the reader thread. Raises: StoreError."""
        return await asyncio.shield(asyncio.wrap_future(self.ask(work)))

    def ask(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Do as `read`, without waiting. Raises: StoreError if closed."""
        return self._submit(self._reads, work)

    def close(self) -> None:
        """Commit all pending jobs and close the file. Blocks until both threads have ended."""
        if not self._is_open:
            return
        self._is_open = False
        for jobs in (self._jobs, self._reads):
            jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _submit(self, jobs: queue.SimpleQueue[_Job | None], work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        if not self._is_open:
            raise StoreError(f"the {self._name} {self.path} is closed")
        future: Future[T] = Future()
        jobs.put((work, future))
        return future

    def _connect(self) -> sqlite3.Connection:
        import sqlite3

        connection = None
        try:
            connection = sqlite3.connect(
                self.path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
            )
            use_wal(connection, self._busy_seconds)
            # NORMAL: a commit survives a crash of this program; a power cut may undo the last transactions, each as a
            # whole.
            for pragma in ("synchronous=NORMAL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            failure = self._explain(error)
            raise failure from failure.__cause__ or error
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        import sqlite3

        try:
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > len(self._migrations):
                raise StoreError(
                    f"{self.path} was written by a newer dragoman (format {version}, this one reads "
                    f"{len(self._migrations)}); update dragoman, or {self._remedy}"
                )
            for number, step in enumerate(self._migrations[version:], version + 1):
                for statement in _statements(step):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version={number}")
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            failure = self._explain(error)
            raise failure from failure.__cause__ or error

    def _read_all(self, connection: sqlite3.Connection) -> None:
        while (job := self._reads.get()) is not None:
            work, future = job
            try:
                future.set_result(work(connection))
            except Exception as error:
                future.set_exception(self._explain(error))
        connection.close()

    def _write_all(self, connection: sqlite3.Connection) -> None:
        is_last = False
        while not is_last:
            job = self._jobs.get()
            jobs = [] if job is None else [job]
            is_last = job is None
            while jobs and len(jobs) < _TOGETHER and not is_last:
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
                is_last = job is None
                if job is not None:
                    jobs.append(job)
            if jobs:
                self._commit(connection, jobs)
        connection.close()

    def _commit(self, connection: sqlite3.Connection, jobs: list[_Job]) -> None:
        """Run all jobs in one transaction. A failed job is undone alone; a failed commit fails all jobs."""
        done: list[tuple[Future[Any], Any]] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for work, future in jobs:
                connection.execute("SAVEPOINT job")
                try:
                    done.append((future, work(connection)))
                except Exception as error:
                    if not connection.in_transaction:
                        raise  # SQLite has ended the transaction, for example because the disk is full
                    connection.execute("ROLLBACK TO job")
                    future.set_exception(self._explain(error))
                connection.execute("RELEASE job")
            connection.execute("COMMIT")
        except Exception as error:
            if connection.in_transaction:
                with suppress(Exception):
                    connection.execute("ROLLBACK")
            for _, future in jobs:
                if not future.done():
                    future.set_exception(self._explain(error))
            return
        for future, result in done:
            future.set_result(result)

    def _explain(self, error: Exception) -> Exception:
        """Convert an SQLite error into a `StoreError` with a remedy; return any other error as it is."""
        import sqlite3

        if not isinstance(error, sqlite3.Error):
            return error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        where = f"the {self._name} {self.path}"
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreError(f"{where} is busy: another program has been writing for {self._busy_seconds:g} s; retry")
        if code == sqlite3.SQLITE_FULL:
            return StoreError(f"{where} cannot grow: the disk is full; nothing was lost; free some space and retry")
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return StoreError(
                f"{where} is damaged ({error}) and was not changed; "
                "move it away to start with an empty one, or restore a copy"
            )
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR):
            found = StoreUnwritable(f"{where} cannot be used: {error}; check its folder, or {self._remedy}")
            found.__cause__ = missing_descriptors()
            return found
        return StoreError(f"{where}: {error}")


def missing_descriptors() -> OSError | None:
    """Return the error of a program that may not open as many files as a database needs; None if it may.

    SQLite only states that it cannot open a file. The file itself is not opened to find out: closing it again would
    release the locks that this program holds on it.
    """
    opened: list[int] = []
    try:
        while len(opened) < _DATABASE_FILES:
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error if error.errno in (errno.EMFILE, errno.ENFILE) else None
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return None


def use_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Write ahead. SQLite does not wait for another program that begins to do so at this moment, so it is tried again.

    Raises: sqlite3.OperationalError if that program does not finish in time.
    """
    import sqlite3

    give_up = monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() >= give_up:
                raise
        sleep(_WAIT_SECONDS)


def make_private_file(path: Path) -> None:
    """Make sure that only the owner can read the file. SQLite gives its `-wal` and `-shm` the mode of the file itself.

    A file that exists is never opened here. SQLite's locks on it belong to the process, and closing any descriptor of
    the file ends them all: another program that comes and goes would then take itself for the last one, and remove the
    write-ahead log under a connection that still writes into it.

    Raises: OSError.
    """
    make_private_folder(path.parent)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        for ending in ("", "-wal", "-shm"):  # of a time when the file could be read by others
            close_to_others(f"{path}{ending}")
        return
    try:
        os.fchmod(descriptor, 0o600)  # the umask may have taken the owner's own permissions
    finally:
        os.close(descriptor)


def _statements(step: str) -> list[str]:
    """Split a migration into statements, because `executescript` would commit before running them."""
    lines = [line for line in step.splitlines() if not line.strip().startswith("--")]
    return [statement for statement in "\n".join(lines).split(";") if statement.strip()]
