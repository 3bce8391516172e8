"""Cancelling: at every point of a turn, and of a single request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.conformance.case import Fail, Inconclusive, Skip, Warn, case
from dragoman.conformance.expect import (
    expect_answered_once,
    expect_cancelled,
    expect_no_late_updates,
    expect_stop,
    expect_unanswered,
)

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe, AgentTurn
    from dragoman.conformance.conversation import WireMessage

CANCEL_REQUEST = "$/cancel_request"


async def _cancelled(probe: AgentProbe) -> AgentTurn:
    """Begin a turn and cancel it while it streams."""
    turn = await probe.running()
    probe.cancel(turn.session_id)
    return turn


async def _cancelled_while_open(probe: AgentProbe, action: str, method: str) -> tuple[AgentTurn, WireMessage]:
    """Cancel a turn while it waits for the answer to a request of its own; return it and that request."""
    probe.services.hold.add(method)
    turn = await probe.act(action)
    asked = await turn.first_request(method)
    probe.services.hold.clear()
    probe.cancel(turn.session_id)
    return turn, asked


@case("agent/cancel/streaming", rules=(196, 197))
async def streaming(probe: AgentProbe) -> None:
    """A turn that is cancelled while it streams ends with the stop reason cancelled, not with an error.

    Cancels after the first update; expects a result with the stop reason cancelled.
    """
    expect_cancelled(await (await _cancelled(probe)).end())


@case("agent/cancel/at-once", rules=(196, 197))
async def at_once(probe: AgentProbe) -> None:
    """A cancel right behind the prompt, before anything was sent, is not lost.

    Makes sure that the prompt leads to a long turn; sends it again, with its cancellation right behind; expects a
    result with the stop reason cancelled.
    """
    await (await _cancelled(probe)).end()
    turn = await probe.act("slow")
    probe.cancel(turn.session_id)
    expect_cancelled(await turn.end())


@case("agent/cancel/in-tool", rules=(195, 196, 197))
async def in_tool(probe: AgentProbe) -> None:
    """A turn that is cancelled while a command runs ends with the stop reason cancelled.

    Leads the agent to run a command of a minute and cancels; expects a result with the stop reason cancelled.
    """
    turn = await probe.in_command()
    await probe.settle()
    if turn.is_over:
        raise Inconclusive("the command was over before it could be cancelled")
    probe.cancel(turn.session_id)
    expect_cancelled(await turn.end())


@case("agent/cancel/permission-open", rules=(194, 196, 197))
async def permission_open(probe: AgentProbe) -> None:
    """A turn that is cancelled while a permission is open ends with the stop reason cancelled.

    Cancels while a permission is open and answers it with cancelled; expects the stop reason cancelled.
    """
    turn, asked = await _cancelled_while_open(probe, "ask", "session/request_permission")
    probe.reply(asked, {"outcome": {"outcome": "cancelled"}})
    expect_cancelled(await turn.end())


@case("agent/cancel/read-open", rules=(196, 197))
async def read_open(probe: AgentProbe) -> None:
    """A turn that is cancelled while a file is being read ends with the stop reason cancelled.

    Cancels while fs/read_text_file is open and answers that with -32800; expects the stop reason cancelled.
    """
    turn, asked = await _cancelled_while_open(probe, "read", "fs/read_text_file")
    probe.reply_error(asked, -32800, "Request cancelled")
    expect_cancelled(await turn.end())


@case("agent/cancel/elicitation-open", rules=(196, 197))
async def elicitation_open(probe: AgentProbe) -> None:
    """A turn that is cancelled while the user is being asked ends with the stop reason cancelled.

    Cancels while elicitation/create is open and answers that with cancel; expects the stop reason cancelled.
    """
    turn, asked = await _cancelled_while_open(probe, "form", "elicitation/create")
    probe.reply(asked, {"action": "cancel"})
    expect_cancelled(await turn.end())


@case("agent/cancel/cascades", rules=(201, 208), level="SHOULD")
async def cascades(probe: AgentProbe) -> None:
    """A cancelled turn that takes back its open requests with $/cancel_request names one of them.

    Cancels while a permission is open; expects that $/cancel_request, if it is sent, is for that permission.
    """
    turn, asked = await _cancelled_while_open(probe, "ask", "session/request_permission")
    await probe.settle()
    probe.reply(asked, {"outcome": {"outcome": "cancelled"}})
    await turn.end()
    taken_back = turn.sent(CANCEL_REQUEST)
    if not taken_back:
        raise Skip("the agent does not send $/cancel_request, which rule 202 leaves to it")
    if not any(message.params.get("requestId") == asked.id for message in taken_back):
        raise Fail(f"$/cancel_request is for {taken_back[0].params.get('requestId')!r}, not for the open permission")


@case("agent/cancel/twice", rules=(25, 196))
async def twice(probe: AgentProbe) -> None:
    """A turn that is cancelled twice is answered once.

    Cancels twice; expects one answer, with the stop reason cancelled.
    """
    turn = await _cancelled(probe)
    probe.cancel(turn.session_id)
    expect_cancelled(await turn.end())
    await probe.settle()
    expect_answered_once(probe, turn.id, turn.mark, "the prompt")


@case("agent/cancel/updates-first", rules=(198,))
async def updates_first(probe: AgentProbe) -> None:
    """What a cancelled turn still has to send comes before its answer.

    Cancels in the middle of a turn; expects no update of it after the answer.
    """
    turn = await _cancelled(probe)
    end = await turn.end()
    await probe.settle()
    expect_no_late_updates(probe, turn.session_id, end)


@case("agent/cancel/soon", rules=(195,), level="SHOULD")
async def soon(probe: AgentProbe) -> None:
    """A cancelled turn ends soon.

    Cancels in the middle of a turn; expects the answer within a sixth of the patience for one answer.
    """
    turn = await _cancelled(probe)
    began = probe.now
    await turn.end()
    took, bound = probe.now - began, probe.settings.timeout_seconds / 6
    if took > bound:
        raise Fail(f"the cancelled turn ended after {took:.1f} s")


@case("agent/cancel/next-turn", rules=(180, 196))
async def next_turn(probe: AgentProbe) -> None:
    """After a cancelled turn the session can be prompted again.

    Cancels a turn and prompts again; expects a stop reason other than cancelled.
    """
    turn = await _cancelled(probe)
    await turn.end()
    end = await probe.prompt(turn.session_id, probe.text("say")).end()
    expect_stop(end)
    if end.fields["stopReason"] == "cancelled":
        raise Warn("the turn after a cancelled one was cancelled too")


@case("agent/cancel/other-session", rules=(196,), level="SHOULD")
async def other_session(probe: AgentProbe) -> None:
    """A cancel ends the turn of its own session and no other.

    Runs turns in two sessions and cancels one; expects the other to go on until it is cancelled itself.
    """
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


@case("agent/cancel/idle", rules=(24, 200))
async def idle(probe: AgentProbe) -> None:
    """A cancel for a session that does nothing is not answered.

    Cancels an idle session and one that does not exist; expects no response.
    """
    session_id = await probe.new_session()
    mark = probe.mark
    probe.cancel(session_id)
    probe.cancel("no-such-session")
    await probe.settle()
    expect_unanswered(probe, mark, "a cancel")


@case("agent/cancel/too-late", rules=(200,), level="SHOULD")
async def too_late(probe: AgentProbe) -> None:
    """A cancel that comes after the end of a turn does not cancel the next one.

    Cancels after the end of a turn and prompts again; expects another stop reason than cancelled.
    """
    session_id = await probe.new_session()
    await probe.acted("say", session_id)
    probe.cancel(session_id)
    await probe.settle()
    end = await probe.prompt(session_id, probe.text("say")).end()
    if end.is_error or end.fields.get("stopReason") == "cancelled":
        raise Fail(f"the turn after a late cancel was answered with {end}")


@case("agent/cancel/request", rules=(201, 204, 206))
async def request(probe: AgentProbe) -> None:
    """A prompt that is cancelled with $/cancel_request is still answered, with a result or -32800.

    Sends $/cancel_request for a running prompt, and session/cancel in case that is not supported; expects one
    answer: a result, or the error -32800.
    """
    turn = await probe.running()
    probe.notify(CANCEL_REQUEST, {"requestId": turn.id})
    await probe.settle()
    if not turn.is_over:
        probe.cancel(turn.session_id)
    end = await turn.end()
    if end.is_error and end.code != -32800:
        raise Fail(f"the cancelled request was answered with {end}")
    await probe.settle()
    expect_answered_once(probe, turn.id, turn.mark, "the cancelled request")


@case("agent/cancel/request-unknown", rules=(24, 209), provokes=True)
async def request_unknown(probe: AgentProbe) -> None:
    """$/cancel_request for a request that is unknown, or answered already, is ignored.

    Sends $/cancel_request for an unknown id and for an answered one; expects no response.
    """
    session_id = await probe.new_session()
    turn = await probe.acted("say", session_id)
    mark = probe.mark
    probe.notify(CANCEL_REQUEST, {"requestId": turn.id})
    probe.notify(CANCEL_REQUEST, {"requestId": "no-such-request"})
    await probe.settle()
    expect_unanswered(probe, mark, f"{CANCEL_REQUEST} for a request that is over")
