"""Cancelling: at every point of a turn, and of a single request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.conformance.case import Fail, Inconclusive, Warn, case
from dragoman.conformance.expect import expect_cancelled, expect_no_late_updates, expect_stop

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe, AgentTurn
    from dragoman.conformance.conversation import WireMessage

CANCEL_REQUEST = "$/cancel_request"


@case(
    "agent/cancel/streaming",
    rules=(196, 197),
    about="a turn that is cancelled while it streams ends with the stop reason cancelled, not with an error",
)
async def streaming(probe: AgentProbe) -> None:
    """Cancels after the first update; expects a result with the stop reason cancelled."""
    turn = await probe.running()
    probe.cancel(turn.session_id)
    expect_cancelled(await turn.end())


@case(
    "agent/cancel/at-once",
    rules=(196, 197),
    about="a cancel right behind the prompt, before anything was said, is not lost",
)
async def at_once(probe: AgentProbe) -> None:
    """Makes sure that the prompt leads to a long turn; sends it again, with its cancellation right behind; expects a
    result with the stop reason cancelled."""
    known = await probe.running()
    probe.cancel(known.session_id)
    await known.end()
    turn = await probe.act("slow")
    probe.cancel(turn.session_id)
    expect_cancelled(await turn.end())


@case(
    "agent/cancel/in-tool",
    rules=(195, 196, 197),
    about="a turn that is cancelled while a command runs ends with the stop reason cancelled",
)
async def in_tool(probe: AgentProbe) -> None:
    """Leads the agent to run a command of a minute and cancels; expects a result with the stop reason cancelled."""
    turn = await probe.in_command()
    await probe.settle()
    if turn.is_over:
        raise Inconclusive("the command was over before it could be cancelled")
    probe.cancel(turn.session_id)
    expect_cancelled(await turn.end())


@case(
    "agent/cancel/permission-open",
    rules=(194, 196, 197),
    about="a turn that is cancelled while a permission is open ends with the stop reason cancelled",
)
async def permission_open(probe: AgentProbe) -> None:
    """Cancels while a permission is open and answers it with cancelled; expects the stop reason cancelled."""
    turn, asked = await _held(probe, "ask", "session/request_permission")
    probe.cancel(turn.session_id)
    probe.reply(asked, {"outcome": {"outcome": "cancelled"}})
    expect_cancelled(await turn.end())


@case(
    "agent/cancel/read-open",
    rules=(196, 197),
    about="a turn that is cancelled while a file is being read ends with the stop reason cancelled",
)
async def read_open(probe: AgentProbe) -> None:
    """Cancels while fs/read_text_file is open and answers that with -32800; expects the stop reason cancelled."""
    turn, asked = await _held(probe, "read", "fs/read_text_file")
    probe.cancel(turn.session_id)
    probe.reply_error(asked, -32800, "Request cancelled")
    expect_cancelled(await turn.end())


@case(
    "agent/cancel/elicitation-open",
    rules=(196, 197),
    about="a turn that is cancelled while the user is being asked ends with the stop reason cancelled",
)
async def elicitation_open(probe: AgentProbe) -> None:
    """Cancels while elicitation/create is open and answers that with cancel; expects the stop reason cancelled."""
    turn, asked = await _held(probe, "form", "elicitation/create")
    probe.cancel(turn.session_id)
    probe.reply(asked, {"action": "cancel"})
    expect_cancelled(await turn.end())


@case(
    "agent/cancel/cascades",
    rules=(208,),
    level="SHOULD",
    about="a cancelled turn takes back its own open requests with $/cancel_request",
)
async def cascades(probe: AgentProbe) -> None:
    """Cancels while a permission is open; expects $/cancel_request for it."""
    turn, asked = await _held(probe, "ask", "session/request_permission")
    probe.cancel(turn.session_id)
    await probe.settle()
    probe.reply(asked, {"outcome": {"outcome": "cancelled"}})
    await turn.end()
    taken_back = probe.since(turn.mark, lambda message: message.method == CANCEL_REQUEST)
    if not any(message.params.get("requestId") == asked.id for message in taken_back):
        raise Fail("the open permission request was not taken back")


@case(
    "agent/cancel/twice",
    rules=(25, 196),
    about="a turn that is cancelled twice is answered once",
)
async def twice(probe: AgentProbe) -> None:
    """Cancels twice; expects one answer, with the stop reason cancelled."""
    turn = await probe.running()
    probe.cancel(turn.session_id)
    probe.cancel(turn.session_id)
    expect_cancelled(await turn.end())
    await probe.settle()
    answers = probe.since(turn.mark, lambda message: message.answers(turn.id))
    if len(answers) != 1:
        raise Fail(f"the prompt was answered {len(answers)} times")


@case(
    "agent/cancel/updates-first",
    rules=(198,),
    about="what a cancelled turn still has to say comes before its answer",
)
async def updates_first(probe: AgentProbe) -> None:
    """Cancels in the middle of a turn; expects no update of it after the answer."""
    turn = await probe.running()
    probe.cancel(turn.session_id)
    end = await turn.end()
    await probe.settle()
    expect_no_late_updates(probe, turn.session_id, end)


@case(
    "agent/cancel/soon",
    rules=(195,),
    level="SHOULD",
    about="a cancelled turn ends soon",
)
async def soon(probe: AgentProbe) -> None:
    """Cancels in the middle of a turn; expects the answer within a sixth of the patience for one answer."""
    turn = await probe.running()
    probe.cancel(turn.session_id)
    began = probe.now
    await turn.end()
    took, bound = probe.now - began, probe.settings.timeout_seconds / 6
    if took > bound:
        raise Fail(f"the cancelled turn ended after {took:.1f} s")


@case(
    "agent/cancel/next-turn",
    rules=(180, 196),
    about="after a cancelled turn the session can be prompted again",
)
async def next_turn(probe: AgentProbe) -> None:
    """Cancels a turn and prompts again; expects a stop reason other than cancelled."""
    turn = await probe.running()
    probe.cancel(turn.session_id)
    await turn.end()
    end = await probe.prompt(turn.session_id, probe.text("say")).end()
    expect_stop(end)
    if end.fields["stopReason"] == "cancelled":
        raise Warn("the turn after a cancelled one was cancelled too")


@case(
    "agent/cancel/other-session",
    rules=(196,),
    level="SHOULD",
    about="a cancel ends the turn of its own session and no other",
)
async def other_session(probe: AgentProbe) -> None:
    """Runs turns in two sessions and cancels one; expects the other to go on until it is cancelled itself."""
    cancelled, other = await probe.running(), await probe.running()
    probe.cancel(cancelled.session_id)
    await cancelled.end()
    await probe.settle()
    ended_too = other.is_over
    probe.cancel(other.session_id)
    end = await other.end()
    if ended_too and end.fields.get("stopReason") == "cancelled":
        raise Fail("the turn of another session was cancelled too")
    if ended_too:
        raise Inconclusive("the other turn was over by itself")


@case(
    "agent/cancel/idle",
    rules=(24, 200),
    about="a cancel for a session that does nothing is answered by nobody",
)
async def idle(probe: AgentProbe) -> None:
    """Cancels an idle session and one that does not exist; expects no response."""
    session_id = await probe.new_session()
    mark = probe.mark
    probe.cancel(session_id)
    probe.cancel("no-such-session")
    await probe.settle()
    came = probe.responses(mark)
    if came:
        raise Fail(f"a cancel was answered: {came[0]}")


@case(
    "agent/cancel/too-late",
    rules=(200,),
    level="SHOULD",
    about="a cancel that comes after the end of a turn does not cancel the next one",
)
async def too_late(probe: AgentProbe) -> None:
    """Cancels after the end of a turn and prompts again; expects another stop reason than cancelled."""
    session_id = await probe.new_session()
    await probe.acted("say", session_id)
    probe.cancel(session_id)
    await probe.settle()
    end = await probe.prompt(session_id, probe.text("say")).end()
    if end.is_error or end.fields.get("stopReason") == "cancelled":
        raise Fail(f"the turn after a late cancel was answered with {end}")


@case(
    "agent/cancel/request",
    rules=(201, 204, 206),
    about="a prompt that is cancelled with $/cancel_request is still answered, with a result or -32800",
)
async def request(probe: AgentProbe) -> None:
    """Sends $/cancel_request for a running prompt, and session/cancel in case that is not supported; expects one
    answer: a result, or the error -32800."""
    turn = await probe.running()
    probe.notify(CANCEL_REQUEST, {"requestId": turn.id})
    await probe.settle()
    if not turn.is_over:
        probe.cancel(turn.session_id)
    end = await turn.end()
    if end.is_error and end.code != -32800:
        raise Fail(f"the cancelled request was answered with {end}")
    await probe.settle()
    answers = probe.since(turn.mark, lambda message: message.answers(turn.id))
    if len(answers) != 1:
        raise Fail(f"the cancelled request was answered {len(answers)} times")


@case(
    "agent/cancel/request-unknown",
    rules=(24, 209),
    about="$/cancel_request for a request that is unknown, or answered already, is ignored",
)
async def request_unknown(probe: AgentProbe) -> None:
    """Sends $/cancel_request for an unknown id and for an answered one; expects no response."""
    session_id = await probe.new_session()
    turn = await probe.acted("say", session_id)
    mark = probe.mark
    probe.notify(CANCEL_REQUEST, {"requestId": turn.id})
    probe.notify(CANCEL_REQUEST, {"requestId": "no-such-request"})
    await probe.settle()
    came = probe.responses(mark)
    if came:
        raise Fail(f"{CANCEL_REQUEST} for a request that is over was answered: {came[0]}")


async def _held(probe: AgentProbe, action: str, method: str) -> tuple[AgentTurn, WireMessage]:
    """A turn that waits for the answer to a request of its own."""
    probe.services.hold.add(method)
    turn = await probe.act(action)
    asked = await turn.first_request(method)
    probe.services.hold.clear()
    return turn, asked
