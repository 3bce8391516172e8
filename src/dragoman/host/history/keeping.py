"""What a log keeps of old turns: events as they came for a day or 64 MiB of a session, joined ones after that.

Updates are joined as `session/load` sends them; prompts, ends of turns and answers stay. A joined event has the number
of an event that it replaces, so that numbers grow and the head stays. A client that wants to go on behind a number that
was joined has to load the session.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from dragoman.host.history.replay import HistoryReplay
from dragoman.store.event_log import LogEvent, is_hole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.store.event_log import EventLog

KEPT_SECONDS: Final = 24 * 3600.0
KEPT_BYTES: Final = 64 * 1024 * 1024
SLICE_BYTES: Final = 4 * 1024 * 1024
"""What is replaced in one transaction: other writers wait for it."""
_PAGE: Final = 1000
_STAY: Final = frozenset(("prompt", "start", "end", "queue", "answer", "late", "cancel", "fork"))


class JoinedEvents:
    """The events of finished turns, joined."""

    def __init__(self) -> None:
        self.events: list[LogEvent] = []
        self.through = 0
        """The number of the last event that is part of it: the end of a turn."""
        self._replay = HistoryReplay(with_prompts=False)
        self._pending: list[LogEvent] = []
        self._at = 0.0
        self._turn = 0
        self._version = 1

    def feed(self, events: Iterable[LogEvent]) -> None:
        """Take further events."""
        for event in events:
            self._at, self._version = event.at, event.version
            if event.kind in ("start", "end"):
                self._flush()
            if event.kind in _STAY:
                self._pending.append(event)
            else:
                self._turn = event.turn or self._turn
                self._replay.take(event)
            if event.kind == "end":
                self.events += sorted(self._pending, key=lambda event: event.number)
                self._pending = []
                self.through = event.number

    def _flush(self) -> None:
        found = [*self._replay.finish()]
        # A tool call stands at its first place with the number of its last event: the numbers are put in order.
        for item, number in zip(found, sorted(joined.number for joined in found), strict=True):
            event = LogEvent(number, "update", item.stored, self._turn, self._at, self._version)
            self._pending.append(event)


class SlicedJoin:
    """The old turns of one session, joined piece by piece; what a turn shows of an earlier one is remembered."""

    def __init__(self, log: EventLog, session: str, after: int, surplus: int) -> None:
        """Prepare it.

        Args:
            log: Where the events are.
            session: The session.
            after: The number in front of the first event.
            surplus: The number of the last event that may be joined.
        """
        self._log = log
        self._session = session
        self._cursor = after
        self._surplus = surplus
        self._joined = JoinedEvents()

    async def next(self) -> tuple[int, list[LogEvent]] | None:
        """Return the next piece, of at least one turn: its last number and its joined events. None if there is none."""
        joined, size, before = self._joined, 0, self._joined.through
        while self._cursor < self._surplus and not (joined.through > before and size >= SLICE_BYTES):
            events = await self._log.read(self._session, self._cursor, _PAGE)
            if not events:
                break
            lost = next((event.number for event in events if is_hole(event)), None)
            if lost is not None:  # what cannot be read now may come back from a backup: its turn stays as it is
                self._surplus = min(self._surplus, lost - 1)
            self._cursor = events[-1].number
            size += sum(len(event.body) for event in events)
            # In a thread: joining what a busy session has kept takes seconds.
            await asyncio.to_thread(joined.feed, [event for event in events if event.number <= self._surplus])
        found, joined.events = joined.events, []
        return (joined.through, found) if joined.through > before else None
