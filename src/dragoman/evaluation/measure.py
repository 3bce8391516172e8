"""What is measured of a run: from the result of `dragoman exec` and from the recording.

Owns where each number comes from. A number that the agent did not report stays None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.evaluation.results import Measured, ProtocolViolation, Tokens, ToolCount
from dragoman.trace.entry import Frame, TraceError
from dragoman.trace.reader import open_trace
from dragoman.trace.violations import PassiveChecker

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.evaluation.drive import Driven
    from dragoman.trace.reader import Trace

_ANSWERING: Final = frozenset({"agent_message_chunk", "agent_thought_chunk", "tool_call", "plan"})
_OWN_NAME: Final = "dragoman"


def measure(driven: Driven, recording: Path) -> Measured:
    """Return the facts of a run, but for what the work folder shows."""
    facts = from_result(driven.result)
    facts.seconds = round(driven.seconds, 3)
    facts.cpu_seconds = None if driven.cpu_seconds is None else round(driven.cpu_seconds, 3)
    facts.processes_left = list(driven.left)
    try:
        trace = open_trace(recording)
    except (TraceError, OSError):
        return facts
    _note_times(facts, trace)
    facts.protocol_violations = _violations(trace)
    return facts


def from_result(result: dict[str, Any]) -> Measured:
    """Return the facts that the result of `dragoman exec` states."""
    usage: dict[str, Any] = result.get("usage") or {}
    cost: dict[str, Any] = usage.get("cost") or {}
    calls: list[dict[str, Any]] = result.get("tool_calls") or []
    asked = [permission for permission in result.get("permissions") or [] if permission.get("options")]
    refused = {permission.get("tool_call_id") for permission in asked if permission.get("action") != "allow"}
    commands = result.get("commands") or []
    has_sandbox = (result.get("sandbox") or {}).get("backend") is not None
    return Measured(
        stop_reason=result.get("stop_reason"),
        turns=1 if (result.get("durations") or {}).get("turn_ms") is not None else 0,
        tool_calls=len(calls),
        tools=_by_kind(calls),
        edits_failed=sum(
            call.get("kind") == "edit" and call.get("status") == "failed" and call.get("id") not in refused
            for call in calls
        ),
        tokens=_tokens(usage),
        cost=cost.get("amount"),
        currency=cost.get("currency"),
        permissions_asked=len(asked),
        permissions_allowed=sum(permission.get("action") == "allow" for permission in asked),
        permissions_refused=sum(permission.get("action") != "allow" for permission in asked),
        rule_violations=len(result.get("violations") or ()),
        sandbox_refusals=sum(len(command.get("refused") or ()) for command in commands) if has_sandbox else None,
    )


def _by_kind(calls: list[dict[str, Any]]) -> dict[str, ToolCount]:
    found: dict[str, ToolCount] = {}
    for call in calls:
        count = found.setdefault(str(call.get("kind") or "other"), ToolCount())
        match call.get("status"):
            case "completed":
                count.completed += 1
            case "failed":
                count.failed += 1
            case _:
                count.open += 1
    return found


def _tokens(usage: dict[str, Any]) -> Tokens | None:
    names = ("input", "output", "thought", "cached_read", "cached_write", "total")
    found = {name: usage.get(f"{name}_tokens") for name in names}
    return Tokens(**found) if any(value is not None for value in found.values()) else None


def _note_times(facts: Measured, trace: Trace) -> None:
    """Note the time to the first chunk and, for the built-in agent, how often its model was called."""
    prompted: float | None = None
    calls, is_ours = 0, False
    for entry in trace.entries:
        if not isinstance(entry, Frame):
            continue
        message = _decoded(entry.data)
        if entry.dir == "c2a":
            prompted = entry.t if message.get("method") == "session/prompt" else prompted
            continue
        result = message.get("result")
        if isinstance(result, dict) and isinstance(result.get("agentInfo"), dict):
            is_ours = result["agentInfo"].get("name") == _OWN_NAME
        kind = _update_kind(message)
        if prompted is not None and kind in _ANSWERING and facts.first_chunk_seconds is None:
            facts.first_chunk_seconds = round(entry.t - prompted, 3)
        calls += kind == "usage_update" and prompted is not None
    # It reports its usage after each call of the model; other agents report when they like.
    facts.model_calls = calls if is_ours else None


def _update_kind(message: dict[str, Any]) -> str:
    params = message.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    return str(update.get("sessionUpdate")) if isinstance(update, dict) else ""


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _violations(trace: Trace) -> list[ProtocolViolation]:
    checker = PassiveChecker()
    checker.begin(trace.header)
    found = [finding for entry in trace.entries for finding in checker.feed(entry)]
    found += checker.finish()
    return [
        ProtocolViolation(finding.rule, finding.level, finding.message)
        for finding in found
        if finding.is_failure and finding.dir == "a2c"
    ]


def holds_secret(secret: str, recording: Path, work: Path) -> bool:
    """Whether a secret is in what the agent sent, or in a file of the work folder."""
    wanted = secret.encode()
    try:
        frames = [
            entry.data for entry in open_trace(recording).entries if isinstance(entry, Frame) and entry.dir == "a2c"
        ]
    except (TraceError, OSError):
        frames = []
    if any(wanted in data for data in frames):
        return True
    return any(wanted in _bytes(path) for path in work.rglob("*") if path.is_file() and not path.is_symlink())


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
