"""What a host that was killed left open in a log: a turn, questions, queued prompts. Pure.

A log has no event for the death of its host. The next host closes what has a beginning and no end: nothing is run
again by itself, because a turn may have done half of its work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.host.questions import cancelled_answer
from dragoman.store.event_log import NewEvent

if TYPE_CHECKING:
    from dragoman.host.questions import Method
    from dragoman.store.event_log import LogEvent

OUTCOMES: Final = 64
"""Of so many prompts the outcome is kept."""


class LeftOpen:
    """What has a beginning and no end in a log."""

    def __init__(self) -> None:
        self.turn = 0
        self.running: str | None = None
        self.queued: dict[str, None] = {}
        self.questions: dict[str, Method] = {}
        self.outcomes: list[dict[str, Any]] = []


def left_open(events: list[LogEvent]) -> LeftOpen:
    left = LeftOpen()
    for event in events:
        left.turn = max(left.turn, event.turn)
        if event.kind in ("update", "notice", "setting", "terminal", "agent"):
            continue
        found: dict[str, Any] = msgspec.json.decode(event.body)
        if event.kind == "prompt":
            left.queued[found["promptId"]] = None
        elif event.kind == "start":
            left.queued.pop(found["promptId"], None)
            left.running = found["promptId"]
        elif event.kind in ("end", "queue"):
            left.queued.pop(found["promptId"], None)
            left.outcomes = [*left.outcomes[-OUTCOMES:], found]
            if left.running == found["promptId"]:
                left.running = None
        elif event.kind == "question":
            left.questions[found["questionId"]] = found["method"]
        elif event.kind == "answer":
            left.questions.pop(found["questionId"], None)
    return left


def endings(left: LeftOpen) -> list[NewEvent]:
    """The events that close it."""
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


def outcomes_of(events: list[NewEvent], head: int) -> list[dict[str, Any]]:
    """The outcomes among events that are about to be logged behind the number `head`.

    They count at once: a client that sends an interrupted prompt again must not be quicker than the log.
    """
    return [
        {**msgspec.json.decode(event.body), "seq": number}
        for number, event in enumerate(events, head + 1)
        if event.kind in ("end", "queue")
    ]
