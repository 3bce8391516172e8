"""Checks of prompts and cancellation: one turn from its request to its response.

Messages of the two sides cross each other, so an agent that ends a turn in the moment it is cancelled has not broken
a rule; the time between them decides, see `CROSSING_SECONDS`. The client's own messages are checked in their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, REQUEST_CANCELLED
from dragoman.schema import is_advertised, v1
from dragoman.trace.checks.facts import TurnFacts

if TYPE_CHECKING:
    from dragoman.trace.checks.facts import Checks, Facts, SessionFacts
    from dragoman.trace.inspect.exchange import DecodedFrame

# How long a cancel may be under way before the agent has read it. A pipe takes a millisecond, a busy agent some more,
# so what it ends with later than this is its answer to the cancel. A turn may come to its own end in that moment, but
# it seldom fails in just that moment, so less is needed to be sure of an error.
CROSSING_SECONDS: Final = 0.25
ERROR_CROSSING_SECONDS: Final = 0.1
# After this long without an answer it is not coming any more.
LOST_SECONDS: Final = 1.0

BLOCKS: Final = (
    (v1.ImageContent, "image"),
    (v1.AudioContent, "audio"),
    (v1.EmbeddedResource, "embeddedContext"),
)


def _ask_prompt(frame: DecodedFrame, facts: Facts) -> None:
    request = frame.value
    if isinstance(request, v1.PromptRequest) and facts.agent is not None:
        for kind, name in BLOCKS:
            is_used = any(isinstance(block, kind) for block in request.prompt)
            if is_used and not is_advertised(facts.agent, f"promptCapabilities.{name}"):
                facts.report(177, frame, f"the prompt needs promptCapabilities.{name}, which was not advertised")
    session = facts.session(frame)
    if session is None or frame.kind != "request":
        return
    for earlier in session.turns[-1:]:
        # Whether the client was too early or the agent has lost an answer shows when that answer comes, or never does.
        earlier.overlapping.append(frame)
    session.turns.append(TurnFacts(frame))
    session.last = None
    session.is_after_load = False


def _end_prompt(frame: DecodedFrame, facts: Facts) -> None:
    session = facts.session(frame)
    turn = _take_turn(session, frame.request)
    if session is None or turn is None:
        return
    session.last = turn
    for later in turn.overlapping:
        facts.report(187, later, f"the prompt of message {turn.request.number} was not answered yet")
    if frame.error_code == METHOD_NOT_FOUND:
        facts.report(53, frame, "every agent implements session/prompt")
    _check_ending(frame, facts, turn)
    if not session.turns:  # else they may belong to the other one
        _check_unanswered(frame, facts, turn)


def _take_turn(session: SessionFacts | None, request: DecodedFrame | None) -> TurnFacts | None:
    for turn in session.turns if session is not None else ():
        if turn.request is request:
            session.turns.remove(turn)  # type: ignore[union-attr]  # the loop has nothing to run over without it
            return turn
    return None


def _check_ending(frame: DecodedFrame, facts: Facts, turn: TurnFacts) -> None:
    stop_reason = frame.value.stop_reason if isinstance(frame.value, v1.PromptResponse) else None
    if stop_reason == "cancelled":
        return
    if turn.cancelled_at is not None:
        after = frame.t - turn.cancelled_at
        crossing = ERROR_CROSSING_SECONDS if frame.part == "error" else CROSSING_SECONDS
        is_sure = turn.saw_cancel or after > crossing or frame.error_code == REQUEST_CANCELLED
        rule, how = (197, "is answered with an error") if frame.part == "error" else (196, f"ends as {stop_reason}")
        facts.report(rule, frame, f"cancelled {after:.2f} s before, the prompt {how}", "" if is_sure else "NOTE")
    elif turn.closed_at is not None:
        after = frame.t - turn.closed_at
        level = "" if after > CROSSING_SECONDS else "NOTE"
        facts.report(116, frame, f"the session was closed {after:.2f} s before, and the prompt is not cancelled", level)


def _check_unanswered(frame: DecodedFrame, facts: Facts, turn: TurnFacts) -> None:
    """Report requests of this turn that are open when the agent ends it."""
    for request in facts.open_requests("a2c", frame.session_id):
        if request.number < turn.request.number:
            continue
        what = f"the turn ends while {request.method} (message {request.number}) is not answered"
        if turn.cancelled_at is None:
            facts.report(180, frame, what, "NOTE")
        elif (request.dir, request.id) in facts.cancelled_requests:
            facts.report(208, frame, f"{what}; it was cancelled", "NOTE")
        else:
            # Nothing has to send $/cancel_request (rule 202), and the client answers a permission by itself (rule 194).
            facts.report(208, frame, f"{what}, and it was not cancelled", "NOTE")


def _cancel(frame: DecodedFrame, facts: Facts) -> None:
    session = facts.session(frame)
    for turn in session.turns if session is not None else ():
        # A turn behind which another one has begun is over for the client, whether it was answered or not.
        if turn.cancelled_at is None and not turn.overlapping:
            turn.cancelled_at = frame.t
    for request in facts.open_requests("a2c", frame.session_id):
        if request.method == "session/request_permission":
            facts.cancelled_permissions[request] = (194, frame.t)


def _cancel_request(frame: DecodedFrame, facts: Facts) -> None:
    request = frame.value
    if not isinstance(request, v1.CancelRequestNotification):
        return
    key = (type(request.request_id), request.request_id)
    if key in facts.exchange.open[frame.dir]:
        facts.cancelled_requests.setdefault((frame.dir, request.request_id), frame.t)
    elif key not in facts.exchange.answered[frame.dir] and facts.sees_start:
        facts.report(201, frame, f"the sender did not make a request with the id {request.request_id!r}", "NOTE")


def check_cancelled(frame: DecodedFrame, facts: Facts) -> None:
    """Report a response to a request that was cancelled with $/cancel_request: a result or -32800 (rule 204)."""
    request = frame.request
    cancelled_at = facts.cancelled_requests.get((request.dir, request.id)) if request is not None else None
    if cancelled_at is None or frame.error_code != INTERNAL_ERROR:
        return
    after = frame.t - cancelled_at
    level = "" if after > ERROR_CROSSING_SECONDS else "NOTE"
    facts.report(204, frame, f"cancelled {after:.2f} s before, the request is answered with {INTERNAL_ERROR}", level)


def check_left(facts: Facts, t: float) -> None:
    """Report, at the end of a recording, permission requests of a cancelled turn that were not answered."""
    for request, (rule, cancelled_at) in facts.cancelled_permissions.items():
        key = (type(request.id), request.id)
        if facts.exchange.open["a2c"].get(key) is request and t - cancelled_at > 5 * LOST_SECONDS:
            what = f"the turn was cancelled, and {t - cancelled_at:.0f} s later this is still not answered"
            facts.report(rule, request, what, dir="c2a")


CHECKS: Checks = {
    ("session/prompt", "params"): _ask_prompt,
    ("session/prompt", "result"): _end_prompt,
    ("session/prompt", "error"): _end_prompt,
    ("session/cancel", "params"): _cancel,
    ("$/cancel_request", "params"): _cancel_request,
}
