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
from dragoman.policy.decide import ASKING_FAILED, NO_USER
from dragoman.registry.built_in import is_built_in
from dragoman.runs.result import Error, RunWaiting
from dragoman.wire import LIMIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.exec.options import Options
    from dragoman.registry.agents import AgentEntry
    from dragoman.runs.result import RunPermission, RunResult, RunUnjudged, RunViolation


def explain(
    code: int,
    facts: RunFacts,
    error: Exception | None,
    result: RunResult,
    *,
    options: Options | None = None,
    entry: AgentEntry | None = None,
    unasked_hint: str = "",
    stderr_tail: str = "",
) -> Error:
    """Build the `error` of a result whose exit code is `code`.

    Args:
        code: the exit code.
        facts: what it follows from.
        error: what ended the run, if an exception did.
        result: what is known of the turn.
        options: of the run, if they could be read.
        entry: the agent, if it is known.
        unasked_hint: what the user can do about a request that no user could be asked about.
        stderr_tail: the end of what the agent wrote to stderr.
    """
    message, hint = _sentence(code, facts, error, result, options, entry, unasked_hint)
    is_unjudged = code == exits.VIOLATION and not result.violations
    kind = "unjudged" if is_unjudged else KINDS[code]
    found = Error(kind=kind, message=message, hint=hint or None)  # type: ignore[arg-type]  # KINDS has these
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
    result: RunResult,
    options: Options | None,
    entry: AgentEntry | None,
    unasked_hint: str,
) -> tuple[str, str]:
    match code:
        case exits.CANCELLED | exits.TERMINATED:
            return "cancelled by Ctrl-C" if code == exits.CANCELLED else "ended by SIGTERM", ""
        case exits.TIMED_OUT:
            return _timed_out(facts, None if options is None else options.timeout_seconds)
        case exits.VIOLATION if result.violations or result.unjudged:
            return _violated(result.violations) if result.violations else _unjudged(result.unjudged)
        case exits.CANNOT_ASK | exits.DENIED:
            return _refused(code, result.permissions, unasked_hint)
        case exits.STOPPED_EARLY:
            return _stopped(facts)
        case exits.AUTH_REQUIRED if entry is not None:
            return _without_login(error, entry, options)
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
    """Return the sentence of an agent that speaks another version; its remedy becomes the option of this command."""
    sentence, is_about_versions, remedy = message.partition("; connect with protocol ")
    return (sentence, f"use --protocol {remedy}") if is_about_versions else (message, hint)


def _timed_out(facts: RunFacts, seconds: float | None) -> tuple[str, str]:
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


def _refused(code: int, permissions: Sequence[RunPermission], unasked_hint: str) -> tuple[str, str]:
    if code == exits.CANNOT_ASK:
        unasked = [found for found in permissions if found.decided_by in (NO_USER, ASKING_FAILED)]
        first = f"{unasked[0].kind}: {subject(unasked[0])}"
        return f"no user could be asked, so this was cancelled: {first}{_more(_times(unasked))}", unasked_hint
    denied = [found for found in permissions if found.action == "deny"]
    first = f"{denied[0].kind}: {subject(denied[0])} ({denied[0].decided_by})"
    return f"this was denied: {first}{_more(_times(denied))}", "leave out --fail-on-deny if that is not a failure"


def _times(permissions: Sequence[RunPermission]) -> int:
    return sum(found.count for found in permissions)


def _violated(violations: Sequence[RunViolation]) -> tuple[str, str]:
    first = violations[0]
    if first.rule is None:
        return (
            f"a protected file was changed without a permission: {first.title}{_more(len(violations))}",
            f"the old content is in {first.kept}" if first.kept and not first.is_restored else "",
        )
    return (
        f"the agent did what {first.decided_by} denies: {first.kind}: {first.title}{_more(len(violations))}",
        "this agent acts without asking: set its own permissions, or limit it with --sandbox-agent",
    )


def _unjudged(unjudged: Sequence[RunUnjudged]) -> tuple[str, str]:
    first = unjudged[0]
    return (
        f"the agent did what cannot be judged: {first.kind}: {first.title}: {first.why}, and {first.decided_by} may "
        f"concern it{_more(len(unjudged))}",
        "this agent acts without asking: set its own permissions, or limit it with --sandbox-agent",
    )


def _more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""


def _stopped(facts: RunFacts) -> tuple[str, str]:
    if facts.is_empty and facts.lost_messages:
        count = f"{facts.lost_messages} messages" if facts.lost_messages > 1 else "a message"
        return (
            f"nothing of the agent's answer is left: {count} of this turn could not be read",
            f"a warning on stderr says why; a message of an agent may have {LIMIT_BYTES >> 20} MiB",
        )
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


def _without_login(error: Exception | None, entry: AgentEntry, options: Options | None) -> tuple[str, str]:
    if is_built_in(entry):  # its message says which key is missing or wrong, and where it came from
        data = getattr(error, "data", None)
        methods = data.get("methods") if isinstance(data, dict) else None
        if isinstance(methods, list) and len(methods) == 1:
            return _message(error), "a model of another provider: --model PROVIDER:MODEL"
        if options is not None and options.agent is None and options.command is None and options.model is None:
            own = "for the built-in one no model is named and no key of a provider is set or stored"
            return f"no agent is named, and {own}", _one_command()
        return _message(error), "dragoman agent login, or --model PROVIDER:MODEL, or DRAGOMAN_MODEL in the environment"
    return f"the agent requires a login: {_message(error)}", _login_hint(error, entry)


def _one_command() -> str:
    """Return the command for a user for whom nothing is set up: with an agent that is ready here, else for a key."""
    from dragoman.tui.start.welcome import ready_agent

    name = ready_agent()
    return f"dragoman exec -a {shlex.quote(name)} PROMPT" if name else "dragoman agent login"


def _login_hint(error: Exception | None, entry: AgentEntry) -> str:
    named = entry.source != "command"
    agent = f"-a {shlex.quote(entry.name)}" if named else f"-- {shlex.join(entry.command)}"
    methods = [str(getattr(method, "id", "")) for method in getattr(error, "methods", ())]
    ways = f" (it offers: {', '.join(methods)})" if methods else ""
    return f"dragoman login {agent}{ways}"
