"""The event log of live sessions: what happened in each, numbered 1, 2, 3..., committed before anyone sees it.

Owns the interface of a log, its types and its errors. `memory_log.py` and `sqlite_log.py` are the engines. A log keeps
the content of events, not the messages that carried them: each client gets its own envelope.

Everything that may wait for a disk or a network is `async`. `append`, `accept` and `describe` are calls, because their
order is the order of the calls; what became of them is reported to a callback in the thread of the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from msgspec import Struct, json

from dragoman.errors import StoreError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

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
# These move a session to the top of the lists. A notice or a restart does not: lists stay in their order.
MOVING: Final[frozenset[EventKind]] = frozenset(("prompt", "question", "answer", "end"))


class StoreUnavailable(StoreError):
    """The log cannot be used now, for example because the disk is full. The log itself tries again, with pauses."""


class OwnershipLost(StoreError):
    """Another owner writes the session now. Nothing is tried again."""


class OwnedElsewhere(StoreError):
    """A session that another host writes."""

    def __init__(self, session: str, host: str) -> None:
        super().__init__(f"the session {session} is in use by {host}")
        self.host = host


class NoSession(StoreError):
    """The log has no such session."""

    def __init__(self, session: str) -> None:
        super().__init__(f"the log has no session {session}")


class KeyInUse(StoreError):
    """A session was opened with this key before."""

    def __init__(self, session: str) -> None:
        super().__init__(f"the session {session} was opened with this key")
        self.session = session


class Hole(StoreError):
    """Events that were committed are not there any more."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(f"the events {first} to {last} are missing in the log")
        self.first = first
        self.last = last


class NewEvent(Struct, frozen=True, gc=False):
    """An event that is not in the log yet."""

    kind: EventKind
    body: bytes
    """JSON on one line."""
    turn: int = 0
    """The turn it belongs to, 0 outside of turns."""
    version: int = 1
    """The version of the protocol that the body is written in."""


# Thousands of events stay in memory as the tails of sessions. They refer to nothing that could refer to them, so the
# collector of cycles need not know them: going through named tuples, it stopped the loop for 0.1 s at a time.
class LogEvent(Struct, frozen=True, gc=False, array_like=True):
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
    keys: tuple[str, ...] = ()
    """Words by which its principal finds it: the key of the request that opened it, its name."""


class ListPlace(NamedTuple):
    """A place in the list of a principal's sessions: that of the record with this time and id."""

    updated_at: float
    id: str


class RecordPage(NamedTuple):
    """A part of a list."""

    records: list[SessionRecord]
    next: ListPlace | None
    """Where the next part begins, as `before`; None at the end."""


class Stored(NamedTuple):
    """How much a principal keeps in the log."""

    sessions: int
    size_bytes: int
    """Of events and large bodies, as they are stored."""


class RecordChange(NamedTuple):
    """A record that changed, or went."""

    id: str
    record: SessionRecord | None


class Accepted(NamedTuple):
    """A prompt is in the log."""

    events: list[LogEvent]


class Already(NamedTuple):
    """A prompt with this id was accepted before."""

    number: int
    """Of its event."""


class EventLog(Protocol):
    """Where hosted sessions are kept."""

    @property
    def folder(self) -> Path | None:
        """Where a host may keep files next to the log; None if the log is not on disk."""

    async def create(self, record: SessionRecord, key: str | None = None) -> OwnedSession:
        """Add a session that this host owns.

        Args:
            record: Of the session.
            key: One of its keys; no other session of the principal may have it.

        Raises:
            KeyInUse: a session of the principal has the key.
            StoreUnavailable: it cannot be kept now.
        """

    async def take(self, session: str, *, force: bool = False) -> OwnedSession:
        """Become the owner of a session, in a new epoch.

        Raises:
            NoSession: there is none.
            OwnedElsewhere: it has an owner, and `force` was not given.
            StoreUnavailable: it cannot be read now.
        """

    async def find(self, session: str, principal: str | None) -> SessionRecord | None:
        """Return a session of this principal, or of any."""

    async def find_keyed(self, principal: str, key: str) -> list[SessionRecord]:
        """Return the sessions of this principal that have a key."""

    async def page(
        self,
        principal: str | None,
        *,
        agent: str | None = None,
        cwd: str | None = None,
        before: ListPlace | None = None,
        limit: int,
    ) -> RecordPage:
        """Return records, the one that changed last first; of one principal, or of all."""

    async def stored(self, principal: str | None = None) -> dict[str, Stored]:
        """Return how much is kept, by principal: of one, or of all that have a session."""

    async def sizes(self, sessions: Sequence[str]) -> dict[str, int]:
        """Return how many bytes these sessions have in the log."""

    def changes(self, principal: str) -> AsyncIterator[RecordChange]:
        """Follow the records of a principal as they change or go, from now on. A slow reader gets the last state."""

    async def read(self, session: str, after: int, limit: int, *, head: int = 0) -> list[LogEvent]:
        """Return at least one and about `limit` events behind the number `after`; empty at the end.

        Args:
            session: Whose events.
            after: The number in front of the first one.
            limit: About how many.
            head: A number that is known to be committed: an end before it is a hole.

        Raises:
            Hole: the next events are missing.
        """

    async def surplus(self, session: str, *, before: float, size_bytes: int) -> int:
        """Return the number of the last event older than `before`, or with `size_bytes` of events behind it; 0: none.

        Only events that are kept as they were count.
        """

    async def delete(self, session: str) -> None:
        """Remove a session with its events; its owner has lost it."""

    def watch(self, failed: Callable[[StoreError | None], None]) -> None:
        """Call back with the reason when events cannot be committed, and with None when they can be again."""

    async def close(self) -> None:
        """Commit what waits, and end."""


class OwnedSession(Protocol):
    """The right to write one session, until it is lost."""

    @property
    def record(self) -> SessionRecord:
        """As it was committed last."""

    @property
    def epoch(self) -> int:
        """Grows with each owner."""

    @property
    def head(self) -> int:
        """The number of the last event that is committed."""

    @property
    def lost(self) -> asyncio.Future[OwnershipLost]:
        """Has a result once another owner writes the session: nothing is committed or reported after that."""

    def append(self, events: Sequence[NewEvent], committed: Callable[[list[LogEvent]], None]) -> None:
        """Add events. `committed` is called with them, in the order of the calls, once they are kept.

        Events that wait together for the same callback are reported together.
        """

    def accept(self, prompt_id: str, events: Sequence[NewEvent], done: Callable[[Accepted | Already], None]) -> None:
        """Append as `append` does, once for each prompt id in the life of the session."""

    def describe(self, record: SessionRecord) -> None:
        """Replace the agent's session, facts and keys of the record; the last one wins, soon.

        Never before the events that were appended earlier. A later `updated_at` moves the session up in lists.
        """

    async def replace(self, through: int, events: Sequence[LogEvent]) -> None:
        """Put joined events in the place of those that are kept as they were, up to the number `through`.

        The joined ones have numbers of events that they replace. Committed when it returns.
        """

    async def settle(self) -> None:
        """Return when everything that was appended or described is committed, or the session is lost."""

    async def release(self, successor: str | None = None) -> None:
        """Give the session up, after what waits. `successor` names the host that shall take it."""


_HOLE_END: Final = b',"kind":"hole"}'


def lost_events(first: int, last: int, *, turn: int = 0, at: float = 0.0, version: int = 1) -> LogEvent:
    """Return the notice that stands in the place of events that cannot be read any more."""
    text = f"The events {first} to {last} of this session are lost."
    return LogEvent(last, "notice", b'{"text":%b%b' % (json.encode(text), _HOLE_END), turn, at, version)


def is_hole(event: LogEvent) -> bool:
    """Whether an event stands in the place of others that are lost."""
    return event.kind == "notice" and event.body.endswith(_HOLE_END)


def number_events(events: Sequence[NewEvent], head: int, now: float) -> list[LogEvent]:
    """Give the events their numbers and their time."""
    return [
        LogEvent(number, event.kind, event.body, event.turn, now, event.version)
        for number, event in enumerate(events, head + 1)
    ]


def page_of(records: list[SessionRecord], limit: int) -> RecordPage:
    """Make a page of records, of which one more than the limit was read if there are more."""
    if len(records) <= limit:
        return RecordPage(records, None)
    last = records[limit - 1]
    return RecordPage(records[:limit], ListPlace(last.updated_at, last.id))
