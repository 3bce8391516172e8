"""All sessions that are known here: of the ledger, the local host, the built-in agent's store and an agent's list.

Owns how they are joined: one session is one row, however many of them know it. Only an agent that the user
names is started.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.cli import exits
from dragoman.cli.named_agent import BUILT_IN, find_agent, folder, short_connection
from dragoman.cli.times import moment
from dragoman.registry.built_in import is_built_in
from dragoman.runs.ledger import ledger_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from dragoman.cli.command import CliCall
    from dragoman.cli.sessions.hosted import HostedEntry
    from dragoman.registry.agents import AgentEntry
    from dragoman.schema import v1
    from dragoman.store.ledger import Ledger, LedgerEntry
    from dragoman.store.sessions import SessionRow


LAST: Final = "last"


class KnownSession(Struct, frozen=True, kw_only=True):
    """One session, with the entry of the ledger if it has one."""

    agent: str
    session_id: str
    folder: str
    title: str | None = None
    updated_at: str | None = None
    directories: tuple[str, ...] = ()
    entry: LedgerEntry | None = None
    is_stored: bool = False
    """The built-in agent's store has it."""
    is_listed: bool = False
    """The agent itself lists it."""
    hosted: HostedEntry | None = None
    """What the local host says of it, for one of its sessions."""

    @property
    def shown_title(self) -> str:
        """The title, or the first prompt in quotation marks."""
        if self.hosted is not None:
            name = f"[{self.hosted.name}]" if self.hosted.name else ""
            return f"{name} {self._own_title}".strip()
        return self._own_title

    @property
    def _own_title(self) -> str:
        if self.title or self.entry is None:
            return self.title or ""
        return f'"{self.entry.first_prompt}"'


class Scope:
    """What the command line of `sessions` limits the sessions to."""

    def __init__(self, call: CliCall) -> None:
        given = call.given
        self.cwd: str | None = None if given.cwd is None else folder("--cwd", given.cwd)
        self.here = self.cwd or folder("the current folder", ".")
        self.is_named = given.agent is not None or call.program is not None
        self.is_offline: bool = given.offline
        self._call = call
        self._entry: AgentEntry | None = None

    @property
    def agent(self) -> AgentEntry:
        """The agent that the command line names, or the default one. Raises: CliError, ConfigError."""
        if self._entry is None:
            self._entry = find_agent("sessions", self._call.given.agent, self._call.program, self.here).entry
        return self._entry

    @property
    def agent_name(self) -> str | None:
        """The name under which the ledger has the agent; None if the command line names none."""
        return ledger_name(self.agent) if self.is_named else None


@contextmanager
def opened_ledger() -> Iterator[Ledger | None]:
    """Open the ledger of this user, if there is one. Raises: StoreError."""
    from dragoman.settings.places import data_dir
    from dragoman.store.ledger import FILE_NAME, open_existing

    ledger = open_existing(data_dir() / FILE_NAME)
    try:
        yield ledger
    finally:
        if ledger is not None:
            ledger.close()


def store_path() -> Path:
    """Return the file of the built-in agent's sessions."""
    from dragoman.settings.places import data_dir

    return data_dir() / "sessions.db"


async def own_sessions(cwd: str | None) -> list[KnownSession]:
    """Return the sessions in the built-in agent's store, without starting the agent. Raises: StoreError."""
    from dragoman.store.sessions import Store

    path = store_path()
    if not path.exists():
        return []
    store = await Store.open(path)
    try:
        rows: list[SessionRow] = []
        cursor = None
        while True:
            page = await store.sessions(cursor=cursor, limit=500)
            rows += page.sessions
            cursor = page.next_cursor
            if cursor is None:
                break
    finally:
        await store.close()
    return [
        KnownSession(
            agent=BUILT_IN,
            session_id=row.id,
            folder=row.cwd,
            title=row.title,
            updated_at=row.updated_at,
            directories=row.directories,
            is_stored=True,
        )
        for row in rows
        if cwd is None or is_in(row.cwd, cwd)
    ]


async def listed_sessions(entry: AgentEntry, here: str, cwd: str | None) -> list[KnownSession]:
    """Ask an agent for its sessions.

    Raises:
        CapabilityError: it cannot list them.
        CliError: it cannot be started.
    """
    async with short_connection(entry, here) as agent:
        found = [info async for info in agent.sessions(cwd=cwd)]
        if not found and cwd is None:
            # Some agents list nothing unless they are asked about a folder.
            found = [info async for info in agent.sessions(cwd=here)]
    # Some agents list all sessions, whatever folder they are asked for.
    return [_listed(ledger_name(entry), info) for info in found if cwd is None or is_in(info.cwd, cwd)]


def _listed(agent: str, info: v1.SessionInfo) -> KnownSession:
    return KnownSession(
        agent=agent,
        session_id=info.session_id,
        folder=info.cwd,
        title=info.title or None,
        updated_at=info.updated_at or None,
        directories=tuple(info.additional_directories_or_default),
        is_listed=True,
    )


def from_entry(entry: LedgerEntry) -> KnownSession:
    """Return a session as the ledger knows it."""
    return KnownSession(
        agent=entry.agent,
        session_id=entry.session_id,
        folder=entry.folder,
        title=entry.title,
        updated_at=entry.updated_at,
        directories=entry.directories,
        entry=entry,
    )


def joined(known: Iterable[KnownSession], others: Iterable[KnownSession]) -> list[KnownSession]:
    """Return every session once, the last changed first. Hosted sessions come before what an agent lists."""
    rows: dict[Any, KnownSession] = {}
    by_number: dict[int, Any] = {}
    for row in known:
        # A session whose id the agent used again is another one than the agent's.
        is_replaced = row.entry is not None and row.entry.is_replaced
        key = ("replaced", row.entry.number) if row.entry is not None and is_replaced else _key(row, rows)
        rows[key] = row
        if row.entry is not None:
            by_number[row.entry.number] = key
    for other in others:
        number = None if other.hosted is None else other.hosted.number
        key = by_number[number] if number in by_number else _key(other, rows)
        rows[key] = _join(rows[key], other) if key in rows else other
    return sorted(rows.values(), key=lambda row: -moment(row.updated_at or ""))


def _key(row: KnownSession, rows: dict[Any, KnownSession]) -> Any:
    """Return where a session is among the rows, or belongs if it is not there yet."""
    key: Any = (row.agent, row.session_id)
    if row.agent == BUILT_IN and key not in rows:
        # The built-in agent may have been run by a command of the user; its ids are its own, whatever started it.
        key = next((place for place, found in rows.items() if _is_of_command(found, row.session_id)), key)
    there = rows.get(key)
    if row.hosted is not None and there is not None and there.hosted is not None:
        return "hosted", row.hosted.session_id  # the agent used an id for two sessions of the host
    return key


def _is_of_command(row: KnownSession, id: str) -> bool:
    is_replaced = row.entry is not None and row.entry.is_replaced
    return row.session_id == id and " " in row.agent and not is_replaced


def _join(known: KnownSession, other: KnownSession) -> KnownSession:
    return replace(
        known,
        title=known.title or other.title,
        updated_at=max(known.updated_at or "", other.updated_at or "", key=moment) or None,
        directories=known.directories or other.directories,
        is_stored=known.is_stored or other.is_stored,
        is_listed=known.is_listed or other.is_listed,
        hosted=known.hosted or other.hosted,
    )


async def offline_sessions(ledger: Ledger | None, agent: AgentEntry | None, cwd: str | None) -> list[KnownSession]:
    """Return what is known without starting an agent: of one agent, or of all. Raises: StoreError."""
    entries = [] if ledger is None else ledger.entries(agent=None if agent is None else ledger_name(agent), folder=cwd)
    own = await own_sessions(cwd) if agent is None or is_built_in(agent) else []
    live = live_sessions(None if agent is None else ledger_name(agent), cwd)
    return joined(map(from_entry, entries), [*live, *own])


def live_sessions(agent: str | None, cwd: str | None) -> list[KnownSession]:
    """Return the sessions of the local host: of one agent, or of all."""
    from dragoman.cli.sessions.hosted import hosted_sessions
    from dragoman.host.local.agents import ledger_name as hosted_name

    return [
        KnownSession(
            agent=hosted_name(entry.agent),
            session_id=entry.agent_session or entry.session_id,
            folder=entry.folder,
            title=entry.title,
            updated_at=entry.updated_at,
            hosted=entry,
        )
        for entry in hosted_sessions()
        if (agent is None or hosted_name(entry.agent) == agent) and (cwd is None or is_in(entry.folder, cwd))
    ]


def pick(
    word: str, found: list[KnownSession], ledger: Ledger | None, agent: str | None, cwd: str | None = None
) -> KnownSession:
    """Return the one session that a word names.

    Args:
        word: its id or the beginning of it, its @NUMBER, its title, its name in the local host, or `last` for the one
            that was used last.
        found: the sessions that are known, the last used first.
        ledger: where a number or a title is looked up.
        agent: the name of the agent in the ledger, if only its sessions count.
        cwd: the folder whose last one is meant; None for any.

    Raises:
        CliError: it names none, or several.
    """
    if word == LAST:
        here = [row for row in found if cwd is None or is_in(row.folder, cwd)]
        if not here:
            where = "" if cwd is None else f" in {cwd}"
            raise exits.CliError(f"last: there is no session yet{where}", hint="dragoman sessions list")
        return here[0]
    rows = _named_in_host(word, found)
    by_number = {row.entry.number: row for row in found if row.entry is not None}
    named = [] if ledger is None or rows else ledger.find(word, agent=agent)
    rows = rows or [by_number.get(entry.number) or from_entry(entry) for entry in named]
    if not rows and not word.startswith("@"):
        rest = [row for row in found if row.entry is None]
        wanted = word.casefold()
        rows = [row for row in rest if row.session_id == word] or _with_host_id(word, found)
        rows = rows or [row for row in rest if (row.title or "").casefold() == wanted]
        rows = rows or [row for row in rest if row.session_id.startswith(word)]
        rows = rows or [row for row in rest if wanted in (row.title or "").casefold()]
    if len(rows) == 1:
        return rows[0]
    if not rows:
        raise exits.CliError(
            f"no session is called {word!r}",
            hint="dragoman sessions list; with -a NAME an agent's own list is used, too",
        )
    shown = ", ".join(f"{handle(row)} {row.shown_title[:40]}".rstrip() for row in rows[:5])
    raise exits.CliError(f"{word!r} names {len(rows)} sessions: {shown}", hint="write more of it, or its @NUMBER")


def _named_in_host(word: str, found: list[KnownSession]) -> list[KnownSession]:
    """Return the sessions with this name, those of the current folder first."""
    rows = [row for row in found if row.hosted is not None and row.hosted.name == word]
    return [row for row in rows if is_in(row.folder, ".")] or rows


def _with_host_id(word: str, found: list[KnownSession]) -> list[KnownSession]:
    """Return the sessions with this id in the local host, or with one that begins with it."""
    rows = [row for row in found if row.hosted is not None and row.hosted.session_id.startswith(word)]
    return [row for row in rows if row.hosted is not None and row.hosted.session_id == word] or rows


def handle(row: KnownSession) -> str:
    """Return the shortest word that names a session."""
    return row.session_id if row.entry is None else f"@{row.entry.number}"


def is_in(one: str, other: str) -> bool:
    """Whether two paths are the same folder."""
    return os.path.realpath(one) == os.path.realpath(other)


def document(row: KnownSession) -> dict[str, Any]:
    """Return a session as plain data; what only the ledger knows is null for the others."""
    entry = row.entry
    return {
        "session_id": row.session_id,
        "cwd": row.folder,
        "title": row.title,
        "updated_at": row.updated_at,
        "additional_directories": list(row.directories),
        "agent": row.agent,
        "number": None if entry is None else entry.number,
        "first_prompt": None if entry is None else entry.first_prompt,
        "created_at": None if entry is None else entry.created_at,
        "turns": None if entry is None else entry.turns,
        "state": row.hosted.state if row.hosted is not None else None if entry is None else entry.state,
        "exit_code": None if entry is None else entry.exit_code,
        "stop_reason": None if entry is None else entry.stop_reason,
        "error": None if entry is None else entry.error,
        "files": None if entry is None else [{"path": file.path, "change": file.change} for file in entry.files],
        "scripted": None if entry is None else entry.is_scripted,
        "can_continue": None if entry is None else entry.can_reopen and not entry.is_replaced,
        "known_by": [
            name
            for name, is_true in (
                ("ledger", entry is not None),
                ("agent", row.is_listed or row.is_stored),
                ("host", row.hosted is not None),
            )
            if is_true
        ],
        "name": None if row.hosted is None else row.hosted.name,
        "attached": None if row.hosted is None else row.hosted.attached,
        "host_session_id": None if row.hosted is None else row.hosted.session_id,
    }
