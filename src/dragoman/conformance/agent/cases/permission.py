"""Asking for permission: the question, and what each answer means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import Fail, Skip, Warn, case
from dragoman.conformance.expect import expect_stop

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.conformance.agent.probe import AgentProbe, AgentTurn
    from dragoman.conformance.conversation import WireMessage

_ASK = "session/request_permission"
_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")


@case("agent/permission/shape", rules=(253, 254))
async def shape(probe: AgentProbe) -> None:
    """A permission request names its session, its tool call, and options with unique ids, names and known kinds.

    Leads the agent to ask; expects every required member of the request.
    """
    turn, asked, _ = await probe.served("ask", _ASK)
    params = asked.params
    tool_call, options = params.get("toolCall"), params.get("options")
    if params.get("sessionId") != turn.session_id:
        raise Fail(f"the request is about the session {params.get('sessionId')!r}")
    if not isinstance(tool_call, dict) or not isinstance(tool_call.get("toolCallId"), str):
        raise Fail(f"the request names no tool call: {tool_call!r}")
    if not isinstance(options, list) or not options:
        raise Fail("the request has no options")
    for option in options:
        if not isinstance(option, dict) or not all(isinstance(option.get(key), str) for key in ("optionId", "name")):
            raise Fail(f"an option has no optionId or no name: {option!r}")
        if option.get("kind") not in _KINDS:
            raise Fail(f"the kind of an option is {option.get('kind')!r}")
    if len({option["optionId"] for option in options}) < len(options):
        raise Fail("two options have the same optionId")


@case("agent/permission/after-tool-call", rules=(243,), level="SHOULD")
async def after_tool_call(probe: AgentProbe) -> None:
    """The tool call a permission is asked for was announced before.

    Leads the agent to ask; expects a tool_call with the same id before.
    """
    turn, asked, _ = await probe.served("ask", _ASK)
    tool_call_id = (asked.params.get("toolCall") or {}).get("toolCallId")
    announced = [
        message
        for message in probe.since(turn.mark, lambda message: message.index < asked.index)
        if (update := message.params.get("update") or {}).get("sessionUpdate") == "tool_call"
        and update.get("toolCallId") == tool_call_id
    ]
    if not announced:
        raise Fail("the permission is asked for a tool call that was not announced")


@case("agent/permission/allowed", rules=(188, 256), level="SHOULD")
async def allowed(probe: AgentProbe) -> None:
    """A tool that was allowed is run, and marked as in progress.

    Allows what the agent asks for; expects the tool call to be in progress or completed afterwards.
    """
    turn, asked, _ = await _answered(probe, "allow_once")
    if not set(_statuses(turn, asked)) & {"in_progress", "completed"}:
        raise Fail("the allowed tool call was neither in progress nor completed afterwards")


@case("agent/permission/rejected", rules=(261,))
async def rejected(probe: AgentProbe) -> None:
    """A tool that was rejected is not run, though an option was selected.

    Selects an option that rejects; expects nothing to be done, and the turn to end with a stop reason.
    """
    await _expect_not_run(probe, "reject_once")


@case("agent/permission/not-decided", rules=(261,))
async def not_decided(probe: AgentProbe) -> None:
    """A tool whose permission ended as cancelled is not run.

    Answers with the outcome cancelled, without cancelling the turn; expects nothing to be done.
    """
    await _expect_not_run(probe, "cancelled")


@case("agent/permission/unknown-option", rules=(261,), level="SHOULD", provokes=True)
async def unknown_option(probe: AgentProbe) -> None:
    """An option that was never offered does not permit anything.

    Selects an option that was not offered; expects nothing to be done.
    """
    probe.services.answers[_ASK] = lambda params: {"outcome": {"outcome": "selected", "optionId": "allow-everything"}}
    await _expect_not_run(probe, "")


@case("agent/permission/unknown-outcome", rules=(261,), level="SHOULD", provokes=True)
async def unknown_outcome(probe: AgentProbe) -> None:
    """An outcome the protocol does not know does not permit anything.

    Answers with an outcome of the future; expects nothing to be done, and the turn to end.
    """
    probe.services.answers[_ASK] = lambda params: {"outcome": {"outcome": "_later", "optionId": "allow"}}
    await _expect_not_run(probe, "")


@case("agent/permission/error", rules=(180, 339))
async def error(probe: AgentProbe) -> None:
    """A permission request that fails, with an unknown code, does not leave the prompt without an answer.

    Answers the request with the error -31999; expects the prompt to be answered, and nothing to be done.
    """
    probe.services.errors[_ASK] = -31999
    target = probe.folder / "refused.txt"
    await probe.served("ask", _ASK, file=str(target))
    if target.exists():
        raise Warn("the agent went on as if it had been allowed")


async def _answered(probe: AgentProbe, kind: str) -> tuple[AgentTurn, WireMessage, Path]:
    """Play a turn whose permissions are all answered with options of this kind, or as the case has set."""
    target = probe.folder / f"asked-{kind or 'other'}.txt"
    probe.services.choose = kind
    if kind.startswith("reject"):
        probe.services.answers[_ASK] = lambda params: {"outcome": _rejecting(params)}
    turn, asked, end = await probe.served("ask", _ASK, file=str(target))
    if kind:
        # An answer that no client gives may well end the turn with an error.
        expect_stop(end)
    return turn, asked, target


def _rejecting(params: dict[str, Any]) -> dict[str, str]:
    for option in params["options"]:
        if option["kind"].startswith("reject"):
            return {"outcome": "selected", "optionId": option["optionId"]}
    return {"outcome": "cancelled"}


async def _expect_not_run(probe: AgentProbe, kind: str) -> None:
    turn, asked, target = await _answered(probe, kind)
    if kind.startswith("reject") and not any(
        option["kind"].startswith("reject") for option in asked.params.get("options") or ()
    ):
        raise Skip("the agent offers no option that rejects")
    if target.exists():
        raise Fail("the tool was run without permission")
    if "completed" in _statuses(turn, asked):
        raise Warn("the tool call without permission is reported as completed")


def _statuses(turn: AgentTurn, asked: WireMessage) -> list[Any]:
    """Return what became of the tool call after it was asked for."""
    tool_call_id = (asked.params.get("toolCall") or {}).get("toolCallId")
    return [
        update.get("status")
        for update in turn.updates()
        if update.get("toolCallId") == tool_call_id and update.get("status") not in (None, "pending")
    ]
