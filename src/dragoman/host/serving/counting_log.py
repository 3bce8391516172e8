"""A log around another one, which counts what is committed and reports it to those who write it down elsewhere.

Everything that happens in a session is an event of its log, so this is the one place that sees all of it: the metrics,
the lines of the host's own log, the audit log and the spans of turns come from here. Updates are only counted. Of other
events the few members are read that name who did what, never the content of a prompt or an answer.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec
from msgspec import Struct

from dragoman.store.event_log import Accepted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.host.serving.metrics import HostMetrics
    from dragoman.store.event_log import Already, EventLog, LogEvent, NewEvent, OwnedSession, SessionRecord

_log = logging.getLogger("dragoman.host")
OUTCOMES: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
FAILURES: Final = ("agent_exited", "agent_lost", "agent_start", "interrupted")
_REPORTED: Final = frozenset(
    ("prompt", "start", "question", "answer", "late", "cancel", "end", "queue", "setting", "agent")
)


class _Called(Struct, rename="camel"):
    title: str | None = None
    kind: str | None = None


class AskedFacts(Struct, rename="camel"):
    """What a question is about."""

    tool_call: _Called | None = None
    mode: str | None = None


class EventFacts(Struct, rename="camel"):
    """What is read of the body of an event; a member that its kind does not have is empty."""

    prompt_id: str = ""
    question_id: str | None = None
    by: str = ""
    """The key of the connection."""
    who: str = ""
    """The client, as the log names it."""
    option: str | None = None
    method: str = ""
    meta: Any = None
    params: AskedFacts | None = None
    decision: Any = None
    result: Any = None
    error: Any = None
    ended: str | None = None
    exit_code: int | None = None
    updates: Any = None

    @property
    def outcome(self) -> str:
        """How a turn ended, in one of a few words."""
        if isinstance(self.error, dict):
            data = self.error.get("data")
            reason = data.get("reason") if isinstance(data, dict) else None
            return reason if reason in FAILURES else "error"
        reason = self.result.get("stopReason") if isinstance(self.result, dict) else None
        return reason if reason in OUTCOMES else "other"

    @property
    def decided_by(self) -> str:
        """Who answered a question: `user`, `rule`, or `none` if it was closed without an answer."""
        return "user" if self.by else "rule" if self.who == "rule" else "none"


_decode: Final = msgspec.json.Decoder(EventFacts).decode


class EventListener(Protocol):
    """What takes note of the events of all sessions, after they are committed."""

    def happened(self, record: SessionRecord, event: LogEvent, facts: EventFacts) -> None:
        """Take note of an event that is not an update."""

    def updated(self, record: SessionRecord, event: LogEvent) -> None:
        """Take note of the first update of a turn."""

    def removed(self, session: str) -> None:
        """Take note of a session that is gone with its events: a client deleted it, or the host keeps no more."""


def counting_log(
    log: EventLog,
    metrics: HostMetrics,
    *,
    listeners: Sequence[EventListener] = (),
    clock: Callable[[], float] = time.time,
) -> EventLog:
    """Return a log that counts what is committed to the one behind it.

    Args:
        log: The log.
        metrics: What counts.
        listeners: Take note of events, in this order; those that are added to the list later too.
        clock: That of the log.
    """
    return cast("EventLog", CountingLog(log, metrics, listeners, clock))


class CountingLog:
    """Counts what is committed; everything else is the log behind it."""

    def __init__(
        self, log: EventLog, metrics: HostMetrics, listeners: Sequence[EventListener], clock: Callable[[], float]
    ) -> None:
        self._log = log
        self._metrics = metrics
        self.listeners = listeners
        self.clock = clock
        self._counts = {agent: AgentCounts(metrics, agent) for agent in metrics.agents}

    async def create(self, record: SessionRecord, key: str | None = None) -> OwnedSession:
        owned = await self._log.create(record, key)
        counts = self._of(record)
        counts.sessions.value += 1
        return cast("OwnedSession", _CountingSession(owned, counts, self))

    async def take(self, session: str, *, force: bool = False) -> OwnedSession:
        owned = await self._log.take(session, force=force)
        return cast("OwnedSession", _CountingSession(owned, self._of(owned.record), self))

    async def delete(self, session: str) -> None:
        await self._log.delete(session)
        self._metrics.count("dragoman_sessions_removed_total")
        for listener in self.listeners:
            listener.removed(session)

    def _of(self, record: SessionRecord) -> AgentCounts:
        found = self._counts.get(record.agent)
        if found is None:
            found = self._counts[record.agent] = AgentCounts(self._metrics, record.agent)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class AgentCounts:
    """The series of one agent."""

    def __init__(self, metrics: HostMetrics, agent: str) -> None:
        self.commits = metrics.histogram("dragoman_commit_seconds")
        self.sessions = metrics.tally("dragoman_sessions_total", agent)
        self.updates = metrics.tally("dragoman_updates_total", agent)
        self.prompts = metrics.tally("dragoman_prompts_total", agent)
        self.turns = metrics.tally("dragoman_turns_total", agent)
        self.questions = metrics.tally("dragoman_questions_total", agent)
        self.cancels = metrics.tally("dragoman_cancels_total", agent)
        self.deaths = metrics.tally("dragoman_agent_deaths_total", agent)
        self.queued = metrics.histogram("dragoman_queue_seconds", agent)
        self.first_updates = metrics.histogram("dragoman_first_update_seconds", agent)
        self.turn_seconds = metrics.histogram("dragoman_turn_seconds", agent)
        self.answer_seconds = metrics.histogram("dragoman_answer_seconds", agent)
        self.ends = {
            outcome: metrics.tally("dragoman_turns_ended_total", agent, outcome)
            for outcome in (*OUTCOMES, *FAILURES, "error", "other")
        }
        self.answers = {by: metrics.tally("dragoman_answers_total", agent, by) for by in ("user", "rule", "none")}


class _CountingSession:
    """Counts what is committed to one session."""

    def __init__(self, owned: OwnedSession, counts: AgentCounts, log: CountingLog) -> None:
        self._owned = owned
        self._counts = counts
        self._log = log
        self._report: Callable[[list[LogEvent]], None] | None = None
        self._counted: Callable[[list[LogEvent]], None]
        self._prompted: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._started_at = 0.0
        # When the prompt of the running turn came, until the turn has an update.
        self._first_from: float | None = None

    def append(self, events: Sequence[NewEvent], committed: Callable[[list[LogEvent]], None]) -> None:
        if committed is not self._report:
            # One object as long as the caller has one: the log joins what waits for the same callback.
            self._report, self._counted = committed, partial(self._committed, committed)
        self._owned.append(events, self._counted)

    def accept(self, prompt_id: str, events: Sequence[NewEvent], done: Callable[[Accepted | Already], None]) -> None:
        def counted(found: Accepted | Already) -> None:
            if isinstance(found, Accepted):
                self._counts.prompts.value += 1
                self._prompted[prompt_id] = found.events[0].at
                self._count(found.events)
            done(found)

        self._owned.accept(prompt_id, events, counted)

    def _committed(self, report: Callable[[list[LogEvent]], None], events: list[LogEvent]) -> None:
        self._count(events)
        report(events)

    def _count(self, events: list[LogEvent]) -> None:
        counts, updates = self._counts, 0
        counts.commits.observe(self._log.clock() - events[0].at)
        for event in events:
            if event.kind == "update":
                updates += 1
                if self._first_from is not None:
                    self._note_first(event)
            elif event.kind in _REPORTED:
                self._note(event)
        counts.updates.value += updates

    def _note_first(self, event: LogEvent) -> None:
        assert self._first_from is not None
        self._counts.first_updates.observe(event.at - self._first_from)
        self._first_from = None
        self._report_to_listeners(event, None)

    def _note(self, event: LogEvent) -> None:
        try:
            facts = _decode(event.body)
        except msgspec.DecodeError:  # of a version that writes it differently
            facts = EventFacts()
        counts = self._counts
        if event.kind == "start":
            counts.turns.value += 1
            self._started_at = event.at
            self._first_from = self._prompted.pop(facts.prompt_id, event.at)
            counts.queued.observe(event.at - self._first_from)
        elif event.kind == "end":
            counts.ends[facts.outcome].value += 1
            self._first_from = None
            if self._started_at:  # not of a turn that an earlier host began
                counts.turn_seconds.observe(event.at - self._started_at)
                self._started_at = 0.0
        elif event.kind == "queue":
            self._prompted.pop(facts.prompt_id, None)
        elif event.kind == "question":
            counts.questions.value += 1
            self._asked[str(facts.question_id)] = event.at
        elif event.kind == "answer":
            counts.answers[facts.decided_by].value += 1
            asked_at = self._asked.pop(str(facts.question_id), None)
            if asked_at is not None and facts.by:
                counts.answer_seconds.observe(event.at - asked_at)
        elif event.kind == "cancel":
            counts.cancels.value += 1
        elif event.kind == "agent" and facts.ended is not None:
            counts.deaths.value += 1
        self._report_to_listeners(event, facts)

    def _report_to_listeners(self, event: LogEvent, facts: EventFacts | None) -> None:
        for listener in self._log.listeners:
            try:
                if facts is None:
                    listener.updated(self._owned.record, event)
                else:
                    listener.happened(self._owned.record, event, facts)
            except Exception:  # what is written down elsewhere must not stop the session
                _log.exception("an event was not noted")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owned, name)
