"""The `error` of a result: why the exit code is not 0, as a sentence for people and as members for programs.

Owns the wording. The exit code is decided in `exit_code.py`.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dragoman import errors
from dragoman.cli import exits
from dragoman.cli.exec.activity import Doing
from dragoman.cli.exec.cause import cause_of
from dragoman.cli.exec.exit_code import KINDS, RunFacts, StartFailed
from dragoman.cli.prompt.subject import subject
from dragoman.registry.built_in import is_built_in
from dragoman.runs.result import Error, RunWaiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.exec.connection import RunConnection
    from dragoman.cli.exec.late_permissions import LatePermissions
    from dragoman.cli.exec.request import RunRequest
    from dragoman.runs.result import RunViolation


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
        found.code, found.data, found.cause = error.code, error.data, cause_of(error.data)
    if isinstance(error, errors.AgentExited):
        found.returncode, found.stderr_tail = error.returncode, error.stderr_tail or None
    elif code == exits.AGENT_DIED or found.code == errors.INTERNAL_ERROR or facts.is_empty:
        # The agent itself failed, and its log is the only place that may say how.
        found.stderr_tail = stderr_tail or None
    if code == exits.TIMED_OUT and facts.waiting_for[0]:
        what, name = facts.waiting_for
        found.waiting_for = RunWaiting(what, name or None)  # type: ignore[arg-type]  # only these are noted
    if isinstance(error, errors.AuthRequired):
        found.login_methods = [str(getattr(method, "id", "")) for method in error.methods]
    return found


def _sentence(
    code: int,
    facts: RunFacts,
    error: Exception | None,
    request: RunRequest | None,
    permissions: LatePermissions | None,
    violations: Sequence[RunViolation],
) -> tuple[str, str]:
    match code:
        case exits.CANCELLED | exits.TERMINATED:
            return "cancelled by Ctrl-C" if code == exits.CANCELLED else "ended by SIGTERM", ""
        case exits.TIMED_OUT:
            return _timed_out(facts, request)
        case exits.VIOLATION if violations:
            return _violated(violations)
        case exits.CANNOT_ASK | exits.DENIED if permissions is not None:
            return _unasked(permissions) if code == exits.CANNOT_ASK else _denied(permissions)
        case exits.STOPPED_EARLY:
            return _stopped(facts)
        case exits.AUTH_REQUIRED if request is not None:
            return _without_login(error, request)
        case exits.AGENT_DIED if isinstance(error, StartFailed):
            return str(error), "see what is missing: dragoman agents doctor"
        case _:
            assert error is not None
            failure = exits.cli_error_of(error)
            if isinstance(error, errors.RequestError):
                failure.message = f"{_with_cause(error)} ({error.code})"
            elif isinstance(error, errors.RemoteProtocolError):
                failure.message, failure.hint = _other_version(failure.message, failure.hint)
            return failure.message, failure.hint


def _other_version(message: str, hint: str) -> tuple[str, str]:
    """The sentence of an agent that speaks another version; its remedy becomes the option of this command."""
    sentence, is_about_versions, remedy = message.partition("; connect with protocol ")
    return (sentence, f"use --protocol {remedy}") if is_about_versions else (message, hint)


def _timed_out(facts: RunFacts, request: RunRequest | None) -> tuple[str, str]:
    seconds = None if request is None else request.options.timeout_seconds
    what, name = facts.waiting_for
    after = f" after {seconds:g} seconds" if seconds else ""
    waiting = f" while waiting for {Doing(what, name).phrase}" if what else ""  # type: ignore[arg-type]  # see above
    return f"timed out{after}{waiting}", "allow more time with --timeout"


def _with_cause(error: errors.RequestError) -> str:
    """Return the agent's message with the cause in its data, unless the message has it already."""
    cause = cause_of(error.data)  # on one line, and cut
    message = " ".join(error.message.split())
    is_new = cause is not None and cause.removesuffix("…") not in message
    return f"{error.message}: {cause}" if is_new else error.message


def _unasked(permissions: LatePermissions) -> tuple[str, str]:
    from dragoman.cli.exec.hints import hint_for

    unasked = [decision for decision in permissions.decisions if decision.is_unasked]
    first = unasked[0]
    sentence = f"no user could be asked, so this was cancelled: {first.kind}: {subject(first)}{_more(unasked)}"
    made = permissions.get()
    return sentence, hint_for(made.rules, made.unasked[0])


def _denied(permissions: LatePermissions) -> tuple[str, str]:
    denied = [decision for decision in permissions.decisions if decision.action == "deny"]
    first = f"{denied[0].kind}: {subject(denied[0])} ({denied[0].decided_by})"
    return f"this was denied: {first}{_more(denied)}", "leave out --fail-on-deny if that is not a failure"


def _violated(violations: Sequence[RunViolation]) -> tuple[str, str]:
    first = violations[0]
    if first.rule is None:
        return (
            f"a protected file was changed without a permission: {first.title}{_more(violations)}",
            f"the old content is in {first.kept}" if first.kept and not first.is_restored else "",
        )
    return (
        f"the agent did what {first.decided_by} denies: {first.kind}: {first.title}{_more(violations)}",
        "this agent acts without asking: set its own permissions, or limit it with --sandbox-agent",
    )


def _more(found: Sequence[object]) -> str:
    return f" and {len(found) - 1} more" if len(found) > 1 else ""


def _stopped(facts: RunFacts) -> tuple[str, str]:
    if facts.is_empty:
        return (
            "the agent ended its turn without an answer: no text, no tool call and no usage",
            "its model may have failed: see the agent's log with --verbose, or try again with --retries 2",
        )
    return f"the agent stopped: {facts.stop_reason or 'without a reason'}", _after_stop(facts.stop_reason)


def _after_stop(stop_reason: str | None) -> str:
    return {
        "max_tokens": "the model reached its token limit; ask for less at once",
        "max_turn_requests": "the agent reached its request limit; continue with --resume",
        "refusal": "the agent refuses to continue; change the prompt",
    }.get(stop_reason or "", "")


def _message(error: Exception | None) -> str:
    return _with_cause(error) if isinstance(error, errors.RequestError) else str(error)


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
