"""The ledger: every session that `dragoman exec` ran, with any agent, and what happened in it.

Owns every query on the ledger's file. An agent may forget its sessions, or be unable to list them; the ledger has them
all, and shows them without the agent. Many programs write at once: each change is one transaction, made in the order
of the calls by the database's own thread, and what was committed survives `kill -9`. A turn is stored when it begins,
again while it runs, and when it ends. Prompts can be private, so a deleted entry is overwritten in the file.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.store.clock import now
from dragoman.store.database import Database, StoreUnwritable
from dragoman.store.ledger_record import TurnRecord, unpack
from dragoman.store.presence import Presence

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from concurrent.futures import Future
    from pathlib import Path
    from typing import Literal

FILE_NAME: Final = "ledger.db"
# A run must not wait long for its ledger: other programs' transactions take milliseconds.
BUSY_SECONDS: Final = 2.0
# What is kept. The oldest go first when one of the three is exceeded.
KEEP_DAYS: Final = 90
KEEP_SESSIONS: Final = 1_000
KEEP_BYTES: Final = 256 * 1024 * 1024  # of records, compressed
PROMPT_CHARS: Final = 500
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_COLUMNS: Final = (
    "number, agent, command, session_id, folder, directories, title, own_title, first_prompt, can_reopen, is_scripted, "
    "is_replaced, turns, files, created_at, updated_at"
)

# As those of the database: a released one is never changed.
_MIGRATIONS: Final[tuple[str, ...]] = (
    """
    -- AUTOINCREMENT: the number of a deleted entry is never used again, because users write numbers down.
    CREATE TABLE entries (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        agent TEXT NOT NULL,
        command TEXT NOT NULL,
        session_id TEXT NOT NULL,
        folder TEXT NOT NULL,
        real_folder TEXT NOT NULL,
        directories TEXT NOT NULL,
        title TEXT,
        own_title TEXT,
        first_prompt TEXT NOT NULL,
        can_reopen INTEGER NOT NULL,
        is_scripted INTEGER NOT NULL,
        is_replaced INTEGER NOT NULL DEFAULT 0,
        turns INTEGER NOT NULL DEFAULT 0,
        files TEXT NOT NULL DEFAULT '[]',
        size_bytes INTEGER NOT NULL DEFAULT 0,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL
    );
    CREATE INDEX entries_by_session ON entries (session_id, agent);
    CREATE INDEX entries_by_time ON entries (updated_at);
    CREATE INDEX entries_by_folder ON entries (real_folder, updated_at);

    -- A turn without ended_at is running, or its program (the writer) has died.
    CREATE TABLE turns (
        entry INTEGER NOT NULL REFERENCES entries ON DELETE CASCADE,
        position INTEGER NOT NULL,
        writer TEXT NOT NULL,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        exit_code INTEGER,
        stop_reason TEXT,
        error TEXT,
        record BLOB NOT NULL,
        PRIMARY KEY (entry, position)
    ) WITHOUT ROWID;
    """,
)


class TouchedFile(Struct, frozen=True):
    """A file that a session changed."""

    path: str
    change: str


class NewEntry(Struct, frozen=True, kw_only=True):
    """What is known about a session when its first turn begins."""

    agent: str
    """The agent's name, or its command line if it has none."""
    command: tuple[str, ...]
    session_id: str
    folder: str
    directories: tuple[str, ...] = ()
    title: str | None = None
    first_prompt: str = ""
    can_reopen: bool = True
    is_scripted: bool = False


class LedgerEntry(Struct, frozen=True, kw_only=True):
    """One session of the ledger. Times are ISO 8601 in UTC."""

    number: int
    agent: str
    command: tuple[str, ...]
    session_id: str
    folder: str
    directories: tuple[str, ...]
    title: str | None
    """The user's own, or the agent's."""
    first_prompt: str
    can_reopen: bool
    """The agent can resume or load sessions."""
    is_scripted: bool
    is_replaced: bool
    """The agent has used the id for a newer session, so this one cannot be continued."""
    turns: int
    files: tuple[TouchedFile, ...]
    created_at: str
    updated_at: str
    state: Literal["ended", "running", "interrupted"]
    """`interrupted`: the program ended without closing the last turn."""
    exit_code: int | None
    """Of the last turn."""
    stop_reason: str | None
    error: str | None


class EndedTurn(Struct, frozen=True, kw_only=True):
    """How a turn ended."""

    exit_code: int
    stop_reason: str | None = None
    error: str | None = None
    title: str | None = None
    files: tuple[TouchedFile, ...] = ()


class Ledger:
    """An open ledger. Raises: StoreError from any call if the file cannot be used."""

    def __init__(self, database: Database, presence: Presence) -> None:
        self._database = database
        self._presence = presence
        self.identity: str | None = None
        """As `identify_ledger` gives it."""

    @classmethod
    def open(cls, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> Ledger:
        """Open or create the file. Raises: StoreError."""
        remedy = "run without it: --no-ledger"
        try:
            database = Database(path, busy_seconds=busy_seconds, migrations=_MIGRATIONS, name="ledger", remedy=remedy)
            presence = Presence(path.with_name(path.name + "-writers"))
        except OSError as error:
            raise StoreUnwritable(f"the ledger {path} cannot be used: {error.strerror or error}; {remedy}") from error
        ledger = cls(database, presence)
        ledger.identity = identify_ledger(path)
        return ledger

    def close(self) -> None:
        """Commit what is pending and close the file."""
        self._database.close()
        self._presence.close()

    # Written by a run

    def begin_turn(self, entry: NewEntry, record: bytes, *, is_new: bool, number: int | None = None) -> Future[int]:
        """Add a session, or find the one that is continued, and begin a turn in it. The result is its number.

        Args:
            is_new: the agent has just made the session. An older one with the same id is another session then.
            number: the session that is continued, if that is known for sure; it is added again if it was deleted.
        """
        return self._database.post(lambda db: self._begin(db, entry, record, is_new=is_new, known=number))

    def save_turn(self, number: int, record: bytes | None) -> Future[None]:
        """Replace the record of the running turn of this program; None keeps the one that is there."""

        def work(db: sqlite3.Connection) -> None:
            query = "UPDATE turns SET record = coalesce(?, record) WHERE entry = ? AND writer = ? AND ended_at IS NULL"
            db.execute(query, (record, number, self._presence.id))

        return self._database.post(work)

    def end_turn(self, number: int, record: bytes | None, end: EndedTurn) -> Future[None]:
        """End the running turn of this program; see `save_turn`."""

        def work(db: sqlite3.Connection) -> None:
            stamp = now()
            db.execute(
                "UPDATE turns SET record = coalesce(?, record), ended_at = ?, exit_code = ?, stop_reason = ?, "
                "error = ? WHERE entry = ? AND writer = ? AND ended_at IS NULL",
                (record, stamp, end.exit_code, end.stop_reason, end.error, number, self._presence.id),
            )
            row = db.execute("SELECT files FROM entries WHERE number = ?", (number,)).fetchone()
            files = {file.path: file for file in _files(row[0])} if row else {}
            files |= {file.path: file for file in end.files}
            db.execute(
                "UPDATE entries SET title = coalesce(?, title), files = ?, updated_at = ?, size_bytes = "
                "(SELECT coalesce(sum(length(record)), 0) FROM turns WHERE entry = number) WHERE number = ?",
                (end.title, _json(sorted(files.values(), key=lambda file: file.path)), stamp, number),
            )

        return self._database.post(work)

    def prune(
        self, *, days: int = KEEP_DAYS, sessions: int = KEEP_SESSIONS, size_bytes: int = KEEP_BYTES
    ) -> Future[int]:
        """Delete the oldest sessions beyond these bounds. The result is how many."""

        def work(db: sqlite3.Connection) -> int:
            oldest = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
            rows = db.execute("SELECT number, updated_at, size_bytes FROM entries ORDER BY updated_at DESC").fetchall()
            total, doomed = 0, []
            for place, (number, updated_at, size) in enumerate(rows):
                total += size
                # The newest always stays, however large it is.
                if place and (place >= sessions or updated_at < oldest or total > size_bytes):
                    doomed.append((number,))
            _delete(db, doomed)
            return len(doomed)

        return self._database.post(work)

    # Read and changed by users

    def entries(
        self, *, agent: str | None = None, folder: str | None = None, limit: int | None = None
    ) -> list[LedgerEntry]:
        """Return the sessions, the last changed first."""
        where, values = ["1"], list[Any]()
        if agent is not None:
            where.append("agent = ?")
            values.append(agent)
        if folder is not None:
            where.append("real_folder = ?")
            values.append(os.path.realpath(folder))
        return self._select(" AND ".join(where), values, limit)

    def find(self, word: str, *, agent: str | None = None) -> list[LedgerEntry]:
        """Return the sessions that a word names, the newest first; the first of these rules that finds one decides.

        `@12` is a number; then the whole id, the whole title, the beginning of an id, a part of a title.
        """
        known = self.entries(agent=agent)
        if word.startswith("@") and word[1:].isdecimal():
            return [entry for entry in known if entry.number == int(word[1:])]
        exact = [entry for entry in known if entry.session_id == word and not entry.is_replaced]
        if exact:
            return exact  # several only if several agents have used the id
        wanted = " ".join(word.split()).casefold()
        if not wanted:
            return []
        titles = [(" ".join((entry.title or "").split()).casefold(), entry) for entry in known]
        found = [entry for title, entry in titles if title == wanted]
        found = found or [entry for entry in known if entry.session_id.startswith(word) and not entry.is_replaced]
        return found or [entry for title, entry in titles if wanted in title]

    def turns(self, number: int) -> list[TurnRecord]:
        """Return the turns of a session, in order. Raises: StoreError."""

        def work(db: sqlite3.Connection) -> list[tuple[bytes, bool]]:
            query = "SELECT record, ended_at IS NULL FROM turns WHERE entry = ? ORDER BY position"
            return [(bytes(record), bool(is_open)) for record, is_open in db.execute(query, (number,))]

        found = self._database.ask(work).result()
        return [msgspec.structs.replace(unpack(data), is_running=is_open) for data, is_open in found]

    def rename(self, number: int, title: str) -> None:
        """Give a session a title of the user's own; an empty one brings back the agent's."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("UPDATE entries SET own_title = ? WHERE number = ?", (title or None, number))

        self._database.post(work).result()

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete sessions, and overwrite them in the file."""
        self._database.post(lambda db: _delete(db, [(number,) for number in numbers])).result()

        def truncate(db: sqlite3.Connection) -> None:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log has the old pages; busy readers only delay it

        self._database.ask(truncate).result()

    def _begin(
        self, db: sqlite3.Connection, entry: NewEntry, record: bytes, *, is_new: bool, known: int | None = None
    ) -> int:
        stamp = now()
        query = "SELECT number FROM entries WHERE agent = ? AND session_id = ? AND is_replaced = 0 ORDER BY number DESC"
        found = db.execute(query, (entry.agent, entry.session_id)).fetchone()
        if known is not None:
            found = db.execute("SELECT number FROM entries WHERE number = ?", (known,)).fetchone() or found
        if is_new and found is not None:
            db.execute(
                "UPDATE entries SET is_replaced = 1 WHERE agent = ? AND session_id = ?", (entry.agent, entry.session_id)
            )
            found = None
        number = int(found[0]) if found is not None else _insert(db, entry, stamp)
        db.execute(
            "UPDATE entries SET turns = turns + 1, updated_at = ?, can_reopen = ?, folder = ?, real_folder = ? "
            "WHERE number = ?",
            (stamp, entry.can_reopen, entry.folder, os.path.realpath(entry.folder), number),
        )
        db.execute(
            "INSERT INTO turns (entry, position, writer, started_at, record) "
            "SELECT ?, coalesce(max(position), 0) + 1, ?, ?, ? FROM turns WHERE entry = ?",
            (number, self._presence.id, stamp, record, number),
        )
        return number

    def _select(self, where: str, values: Sequence[Any], limit: int | None) -> list[LedgerEntry]:
        def work(db: sqlite3.Connection) -> list[LedgerEntry]:
            query = f"SELECT {_COLUMNS} FROM entries WHERE {where} ORDER BY updated_at DESC, number DESC LIMIT ?"
            rows = db.execute(query, (*values, -1 if limit is None else limit)).fetchall()
            return [self._entry(db, row) for row in rows]

        return self._database.ask(work).result()

    def _entry(self, db: sqlite3.Connection, row: Sequence[Any]) -> LedgerEntry:
        (number, agent, command, session_id, folder, directories, title, own_title, first_prompt), rest = (
            row[:9],
            row[9:],
        )
        can_reopen, is_scripted, is_replaced, turns, files, created_at, updated_at = rest
        query = (
            "SELECT writer, ended_at, exit_code, stop_reason, error FROM turns WHERE entry = ? ORDER BY position DESC"
        )
        writer, ended_at, exit_code, stop_reason, error = db.execute(query, (number,)).fetchone() or (
            "",
            "",
            *[None] * 3,
        )
        state: Literal["ended", "running", "interrupted"] = "ended"
        if ended_at is None:
            state = "running" if self._presence.is_alive(writer) else "interrupted"
        return LedgerEntry(
            number=number,
            agent=agent,
            command=tuple(msgspec.json.decode(command)),
            session_id=session_id,
            folder=folder,
            directories=tuple(msgspec.json.decode(directories)),
            title=own_title or title or None,
            first_prompt=first_prompt,
            can_reopen=bool(can_reopen),
            is_scripted=bool(is_scripted),
            is_replaced=bool(is_replaced),
            turns=turns,
            files=tuple(_files(files)),
            created_at=created_at,
            updated_at=updated_at,
            state=state,
            exit_code=exit_code,
            stop_reason=stop_reason,
            error=error,
        )


def identify_ledger(path: str | os.PathLike[str]) -> str | None:
    """Return a name for a ledger's file that no other has, so that two programs see that they write the same one.

    None if there is no file. It reveals neither the path nor the machine.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    machine = os.uname().nodename
    with suppress(OSError), open(_BOOT_ID, encoding="ascii") as file:
        machine = file.read().strip()
    text = f"{machine}:{os.path.realpath(path)}:{found.st_dev}:{found.st_ino}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def open_existing(path: Path) -> Ledger | None:
    """Open the ledger if there is one. Raises: StoreError."""
    return Ledger.open(path) if path.exists() else None


def _insert(db: sqlite3.Connection, entry: NewEntry, stamp: str) -> int:
    done = db.execute(
        "INSERT INTO entries (agent, command, session_id, folder, real_folder, directories, title, first_prompt, "
        "can_reopen, is_scripted, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            entry.agent,
            _json(entry.command),
            entry.session_id,
            entry.folder,
            os.path.realpath(entry.folder),
            _json(entry.directories),
            entry.title,
            entry.first_prompt[:PROMPT_CHARS],
            entry.can_reopen,
            entry.is_scripted,
            stamp,
            stamp,
        ),
    )
    assert done.lastrowid is not None
    return done.lastrowid


def _delete(db: sqlite3.Connection, numbers: Sequence[tuple[int]]) -> None:
    db.execute("PRAGMA secure_delete = ON")
    db.executemany("DELETE FROM entries WHERE number = ?", numbers)


def _files(text: str) -> list[TouchedFile]:
    return msgspec.json.decode(text, type=list[TouchedFile])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
