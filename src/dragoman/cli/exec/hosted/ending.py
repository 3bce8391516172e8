"""What the end of a hosted turn means: the exit code and the error, as plain `exec` has them.

Owns the translation of the host's answers. The order of exit codes is `exit_code.py`'s, and the wording `error.py`'s
where the cause is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman import errors
from dragoman.cli import exits
from dragoman.cli.console import write_error, write_note
from dragoman.cli.exec.error import explain
from dragoman.cli.exec.exit_code import KINDS, RunFacts, exit_code_of, note_error
from dragoman.host.local.permit import logout_warning_here
from dragoman.host.local.start import NoHost
from dragoman.host.local.thin import HostLost, HostRefused
from dragoman.runs.result import Error
from dragoman.text.secrets import known_keys

if TYPE_CHECKING:
    from dragoman.cli.exec.hosted.turn import HostedEnd, HostedTurn, TurnRequest

_GONE = ("agent_exited", "agent_lost", "agent_start", "interrupted", "not_run")
_USAGE = {
    "busy": "--queue waits behind it; dragoman sessions watch shows it, dragoman sessions cancel ends it",
    "queue_full": "try again later; dragoman sessions cancel ends the turn that runs",
    "store": "see the log of the host: dragoman sessions --host",
}


def facts_of(end: HostedEnd, *, fails_on_deny: bool = False) -> RunFacts:
    """What was observed, in the terms of `exec`."""
    facts = RunFacts(
        signal=end.signal, is_timed_out=end.is_timed_out, is_empty=end.is_empty, stop_reason=end.stop_reason
    )
    if end.error is not None:
        note_error(facts, as_error(end.error))
    decisions = decisions_of(end)
    facts.could_not_ask = not end.could_ask and any(each.get("isUnasked") for each in decisions)
    facts.was_denied = fails_on_deny and any(each.get("action") == "deny" for each in decisions)
    facts.has_violation = bool(end.report.get("changes") or end.violations)
    return facts


def decisions_of(end: HostedEnd) -> list[dict[str, Any]]:
    found = end.report.get("decisions")
    return found if isinstance(found, list) else []


def as_error(error: Exception) -> Exception:
    """The exception of `dragoman.errors` that an answer of the host stands for."""
    if isinstance(error, HostLost):
        return errors.ConnectionClosed(f"{error}; its log says why: dragoman sessions --host")
    if isinstance(error, NoHost):
        return exits.cli_error_of(error)
    if not isinstance(error, HostRefused):
        return error
    if error.reason in _USAGE:
        return exits.CliError(str(error), hint=_USAGE[error.reason])
    if error.reason in _GONE:
        return errors.ConnectionClosed(str(error))
    return errors.RequestError(error.code, str(error), error.data or None)


def error_of(code: int, facts: RunFacts, end: HostedEnd) -> Error:
    """The `error` of a result whose exit code is `code`."""
    decisions = decisions_of(end)
    if code == exits.CANNOT_ASK:
        unasked = [each for each in decisions if each.get("isUnasked")]
        sentence = f"no user could be asked, so this was cancelled: {_named(unasked)}"
        return _error(code, sentence, "open the session with --allow RULE, or answer at a terminal")
    if code == exits.DENIED:
        denied = [each for each in decisions if each.get("action") == "deny"]
        return _error(code, f"this was denied: {_named(denied)}", "leave out --fail-on-deny if that is not a failure")
    if code == exits.VIOLATION and end.violations:
        first = end.violations[0]
        sentence = f"the agent did what {first.decided_by} denies: {first.kind}: {first.title}{_more(end.violations)}"
        return _error(code, sentence, "this agent acts without asking: set its own permissions")
    if code == exits.VIOLATION:
        changes = end.report["changes"]
        kept = changes[0].get("kept")
        return _error(
            code,
            f"a protected file was changed without a permission: {changes[0].get('path')}{_more(changes)}",
            f"the old content is in {kept}" if kept and not changes[0].get("isRestored") else "",
        )
    return explain(code, facts, None if end.error is None else as_error(end.error), None, None, "")


def _error(code: int, message: str, hint: str) -> Error:
    return Error(kind=KINDS[code], message=message, hint=hint or None)  # type: ignore[arg-type]  # KINDS has these


def _named(found: list[dict[str, Any]]) -> str:
    first = found[0]
    what = first.get("command") or ", ".join(map(str, first.get("paths") or ())) or first.get("title")
    return f"{first.get('kind')}: {what}{_more(found)}"


def _more(found: list[Any]) -> str:
    return f" and {len(found) - 1} more" if len(found) > 1 else ""


def note_decision(decision: dict[str, Any]) -> str:
    """A decision of the host as a line."""
    done = {"allow": "allowed", "deny": "denied"}.get(str(decision.get("action")), "cancelled")
    return f"{done} {_named([decision])} ({decision.get('decidedBy')})"


def finish_text(turn: HostedTurn, end: HostedEnd, *, is_quiet: bool = False, fails_on_deny: bool = False) -> int:
    """Say on stderr how a turn ended whose answer is text; gives the exit code."""
    facts = facts_of(end, fails_on_deny=fails_on_deny)
    code = exit_code_of(facts)
    if not is_quiet:
        for decision in decisions_of(end):
            write_note(known_keys.mask(note_decision(decision)))
    if code != exits.OK:
        found = error_of(code, facts, end)
        write_error(known_keys.mask(found.message), known_keys.mask(found.hint or ""))
    return code


def note_queued(request: TurnRequest) -> None:
    """Say that a prompt is queued, and what can be done now."""
    write_note(f"queued; to follow it: dragoman sessions watch {request.name}")
    warning = logout_warning_here(runs=True)
    if warning:
        write_note(warning)
