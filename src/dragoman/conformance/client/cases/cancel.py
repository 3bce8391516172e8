"""Cancelling: what the client sends when its user stops a turn, and what it does with questions that are still open.

The user is played by Ctrl-C: a client that does not cancel then, but dies or does nothing, cannot be judged here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.conformance.case import Fail, Inconclusive, Skip, case
from dragoman.conformance.client.probe import PERMISSION
from dragoman.conformance.conversation import Gone, Silence

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe, ClientTurn
    from dragoman.conformance.conversation import WireMessage

_DELETE = {"toolCallId": "call-delete", "title": "Delete everything", "kind": "delete", "status": "pending"}
_CANCELLED = -32800


async def _cancelled(probe: ClientProbe) -> WireMessage:
    """Wait for the client's session/cancel. Raises: Inconclusive when Ctrl-C leads to something else."""
    mark = probe.mark
    probe.link.interrupt()
    try:
        return await probe.wait_for(
            lambda message: message.method == "session/cancel",
            "session/cancel",
            probe.settings.timeout_seconds,
            since=mark,
        )
    except (Silence, Gone):
        raise Inconclusive("the client does not send session/cancel on SIGINT (Ctrl-C)") from None


async def _running(probe: ClientProbe) -> ClientTurn:
    turn = await probe.prompted()
    turn.update("tool_call", **_DELETE)
    await probe.settle()
    return turn


@case("client/cancel/notification", rules=(192,), level="SHOULD")
async def notification(probe: ClientProbe) -> None:
    """session/cancel is a notification that names the session.

    Interrupts the client in a turn; looks at session/cancel.
    """
    await _running(probe)
    message = await _cancelled(probe)
    if message.is_request:
        raise Fail("session/cancel is a request; it is a notification and has no id")
    if message.params.get("sessionId") != probe.session_id:
        raise Fail(f"session/cancel names the session {message.params.get('sessionId')!r}")


@case("client/cancel/open-permissions", rules=(194, 258))
async def open_permissions(probe: ClientProbe) -> None:
    """When a turn is cancelled, every permission request that is still open is answered with cancelled.

    Asks twice for permission to delete, then interrupts the client; expects two outcomes cancelled.
    """
    await _running(probe)
    ids = [probe.request(PERMISSION, probe.permission(toolCall=_DELETE), id=f"open-{n}") for n in (1, 2)]
    await probe.settle()
    if any(message.id in ids for message in probe.incoming if isinstance(message.id, str)):
        raise Inconclusive("the client answers permission requests at once, so that none is open")
    await _cancelled(probe)
    for id in ids:
        try:
            answer = await probe.answer(id, "answer to a permission request after session/cancel")
        except Gone:
            raise Inconclusive("the client leaves without waiting for the end of the turn") from None
        _expect_cancelled(answer)


@case("client/cancel/late-permission", rules=(258,))
async def late_permission(probe: ClientProbe) -> None:
    """A permission request of a turn that is being cancelled is answered with cancelled.

    Interrupts the client and asks for permission before the turn ends; expects the outcome cancelled.
    """
    await _running(probe)
    await _cancelled(probe)
    try:
        answer = await probe.call(PERMISSION, probe.permission())
    except Gone:
        raise Inconclusive("the client leaves without waiting for the end of the turn") from None
    _expect_cancelled(answer)


@case("client/cancel/late-updates", rules=(199,), level="SHOULD")
async def late_updates(probe: ClientProbe) -> None:
    """Updates of tool calls are still accepted after session/cancel, until the turn ends.

    Interrupts the client, sends updates and ends the turn with cancelled; expects the client not to hang.
    """
    turn = await _running(probe)
    await _cancelled(probe)
    turn.update("tool_call_update", toolCallId="call-delete", status="failed")
    turn.send_text("Stopped.")
    try:
        await probe.require_alive("updates after session/cancel")
    except Fail:
        if probe.is_over and probe.link.ending == "closed":
            raise Inconclusive("the client leaves without waiting for the end of the turn") from None
        raise
    turn.end("cancelled")
    if probe.baseline.leaves and await probe.exit_code() is None:
        raise Fail("the client hangs after a turn that it cancelled")


@case("client/cancel/request-answered", rules=(201, 204))
async def request_answered(probe: ClientProbe) -> None:
    """A request that the agent takes back with $/cancel_request is answered once all the same.

    Asks for permission and takes it back at once; expects exactly one answer.
    """
    await probe.prompted()
    if not probe.baseline.answers_permission:
        raise Inconclusive("the client waits for a user before it answers a permission request")
    id = probe.request(PERMISSION, probe.permission(), id="taken-back")
    probe.notify("$/cancel_request", {"requestId": id})
    await probe.answer(id, "answer to a request that was taken back")
    await probe.settle()
    answers = probe.since(0, lambda message: message.answers(id))
    if len(answers) > 1:
        raise Fail(f"a request that was taken back was answered {len(answers)} times")


@case("client/cancel/request-code", rules=(206,), level="SHOULD")
async def request_code(probe: ClientProbe) -> None:
    """A request that was taken back before it was answered ends with -32800, or as its method states for cancelled.

    Asks for permission to delete and takes that back; expects, if it is open, -32800 or the outcome cancelled.
    """
    await _running(probe)
    id = probe.request(PERMISSION, probe.permission(toolCall=_DELETE), id="taken-back")
    await probe.settle()
    if any(message.answers(id) for message in probe.incoming):
        raise Inconclusive("the client answers permission requests at once, so that none is open")
    probe.notify("$/cancel_request", {"requestId": id})
    await probe.settle()
    answer = next((message for message in probe.incoming if message.answers(id)), None)
    if answer is None:
        raise Skip("the client does not support $/cancel_request, and need not")
    if answer.code != _CANCELLED and answer.fields.get("outcome") != {"outcome": "cancelled"}:
        raise Fail(f"a request that was taken back was answered with {answer}")


def _expect_cancelled(answer: WireMessage) -> None:
    outcome = answer.fields.get("outcome")
    if not isinstance(outcome, dict) or outcome.get("outcome") != "cancelled":
        raise Fail(f"a permission request of a cancelled turn was answered with {answer}")
