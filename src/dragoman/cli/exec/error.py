"""The `error` of a result: why the exit code is not 0, as a sentence for people and as members for programs.

Owns the wording. The exit code is decided in `exit_code.py`.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dragoman import errors
from dragoman.cli import exits
from dragoman.cli.exec.exit_code import KINDS, RunFacts, StartFailed
from dragoman.cli.exec.hints import hint_for
from dragoman.cli.exec.result import Error
from dragoman.cli.named_agent import is_built_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.exec.connection import RunConnection
    from dragoman.cli.exec.permission import RunPermissions
    from dragoman.cli.exec.request import RunRequest
    from dragoman.cli.exec.result import RunViolation


def explain(
    code: int,
    facts: RunFacts,
    error: Exception | None,
    request: RunRequest | None,
    conn: RunConnection | None,
    stderr_tail: str,
) -> Error:
    """Build the `error` of a result whose exit code is `code`."""
    permissions, violations = (None, ()) if conn is None else (conn.permissions, conn.violations.found)
    message, hint = _sentence(code, facts, error, request, permissions, violations)
    found = Error(kind=KINDS[code], message=message, hint=hint or None)  # type: ignore[arg-type]  # KINDS has these
    if isinstance(error, errors.RequestError):
        found.code, found.data = error.code, error.data
    if isinstance(error, errors.AgentExited):
        found.returncode, found.stderr_tail = error.returncode, error.stderr_tail or None
    elif code == exits.AGENT_DIED:
        found.stderr_tail = stderr_tail or None
    if isinstance(error, errors.AuthRequired):
        found.login_methods = [str(getattr(method, "id", "")) for method in error.methods]
    return found


def _sentence(
    code: int,
    facts: RunFacts,
    error: Exception | None,
    request: RunRequest | None,
    permissions: RunPermissions | None,
    violations: Sequence[RunViolation],
) -> tuple[str, str]:
    match code:
        case exits.CANCELLED | exits.TERMINATED:
            return "cancelled by Ctrl-C" if code == exits.CANCELLED else "ended by SIGTERM", ""
        case exits.TIMED_OUT:
            seconds = None if request is None else request.options.timeout_seconds
            return f"timed out after {seconds:g} seconds" if seconds else "timed out", "allow more time with --timeout"
        case exits.VIOLATION if violations:
            return _violated(violations)
        case exits.CANNOT_ASK | exits.DENIED if permissions is not None:
            return _unasked(permissions) if code == exits.CANNOT_ASK else _denied(permissions)
        case exits.STOPPED_EARLY:
            return f"the agent stopped: {facts.stop_reason or 'without a reason'}", _after_stop(facts.stop_reason)
        case exits.AUTH_REQUIRED if request is not None:
            return _without_login(error, request)
        case exits.AGENT_DIED if isinstance(error, StartFailed):
            return str(error), "see what is missing: dragoman agents doctor"
        case _:
            assert error is not None
            failure = exits.cli_error_of(error)
            return failure.message, failure.hint


def _unasked(permissions: RunPermissions) -> tuple[str, str]:
    unasked = [decision for decision in permissions.decisions if decision.is_unasked]
    first = unasked[0]
    sentence = f"no user could be asked, so this was cancelled: {first.kind}: {first.title}{_more(unasked)}"
    return sentence, hint_for(permissions.rules, permissions.unasked[0])


def _denied(permissions: RunPermissions) -> tuple[str, str]:
    denied = [decision for decision in permissions.decisions if decision.action == "deny"]
    first = f"{denied[0].kind}: {denied[0].title} ({denied[0].decided_by})"
    return f"this was denied: {first}{_more(denied)}", "leave out --fail-on-deny if that is not a failure"


def _violated(violations: Sequence[RunViolation]) -> tuple[str, str]:
    first = violations[0]
    return (
        f"the agent did what {first.decided_by} denies: {first.kind}: {first.title}{_more(violations)}",
        "this agent acts without asking: set its own permissions, or run it in a sandbox",
    )


def _more(found: Sequence[object]) -> str:
    return f" and {len(found) - 1} more" if len(found) > 1 else ""


def _after_stop(stop_reason: str | None) -> str:
    return {
        "max_tokens": "the model reached its token limit; ask for less at once",
        "max_turn_requests": "the agent reached its request limit; continue with --resume",
        "refusal": "the agent refuses to continue; change the prompt",
    }.get(stop_reason or "", "")


def _message(error: Exception | None) -> str:
    return error.message if isinstance(error, errors.RequestError) else str(error)


def _without_login(error: Exception | None, request: RunRequest) -> tuple[str, str]:
    if is_built_in(request.entry):  # it has no model, and its message says which keys would provide one
        return _message(error), "dragoman exec --model MODEL, or DRAGOMAN_MODEL in the environment"
    return f"the agent requires a login: {_message(error)}", _login_hint(error, request)


def _login_hint(error: Exception | None, request: RunRequest) -> str:
    named = request.entry.source != "command"
    agent = f"-a {shlex.quote(request.entry.name)}" if named else f"-- {shlex.join(request.entry.command)}"
    methods = [str(getattr(method, "id", "")) for method in getattr(error, "methods", ())]
    ways = f" (it offers: {', '.join(methods)})" if methods else ""
    return f"dragoman login {agent}{ways}"
