"""The event log of live sessions: what happened in each, numbered 1, 2, 3..., committed before anyone sees it.

Owns the interface of a log and the engine in memory; `sqlite_log.py` is the one on disk. A log keeps the content of
events, not the messages that carried them: each client gets its own envelope.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dragoman.errors import StoreError

EventKind = Literal[
    "prompt",
    "start",
    "update",
    "question",
    "answer",
    "late",
    "cancel",
    "end",
    "queue",
    "setting",
    "terminal",
    "notice",
    "extension",
    "agent",
    "fork",
]
"""A prompt was accepted; its turn started; an update of the agent; a question of the agent, its answer, and an answer
that came too late; a client cancelled; a turn ended; a prompt left the queue without a turn; a mode or an option was
set; output of a terminal; a notice of the host; a notification of the agent that is an extension; the agent started or
ended; the session continues another one."""

# These have to survive a power cut: a client acts on them.
DURABLE: Final[frozenset[EventKind]] = frozenset(("prompt", "question", "answer", "end", "agent"))


class NewEvent(NamedTuple):
    """An event that is not in the log yet."""

    kind: EventKind
    body: bytes
    """JSON on one line."""
    turn: int = 0
    """The turn it belongs to, 0 outside of turns."""
    version: int = 1
    """The version of the protocol that the body is written in."""


class LogEvent(NamedTuple):
    """An event of a session."""

    number: int
    kind: EventKind
    body: bytes
    turn: int
    at: float
    """Seconds since 1970."""
    version: int = 1


class SessionRecord(NamedTuple):
    """What the log knows of a session besides its events."""

    id: str
    principal: str
    agent: str
    """How the agent is started, as the host wrote it."""
    agent_session: str | None
    cwd: str
    facts: bytes
    """JSON of the host: title, modes, options, capabilities."""
    created_at: float
    updated_at: float
    head: int
    """The number of the last event."""
    oldest: int
    """The number of the first event that is kept as it was; earlier ones are joined."""


class LogReader(Protocol):
    """Reads what is committed, in a thread of its own."""

    def read(self, session: str, after: int, limit: int) -> list[LogEvent]:
        """As `EventLog.read`."""

    def surplus(self, session: str, *, before: float, size_bytes: int) -> int:
        """The number of the last event that is older than `before`, or has `size_bytes` of events behind it; 0: none.

        Only events that are kept as they were count.
        """

    def close(self) -> None: ...


class EventLog(Protocol):
    """Where hosted sessions are kept."""

    @property
    def folder(self) -> Path | None:
        """Where a host may keep files next to the log; None if the log is not on disk."""

    def watch(self, failed: Callable[[StoreError | None], None]) -> None:
        """Call back with the reason when events cannot be committed, and with None when they can be again."""

    def create(self, record: SessionRecord) -> None:
        """Add a session; committed when it returns."""

    def describe(self, session: str, *, agent_session: str | None, facts: bytes) -> None:
        """Replace what the host keeps of a session; committed when it returns."""

    def delete(self, session: str) -> None:
        """Remove a session with its events."""

    def find(self, session: str) -> SessionRecord | None: ...

    def sessions(self, *, principal: str | None = None) -> list[SessionRecord]:
        """Sessions, the one that changed last first; those of one principal, or all."""

    def append(self, session: str, events: Sequence[NewEvent], committed: Callable[[list[LogEvent]], None]) -> None:
        """Add events. `committed` is called with them, in the order of the calls, once they are kept."""

    def read(self, session: str, after: int, limit: int) -> list[LogEvent]:
        """At least one and about `limit` events behind the number `after`; empty at the head."""

    def open_reader(self) -> LogReader:
        """What reads the log in another thread than that of the event loop; the caller closes it."""

    async def replace(self, session: str, through: int, events: Sequence[LogEvent]) -> None:
        """Put joined events in the place of those that are kept as they were, up to the number `through`.

        The joined ones have numbers of events that they replace. Committed when it returns.
        """

    async def settle(self) -> None:
        """Return when everything that was appended is committed."""

    def close(self) -> None: ...


class MemoryLog:
    """A log that ends with the program."""

    folder: Path | None = None

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._records: dict[str, SessionRecord] = {}
        self._events: dict[str, list[LogEvent]] = {}

    def watch(self, failed: Callable[[StoreError | None], None]) -> None:
        """Memory does not fail."""

    def create(self, record: SessionRecord) -> None:
        self._records[record.id] = record
        self._events[record.id] = []

    def describe(self, session: str, *, agent_session: str | None, facts: bytes) -> None:
        if session in self._records:
            self._records[session] = self._records[session]._replace(agent_session=agent_session, facts=facts)

    def delete(self, session: str) -> None:
        self._records.pop(session, None)
        self._events.pop(session, None)

    def find(self, session: str) -> SessionRecord | None:
        return self._records.get(session)

    def sessions(self, *, principal: str | None = None) -> list[SessionRecord]:
        found = [each for each in self._records.values() if principal is None or each.principal == principal]
        return sorted(found, key=lambda each: (each.updated_at, each.id), reverse=True)

    def append(self, session: str, events: Sequence[NewEvent], committed: Callable[[list[LogEvent]], None]) -> None:
        now = self._clock()
        record = self._records[session]
        added = number_events(events, record.head, now)
        self._events[session] += added
        self._records[session] = record._replace(head=added[-1].number, updated_at=now)
        committed(added)

    def read(self, session: str, after: int, limit: int) -> list[LogEvent]:
        events = self._events[session]
        start = bisect_right(events, after, key=_number)
        return events[start : start + limit]

    def open_reader(self) -> LogReader:
        return _MemoryReader(self._records, self._events)

    async def replace(self, session: str, through: int, events: Sequence[LogEvent]) -> None:
        kept, record = self._events[session], self._records[session]
        start, end = bisect_left(kept, record.oldest, key=_number), bisect_right(kept, through, key=_number)
        self._events[session] = [*kept[:start], *events, *kept[end:]]
        self._records[session] = record._replace(oldest=through + 1)

    async def settle(self) -> None:
        pass

    def close(self) -> None:
        pass


class _MemoryReader:
    """Reads lists that grow meanwhile."""

    def __init__(self, records: dict[str, SessionRecord], events: dict[str, list[LogEvent]]) -> None:
        self._records = records
        self._events = events

    def read(self, session: str, after: int, limit: int) -> list[LogEvent]:
        events = self._events.get(session, [])
        start = bisect_right(events, after, key=_number)
        return events[start : start + limit]

    def surplus(self, session: str, *, before: float, size_bytes: int) -> int:
        record = self._records.get(session)
        if record is None:
            return 0
        behind = 0
        for event in reversed(list(self._events.get(session, ()))):
            if event.number < record.oldest:
                break
            if event.at < before or behind >= size_bytes:
                return event.number
            behind += len(event.body)
        return 0

    def close(self) -> None:
        pass


def _number(event: LogEvent) -> int:
    return event.number


def number_events(events: Sequence[NewEvent], head: int, now: float) -> list[LogEvent]:
    """The events with their numbers and their time."""
    return [
        LogEvent(head + place, event.kind, event.body, event.turn, now, event.version)
        for place, event in enumerate(events, 1)
    ]
