"""When writes are passed on to an engine: at once for a client that waits, together where many sessions write."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dragoman.store.event_log import EventKind, NewEvent, SessionRecord
from dragoman.store.log_writes import LogWrites

if TYPE_CHECKING:
    from dragoman.store.event_log import LogEvent
    from dragoman.store.log_writes import Kept, LogOwner, LogWrite


class Engine:
    """Keeps each batch at once, and counts them. Its pauses do not end while a test runs."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.writes = LogWrites(lambda: 1.0, self._commit, self._replace, apart_seconds=1e6)

    def _commit(self, batch: list[LogWrite], is_durable: bool) -> None:
        self.batches.append(len(batch))
        kept: list[Kept] = [[] for _ in batch]
        asyncio.get_running_loop().call_soon(self.writes.committed, batch, kept)

    def _replace(self, *_: object) -> Any:
        raise NotImplementedError

    def owners(self, count: int) -> list[LogOwner]:
        return [
            self.writes.own(SessionRecord(str(number), "me", "agent", None, "/", b"{}", 1.0, 1.0, 0, 1), 1)
            for number in range(count)
        ]


def ignore(events: list[LogEvent]) -> None:
    pass


async def append(owners: list[LogOwner], kind: EventKind) -> None:
    for owner in owners:
        owner.append([NewEvent(kind, b"1")], ignore)
    for _ in range(3):  # turns of the loop: passed on, kept, reported
        await asyncio.sleep(0)


async def test_what_a_client_waits_for_does_not_pause_behind_its_own_stream() -> None:
    engine = Engine()
    (owner,) = engine.owners(1)
    await append([owner], "update")
    await append([owner], "update")
    assert engine.batches == [1], "a stream keeps its distance"
    await append([owner], "end")
    await append([owner], "prompt")
    assert engine.batches == [1, 1, 1]
    owner.append([NewEvent("update", b"1")], ignore)
    async with asyncio.timeout(60):
        await owner.settle()
    assert engine.batches == [1, 1, 1, 1]


async def test_behind_a_batch_of_many_sessions_what_clients_wait_for_is_collected() -> None:
    engine = Engine()
    owners = engine.owners(50)
    await append(owners, "update")
    for owner in owners:
        await append([owner], "prompt")
    assert engine.batches == [50], "one commit for all of them, when the pause ends"
    assert all(owner.pending == 1 for owner in owners)
