"""The engines of the event log, for tests that hold for each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dragoman.store.event_log import EventLog, OwnedSession, SessionRecord
from dragoman.store.memory_log import MemoryLog
from dragoman.store.sqlite_log import SqliteLog


class Engine:
    """One kind of log: makes the log, and opens again what it kept."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._time = 10.0
        self._memory: MemoryLog | None = None
        self.opened: list[EventLog] = []

    def clock(self) -> float:
        self._time += 1.0
        return self._time

    def open(self) -> EventLog:
        """Open the log; one that was opened before has lost its sessions."""
        log: EventLog
        if self.name == "memory":
            log = self._memory = MemoryLog(self.clock, earlier=self._memory)
        else:
            log = SqliteLog(self._folder / "log" / "events.db", clock=self.clock)
        self.opened.append(log)
        return log

    async def close(self) -> None:
        for log in self.opened:
            await log.close()


ENGINES: tuple[str, ...] = ("memory", "sqlite")
MakeOwned = Callable[[str], OwnedSession]


def record(id: str, principal: str = "me", at: float = 1.0, **members: object) -> SessionRecord:
    made = SessionRecord(id, principal, "agent", None, "/work", b"{}", at, at, 0, 1)
    return made._replace(**members)  # type: ignore[arg-type]  # members of the record by name
