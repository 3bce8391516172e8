"""The stored sessions: messages, usage, remembered permission rules, queued prompts, and the log of a running turn.

Owns every query. While a turn runs it is stored as a log of chunks; when it ends, the log is replaced by the parts of a
message in one transaction. Chunks and parts are bytes here; this module does not interpret them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.errors import StoreError
from dragoman.store.clock import now
from dragoman.store.database import BUSY_SECONDS, Database, StoreUnwritable
from dragoman.store.ids import new_id
from dragoman.store.presence import Presence

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

PAGE: Final = 50
_PARAMETERS: Final = 500  # in one statement; old versions of SQLite allow 999
_LAST_ID: Final = "~"  # sorts after every id
_SESSION: Final = (
    "id, agent, cwd, directories, title, mode, model, effort, parent_id, parent_message_id, metadata, created_at, "
    "updated_at, child_of"
)
_CHANGEABLE: Final = frozenset({"title", "mode", "model", "effort", "metadata", "directories", "updated_at"})


class SessionRow(Struct, frozen=True):
    """One session. Times are ISO 8601 in UTC."""

    id: str
    agent: str
    cwd: str
    directories: tuple[str, ...] = ()
    title: str | None = None
    mode: str | None = None
    model: str | None = None
    effort: str | None = None
    parent_id: str | None = None
    parent_message_id: str | None = None
    metadata: dict[str, Any] = {}
    created_at: str = ""
    updated_at: str = ""
    child_of: str | None = None
    """The session whose subagent this one is: not listed, and deleted with it."""


class PartRow(Struct, frozen=True):
    """One part of a message; `data` is its JSON."""

    type: str
    data: bytes
    tool_call_id: str | None = None
    tool_state: str | None = None


class MessageRow(Struct, frozen=True):
    """One message with its parts in order."""

    id: str
    role: str
    parts: tuple[PartRow, ...] = ()
    metadata: dict[str, Any] = {}
    created_at: str = ""
    queued_at: str | None = None


class UsageRow(Struct, frozen=True):
    """Tokens and cost of one model call."""

    model: str = ""
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float | None = None


class LiveLog(Struct, frozen=True):
    """An unfinished message. `is_alive`: the program that writes it still runs; otherwise that program has died."""

    message_id: str
    chunks: tuple[bytes, ...]
    is_alive: bool


class Page(Struct, frozen=True):
    """Some sessions, the last changed first, and the cursor of the next page if there is one."""

    sessions: tuple[SessionRow, ...]
    next_cursor: str | None


class Store:
    """The sessions of one user. A call that changes something returns after the commit.

    Raises: StoreError from any call if the file cannot be used.
    """

    def __init__(self, database: Database, presence: Presence) -> None:
        self._database = database
        self._presence = presence

    @classmethod
    async def open(cls, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> Store:
        """Open or create the file. Raises: StoreError."""
        return await asyncio.to_thread(cls._open, path, busy_seconds)

    @classmethod
    def _open(cls, path: Path, busy_seconds: float) -> Store:
        try:
            database = Database(path, busy_seconds=busy_seconds)
            presence = Presence(path.with_name(path.name + "-writers"))
        except OSError as error:
            raise StoreUnwritable(
                f"the session store {path} cannot be used: {error.strerror or error}; "
                "check its folder, or name another file with --store"
            ) from error
        return cls(database, presence)

    async def close(self) -> None:
        await asyncio.to_thread(self._database.close)
        self._presence.close()

    # Sessions

    async def create_session(self, row: SessionRow) -> SessionRow:
        """Add a session and return it with its times set."""
        row = _stamped(row)
        await self._database.write(lambda db: _insert_session(db, row))
        return row

    async def fork_session(self, row: SessionRow, *, until: str | None = None) -> SessionRow:
        """Add a session with copies of its parent's finished messages and remembered rules.

        The usage is not copied, because the new session has not used anything.

        Args:
            until: the id of the last message to copy; None copies all, an empty text none.

        Raises: StoreError while a turn of the parent runs, or if it has no such message.
        """
        row = msgspec.structs.replace(_stamped(row), parent_message_id=until or None)

        def work(db: sqlite3.Connection) -> None:
            busy = db.execute("SELECT writer FROM live WHERE session_id = ?", (row.parent_id,)).fetchone()
            if busy is not None and self._presence.is_alive(busy[0]):
                raise StoreError("a turn is running in this session; wait until it ends, or cancel it")
            query = (
                "SELECT id FROM messages WHERE session_id = ? "
                "AND queued_at IS NULL AND id NOT IN (SELECT message_id FROM live) ORDER BY id"
            )
            ids = [id for (id,) in db.execute(query, (row.parent_id,))]
            if until and until not in ids:
                raise StoreError(f"the session has no message {until!r}")
            _insert_session(db, row)
            copied = ids if until is None else ids[: ids.index(until) + 1] if until else []
            for id in copied:
                _copy_message(db, id, row.id)
            db.execute(
                "INSERT INTO rules SELECT ?, rule, action, added_at FROM rules WHERE session_id = ?",
                (row.id, row.parent_id),
            )

        await self._database.write(work)
        return row

    async def session(self, session_id: str) -> SessionRow | None:
        def work(db: sqlite3.Connection) -> SessionRow | None:
            found = db.execute(f"SELECT {_SESSION} FROM sessions WHERE id = ?", (session_id,)).fetchone()
            return None if found is None else _session(found)

        return await self._database.read(work)

    async def sessions(self, *, cwd: str | None = None, cursor: str | None = None, limit: int = PAGE) -> Page:
        """Return one page, the session that changed last first, without those of subagents.

        Raises: StoreError for an unknown cursor.
        """
        where, values = ["child_of IS NULL"], list[Any]()
        if cwd is not None:
            where.append("cwd = ?")
            values.append(cwd)
        if cursor is not None:
            where.append("(updated_at, id) < (?, ?)")
            values += _read_cursor(cursor)
        clause = " AND ".join(where)

        def work(db: sqlite3.Connection) -> list[SessionRow]:
            query = f"SELECT {_SESSION} FROM sessions WHERE {clause} ORDER BY updated_at DESC, id DESC LIMIT ?"
            return [_session(found) for found in db.execute(query, (*values, limit + 1))]

        rows = await self._database.read(work)
        page = tuple(rows[:limit])
        return Page(page, _cursor_of(page[-1].updated_at, page[-1].id) if len(rows) > limit else None)

    async def children(self, session_id: str) -> tuple[SessionRow, ...]:
        """Return the sessions of a session's subagents, the oldest first."""
        query = f"SELECT {_SESSION} FROM sessions WHERE child_of = ? ORDER BY id"
        return await self._database.read(lambda db: tuple(map(_session, db.execute(query, (session_id,)))))

    async def update_session(self, session_id: str, **changes: Any) -> str:
        """Change some columns and `updated_at`. Return the new value of `updated_at`."""
        unknown = set(changes) - _CHANGEABLE
        if unknown:
            raise ValueError(f"not a column that can be changed: {', '.join(sorted(unknown))}")
        stamp = changes.setdefault("updated_at", now())
        names = sorted(changes)
        values = [_json(changes[name]) if name in ("metadata", "directories") else changes[name] for name in names]

        def work(db: sqlite3.Connection) -> None:
            columns = ", ".join(f"{name} = ?" for name in names)
            db.execute(f"UPDATE sessions SET {columns} WHERE id = ?", (*values, session_id))

        await self._database.write(work)
        return str(stamp)

    async def delete_session(self, session_id: str) -> bool:
        """Delete a session with everything that belongs to it. Return False if there is none of this id.

        Raises: StoreError while another program runs a turn in it.
        """

        def work(db: sqlite3.Connection) -> bool:
            self._require_free(db, session_id)
            return db.execute("DELETE FROM sessions WHERE id = ?", (session_id,)).rowcount > 0

        return await self._database.write(work)

    async def require_free(self, session_id: str) -> None:
        """Raises: StoreError while another program runs a turn in this session."""
        await self._database.read(lambda db: self._require_free(db, session_id))

    def _require_free(self, db: sqlite3.Connection, session_id: str) -> None:
        busy = db.execute("SELECT writer FROM live WHERE session_id = ?", (session_id,)).fetchone()
        if busy is not None and busy[0] != self._presence.id and self._presence.is_alive(busy[0]):
            raise StoreError("another program is running a turn in this session; wait for it, or cancel it there")

    # Messages

    async def messages(
        self,
        session_id: str,
        *,
        after: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        is_backwards: bool = False,
        has_parts: bool = True,
    ) -> tuple[MessageRow, ...]:
        """Return the finished messages in order, without those that are queued or still being written.

        Args:
            after: the id of the message before the first.
            until: the id of the last message in the order of time.
            is_backwards: the newest first.
        """
        order = "DESC" if is_backwards else "ASC"
        query = (
            "SELECT id, role, metadata, created_at, queued_at FROM messages "
            "WHERE session_id = ? AND id > ? AND id <= ? "
            f"AND queued_at IS NULL AND id NOT IN (SELECT message_id FROM live) ORDER BY id {order} LIMIT ?"
        )
        values = (session_id, after or "", until or _LAST_ID, -1 if limit is None else limit)

        def work(db: sqlite3.Connection) -> tuple[MessageRow, ...]:
            return _with_parts(db, db.execute(query, values).fetchall(), has_parts=has_parts)

        return await self._database.read(work)

    async def has_message(self, session_id: str, message_id: str) -> bool:
        """Whether the session has this message."""
        query = "SELECT 1 FROM messages WHERE id = ? AND session_id = ?"
        return await self._database.read(lambda db: db.execute(query, (message_id, session_id)).fetchone() is not None)

    async def add_message(self, session_id: str, message: MessageRow) -> None:
        """Add a finished message, such as the user's."""
        await self._database.write(lambda db: _insert_message(db, session_id, message))

    async def begin_turn(
        self, session_id: str, prompt: MessageRow, reply_id: str, *, queued_id: str | None = None
    ) -> None:
        """Add the user's message and begin the assistant's, which is written chunk by chunk.

        Args:
            queued_id: the id under which the prompt waits in the queue; it leaves the queue.

        Raises: StoreError if another live process is running a turn in this session; nothing is added then.
        """

        def work(db: sqlite3.Connection) -> None:
            self._require_free(db, session_id)
            if queued_id is not None:
                db.execute("DELETE FROM messages WHERE id = ?", (queued_id,))
            _insert_message(db, session_id, prompt)
            _insert_message(db, session_id, MessageRow(reply_id, "assistant"))
            db.execute("INSERT INTO live VALUES (?, ?, ?)", (reply_id, session_id, self._presence.id))

        await self._database.write(work)

    async def append_log(self, message_id: str, position: int, chunks: Sequence[bytes]) -> None:
        """Append chunks to the log of an unfinished message; `position` is the number of chunks before them."""
        rows = [(message_id, number, chunk) for number, chunk in enumerate(chunks, position)]

        def work(db: sqlite3.Connection) -> None:
            db.executemany("INSERT INTO live_log VALUES (?, ?, ?)", rows)

        await self._database.write(work)

    async def finish_message(self, session_id: str, message: MessageRow, usage: Sequence[UsageRow] = ()) -> str:
        """Replace the log of a message by its parts. Return the session's new `updated_at`."""
        stamp = now()

        def work(db: sqlite3.Connection) -> str:
            db.execute("DELETE FROM live WHERE message_id = ?", (message.id,))
            db.execute("UPDATE messages SET metadata = ? WHERE id = ?", (_json(message.metadata), message.id))
            _insert_parts(db, message)
            db.executemany(
                "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(message.id, session_id, number, *msgspec.structs.astuple(row)) for number, row in enumerate(usage)],
            )
            db.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (stamp, session_id))
            return stamp

        return await self._database.write(work)

    async def live_log(self, session_id: str) -> LiveLog | None:
        """Return the unfinished message of this session, if there is one."""

        def work(db: sqlite3.Connection) -> LiveLog | None:
            found = db.execute("SELECT message_id, writer FROM live WHERE session_id = ?", (session_id,)).fetchone()
            if found is None:
                return None
            query = "SELECT chunk FROM live_log WHERE message_id = ? ORDER BY position"
            chunks = tuple(bytes(chunk) for (chunk,) in db.execute(query, (found[0],)))
            return LiveLog(found[0], chunks, self._presence.is_alive(found[1]))

        return await self._database.read(work)

    # The queue: prompts whose turn has not begun

    async def enqueue(self, session_id: str, message: MessageRow) -> None:
        """Store a prompt that arrived while a turn runs."""
        row = msgspec.structs.replace(message, queued_at=now())
        await self._database.write(lambda db: _insert_message(db, session_id, row))

    async def queued(self, session_id: str) -> tuple[MessageRow, ...]:
        """Return the queued prompts in the order of their arrival."""

        def work(db: sqlite3.Connection) -> tuple[MessageRow, ...]:
            query = (
                "SELECT id, role, metadata, created_at, queued_at FROM messages "
                "WHERE session_id = ? AND queued_at IS NOT NULL ORDER BY id"
            )
            return _with_parts(db, db.execute(query, (session_id,)).fetchall())

        return await self._database.read(work)

    async def dequeue(self, message_id: str, *, new_id: str) -> None:
        """Take a prompt from the queue. `new_id` sorts it after the messages that were added while it waited."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("PRAGMA defer_foreign_keys = ON")
            db.execute(
                "UPDATE messages SET id = ?, queued_at = NULL, created_at = ? WHERE id = ?", (new_id, now(), message_id)
            )
            db.execute("UPDATE parts SET message_id = ? WHERE message_id = ?", (new_id, message_id))

        await self._database.write(work)

    async def drop_queued(self, message_id: str) -> None:
        """Delete a prompt that was withdrawn before its turn began."""
        await self._execute("DELETE FROM messages WHERE id = ? AND queued_at IS NOT NULL", message_id)

    # Usage and rules

    async def usage(self, session_id: str) -> UsageRow:
        """Return the sum of what the session used so far. The cost is None if the price of no call is known."""

        def work(db: sqlite3.Connection) -> UsageRow:
            query = (
                "SELECT coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(reasoning), 0), "
                "coalesce(sum(cache_read), 0), coalesce(sum(cache_write), 0), sum(cost_usd) "
                "FROM usage WHERE session_id = ?"
            )
            return UsageRow("", *db.execute(query, (session_id,)).fetchone())

        return await self._database.read(work)

    async def add_usage(self, session_id: str, message_id: str, call: UsageRow) -> None:
        """Add a model call that was made for a finished message, next to its turn."""
        await self._execute(
            "INSERT INTO usage SELECT ?, ?, coalesce(max(position), -1) + 1, ?, ?, ?, ?, ?, ?, ? "
            "FROM usage WHERE message_id = ?",
            *(message_id, session_id, *msgspec.structs.astuple(call), message_id),
        )

    async def add_rule(self, session_id: str, rule: str, action: str) -> None:
        """Remember a permission rule for this session."""
        await self._execute("INSERT OR IGNORE INTO rules VALUES (?, ?, ?, ?)", session_id, rule, action, now())

    async def rules(self, session_id: str) -> tuple[tuple[str, str], ...]:
        """Return the remembered rules, each with its action."""

        def work(db: sqlite3.Connection) -> tuple[tuple[str, str], ...]:
            query = "SELECT rule, action FROM rules WHERE session_id = ? ORDER BY added_at, rule"
            return tuple((rule, action) for rule, action in db.execute(query, (session_id,)))

        return await self._database.read(work)

    async def _execute(self, statement: str, *values: object) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute(statement, values)

        await self._database.write(work)


def _stamped(row: SessionRow) -> SessionRow:
    stamp = now()
    return msgspec.structs.replace(row, created_at=row.created_at or stamp, updated_at=stamp)


def _insert_session(db: sqlite3.Connection, row: SessionRow) -> None:
    values = (*(_column(row, name) for name in SessionRow.__struct_fields__),)
    db.execute(f"INSERT INTO sessions ({_SESSION}) VALUES ({', '.join('?' * len(values))})", values)


def _copy_message(db: sqlite3.Connection, id: str, session_id: str) -> None:
    copy = new_id("msg")
    db.execute(
        "INSERT INTO messages (id, session_id, role, metadata, created_at) "
        "SELECT ?, ?, role, metadata, created_at FROM messages WHERE id = ?",
        (copy, session_id, id),
    )
    db.execute(
        "INSERT INTO parts (message_id, position, type, data, tool_call_id, tool_state) "
        "SELECT ?, position, type, data, tool_call_id, tool_state FROM parts WHERE message_id = ?",
        (copy, id),
    )


def _insert_message(db: sqlite3.Connection, session_id: str, message: MessageRow) -> None:
    db.execute(
        "INSERT INTO messages (id, session_id, role, metadata, created_at, queued_at) VALUES (?, ?, ?, ?, ?, ?)",
        (message.id, session_id, message.role, _json(message.metadata), message.created_at or now(), message.queued_at),
    )
    _insert_parts(db, message)


def _insert_parts(db: sqlite3.Connection, message: MessageRow) -> None:
    db.executemany(
        "INSERT INTO parts (message_id, position, type, data, tool_call_id, tool_state) VALUES (?, ?, ?, ?, ?, ?)",
        [(message.id, number, *msgspec.structs.astuple(part)) for number, part in enumerate(message.parts)],
    )


def _with_parts(db: sqlite3.Connection, found: Sequence[Any], *, has_parts: bool = True) -> tuple[MessageRow, ...]:
    parts: dict[str, list[PartRow]] = {}
    ids = [row[0] for row in found] if has_parts else []
    for start in range(0, len(ids), _PARAMETERS):
        some = ids[start : start + _PARAMETERS]
        query = (
            "SELECT message_id, type, data, tool_call_id, tool_state FROM parts "
            f"WHERE message_id IN ({', '.join('?' * len(some))}) ORDER BY message_id, position"
        )
        for id, kind, data, call, state in db.execute(query, some):
            parts.setdefault(id, []).append(PartRow(kind, bytes(data), call, state))
    return tuple(
        MessageRow(id, role, tuple(parts.get(id, ())), msgspec.json.decode(metadata), created_at, queued_at)
        for id, role, metadata, created_at, queued_at in found
    )


def _session(found: Sequence[Any]) -> SessionRow:
    values = dict(zip(SessionRow.__struct_fields__, found, strict=True))
    values["directories"] = tuple(msgspec.json.decode(values["directories"]))
    values["metadata"] = msgspec.json.decode(values["metadata"])
    return SessionRow(**values)


def _column(row: SessionRow, name: str) -> Any:
    value = getattr(row, name)
    return _json(value) if name in ("directories", "metadata") else value


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _cursor_of(updated_at: str, session_id: str) -> str:
    """Return the cursor of the page behind this session, which clients pass back unread."""
    return base64.urlsafe_b64encode(msgspec.json.encode([updated_at, session_id])).decode().rstrip("=")


def _read_cursor(cursor: str) -> list[str]:
    """Return the time and the id of the session before the page. Raises: StoreError."""
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        updated_at, id = msgspec.json.decode(data, type=tuple[str, str])
    except (binascii.Error, msgspec.DecodeError, ValueError):
        raise StoreError("the cursor is not one of this store; list the sessions again without a cursor") from None
    return [updated_at, id]
