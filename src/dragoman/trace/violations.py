"""The rules of docs/spec/rules.md, and of rules-v2.md for version 2, that recorded traffic breaks.

Owns the findings and the order in which the checks of `checks/` are applied to a frame. Nothing is sent, so only what
the recording proves is reported: a `Finding` of level MUST, MUST NOT or SCHEMA is a fault of the side that sent the
frame; where timing or an incomplete recording leaves doubt, the same rule is reported as a NOTE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.trace.checks import handshake, services, sessions, settings, turns, updates
from dragoman.trace.checks.envelope import check_envelope
from dragoman.trace.checks.facts import Facts
from dragoman.trace.checks.fit import check_fit
from dragoman.trace.checks.rules import rule_of
from dragoman.trace.checks.turns import LOST_SECONDS
from dragoman.trace.entry import Direction, End, Exit, Frame, Header
from dragoman.trace.inspect.exchange import OTHER, Exchange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.trace.checks.facts import Checks, Facts, TurnFacts
    from dragoman.trace.checks.version2 import Version2Checks
    from dragoman.trace.entry import Direction, Entry
    from dragoman.trace.inspect.exchange import DecodedFrame

Level: TypeAlias = Literal["MUST", "MUST NOT", "SCHEMA", "SHOULD", "SHOULD NOT", "lc", "SDK", "EXTRA", "NOTE"]
"""As in docs/spec/rules.md, and two more: EXTRA is a member the schema does not name (rule 329), NOTE an observation
that does not prove a broken rule."""

FAILURES: Final = frozenset({"MUST", "MUST NOT", "SCHEMA"})
WARNINGS: Final = frozenset({"SHOULD", "SHOULD NOT", "lc", "SDK"})

_TABLES: Final[Checks] = {
    **handshake.CHECKS,
    **sessions.CHECKS,
    **settings.CHECKS,
    **turns.CHECKS,
    **updates.CHECKS,
    **services.CHECKS,
}
# What may take any time: a model, a user or a command decides.
_OPEN_ENDED: Final = frozenset(
    {"session/prompt", "session/request_permission", "elicitation/create", "terminal/wait_for_exit", "authenticate"}
)
# What may take long at times, because a program or a server is started for it.
_SLOW: Final = frozenset({"initialize", "logout", "session/new", "session/load", "session/resume", "session/fork"})
_SLOW_SECONDS: Final = 30.0


class Finding(Struct, frozen=True, gc=False):
    """One broken rule at one frame."""

    rule: int
    level: Level
    dir: Direction
    """The side at fault sent in this direction."""
    index: int
    """The number of the entry in its recording: the first one is 1, the header does not count."""
    message: str

    @property
    def is_failure(self) -> bool:
        """The protocol requires it, and it was not done."""
        return self.level in FAILURES

    @property
    def is_warning(self) -> bool:
        """Advice that was not followed, or a convention that peers rely on."""
        return self.level in WARNINGS


class PassiveChecker:
    """Checks the entries of one connection: `feed` them in order, then call `finish`.

    Args:
        is_whole: The recording begins with the connection. A header shows the same, and without a header a first
            `initialize` does. Until then, nothing is concluded from what is missing.
    """

    def __init__(self, *, is_whole: bool = False) -> None:
        self.exchange = Exchange()
        self._findings: list[Finding] = []
        self._facts = Facts(self.exchange, self._report)
        self._facts.sees_start = is_whole
        self._count = 0
        self._t = 0.0
        self._newer: Version2Checks | None = None
        self._ended: dict[Direction, float] = {}
        self._ended_before_exit: frozenset[Direction] | None = None

    def feed(self, entry: Entry) -> list[Finding]:
        """Return the findings of this entry, about itself or about earlier ones."""
        if isinstance(entry, Header):
            self.begin(entry)
            return []
        if isinstance(entry, Frame):
            return self.check(self.read(entry), entry)
        self._count += 1
        self._t = entry.t
        if isinstance(entry, End):
            self._ended.setdefault(entry.dir, entry.t)
        elif isinstance(entry, Exit):
            self._ended_before_exit = frozenset(self._ended)
        return []

    def begin(self, header: Header) -> None:
        """Take a header: the recording begins with the connection, and may be redacted."""
        self._facts.sees_start = self._facts.sees_start or bool(header.started)
        self._facts.is_redacted = header.redacted

    def read(self, entry: Frame) -> DecodedFrame:
        """Decode the next frame, for a caller that needs it as well as its findings: call `check` next."""
        self._count += 1
        self._t = entry.t
        return self.exchange.read(self._count, entry)

    def check(self, frame: DecodedFrame, entry: Frame) -> list[Finding]:
        """Return the findings of a frame that `read` returned."""
        self._findings = []
        facts = self._facts
        if entry.eol == b"" and frame.kind == "malformed":
            self._report(4, frame, "the stream ended, or was cut off, inside this line", "NOTE")
            return self._findings
        check_envelope(frame, facts)
        if frame.kind == "response":
            self._note_answer(frame)
        if frame.kind in ("blank", "malformed") or not facts.is_judged:
            return self._findings
        if self.exchange.version == 2:
            self._checks_of_version2().check(frame)
            return self._findings
        handshake.check_order(frame, facts)
        if not handshake.asks_other_version(frame):
            check_fit(frame, facts)
        handshake.check_gate(frame, facts)
        sessions.check_scope(frame, facts)
        turns.check_cancelled(frame, facts)
        step = _TABLES.get((frame.method, frame.part))
        if step is not None:
            step(frame, facts)
        return self._findings

    def finish(self) -> list[Finding]:
        """Return the findings about what is missing at the end of the recording."""
        self._findings = []
        before = self._ended_before_exit
        agent_left_first = before is not None and "c2a" not in before
        # What ended after the process did was ended by the recorder.
        ended = {dir: t for dir, t in self._ended.items() if before is None or dir in before}
        if before is not None and "c2a" in before:
            ended.setdefault("a2c", self._t)
        check_missing(self._facts, ended, has_exited=before is not None)
        if self._newer is not None:
            self._newer.finish()
        elif self._facts.is_judged:
            turns.check_left(self._facts, self._t)
            services.check_left(self._facts, agent_left_first=agent_left_first)
        return self._findings

    def _checks_of_version2(self) -> Version2Checks:
        if self._newer is None:
            from dragoman.trace.checks.version2 import Version2Checks

            self._newer = Version2Checks(self._facts)
        return self._newer

    def _note_answer(self, frame: DecodedFrame) -> None:
        request = frame.request
        if request is None:
            self._facts.saw_unasked = True
            return
        key = (request.dir, request.method, request.session_id)
        last = self._facts.last_answered
        last[key] = max(last.get(key, 0), request.number)

    def _report(
        self, rule: int, at: DecodedFrame, message: str, level: str = "", *, dir: Direction | None = None
    ) -> None:
        own = rule_of(rule).level
        if level == "SCHEMA" and own in FAILURES:
            level = own
        # The levels of the table are those of `Level` and MAY, and no check reports a MAY without a level.
        self._findings.append(Finding(rule, level or own, dir or at.dir, at.number, message))  # type: ignore[arg-type]


def check_missing(facts: Facts, ended: Mapping[Direction, float], *, has_exited: bool) -> None:
    """Report the requests that are still open when a recording ends.

    A side that leaves takes its open requests with it, so a request that was open when its sender left proves nothing
    by itself. It does if the other side left first, or answered a later request of that kind, or had time for something
    that needs neither a model nor a user.

    Args:
        facts: What the traffic has established.
        ended: Direction -> when its sender closed it.
        has_exited: The recording has the end of the agent's process.
    """
    agent_left_first = has_exited and "c2a" not in ended
    both = len(ended) == len(OTHER)
    for asking in OTHER:
        answering = OTHER[asking]
        # An agent whose client has left cannot be blamed, nor can a client that quits while an agent wants something.
        left_first = asking == "c2a" and (agent_left_first or (both and ended["a2c"] < ended["c2a"]))
        for request in facts.exchange.open[asking].values():
            if request.kind != "request":
                continue
            who = "agent" if answering == "a2c" else "client"
            if left_first:
                facts.report(25, request, f"the {who} ended without answering this", dir=answering)
            elif both:
                _check_open(request, facts, min(ended.values()), who)


def _check_open(request: DecodedFrame, facts: Facts, left: float, who: str) -> None:
    """Report a request that was open when one of the two left."""
    answering = OTHER[request.dir]
    waited = left - request.t
    turn = _turn_of(request, facts)
    cancelled_at = facts.cancelled_requests.get((request.dir, request.id))
    if cancelled_at is not None and left - cancelled_at > LOST_SECONDS:
        facts.report(204, request, "this was cancelled, and the answer to it never came", dir=answering)
    elif turn is not None and turn.closed_at is not None and left - turn.closed_at > LOST_SECONDS:
        facts.report(116, request, "the session was closed, and the prompt was never answered", dir=answering)
    elif turn is not None and turn.cancelled_at is not None and left - turn.cancelled_at > LOST_SECONDS:
        facts.report(196, request, "the turn was cancelled, and the prompt was never answered", dir=answering)
    elif _is_lost(request, facts, waited):
        facts.report(25, request, f"the {who} never answered this, and went on", dir=answering)


def _turn_of(request: DecodedFrame, facts: Facts) -> TurnFacts | None:
    session = facts.session(request)
    return next((turn for turn in session.turns if turn.request is request), None) if session is not None else None


def _is_lost(request: DecodedFrame, facts: Facts, waited: float) -> bool:
    if facts.last_answered.get((request.dir, request.method, request.session_id), 0) > request.number:
        return True
    if request.method in _OPEN_ENDED:
        return False
    if request.method in _SLOW:
        # A client that uses a session which no answer has named must have got it from the one that is missing.
        is_used = request.method in ("session/new", "session/fork") and bool(facts.unnamed)
        return is_used or waited > _SLOW_SECONDS
    later = max((number for (dir, _, _), number in facts.last_answered.items() if dir == request.dir), default=0)
    return later > request.number or waited > _SLOW_SECONDS
