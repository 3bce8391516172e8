"""Finds the line of the script that an arriving line stands for.

Owns matching by method and order, the preference for a line that is exactly the recorded one, and the list of what
remained without a partner. Pure: it is told what arrives and what was sent, and knows no time.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from dragoman.trace.replay.difference import Comparison, Difference
from dragoman.trace.replay.script import CANCEL_REQUEST, Said, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from msgspec import UnsetType

    from dragoman.trace.entry import Direction
    from dragoman.trace.replay.ids import Names
    from dragoman.wire import Id

# How far ahead an exact partner is looked for: past a few lines that were left out, not through a whole recording.
_AHEAD: Final = 64


class Matcher:
    """Pairs what arrives with the steps of the other side."""

    def __init__(self, steps: Sequence[Step], theirs: Direction, names: Names, comparison: Comparison) -> None:
        self._theirs = theirs
        self._names = names
        self._comparison = comparison
        self._steps = [step for step in steps if not step.is_ours]
        self._waiting: dict[tuple[str, str, str], deque[Step]] = {}
        for step in self._steps:
            if step.said.kind != "response":
                self._waiting.setdefault(step.said.topic, deque()).append(step)
        self._questions: dict[Id, Step] = {}
        self._recorded_ids: dict[Id, Id] = {}
        self._live_ids: dict[Id, Id] = {}
        self._furthest: dict[str, int] = {}
        self._unexpected: list[tuple[Said, str]] = []

    def sent(self, step: Step) -> None:
        """A step of ours was performed; if it was a question, its answer is expected from now on."""
        step.is_sent = True
        if step.said.kind == "request":
            self._questions[step.said.id] = step

    @property
    def is_owed(self) -> bool:
        """Whether they have not answered a question of ours."""
        return bool(self._questions)

    def live_id(self, recorded: Any) -> Id | UnsetType:
        """The id of the request they sent in place of a recorded one."""
        return self._live_ids.get(recorded, UNSET) if isinstance(recorded, (int, str)) else UNSET

    def has(self, method: str) -> bool:
        """Whether the script has any request of this method, matched or not."""
        return any(step.said.kind == "request" and step.said.method == method for step in self._steps)

    def take(self, said: Said) -> Step | None:
        """The step that `said` stands for, None if the script has nothing like it."""
        if said.kind == "response":
            return self._take_answer(said)
        if said.method == CANCEL_REQUEST:
            request_id = said.param("requestId")
            if isinstance(request_id, (int, str)) and request_id in self._recorded_ids:
                said.body = {"params": {**said.body["params"], "requestId": self._recorded_ids[request_id]}}
        candidates = self._waiting.get(said.topic, deque())
        step = self._exact(candidates, said)
        is_exact = step is not None
        if step is None:
            step = self._similar(candidates, said)
        if step is None:
            self._unexpected.append((said, said.method))
            return None
        # A notification that only resembles its step gives way if the real one comes after all.
        if is_exact or said.kind == "request":
            candidates.remove(step)
        self._bind(step, said, is_exact=is_exact)
        return step

    def _take_answer(self, said: Said) -> Step | None:
        if said.is_complaint:
            return None
        question = self._questions.pop(said.id, None)
        step = question.answer if question is not None else None
        if step is None:
            self._unexpected.append((said, question.said.method if question is not None else ""))
            return None
        self._bind(step, said, is_exact=not self._changes(step, said))
        return step

    def _exact(self, candidates: deque[Step], said: Said) -> Step | None:
        for step in islice(candidates, _AHEAD):
            if step.said.line == said.line or (said.kind != "raw" and not self._changes(step, said)):
                return step
        return None

    def _similar(self, candidates: deque[Step], said: Said) -> Step | None:
        if said.kind == "raw":
            return None
        free = [step for step in islice(candidates, _AHEAD) if step.came is None]
        session = said.session
        for step in free:
            recorded = step.said.session
            if session is None or recorded is None or self._names.may_be(recorded, session):
                return step
        # A request has to be answered by something; a notification of another session is simply another one.
        return free[0] if free and said.kind == "request" else None

    def _bind(self, step: Step, said: Said, *, is_exact: bool) -> None:
        if step.came is not None:
            self._unexpected.append((step.came, step.came.method))
        step.came = said
        step.is_exact = is_exact
        self._names.learn(step.said.body, said.body)
        if said.kind == "request":
            self._recorded_ids[said.id] = step.said.id
            self._live_ids[step.said.id] = said.id
        if said.kind != "response":
            step.is_late = step.number < self._furthest.get(step.lane, 0)
            self._furthest[step.lane] = max(step.number, self._furthest.get(step.lane, 0))

    def _changes(self, step: Step, said: Said) -> list[tuple[str, Any, Any]]:
        return self._comparison.changes(step.method, step.said.body, said.body)

    def differences(self) -> list[Difference]:
        """Everything that was not as recorded, in recorded order; what was not recorded comes last."""
        found = [difference for step in self._steps for difference in self._differences_of(step)]
        for said, method in self._unexpected:
            came = said.body or (said.line.decode(errors="replace") if said.kind == "raw" else {})
            found.append(Difference(what="unexpected", dir=self._theirs, method=method, kind=said.kind, came=came))
        return found

    def _differences_of(self, step: Step) -> Iterator[Difference]:
        method, kind, number = step.method, step.said.kind, step.number
        if step.came is None:
            # An answer to what was never asked cannot come, and is nobody's fault.
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
