"""What was observed about the end of a run, and the exit code that follows from it.

Several facts can be true of one run; the order in which they are tested is part of the contract of `dragoman exec`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from dragoman import errors
from dragoman.cli import exits

END_TURN: Final = "end_turn"


class RunFacts(Struct):
    """What was observed during a run."""

    signal: int = 0
    """The signal that cancelled the run, 0 for none."""
    is_timed_out: bool = False
    is_wrong_usage: bool = False
    has_violation: bool = False
    """The agent did something although a rule denies it."""
    has_unjudged: bool = False
    """The agent did something that cannot be judged, and `--stop-on-violation` makes that a failure."""
    is_agent_gone: bool = False
    is_login_needed: bool = False
    is_agent_error: bool = False
    is_bug: bool = False
    could_not_ask: bool = False
    """At least one permission request of this turn was cancelled because no user could be asked."""
    was_denied: bool = False
    """A rule denied a request, and `--fail-on-deny` makes that a failure."""
    is_empty: bool = False
    """The agent ended the turn as if it was done, without text, tool call or usage."""
    lost_messages: int = 0
    """Messages of the agent in this turn that could not be read: too long, or broken."""
    waiting_for: tuple[str, str] = ("", "")
    """What a timeout interrupted, and its name."""
    stop_reason: str | None = None


_ORDER: Final[tuple[tuple[Callable[[RunFacts], object], int], ...]] = (
    (lambda facts: facts.signal == signal.SIGTERM, exits.TERMINATED),
    (lambda facts: facts.signal, exits.CANCELLED),
    (lambda facts: facts.is_timed_out, exits.TIMED_OUT),
    # After a bug the rest of the contract may not hold, so none of the codes below may be returned.
    (lambda facts: facts.is_bug, exits.BUG),
    (lambda facts: facts.is_wrong_usage, exits.USAGE),
    (lambda facts: facts.has_violation or facts.has_unjudged, exits.VIOLATION),
    (lambda facts: facts.is_agent_gone, exits.AGENT_DIED),
    (lambda facts: facts.is_login_needed, exits.AUTH_REQUIRED),
    (lambda facts: facts.is_agent_error, exits.AGENT_ERROR),
    (lambda facts: facts.could_not_ask, exits.CANNOT_ASK),
    (lambda facts: facts.was_denied, exits.DENIED),
    (lambda facts: facts.stop_reason != END_TURN or facts.is_empty, exits.STOPPED_EARLY),
)


def exit_code_of(facts: RunFacts) -> int:
    """Return the first code that applies."""
    return next((code for applies, code in _ORDER if applies(facts)), exits.OK)


KINDS: Final = {
    exits.CANCELLED: "cancelled",
    exits.TERMINATED: "terminated",
    exits.TIMED_OUT: "timed_out",
    exits.BUG: "bug",
    exits.USAGE: "usage",
    exits.AGENT_DIED: "agent_died",
    exits.AUTH_REQUIRED: "auth_required",
    exits.AGENT_ERROR: "agent_error",
    exits.CANNOT_ASK: "nobody_to_ask",
    exits.DENIED: "denied",
    exits.VIOLATION: "violation",
    exits.STOPPED_EARLY: "stopped_early",
}
"""`error.kind` of the result, by exit code."""


class StartFailed(errors.DragomanError):
    """The agent's program could not be started at all."""


def note_error(facts: RunFacts, error: BaseException) -> None:
    """Record the fact that an exception stands for.

    What was refused on this side before anything was sent (an option the agent does not have, a missing file) can be
    corrected by the user, so it counts as wrong usage.
    """
    match error:
        case exits.CliError():
            facts.is_wrong_usage = True
        case StartFailed() | errors.ConnectionClosed():
            facts.is_agent_gone = True
        case errors.RequestError(code=errors.AUTH_REQUIRED) | errors.LoginFailed():
            facts.is_login_needed = True
        case errors.RequestError() | errors.RemoteProtocolError() | errors.SlowConsumer():
            facts.is_agent_error = True
        case errors.DragomanError() | OSError():
            facts.is_wrong_usage = True
        case _ if exits.shortage_of(error) is not None:
            facts.is_wrong_usage = True
        case _:
            facts.is_bug = True
