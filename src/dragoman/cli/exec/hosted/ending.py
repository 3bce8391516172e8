"""What the end of a hosted turn means: the exit code and the error, as plain `exec` has them.

Owns the translation of the host's answers. The order of exit codes is `exit_code.py`'s, and the wording `error.py`'s
where the cause is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import convert, json

from dragoman import errors
from dragoman.cli import exits
from dragoman.cli.console import write_note
from dragoman.cli.exec.activity import Activity
from dragoman.cli.exec.error import explain
from dragoman.cli.exec.exit_code import RunFacts, StartFailed, exit_code_of, note_error
from dragoman.cli.exec.options import Options
from dragoman.cli.exec.view import ExecView
from dragoman.cli.prompt.subject import subject
from dragoman.host.local.permit import logout_warning_here
from dragoman.host.local.start import NoHost
from dragoman.host.local.thin import HostLost, HostRefused
from dragoman.policy.decide import ASKING_FAILED, NO_USER
from dragoman.runs.result import Error, RunPermission, RunResult, RunUnjudged, RunViolation, project_code
from dragoman.schema import decode, v1
from dragoman.state import SessionState, fold
from dragoman.text.secrets import known_keys

if TYPE_CHECKING:
    from dragoman.cli.exec.activity import Doing
    from dragoman.cli.exec.hosted.turn import HostedEnd, TurnRequest
    from dragoman.registry.agents import AgentEntry

_UNASKED = (NO_USER, ASKING_FAILED)
_GONE = ("agent_exited", "agent_lost", "agent_start", "interrupted", "not_run")
_USAGE = {
    "busy": "--queue waits behind it; dragoman sessions watch shows it, dragoman sessions cancel ends it",
    "queue_full": "try again later; dragoman sessions cancel ends the turn that runs",
    "store": "see the log of the host: dragoman sessions --host",
    "draining": "it was not begun; send it again when the host, or the one after it, takes work",
}


def facts_of(end: HostedEnd, *, fails_on_deny: bool = False, stops_on_violation: bool = False) -> RunFacts:
    """Return what was observed, in the terms of `exec`."""
    facts = RunFacts(
        signal=end.signal,
        is_timed_out=end.is_timed_out,
        waiting_for=end.waiting_for,
        is_empty=end.is_empty,
        lost_messages=int(end.report.get("lostMessages") or 0),
        stop_reason=end.stop_reason,
    )
    if end.error is not None:
        note_error(facts, as_error(end.error))
    permissions = end.report.get("permissions") or ()
    facts.could_not_ask = not end.could_ask and any(made["decided_by"] in _UNASKED for made in permissions)
    facts.was_denied = fails_on_deny and any(made["action"] == "deny" for made in permissions)
    facts.has_violation = bool(end.report.get("violations"))
    facts.has_unjudged = stops_on_violation and bool(end.report.get("unjudged"))
    return facts


def doing_in(tool_updates: list[dict[str, Any]]) -> Doing:
    """Return what a turn waits for, by the tool calls that it has reported so far."""
    state = SessionState()
    state.begin_turn([])
    for update in tool_updates:
        fold(state, decode(v1.SessionUpdate, json.encode(update)))
    activity = Activity()
    activity.enter("working")
    return activity.now(state)


def as_error(error: Exception, agent: str = "") -> Exception:
    """Return the exception of `dragoman.errors` that an answer of the host stands for; `agent` as the host names it."""
    if isinstance(error, HostLost):
        return errors.ConnectionClosed(f"{error}; its log says why: dragoman sessions --host")
    if isinstance(error, NoHost):
        return exits.cli_error_of(error)
    if not isinstance(error, HostRefused):
        return error
    if error.reason in _USAGE:
        return exits.CliError(str(error), hint=_USAGE[error.reason])
    if error.reason in _GONE:
        return _death(error, agent)
    if error.code == errors.AUTH_REQUIRED:
        data = {name: value for name, value in error.data.items() if name != "authMethods"}  # those the host added
        offered = [str(method.get("id")).removeprefix(f"{agent}/") for method in error.data.get("authMethods") or ()]
        methods = [v1.AuthMethodAgent(id=id, name=id) for id in offered]
        return errors.AuthRequired(str(error), data or None, methods)
    return errors.RequestError(error.code, str(error), error.data or None)


def _death(error: HostRefused, agent: str) -> errors.DragomanError:
    code = error.data.get("exitCode")
    if code is not None:
        return errors.AgentExited(code, "".join(f"{line}\n" for line in error.data.get("stderr") or ()))
    if error.reason == "agent_start":
        return StartFailed(str(error).removeprefix(f"{agent} could not be started: "))
    return errors.ConnectionClosed(str(error))


def entry_of(session: dict[str, Any], cwd: str) -> AgentEntry | None:
    """Return the agent of a session, as the settings have it; None if they have it no more, or nothing was opened."""
    from dragoman.host.local.agents import find_entry

    try:
        return find_entry(session["agent"], cwd)[0] if session.get("agent") else None
    except errors.ConfigError:
        return None


def error_of(code: int, facts: RunFacts, end: HostedEnd, options: Options, session: dict[str, Any]) -> Error:
    """Return the `error` of a result whose exit code is `code`."""
    result = RunResult.nothing()
    result.permissions = permissions_of(end)
    result.violations = convert(end.report.get("violations") or [], list[RunViolation])
    result.unjudged = convert(end.report.get("unjudged") or [], list[RunUnjudged])
    error = None if end.error is None else as_error(end.error, str(session.get("agent")))
    entry = entry_of(session, options.cwd) if code == exits.AUTH_REQUIRED else None
    hint = str(end.report.get("unaskedHint") or "")
    tail = str(end.report.get("stderrTail") or "")
    return explain(code, facts, error, result, options=options, entry=entry, unasked_hint=hint, stderr_tail=tail)


def permissions_of(end: HostedEnd) -> list[RunPermission]:
    """Return what the host decided in the turn."""
    return convert(end.report.get("permissions") or [], list[RunPermission])


def note_permissions(end: HostedEnd, root: str) -> None:
    """Write what the host decided in the turn as lines; paths are shown relative to `root`."""
    for made in permissions_of(end):
        done = {"allow": "allowed", "deny": "denied"}.get(made.action, "cancelled")
        write_note(known_keys.mask(f"{done} {made.kind}: {subject(made, root)} ({made.decided_by})"))


def finish_text(end: HostedEnd, request: TurnRequest, *, is_quiet: bool = False) -> int:
    """Write to stderr how a turn ended whose answer is text; gives the exit code."""
    facts = facts_of(end)
    code = exit_code_of(facts)
    if not is_quiet:
        note_permissions(end, request.cwd)
        if ran := project_code(permissions_of(end)):
            from dragoman.policy.project_code import listed

            write_note(known_keys.mask(listed(ran)))
    if code != exits.OK:
        result = RunResult.nothing()
        result.exit_code = code
        options = Options(cwd=request.cwd, timeout_seconds=request.timeout_seconds)
        error = error_of(code, facts, end, options, request.session)
        ExecView("text").explain(result, error)
    return code


def note_queued(request: TurnRequest) -> None:
    """Say that a prompt is queued, and what can be done now."""
    write_note(f"queued; to follow it: dragoman sessions watch {request.name}")
    warning = logout_warning_here(runs=True)
    if warning:
        write_note(warning)
