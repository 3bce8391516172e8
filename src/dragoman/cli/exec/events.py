"""The events of a run: what happened, one JSON object a line, in a form that outlives releases of the protocol.

Owns the translation from updates to events; docs/exec.md explains them. Kinds of event and members may be added within
a version, never removed or given another meaning. The last event of every run is its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from dragoman.cli.exec import result as results
from dragoman.schema import UNSET, Unknown, encode, v1

if TYPE_CHECKING:
    from dragoman.state import SessionState


class Opened(Struct, tag="session", tag_field="event", kw_only=True):
    """The session is open; the prompt goes out next."""

    schema: Literal["dragoman.exec.event/1"] = "dragoman.exec.event/1"
    session_id: str
    agent: results.Agent
    scripted: bool
    is_resumed: bool


class Message(Struct, tag="message", tag_field="event"):
    """A piece of the agent's answer; pieces with the same id, or without one, follow each other."""

    text: str
    message_id: str | None = None


class Thought(Struct, tag="thought", tag_field="event"):
    """A piece of the agent's thinking."""

    text: str
    message_id: str | None = None


class ToolCallEvent(Struct, tag="tool_call", tag_field="event"):
    """A tool call is new or has changed: all that is known of it now."""

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

    permission: results.Permission


class Terminal(Struct, tag="terminal", tag_field="event"):
    """Output of a command dragoman runs for the agent."""

    terminal_id: str
    output: str


class UsageEvent(Struct, tag="usage", tag_field="event"):
    """What the agent reports to have used so far."""

    usage: results.Usage


class Mode(Struct, tag="mode", tag_field="event"):
    """The session is in another mode."""

    mode: str | None


class Other(Struct, tag="update", tag_field="event"):
    """Any other update of the protocol, as it is written there."""

    update: dict[str, Any]


class ResultEvent(Struct, tag="result", tag_field="event"):
    """The end: what `--output json` prints."""

    result: results.Result


Event: TypeAlias = (
    Opened
    | Message
    | Thought
    | ToolCallEvent
    | PlanEvent
    | PermissionEvent
    | Terminal
    | UsageEvent
    | Mode
    | Other
    | ResultEvent
)


def event_of(update: v1.SessionUpdate, state: SessionState) -> Event:
    """The event an update stands for; `state` has it folded in."""
    match update:
        case v1.AgentMessageChunk(content=v1.TextContent(text=text)):
            return Message(text, _id(update))
        case v1.AgentThoughtChunk(content=v1.TextContent(text=text)):
            return Thought(text, _id(update))
        case v1.ToolCall() | v1.ToolCallUpdate():
            return ToolCallEvent(results.tool_call(state.tool_calls[update.tool_call_id]))
        case v1.Plan():
            return PlanEvent([PlanStep(entry.content, entry.priority, entry.status) for entry in update.entries])
        case v1.UsageUpdate():
            found = results.usage(state, None)
            assert found is not None  # this update is one of its sources
            return UsageEvent(found)
        case v1.CurrentModeUpdate():
            return Mode(update.current_mode_id)
        case _:
            return Other(_as_written(update))


def _id(chunk: v1.ContentChunk) -> str | None:
    return None if chunk.message_id is UNSET else chunk.message_id


def _as_written(update: v1.SessionUpdate) -> dict[str, Any]:
    if isinstance(update, Unknown):
        return dict(update.raw)
    from msgspec import json

    written: dict[str, Any] = json.decode(encode(update))
    return written
