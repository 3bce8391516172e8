"""Expectations that several areas of cases share; each raises a failure that says what came instead."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from dragoman.conformance.case import Fail, Warn
from dragoman.trace.checks import paths

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.conformance.agent.probe import AgentProbe
    from dragoman.conformance.conversation import Message

STOP_REASONS: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
_TURN_UPDATES: Final = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan")


def is_absolute(path: object) -> bool:
    """Whether it is an absolute path, of this system or of another."""
    return isinstance(path, str) and paths.is_absolute(path)


def is_same_path(path: object, other: Path) -> bool:
    """Whether two paths lead to one place; `other` has no links in it."""
    return isinstance(path, str) and os.path.realpath(path) == str(other)


def expect_success(answer: Message, what: str) -> None:
    if answer.is_error:
        raise Fail(f"{what} was answered with an error: {answer}")


def expect_code(answer: Message, code: int, what: str) -> None:
    """A certain error."""
    if answer.code != code:
        raise Fail(f"{what} was answered with {answer}, not with {code}")


def expect_empty(answer: Message, method: str) -> None:
    """A success whose result has nothing in it."""
    expect_success(answer, method)
    if not isinstance(answer.result, dict) or answer.result.keys() - {"_meta"}:
        raise Fail(f"the result of {method} is {answer.result!r}, not an empty object")


def expect_not_found(answer: Message, session_id: str, what: str) -> None:
    """The error for a session that is not there, which names it (rules 119, 342)."""
    expect_code(answer, -32002, what)
    data = answer.error.get("data")
    if not isinstance(data, dict) or data.get("sessionId") != session_id:
        raise Fail(f"the answer to {what} does not name the session in data.sessionId")


def expect_stop(end: Message) -> None:
    """A turn that ended with a stop reason of the protocol."""
    expect_success(end, "the prompt")
    reason = end.fields.get("stopReason")
    if reason not in STOP_REASONS:
        raise Fail(f"the stop reason is {reason!r}")


def expect_cancelled(end: Message) -> None:
    """A turn that ended because it was cancelled."""
    expect_success(end, "the cancelled prompt")
    reason = end.fields.get("stopReason")
    if reason != "cancelled":
        raise Fail(f"the cancelled prompt was answered with the stop reason {reason!r}")


def expect_no_late_updates(probe: AgentProbe, session_id: str, end: Message) -> None:
    """Nothing that belongs to the turn after its answer."""
    for message in probe.incoming[end.index :]:
        update = message.params.get("update") if message.params.get("sessionId") == session_id else None
        if isinstance(update, dict) and update.get("sessionUpdate") in _TURN_UPDATES:
            raise Fail(f"{update['sessionUpdate']} came after the answer to the prompt")


def expect_refused(probe: AgentProbe, mark: int, what: str) -> None:
    """A message that is none, answered with -32600 and survived."""
    if probe.is_over:
        raise Fail(f"{what} ended the agent: {probe.ended}")
    came = probe.responses(mark)
    if not came:
        raise Fail(f"{what} was not answered")
    if came[0].code != -32600:
        raise Warn(f"{what} was answered with {came[0]}, not with -32600")
