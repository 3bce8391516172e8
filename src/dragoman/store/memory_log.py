"""The event log that ends with the program."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from dragoman.store.event_log import (
    MOVING,
    Already,
    KeyInUse,
    NoSession,
    OwnedElsewhere,
    Stored,
    number_events,
    page_of,
)
from dragoman.store.log_writes import LogWrites

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from dragoman.errors import StoreError
    from dragoman.store.event_log import ListPlace, LogEvent, OwnedSession, RecordChange, RecordPage, SessionRecord
    from dragoman.store.log_writes import Kept, LogWrite


class _KeptSession:
    def __init__(self, record: SessionRecord) -> None:
        self.record = record
        self.events: list[LogEvent] = []
        self.prompts: dict[str, int] = {}


class MemoryLog:
    """A log that ends with the program."""

    folder: Path | None = None

    def __init__(self, clock: Callable[[], float], *, earlier: MemoryLog | None = None) -> None:
        """Make a log.

        Args:
            clock: The time of events.
            earlier: What it goes on with, as if it were a file that is opened again.
        """
        self._sessions: dict[str, _KeptSession] = {} if earlier is None else earlier._sessions
        self._epoch: int = 1 if earlier is None else earlier._epoch + 1
        if earlier is not None:
            earlier._writes.lose_all("the log was opened again")
        self._writes: LogWrites = LogWrites(clock, self._commit, self._replace)

    def watch(self, failed: Callable[[StoreError | None], None]) -> None:
        """Memory does not fail."""

    # Sessions

    async def create(self, record: SessionRecord, key: str | None = None) -> OwnedSession:
        if key is not None:
            if found := await self.find_keyed(record.principal, key):
                raise KeyInUse(found[0].id)
            record = record._replace(keys=(*dict.fromkeys((*record.keys, key)),))
        self._sessions[record.id] = _KeptSession(record)
        owner = self._writes.own(record, self._epoch)
        self._writes.listeners.note(owner.record)
        return owner

    async def take(self, session: str, *, force: bool = False) -> OwnedSession:
        found = self._sessions.get(session)
        if found is None:
            raise NoSession(session)
        if session in self._writes.owners:
            if not force:
                raise OwnedElsewhere(session, "this host")
            self._epoch += 1
        return self._writes.own(found.record, self._epoch)

    async def find(self, session: str, principal: str | None) -> SessionRecord | None:
        found = self._sessions.get(session)
        return None if found is None or principal not in (None, found.record.principal) else found.record

    async def find_keyed(self, principal: str, key: str) -> list[SessionRecord]:
        records = [kept.record for kept in self._sessions.values()]
        return [record for record in records if key in record.keys and record.principal == principal]

    async def page(
        self,
        principal: str | None,
        *,
        agent: str | None = None,
        cwd: str | None = None,
        before: ListPlace | None = None,
        limit: int,
    ) -> RecordPage:
        found = [
            record
            for record in (kept.record for kept in self._sessions.values())
            if (principal is None or record.principal == principal)
            and (agent is None or record.agent == agent)
            and (cwd is None or record.cwd == cwd)
            and (before is None or (record.updated_at, record.id) < before)
        ]
        found.sort(key=lambda record: (record.updated_at, record.id), reverse=True)
        return page_of(found[: limit + 1], limit)

    async def stored(self, principal: str | None = None) -> dict[str, Stored]:
        found: dict[str, Stored] = {}
        for kept in self._sessions.values():
            owner = kept.record.principal
            if principal in (None, owner):
                count, size = found.get(owner, Stored(0, 0))
                found[owner] = Stored(count + 1, size + _size(kept))
        return found

    async def sizes(self, sessions: Sequence[str]) -> dict[str, int]:
        return {session: _size(self._sessions[session]) for session in sessions if session in self._sessions}

    def changes(self, principal: str) -> AsyncIterator[RecordChange]:
        return self._writes.listeners.follow(principal)

    async def delete(self, session: str) -> None:
        self._sessions.pop(session, None)
        self._writes.dropped(session)

    # Events

    async def read(self, session: str, after: int, limit: int, *, head: int = 0) -> list[LogEvent]:
        found = self._sessions.get(session)
        if found is None:
            return []
        start = bisect_right(found.events, after, key=_number)
        return found.events[start : start + limit]

    async def surplus(self, session: str, *, before: float, size_bytes: int) -> int:
        found = self._sessions.get(session)
        if found is None:
            return 0
        behind = 0
        for event in reversed(found.events):
            if event.number < found.record.oldest:
                break
            if event.at < before or behind >= size_bytes:
                return event.number
            behind += len(event.body)
        return 0

    async def close(self) -> None:
        await self._writes.finish()

    def _commit(self, batch: list[LogWrite], is_durable: bool) -> None:
        self._writes.committed(batch, [self._keep(write) for write in batch])

    def _keep(self, write: LogWrite) -> Kept:
        found = self._sessions.get(write.owner.record.id)
        if found is None or write.owner.lost.done():
            return None
        if write.prompt_id is not None:
            if write.prompt_id in found.prompts:
                return Already(found.prompts[write.prompt_id])
            found.prompts[write.prompt_id] = found.record.head + len(write.events)
        added = number_events(write.events, found.record.head, write.at)
        found.events += added
        record = found.record
        if added:
            record = record._replace(head=added[-1].number)
            if any(event.kind in MOVING for event in added):
                record = record._replace(updated_at=max(record.updated_at, write.at))
        if write.record is not None:
            record = record._replace(
                agent_session=write.record.agent_session,
                facts=write.record.facts,
                keys=write.record.keys,
                updated_at=max(record.updated_at, write.record.updated_at),
            )
        found.record = record
        return added

    def _replace(self, session: str, through: int, events: Sequence[LogEvent]) -> asyncio.Future[None]:
        found = self._sessions.get(session)
        if found is not None:
            kept, record = found.events, found.record
            start, end = bisect_left(kept, record.oldest, key=_number), bisect_right(kept, through, key=_number)
            found.events = [*kept[:start], *events, *kept[end:]]
            found.record = record._replace(oldest=through + 1)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


def _number(event: LogEvent) -> int:
    return event.number


def _size(kept: _KeptSession) -> int:
    return sum(len(event.body) for event in kept.events)
