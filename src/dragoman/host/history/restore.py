"""What a host that was killed left open in a log: a turn, questions, queued prompts. Pure.

A log has no event for the death of its host. The next host closes what has a beginning and no end: nothing is run
again by itself, because a turn may have done half of its work. Prompts that a host kept for the one after it have not
begun, and are run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.host.working.questions import cancelled_answer
from dragoman.store.event_log import NewEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.host.working.questions import Method
    from dragoman.store.event_log import LogEvent

_OPENING: Final = frozenset(("prompt", "start", "question"))
_CLOSING: Final = frozenset(("end", "queue", "answer"))
OUTCOMES: Final = 64
"""Of so many prompts the outcome is kept."""


class LeftOpen:
    """What has a beginning and no end in a log."""

    def __init__(self) -> None:
        self.turn = 0
        self.running: str | None = None
        self.queued: dict[str, dict[str, Any]] = {}
        """Prompts without a turn, as they were logged, by their ids."""
        self.questions: dict[str, Method] = {}
        self.outcomes: list[dict[str, Any]] = []

    def take(self, events: Iterable[LogEvent]) -> None:
        """Take further events of the log."""
        for event in events:
            self.turn = max(self.turn, event.turn)
            if event.kind not in _OPENING and event.kind not in _CLOSING:
                continue
            found: dict[str, Any] = {**msgspec.json.decode(event.body), "seq": event.number}
            if event.kind in ("end", "queue"):
                found["at"] = int(event.at * 1000)
            if event.kind == "prompt":
                self.queued[found["promptId"]] = {**found, "at": event.at}
            elif event.kind == "start":
                self.queued.pop(found["promptId"], None)
                self.running = found["promptId"]
            elif event.kind in ("end", "queue"):
                self.queued.pop(found["promptId"], None)
                self.outcomes = [*self.outcomes[-OUTCOMES:], found]
                if self.running == found["promptId"]:
                    self.running = None
            elif event.kind == "question":
                self.questions[found["questionId"]] = found["method"]
            else:
                self.questions.pop(str(found.get("questionId")), None)


def endings(left: LeftOpen) -> list[NewEvent]:
    """Return the events that close it."""
    events = []
    for id, method in left.questions.items():
        answer = {"questionId": id, "answer": cancelled_answer(method), "by": ""}
        events.append(NewEvent("answer", msgspec.json.encode(answer), left.turn))
    if left.running is not None:
        error = {
            "code": -32603,
            "message": "the host ended in the middle of the turn",
            "data": {"reason": "interrupted", "maybeExecuted": True},
        }
        events.append(NewEvent("end", msgspec.json.encode({"promptId": left.running, "error": error}), left.turn))
    for id in left.queued:
        error = {"code": -32603, "message": "the host ended before the turn", "data": {"reason": "not_run"}}
        events.append(NewEvent("queue", msgspec.json.encode({"promptId": id, "error": error}), 0))
    return events
