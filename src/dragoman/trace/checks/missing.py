"""Checks of what is missing when a recording ends: requests that were never answered.

Which side is to blame is decided here. A side that leaves takes its open requests with it, so a request that was open
when its sender left proves nothing by itself. It does if the other side left first, or answered a later request of
that kind, or had time for something that needs neither a model nor a user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.trace.checks.turns import LOST_SECONDS
from dragoman.trace.inspect.exchange import OTHER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.trace.checks.facts import Facts, TurnFacts
    from dragoman.trace.entry import Direction
    from dragoman.trace.inspect.exchange import DecodedFrame

# What may take any time: a model, a user or a command decides.
_OPEN_ENDED: Final = frozenset(
    {"session/prompt", "session/request_permission", "elicitation/create", "terminal/wait_for_exit", "authenticate"}
)
# What may take long at times, because a program or a server is started for it.
_SLOW: Final = frozenset({"initialize", "logout", "session/new", "session/load", "session/resume", "session/fork"})
_SLOW_SECONDS: Final = 30.0


def check_missing(facts: Facts, ended: Mapping[Direction, float], *, has_exited: bool) -> None:
    """Report the requests that are still open.

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
