"""The events of a run, one JSON object per line, in a form that stays the same across releases of the protocol.

Owns the translation from updates to events; docs/exec.md explains them. Kinds of event and members may be added within
a version, never removed or given another meaning. The last event of every run is its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from dragoman.runs import result as results
from dragoman.schema import UNSET, Unknown, encode, v1

if TYPE_CHECKING:
    from dragoman.runs.tool_calls import ToolWatch
    from dragoman.state import SessionState


class StartingEvent(Struct, tag="starting", tag_field="event", kw_only=True):
    """The agent's program was started; the first event, again after each `retry`."""

    schema: Literal["dragoman.exec.event/1"] = "dragoman.exec.event/1"
    agent: results.RunAgent


class InitializedEvent(Struct, tag="initialized", tag_field="event", kw_only=True):
    """The agent has answered: its own name and version are known, and how one can log in."""

    agent: results.RunAgent
    protocol_version: int
    login_methods: list[str]


class RetryEvent(Struct, tag="retry", tag_field="event"):
    """The try failed and is repeated with a new process. What came before it is not part of the result."""

    number: int
    of: int
    retry: results.RunRetry


class OpenedEvent(Struct, tag="session", tag_field="event", kw_only=True):
    """The session is open; the prompt is sent next."""

    schema: Literal["dragoman.exec.event/1"] = "dragoman.exec.event/1"
    session_id: str
    agent: results.RunAgent
    scripted: bool
    is_resumed: bool
    model: str | None = None
    """The model, if the session states it."""
    mode: str | None = None


class MessageEvent(Struct, tag="message", tag_field="event"):
    """A piece of the agent's answer; pieces with the same id, or without one, follow each other."""

    text: str
    message_id: str | None = None


class ThoughtEvent(Struct, tag="thought", tag_field="event"):
    """A piece of the agent's thinking."""

    text: str
    message_id: str | None = None


class ToolCallEvent(Struct, tag="tool_call", tag_field="event"):
    """A tool call is new or has changed: its complete state."""

    tool_call: results.ToolCall


class PlanStep(Struct):
    """A step of a plan."""

    content: str
    priority: str
    status: str


class PlanEvent(Struct, tag="plan", tag_field="event"):
    """The whole plan, as it is now."""

    steps: list[PlanStep]


class PermissionEvent(Struct, tag="permission", tag_field="event"):
    """Something was allowed, denied or cancelled."""

    permission: results.RunPermission


class ViolationEvent(Struct, tag="violation", tag_field="event"):
    """The agent did something although a rule denies it."""

    violation: results.RunViolation


class UnjudgedEvent(Struct, tag="unjudged", tag_field="event"):
    """The agent did something of which it cannot be seen whether a rule denies it."""

    unjudged: results.RunUnjudged


class TerminalEvent(Struct, tag="terminal", tag_field="event"):
    """Output of a command dragoman runs for the agent."""

    terminal_id: str
    output: str


class CommandEvent(Struct, tag="command", tag_field="event"):
    """A command that dragoman ran for the agent has ended."""

    command: results.RunCommand


class UsageEvent(Struct, tag="usage", tag_field="event"):
    """The usage that the agent has reported so far."""

    usage: results.RunUsage


class ModeEvent(Struct, tag="mode", tag_field="event"):
    """The session is in another mode."""

    mode: str | None


class OtherEvent(Struct, tag="update", tag_field="event"):
    """Any other update of the protocol, in its original form."""

    update: dict[str, Any]


class NoteEvent(Struct, tag="note", tag_field="event"):
    """A sentence for the user; only in `--progress json`."""

    text: str


class ProgressEvent(Struct, tag="progress", tag_field="event"):
    """What the run is doing; written from time to time, only in `--progress json`."""

    waiting_for: results.RunWaiting
    elapsed_ms: int
    context_used: int | None


class EndEvent(Struct, tag="end", tag_field="event"):
    """How the run ended; only in `--progress json`, as its last event."""

    exit_code: int
    error: results.Error | None
    duration_ms: int


class ResultEvent(Struct, tag="result", tag_field="event"):
    """The end of the run: what `--output json` prints."""

    result: results.RunResult


Event: TypeAlias = (
    StartingEvent
    | InitializedEvent
    | OpenedEvent
    | RetryEvent
    | MessageEvent
    | ThoughtEvent
    | ToolCallEvent
    | PlanEvent
    | PermissionEvent
    | ViolationEvent
    | UnjudgedEvent
    | TerminalEvent
    | CommandEvent
    | UsageEvent
    | ModeEvent
    | OtherEvent
    | NoteEvent
    | ProgressEvent
    | EndEvent
    | ResultEvent
)


def event_of(update: v1.SessionUpdate, state: SessionState, tools: ToolWatch) -> Event:
    """Return the event for an update that was folded into `state`."""
    match update:
        case v1.AgentMessageChunk(content=v1.TextContent(text=text)):
            return MessageEvent(text, _id(update))
        case v1.AgentThoughtChunk(content=v1.TextContent(text=text)):
            return ThoughtEvent(text, _id(update))
        case v1.ToolCall() | v1.ToolCallUpdate():
            return ToolCallEvent(tools.describe(state.tool_calls[update.tool_call_id]))
        case v1.Plan():
            return PlanEvent([PlanStep(entry.content, entry.priority, entry.status) for entry in update.entries])
        case v1.PlanUpdate(plan=v1.PlanItems(entries=entries)):
            steps = state.plan or entries  # an agent of version 2 names its plans; together they are the plan
            return PlanEvent([PlanStep(entry.content, entry.priority, entry.status) for entry in steps])
        case v1.UsageUpdate():
            found = results.usage(state, None)
            assert found is not None  # this update is one of its sources
            return UsageEvent(found)
        case v1.CurrentModeUpdate():
            return ModeEvent(update.current_mode_id)
        case _:
            return OtherEvent(_as_written(update))


def _id(chunk: v1.ContentChunk) -> str | None:
    return None if chunk.message_id is UNSET else chunk.message_id


def _as_written(update: v1.SessionUpdate) -> dict[str, Any]:
    if isinstance(update, Unknown):
        return dict(update.raw)
    from msgspec import json

    written: dict[str, Any] = json.decode(encode(update))
    return written


def repeated_key(update: v1.SessionUpdate) -> str | None:
    """Return what identifies the thing whose whole state an update reports; None for a piece of a text.

    Some agents report the same state again and again; an event that is the same as the last one is left out.
    """
    match update:
        case v1.ToolCall() | v1.ToolCallUpdate():
            return f"tool_call {update.tool_call_id}"
        case v1.AgentMessageChunk() | v1.AgentThoughtChunk() | v1.UserMessageChunk() | v1.Notice() | Unknown():
            return None
        case _:
            kind = type(update).__name__
            return None if kind.endswith("Chunk") else kind
