"""Expectations that several areas of cases share; each raises a failure that states what came instead."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.conformance.case import Fail
from dragoman.conformance.probe import member_at
from dragoman.trace.checks import paths

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dragoman.conformance.conversation import WireMessage
    from dragoman.conformance.probe import Probe

STOP_REASONS: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
_TURN_UPDATES: Final = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan")


def is_absolute(path: object) -> bool:
    """Whether it is an absolute path, of this system or of another."""
    return isinstance(path, str) and paths.is_absolute(path)


def is_same_path(path: object, other: Path) -> bool:
    """Whether two paths lead to one place; `other` has no links in it."""
    return isinstance(path, str) and os.path.realpath(path) == str(other)


# Answers


def expect_success(answer: WireMessage, what: str) -> None:
    if answer.is_error:
        raise Fail(f"{what} was answered with an error: {answer}")


def expect_code(answer: WireMessage, code: int, what: str) -> None:
    """Expect a certain error."""
    if answer.code != code:
        raise Fail(f"{what} was answered with {answer}, not with {code}")


def expect_empty(answer: WireMessage, method: str) -> None:
    """Expect a success whose result has nothing in it."""
    expect_success(answer, method)
    if not isinstance(answer.result, dict) or answer.result.keys() - {"_meta"}:
        raise Fail(f"the result of {method} is {answer.result!r}, not an empty object")


def expect_not_found(answer: WireMessage, session_id: str, what: str) -> None:
    """Expect the error for a session that is not there, which names it (rules 119, 342)."""
    expect_code(answer, -32002, what)
    data = answer.error.get("data")
    if not isinstance(data, dict) or data.get("sessionId") != session_id:
        raise Fail(f"the answer to {what} does not name the session in data.sessionId")


def expect_stop(end: WireMessage) -> None:
    """Expect a turn that ended with a stop reason of the protocol."""
    expect_success(end, "the prompt")
    reason = end.fields.get("stopReason")
    if reason not in STOP_REASONS:
        raise Fail(f"the stop reason is {reason!r}")


def expect_cancelled(end: WireMessage) -> None:
    """Expect a turn that ended because it was cancelled."""
    expect_success(end, "the cancelled prompt")
    reason = end.fields.get("stopReason")
    if reason != "cancelled":
        raise Fail(f"the cancelled prompt was answered with the stop reason {reason!r}")


# What came since a mark


def expect_unanswered(probe: Probe, mark: int, what: str) -> None:
    """Expect no response since the mark."""
    came = probe.responses(mark)
    if came:
        raise Fail(f"{what} was answered: {came[0]}")


def expect_answered_once(probe: Probe, id: object, mark: int, what: str) -> None:
    """Expect exactly one response to the request `id` since the mark."""
    count = len(probe.answers_to(id, mark))
    if count != 1:
        raise Fail(f"{what} was answered {count} times")


def expect_no_late_updates(probe: Probe, session_id: str, end: WireMessage) -> None:
    """Expect nothing that belongs to the turn after its answer."""
    for message in probe.incoming[end.index :]:
        update = message.params.get("update") if message.params.get("sessionId") == session_id else None
        if isinstance(update, dict) and update.get("sessionUpdate") in _TURN_UPDATES:
            raise Fail(f"{update['sessionUpdate']} came after the answer to the prompt")


def expect_one_error(probe: Probe, mark: int, code: int, what: str, *, judged: str) -> None:
    """Expect one error with this code and a null id since the mark, and a living connection; `judged` is what ended."""
    if probe.is_over:
        raise Fail(f"{what} ended the {judged}: {probe.ended}")
    errors = [response for response in probe.responses(mark) if response.is_error]
    if not errors:
        raise Fail(f"{what} was not answered")
    if len(errors) > 1:
        raise Fail(f"{what} was answered {len(errors)} times")
    if errors[0].code != code or errors[0].body.get("id", msgspec.UNSET) is not None:
        raise Fail(f"{what} was answered with {errors[0]}, not with {code} and the id null")


# Capabilities


def expect_capability_types(capabilities: Any, flags: Iterable[str], markers: Iterable[str]) -> None:
    """Expect flags that are booleans and markers that are objects, where they are present."""
    for path in flags:
        value = member_at(capabilities, path)
        if value is not None and not isinstance(value, bool):
            raise Fail(f"{path} is {value!r}, which is not a boolean")
    for path in markers:
        value = member_at(capabilities, path)
        if value is not None and not isinstance(value, dict):
            raise Fail(f"{path} is {value!r}; a supported one is an object, `{{}}`")
