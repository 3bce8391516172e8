"""What every engine of the event log does with writes before and after they are kept.

Theory of operation
-------------------
`append`, `accept` and `describe` make a `LogWrite`, or add to one of the same session that still waits. At the end of
the turn of the loop everything that waits is one batch, and the engine is asked to keep it; what comes meanwhile is the
next batch. So there is one batch at the engine at a time, and one order. When the batch is kept, the next one is passed
on first, and then the callbacks of the kept one run: a thread or a server works while this one publishes.

A batch costs the engine about the same whether it has one write or fifty, so that batches keep a distance, which grows
with the number of sessions that write. It is short if a client waits for an event (a durable one, or `settle`): without
other sessions there is none then.

A batch that could not be kept waits for the next try, in front of what came later. A session whose right to write is
gone is marked lost: its writes are dropped, and none of their callbacks is called.

All of this runs in the thread of the event loop. An engine may read a batch in another thread: nothing in it changes
after it was passed on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from msgspec import Struct

from dragoman.errors import StoreError
from dragoman.store.event_log import DURABLE, MOVING, Accepted, Already, OwnershipLost, RecordChange, SessionRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from dragoman.store.event_log import LogEvent, NewEvent

RETRY_SECONDS: Final = 1.0
"""The pause before a batch that could not be kept is tried again."""

# The distance of batches, in parts of `apart_seconds`: by how much each further session of the last batch makes it
# longer, and how long it gets. With 2 ms that is up to 10 ms for a stream, less than a client can show, and up to 4 ms
# for what a client waits for; with a hundred streaming sessions there is a third of the commits then.
_APART_SHARE: Final = 0.75
_MOST_APART: Final = 5.0
_URGENT_SHARE: Final = 0.0625
_MOST_URGENT_APART: Final = 2.0

Kept = list["LogEvent"] | Already | None
"""What became of a write: its events, the number of an earlier prompt, or None if the session has another owner."""


class LogWrite(Struct, eq=False):
    """Something that an owner wrote, and that waits to be kept."""

    owner: LogOwner
    at: float
    events: list[NewEvent] = []
    report: Callable[[Any], None] | None = None
    """Called with the events; for a prompt with `Accepted` or `Already`."""
    prompt_id: str | None = None
    record: SessionRecord | None = None
    """What the session is described with, besides or instead of events."""
    is_durable: bool = False
    """Whether an event has to survive a power cut."""
    is_open: bool = True
    """Whether it can be added to: it was not passed on yet."""


class LogOwner:
    """The right to write one session. The `OwnedSession` of the engines in this package."""

    def __init__(self, writes: LogWrites, record: SessionRecord, epoch: int) -> None:
        self.record = record
        self.epoch = epoch
        self.head = record.head
        self.lost: asyncio.Future[OwnershipLost] = asyncio.get_running_loop().create_future()
        self.pending = 0
        """How many of its writes are not kept yet."""
        self._writes = writes
        self._appended: LogWrite | None = None
        self._described: LogWrite | None = None
        self._settled: list[asyncio.Future[None]] = []

    def append(self, events: Sequence[NewEvent], committed: Callable[[list[LogEvent]], None]) -> None:
        """Add events; see `OwnedSession`."""
        write = self._appended
        if write is None or not write.is_open or (write.report is not committed and write.report != committed):
            write = self._appended = self._writes.begin(self)
            write.report = committed
        write.events += events
        for event in events:
            if event.kind in DURABLE:
                write.is_durable = True
                self._writes.hurry()

    def accept(self, prompt_id: str, events: Sequence[NewEvent], done: Callable[[Accepted | Already], None]) -> None:
        """Add events once for each prompt id; see `OwnedSession`."""
        write = self._writes.begin(self)
        write.prompt_id, write.report, write.is_durable = prompt_id, done, True
        write.events += events
        self._appended = None  # what is appended from here on stands behind the prompt
        self._writes.hurry()

    def describe(self, record: SessionRecord) -> None:
        """Replace what the host keeps; see `OwnedSession`."""
        if self._described is None or not self._described.is_open:
            self._described = self._writes.begin(self)
        # One batch is kept as a whole, so that this is not ahead of events that were appended in between.
        self._described.record = record

    async def replace(self, through: int, events: Sequence[LogEvent]) -> None:
        """Put joined events in the place of old ones; see `OwnedSession`."""
        if not self.lost.done():
            await self._writes.replace(self.record.id, through, events)
            self.record = self.record._replace(oldest=through + 1)
            self._writes.listeners.note(self.record)

    async def settle(self) -> None:
        """Return when everything is committed; see `OwnedSession`."""
        if self.pending and not self.lost.done():
            settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settled.append(settled)
            self._writes.end_pause()
            await settled

    async def release(self, successor: str | None = None) -> None:
        """Give the session up; see `OwnedSession`."""
        await self.settle()
        self._writes.released(self)

    # From the writes

    def kept(self, write: LogWrite, kept: Kept) -> None:
        """Note what became of a write, and report it, unless another owner writes the session."""
        self.pending -= 1
        if kept is None or self.lost.done():
            self.lose(f"the session {self.record.id} is not in the log any more")
            return
        if isinstance(kept, list) and kept:
            self.head = kept[-1].number
        if write.is_durable or write.record is not None:
            self._change_record(write, kept)
        if write.report is not None:
            write.report(Accepted(kept) if write.prompt_id is not None and isinstance(kept, list) else kept)
        if self._settled and not self.pending:
            self._wake()

    def _change_record(self, write: LogWrite, kept: list[LogEvent] | Already) -> None:
        record, updated_at, is_changed = self.record, self.record.updated_at, False
        for event in kept if isinstance(kept, list) else ():
            if event.kind in MOVING:
                updated_at, is_changed = max(updated_at, event.at), True
        described = write.record
        if described is not None:
            record = record._replace(agent_session=described.agent_session, facts=described.facts, keys=described.keys)
            updated_at, is_changed = max(updated_at, described.updated_at), True
        if is_changed:
            self.record = record._replace(head=self.head, updated_at=updated_at)
            self._writes.listeners.note(self.record)

    def lose(self, reason: str) -> None:
        """Give the session up, because another owner writes it."""
        if not self.lost.done():
            self.lost.set_result(OwnershipLost(reason))
        self._wake()

    def _wake(self) -> None:
        settled, self._settled = self._settled, []
        for waiting in settled:
            if not waiting.done():
                waiting.set_result(None)


class LogWrites:
    """The writes of all sessions that one engine owns."""

    def __init__(
        self,
        clock: Callable[[], float],
        commit: Callable[[list[LogWrite], bool], None],
        replace: Callable[[str, int, Sequence[LogEvent]], asyncio.Future[None]],
        *,
        apart_seconds: float = 0.0,
    ) -> None:
        """Make an empty queue.

        Args:
            clock: The time of events.
            commit: Keeps a batch, and calls `committed` or `failed` then; True if it has to survive a power cut.
            replace: Keeps joined events.
            apart_seconds: The distance of batches of one session, for an engine that batches cost something.
        """
        self.owners: dict[str, LogOwner] = {}
        self.listeners = RecordListeners()
        self.watch: Callable[[StoreError | None], None] = lambda error: None
        self._clock = clock
        self._commit = commit
        self._replace = replace
        self._apart_seconds = apart_seconds
        self._waiting: list[LogWrite] = []
        self._is_durable = False
        self._due: asyncio.Handle | None = None
        self._next_at = self._next_urgent_at = 0.0
        self._is_urgent = False
        self._is_busy = False
        self._is_closed = False
        self._error: StoreError | None = None
        self._idle: list[asyncio.Future[None]] = []

    # From owners

    def own(self, record: SessionRecord, epoch: int) -> LogOwner:
        """Make the owner of a session; an earlier one has lost it."""
        earlier = self.owners.get(record.id)
        owner = self.owners[record.id] = LogOwner(self, record, epoch)
        if earlier is not None:
            earlier.lose(f"the session {record.id} was taken by another owner")
        return owner

    def begin(self, owner: LogOwner) -> LogWrite:
        """Begin a write of a session."""
        if self._is_closed:
            raise StoreError("the log is closed")
        write = LogWrite(owner, self._clock())
        owner.pending += 1
        self._waiting.append(write)
        if self._due is None and not self._is_busy:
            self._hand_over_later()
        return write

    def hurry(self) -> None:
        """Write soon and durably: what waits has to survive a power cut, and a client waits for it."""
        self._is_durable = True
        self.end_pause()

    def end_pause(self) -> None:
        """Write soon: a task waits for what was written, and does not wait for as long as a stream."""
        if not self._is_urgent:
            self._is_urgent = True
            if self._due is not None and self._error is None:
                self._due.cancel()
                self._hand_over_later()

    def _hand_over_later(self) -> None:
        loop = asyncio.get_running_loop()
        at, now = self._next_urgent_at if self._is_urgent else self._next_at, loop.time()
        # At the earliest in the next turn of the loop: what this one appends belongs together.
        self._due = loop.call_soon(self._hand_over) if at <= now else loop.call_later(at - now, self._hand_over)

    async def replace(self, session: str, through: int, events: Sequence[LogEvent]) -> None:
        await asyncio.shield(self._replace(session, through, events))

    def released(self, owner: LogOwner) -> None:
        """Forget an owner that gave its session up."""
        if self.owners.get(owner.record.id) is owner:
            del self.owners[owner.record.id]

    def dropped(self, session: str) -> None:
        """Forget a session that was deleted."""
        owner = self.owners.pop(session, None)
        if owner is not None:
            owner.lose(f"the session {session} was deleted")
            self.listeners.note_end(owner.record)

    def lose_all(self, reason: str) -> None:
        """Give all sessions up, because another program writes all of it."""
        owners, self.owners = list(self.owners.values()), {}
        for owner in owners:
            owner.lose(reason)

    async def finish(self) -> None:
        """Take nothing more; return when all is kept, or when it cannot be."""
        self._is_closed = True
        if (self._waiting or self._is_busy) and self._error is None:
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            self.end_pause()
            await idle

    # Batches

    def _hand_over(self) -> None:
        self._due = None
        batch, self._waiting = self._waiting, []
        is_durable, self._is_durable, self._is_urgent = self._is_durable, False, False
        if not batch:
            return
        self._is_busy = True
        now, others = asyncio.get_running_loop().time(), len({write.owner for write in batch}) - 1
        self._next_at = now + self._apart_seconds * min(_MOST_APART, 1 + others * _APART_SHARE)
        self._next_urgent_at = now + self._apart_seconds * min(_MOST_URGENT_APART, others * _URGENT_SHARE)
        for write in batch:
            write.is_open = False
        self._commit(batch, is_durable)

    def committed(self, batch: list[LogWrite], kept: list[Kept]) -> None:
        """Pass on the next batch, then report this one, which is kept."""
        self._is_busy = False
        if self._error is not None:
            self._error = None
            self.watch(None)
        if self._waiting:
            if self._is_urgent and self._next_urgent_at <= asyncio.get_running_loop().time():
                self._hand_over()
            else:
                self._hand_over_later()
        for write, found in zip(batch, kept, strict=True):
            write.owner.kept(write, found)
        if self._idle:
            self._end_waiting()

    def failed(self, batch: list[LogWrite], error: StoreError) -> None:
        """Try a batch that was not kept again, unless another program owns the log."""
        self._is_busy = False
        if isinstance(error, OwnershipLost):
            self._waiting = []
            self.lose_all(str(error))
            self._end_waiting()
            return
        # Durable, because what kind of events are in it is not looked at again.
        self._waiting, self._is_durable, self._is_urgent = [*batch, *self._waiting], True, True
        self._error = error
        self.watch(error)
        self._end_waiting()
        if not self._is_closed:
            self._due = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._hand_over)

    def _end_waiting(self) -> None:
        if self._error is not None or not (self._waiting or self._is_busy):
            idle, self._idle = self._idle, []
            for waiting in idle:
                waiting.set_result(None)


class RecordListeners:
    """Those who follow the records of a principal."""

    def __init__(self) -> None:
        self._followers: dict[str, WeakSet[_Changes]] = {}

    def follow(self, principal: str) -> AsyncIterator[RecordChange]:
        """Follow the changes from now on; given up when the caller drops the iterator."""
        found = _Changes()
        self._followers.setdefault(principal, WeakSet()).add(found)
        return found

    def note(self, record: SessionRecord) -> None:
        """Report to the followers that a record changed."""
        for follower in self._followers.get(record.principal, ()):
            follower.note(RecordChange(record.id, record))

    def note_end(self, record: SessionRecord) -> None:
        """Report to the followers that a session was deleted."""
        for follower in self._followers.get(record.principal, ()):
            follower.note(RecordChange(record.id, None))


class _Changes:
    """Changes that were not read yet: of each record the last one, so that a slow reader costs no more than a list."""

    def __init__(self) -> None:
        self._changes: dict[str, RecordChange] = {}
        self._is_there = asyncio.Event()

    def __aiter__(self) -> AsyncIterator[RecordChange]:
        return self

    async def __anext__(self) -> RecordChange:
        await self._is_there.wait()
        change = self._changes.pop(next(iter(self._changes)))
        if not self._changes:
            self._is_there.clear()
        return change

    def note(self, change: RecordChange) -> None:
        self._changes.pop(change.id, None)
        self._changes[change.id] = change
        self._is_there.set()
