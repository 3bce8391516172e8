"""Prompts, cancellation and permission: one turn from its request to its answer.

Two programs cross each other's messages, so an agent that ends a turn in the moment it is cancelled has broken
nothing; time decides, see `RACE_SECONDS`. What a client sends is in its own order, and judged by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.errors import METHOD_NOT_FOUND, REQUEST_CANCELLED
from dragoman.schema import is_advertised, v1
from dragoman.trace.checks.link import Turn
from dragoman.trace.checks.updates import announce_tool

if TYPE_CHECKING:
    from dragoman.trace.checks.link import Checks, Link, Session
    from dragoman.trace.inspect.exchange import Reading

# An agent that ends a turn this long after its cancel was sent has had every chance to see it: of the recorded agents
# that honour one the slowest takes 0.5 s, most 20 ms, apart from those that wait for an open permission first.
RACE_SECONDS: Final = 1.0

BLOCKS: Final = (
    (v1.ImageContent, "image"),
    (v1.AudioContent, "audio"),
    (v1.EmbeddedResource, "embeddedContext"),
)


def _ask_prompt(reading: Reading, link: Link) -> None:
    request = reading.value
    if isinstance(request, v1.PromptRequest) and link.agent is not None:
        for kind, name in BLOCKS:
            is_used = any(isinstance(block, kind) for block in request.prompt)
            if is_used and not is_advertised(link.agent, f"promptCapabilities.{name}"):
                link.report(177, reading, f"the prompt needs promptCapabilities.{name}, which was not advertised")
    session = link.session(reading)
    if session is None or reading.kind != "request":
        return
    if session.turns:
        asked = session.turns[-1].request.number
        link.report(187, reading, f"the prompt of message {asked} is not answered yet")
    session.turns.append(Turn(reading))
    session.last = None
    session.is_after_load = False


def _end_prompt(reading: Reading, link: Link) -> None:
    session = link.session(reading)
    turn = _take_turn(session, reading.request)
    if session is None or turn is None:
        return
    session.last = turn
    if reading.error_code == METHOD_NOT_FOUND:
        link.report(53, reading, "every agent implements session/prompt")
    _check_ending(reading, link, turn)
    if not session.turns:  # else they may belong to the other one
        _check_unanswered(reading, link, turn)


def _take_turn(session: Session | None, request: Reading | None) -> Turn | None:
    for turn in session.turns if session is not None else ():
        if turn.request is request:
            session.turns.remove(turn)  # type: ignore[union-attr]  # the loop has nothing to run over without it
            return turn
    return None


def _check_ending(reading: Reading, link: Link, turn: Turn) -> None:
    stop_reason = getattr(reading.value, "stop_reason", None)
    if stop_reason == "cancelled":
        return
    if turn.cancelled_at is not None:
        after = reading.t - turn.cancelled_at
        is_sure = turn.saw_cancel or after > RACE_SECONDS or reading.error_code == REQUEST_CANCELLED
        rule, how = (197, "is answered with an error") if reading.part == "error" else (196, f"ends as {stop_reason}")
        link.report(rule, reading, f"cancelled {after:.2f} s before, the prompt {how}", "" if is_sure else "NOTE")
    elif turn.closed_at is not None:
        after = reading.t - turn.closed_at
        level = "" if after > RACE_SECONDS else "NOTE"
        link.report(
            116, reading, f"the session was closed {after:.2f} s before, and the prompt is not cancelled", level
        )


def _check_unanswered(reading: Reading, link: Link, turn: Turn) -> None:
    """Requests of this turn that the agent left open when it ended it."""
    for request in link.open_requests("a2c", reading.session_id):
        if request.number < turn.request.number:
            continue
        what = f"the turn ends while {request.method} (message {request.number}) is not answered"
        if turn.cancelled_at is None:
            link.report(180, reading, what, "NOTE")
        elif (request.dir, request.id) in link.cancelled_requests:
            link.report(208, reading, f"{what}; it was cancelled", "NOTE")
        else:
            link.report(208, reading, f"{what}, and it was not cancelled")


def _cancel(reading: Reading, link: Link) -> None:
    session = link.session(reading)
    for turn in session.turns if session is not None else ():
        if turn.cancelled_at is None:
            turn.cancelled_at = reading.t
    for request in link.open_requests("a2c", reading.session_id):
        if request.method == "session/request_permission":
            link.cancelled_permissions[request] = (194, reading.t)


def _cancel_request(reading: Reading, link: Link) -> None:
    request = reading.value
    if not isinstance(request, v1.CancelRequestNotification):
        return
    key = (type(request.request_id), request.request_id)
    if key in link.exchange.open[reading.dir]:
        link.cancelled_requests.add((reading.dir, request.request_id))
    elif key not in link.exchange.answered[reading.dir] and link.sees_start:
        link.report(201, reading, f"the sender made no request with the id {request.request_id!r}", "NOTE")


def _ask_permission(reading: Reading, link: Link) -> None:
    request, session = reading.value, link.session(reading)
    if not isinstance(request, v1.RequestPermissionRequest):
        return
    ids = [option.option_id for option in request.options]
    if len(ids) != len(set(ids)):
        link.report(254, reading, "two options have the same optionId")
    if session is not None:
        announce_tool(reading, link, session, request.tool_call, is_permission=True)
        turn = session.turn
        if turn is not None and turn.cancelled_at is not None:
            link.cancelled_permissions[reading] = (258, turn.cancelled_at)


def _answer_permission(reading: Reading, link: Link) -> None:
    asked, result = reading.request, reading.value
    cancelled = link.cancelled_permissions.pop(asked, None) if asked is not None else None
    session = link.session(reading)
    if cancelled is not None and session is not None and session.turn is not None:
        # A turn that waits for this cannot have ended by itself before the cancel, which was sent earlier.
        session.turn.saw_cancel = True
    if reading.part == "error":
        if reading.error_code == METHOD_NOT_FOUND:
            link.report(259, reading, "every client implements session/request_permission")
        return
    outcome = getattr(result, "outcome", None)
    if not isinstance(outcome, v1.SelectedPermissionOutcome) or asked is None:
        return
    if isinstance(asked.value, v1.RequestPermissionRequest):
        _check_offered(reading, link, asked.value, outcome.option_id)
    if cancelled is not None:
        link.report(cancelled[0], reading, "the turn was cancelled, so the outcome is cancelled and not selected")


def _check_offered(reading: Reading, link: Link, request: v1.RequestPermissionRequest, chosen: str) -> None:
    if all(option.option_id != chosen for option in request.options):
        link.report(256, reading, f"{chosen!r} is none of the offered options")


def check_left(link: Link, t: float) -> None:
    """At the end of a recording: permissions a cancelled turn has left without an answer."""
    for request, (rule, cancelled_at) in link.cancelled_permissions.items():
        key = (type(request.id), request.id)
        if link.exchange.open["a2c"].get(key) is request and t - cancelled_at > 5 * RACE_SECONDS:
            what = f"the turn was cancelled, and {t - cancelled_at:.0f} s later this is still not answered"
            link.report(rule, request, what, dir="c2a")


CHECKS: Checks = {
    ("session/prompt", "params"): _ask_prompt,
    ("session/prompt", "result"): _end_prompt,
    ("session/prompt", "error"): _end_prompt,
    ("session/cancel", "params"): _cancel,
    ("$/cancel_request", "params"): _cancel_request,
    ("session/request_permission", "params"): _ask_permission,
    ("session/request_permission", "result"): _answer_permission,
    ("session/request_permission", "error"): _answer_permission,
}
