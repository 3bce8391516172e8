"""Why a run did not end with 0, in a sentence for people and in members for programs.

Owns the words; the code is decided in `ending.py` before anything is said here.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dragoman import errors
from dragoman.cli import exits
from dragoman.cli.entry import is_built_in
from dragoman.cli.exec.exit_code import KINDS, Facts, StartFailed
from dragoman.cli.exec.result import Error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.exec.request import Plan
    from dragoman.policy.decide import Decision


def explain(
    code: int,
    facts: Facts,
    error: Exception | None,
    plan: Plan | None,
    decisions: Sequence[Decision],
    stderr_tail: str,
) -> Error:
    """The `error` of a result whose exit code is `code`."""
    message, hint = _sentence(code, facts, error, plan, decisions)
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
    code: int, facts: Facts, error: Exception | None, plan: Plan | None, decisions: Sequence[Decision]
) -> tuple[str, str]:
    match code:
        case exits.CANCELLED:
            return "cancelled by Ctrl-C", ""
        case exits.TERMINATED:
            return "ended by SIGTERM", ""
        case exits.TIMED_OUT:
            seconds = None if plan is None else plan.options.timeout_seconds
            return f"timed out after {seconds:g} seconds" if seconds else "timed out", "give it more with --timeout"
        case exits.NOBODY_TO_ASK:
            return _unasked(decisions)
        case exits.STOPPED_EARLY:
            return f"the agent stopped: {facts.stop_reason or 'without a reason'}", _after_stop(facts.stop_reason)
        case exits.AUTH_REQUIRED if plan is not None:
            return _without_login(error, plan)
        case exits.AGENT_DIED if isinstance(error, StartFailed):
            return str(error), "dragoman agents doctor says what is missing"
        case _:
            assert error is not None
            failure = exits.failure_of(error)
            return failure.message, failure.hint


def _unasked(decisions: Sequence[Decision]) -> tuple[str, str]:
    unasked = [decision for decision in decisions if decision.is_unasked]
    first = unasked[0]
    more = f" and {len(unasked) - 1} more" if len(unasked) > 1 else ""
    return (
        f"nobody could be asked, so this was cancelled: {first.kind}: {first.title}{more}",
        f"allow it with --allow {first.kind}:PATTERN (see dragoman rules --help), or run this at a terminal",
    )


def _after_stop(stop_reason: str | None) -> str:
    return {
        "max_tokens": "the model's limit of tokens is reached; ask for less at once",
        "max_turn_requests": "the agent's limit of requests is reached; continue with --resume",
        "refusal": "the agent refuses to go on; put it differently",
    }.get(stop_reason or "", "")


def _message(error: Exception | None) -> str:
    return error.message if isinstance(error, errors.RequestError) else str(error)


def _without_login(error: Exception | None, plan: Plan) -> tuple[str, str]:
    if is_built_in(plan.entry):  # what it lacks is a model, and its own words say which keys would give it one
        return _message(error), "dragoman exec --model MODEL, or DRAGOMAN_MODEL in the environment"
    return f"the agent wants a login first: {_message(error)}", _login_hint(error, plan)


def _login_hint(error: Exception | None, plan: Plan) -> str:
    named = plan.entry.source != "command"
    agent = f"-a {shlex.quote(plan.entry.name)}" if named else f"-- {shlex.join(plan.entry.command)}"
    methods = [str(getattr(method, "id", "")) for method in getattr(error, "methods", ())]
    ways = f" (it offers: {', '.join(methods)})" if methods else ""
    return f"dragoman login {agent}{ways}"
