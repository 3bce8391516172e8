"""What happens in a run, as events: one agent, one session, turn by turn.

The events are reported in the order of the wire. They are data, so that a view, a record of the turn and a host can
take the same ones, and `read_event` reads those that another process has encoded. Does not depend on where they are
shown.
"""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, convert, field

from dragoman.runs.result import RunAgent, RunUnjudged, RunViolation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy.decide import Decision
    from dragoman.process.sandbox import ProtectedChange
    from dragoman.process.sandbox.confinement import FinishedCommand
    from dragoman.schema import v1


class EndOfTurn(Struct, frozen=True, kw_only=True):
    """How a turn ended: with the agent's response, with an error, or without either."""

    response: v1.PromptResponse | None = None
    error: Exception | None = None
    was_cancelled: bool = False
    """This side asked the agent to stop. It may still report that it is done."""
    gave_up: bool = False
    """The agent did not react to that in time; nothing is known about what it does."""
    was_sent: bool = True
    """The agent got the prompt, as far as that is known here; otherwise it may be sent to another one."""


class Initialized(Struct, frozen=True, kw_only=True, tag=True):
    """The agent has answered: its own name and version are known, and how one can log in."""

    agent: RunAgent
    protocol_version: int
    login_methods: tuple[str, ...]
    at: float = field(default_factory=time)


class Opened(Struct, frozen=True, kw_only=True, tag=True):
    """The session is open and set up; a prompt may be sent."""

    session_id: str
    is_resumed: bool
    is_scripted: bool
    mode: str | None
    model: str | None
    can_reopen: bool = False
    """Whether another process of the agent can open the session."""
    at: float = field(default_factory=time)


class TurnStarted(Struct, frozen=True, kw_only=True, tag=True):
    """A prompt is sent next."""

    prompt_id: str
    at: float = field(default_factory=time)


class Updated(Struct, frozen=True, kw_only=True, tag=True):
    """Updates that came together, folded into the session's state; `lines` are the messages as they came."""

    session_id: str
    updates: Sequence[v1.SessionUpdate]
    lines: Sequence[bytes]
    at: float = field(default_factory=time)


class Asking(Struct, frozen=True, kw_only=True, tag=True):
    """The user is being asked for a permission; an empty title: not any more."""

    title: str
    at: float = field(default_factory=time)


class Decided(Struct, frozen=True, kw_only=True, tag=True):
    """Something was allowed, denied or cancelled. Reported before the agent gets its answer."""

    decision: Decision
    at: float = field(default_factory=time)


class CommandStarted(Struct, frozen=True, kw_only=True, tag=True):
    """A command runs for the agent. Only a host reports it, to a client that cannot look at the terminal itself."""

    terminal_id: str
    session_id: str
    command: str
    cwd: str
    at: float = field(default_factory=time)


class TerminalOutput(Struct, frozen=True, kw_only=True, tag=True):
    """Output of a command that this program runs for the agent."""

    terminal_id: str
    data: bytes
    at: float = field(default_factory=time)


class CommandEnded(Struct, frozen=True, kw_only=True, tag=True):
    """A command that this program ran for the agent has ended; `hint` says how to run it outside of its sandbox."""

    command: FinishedCommand
    hint: str | None = None
    at: float = field(default_factory=time)


class ProtectedChanged(Struct, frozen=True, kw_only=True, tag=True):
    """Protected files changed without a permission, by a command or, if there is none, by the agent itself."""

    changes: Sequence[ProtectedChange]
    command: str | None = None
    at: float = field(default_factory=time)


class Violated(Struct, frozen=True, kw_only=True, tag=True):
    """The agent did something although a rule denies it, or a protected file changed without a permission."""

    violation: RunViolation
    at: float = field(default_factory=time)


class LeftUnjudged(Struct, frozen=True, kw_only=True, tag=True):
    """The agent did something of which it cannot be seen whether a rule denies it."""

    unjudged: RunUnjudged
    at: float = field(default_factory=time)


class Noted(Struct, frozen=True, kw_only=True, tag=True):
    """A sentence for the user."""

    text: str
    at: float = field(default_factory=time)


class TurnEnded(Struct, frozen=True, kw_only=True, tag=True):
    """The turn is over, and what it changed is known."""

    prompt_id: str
    end: EndOfTurn
    at: float = field(default_factory=time)


RunEvent: TypeAlias = (
    Initialized
    | Opened
    | TurnStarted
    | Updated
    | Asking
    | Decided
    | TerminalOutput
    | CommandStarted
    | CommandEnded
    | ProtectedChanged
    | Violated
    | LeftUnjudged
    | Noted
    | TurnEnded
)


def read_event(written: dict[str, Any]) -> RunEvent | None:
    """Read an event that a host has sent; None for one of a kind that hosts do not send, or that is not known.

    Raises:
        msgspec.ValidationError: it is not such an event.
    """
    match written.get("type"):
        case "Decided":
            from dragoman.policy.decide import Decision

            return Decided(decision=convert(written["decision"], Decision), at=written["at"])
        case "CommandEnded":
            return CommandEnded(command=_read_command(written["command"]), hint=written["hint"], at=written["at"])
        case "Violated" | "LeftUnjudged":
            return convert(written, Violated | LeftUnjudged)
        case "Initialized" | "Opened" | "TurnStarted" | "Asking" | "CommandStarted" | "TerminalOutput":
            return convert(written, Initialized | Opened | TurnStarted | Asking | CommandStarted | TerminalOutput)
        case _:
            return None


def _read_command(written: dict[str, Any]) -> FinishedCommand:
    from dragoman.policy import Request
    from dragoman.process.sandbox import Denial, ProtectedChange
    from dragoman.process.sandbox.confinement import FinishedCommand

    return FinishedCommand(
        **{
            **written,
            "request": convert(written["request"], Request),
            "denials": convert(written["denials"], tuple[Denial, ...]),
            "changes": convert(written["changes"], tuple[ProtectedChange, ...]),
        }
    )
