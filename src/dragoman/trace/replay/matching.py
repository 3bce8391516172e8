"""The step of the script that an arriving line stands for.

Owns matching by method and order, the preference for a line that is exactly the recorded one, and the list of lines
without a match. Pure: it is given what arrives and what was sent, and does not depend on time.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from dragoman.trace.replay.difference import Comparison, Difference
from dragoman.trace.replay.script import CANCEL_REQUEST, ParsedLine, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from msgspec import UnsetType

    from dragoman.trace.entry import Direction
    from dragoman.trace.replay.ids import IdMap
    from dragoman.wire import Id

# How many steps are searched for an exact match: enough to pass a few missing lines, less than a whole recording.
_AHEAD: Final = 64


class Matcher:
    """Pairs arriving lines with the recorded steps of the other side."""

    def __init__(self, steps: Sequence[Step], theirs: Direction, names: IdMap, comparison: Comparison) -> None:
        self._theirs = theirs
        self._names = names
        self._comparison = comparison
        self._steps = [step for step in steps if not step.is_ours]
        self._waiting: dict[tuple[str, str, str], deque[Step]] = {}
        for step in self._steps:
            if step.parsed.kind != "response":
                self._waiting.setdefault(step.parsed.topic, deque()).append(step)
        self._strays = [step for step in self._steps if step.parsed.kind == "response" and step.answers is None]
        self._questions: dict[Id, Step] = {}
        self._recorded_ids: dict[Id, Id] = {}
        self._live_ids: dict[Id, Id] = {}
        self._furthest: dict[str, int] = {}
        self._unexpected: list[tuple[ParsedLine, str]] = []

    def sent(self, step: Step) -> None:
        """Note that a step of ours was sent; if it is a request, its response is expected from now on."""
        step.is_sent = True
        if step.parsed.kind == "request":
            self._questions[step.parsed.id] = step

    @property
    def is_owed(self) -> bool:
        """Whether a request of ours is not answered."""
        return bool(self._questions)

    def live_id(self, recorded: Any) -> Id | UnsetType:
        """Return the id of the live request that stands for a recorded one."""
        return self._live_ids.get(recorded, UNSET) if isinstance(recorded, (int, str)) else UNSET

    def has(self, method: str) -> bool:
        """Whether the script has a request of this method, matched or not."""
        return any(step.parsed.kind == "request" and step.parsed.method == method for step in self._steps)

    def take(self, parsed: ParsedLine) -> Step | None:
        """Find the step that a line stands for, None if the script has none."""
        if parsed.kind == "response":
            return self._take_answer(parsed)
        if parsed.method == CANCEL_REQUEST:
            request_id = parsed.param("requestId")
            if isinstance(request_id, (int, str)) and request_id in self._recorded_ids:
                parsed.body = {"params": {**parsed.body["params"], "requestId": self._recorded_ids[request_id]}}
        candidates = self._waiting.get(parsed.topic, deque())
        step = self._exact(candidates, parsed)
        is_exact = step is not None
        if step is None:
            step = self._similar(candidates, parsed)
        if step is None:
            self._unexpected.append((parsed, parsed.method))
            return None
        # A notification that only resembles its step is replaced if the exact one comes later.
        if is_exact or parsed.kind == "request":
            candidates.remove(step)
        self._bind(step, parsed, is_exact=is_exact)
        return step

    def _take_answer(self, parsed: ParsedLine) -> Step | None:
        if parsed.is_complaint:
            return None
        question = self._questions.pop(parsed.id, None)
        step = question.answer if question is not None else None
        if step is None and parsed.is_stand_in:
            return None
        if step is None:
            step = self._take_stray(parsed)
        if step is None:
            self._unexpected.append((parsed, question.parsed.method if question is not None else ""))
            return None
        self._bind(step, parsed, is_exact=not self._changes(step, parsed))
        return step

    def _take_stray(self, parsed: ParsedLine) -> Step | None:
        """Find a recorded response that answered nothing, such as a second answer to one request."""
        for step in self._strays:
            if step.came is None and type(step.parsed.id) is type(parsed.id) and step.parsed.id == parsed.id:
                return step
        return None

    def _exact(self, candidates: deque[Step], parsed: ParsedLine) -> Step | None:
        for step in islice(candidates, _AHEAD):
            if step.parsed.line == parsed.line or (parsed.kind != "raw" and not self._changes(step, parsed)):
                return step
        return None

    def _similar(self, candidates: deque[Step], parsed: ParsedLine) -> Step | None:
        if parsed.kind == "raw":
            return None
        free = [step for step in islice(candidates, _AHEAD) if step.came is None]
        session = parsed.session
        for step in free:
            recorded = step.parsed.session
            if session is None or recorded is None or self._names.may_be(recorded, session):
                return step
        # A request must be answered by some step; a notification of another session is simply another one.
        return free[0] if free and parsed.kind == "request" else None

    def _bind(self, step: Step, parsed: ParsedLine, *, is_exact: bool) -> None:
        if step.came is not None:
            self._unexpected.append((step.came, step.came.method))
        step.came = parsed
        step.is_exact = is_exact
        self._names.learn(step.parsed.body, parsed.body)
        if parsed.kind == "request":
            self._recorded_ids[parsed.id] = step.parsed.id
            self._live_ids[step.parsed.id] = parsed.id
        if parsed.kind != "response":
            step.is_late = step.number < self._furthest.get(step.lane, 0)
            self._furthest[step.lane] = max(step.number, self._furthest.get(step.lane, 0))

    def _changes(self, step: Step, parsed: ParsedLine) -> list[tuple[str, Any, Any]]:
        return self._comparison.changes(step.method, step.parsed.body, parsed.body)

    def differences(self) -> list[Difference]:
        """Return all differences from the recording, in recorded order; lines that were not recorded come last."""
        found = [difference for step in self._steps for difference in self._differences_of(step)]
        for parsed, method in self._unexpected:
            came = parsed.body or (parsed.line.decode(errors="replace") if parsed.kind == "raw" else {})
            found.append(Difference(what="unexpected", dir=self._theirs, method=method, kind=parsed.kind, came=came))
        return found

    def _differences_of(self, step: Step) -> Iterator[Difference]:
        method, kind, number = step.method, step.parsed.kind, step.number
        if step.came is None:
            # A response to a request that was not sent cannot come, and that is not a difference.
            if step.answers is None or step.answers.is_sent:
                yield Difference(what="missing", dir=self._theirs, method=method, kind=kind, number=number)
            return
        if step.is_late:
            yield Difference(what="order", dir=self._theirs, method=method, kind=kind, number=number)
        if not step.is_exact:
            for path, recorded, came in self._changes(step, step.came):
                yield Difference(
                    what="changed",
                    dir=self._theirs,
                    method=method,
                    kind=kind,
                    number=number,
                    path=path,
                    recorded=recorded,
                    came=came,
                )
