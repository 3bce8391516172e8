"""What a log keeps of old turns: events as they came for a day or 64 MiB of a session, joined ones after that. Pure.

Updates are joined as `session/load` sends them; prompts, ends of turns and answers stay. A joined event has the number
of an event that it replaces, so that numbers grow and the head stays. A client that wants to go on behind a number that
was joined has to load the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.host.history.replay import HistoryReplay
from dragoman.store.event_log import LogEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

KEPT_SECONDS: Final = 24 * 3600.0
KEPT_BYTES: Final = 64 * 1024 * 1024
_STAY: Final = frozenset(("prompt", "start", "end", "queue", "answer", "late", "cancel", "fork"))


class JoinedEvents:
    """Joins the events of finished turns."""

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
                self.events += sorted(self._pending, key=lambda each: each.number)
                self._pending = []
                self.through = event.number

    def _flush(self) -> None:
        found = [*self._replay.finish()]
        # A tool call stands at its first place with the number of its last event: the numbers are put in order.
        for item, number in zip(found, sorted(each.number for each in found), strict=True):
            event = LogEvent(number, "update", item.stored, self._turn, self._at, self._version)
            self._pending.append(event)
