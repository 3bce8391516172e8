"""The result of a run: one object, complete however the run ends, with a schema scripts can rely on.

The schema is made from these Structs (`dragoman exec --schema` prints it) and explained in docs/exec.md. Members may be
added within a version, never removed or given another meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from dragoman.schema import UNSET, v1
from dragoman.state.tools import FINISHED, ToolCallState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dragoman.policy.decide import Decision
    from dragoman.state import Message, SessionState
    from dragoman.state.turns import TurnState
    from dragoman.workspace import Change

# Names in the published schema that differ from those of the classes. They are part of the contract.
_PUBLISHED: Final = {
    "RunAgent": "Agent",
    "RunLocation": "Location",
    "RunPermission": "Permission",
    "RunResult": "Result",
    "RunUsage": "Usage",
    "RunViolation": "Violation",
    "MessageEvent": "Message",
    "ModeEvent": "Mode",
    "OtherEvent": "Other",
    "TerminalEvent": "Terminal",
    "ThoughtEvent": "Thought",
}

ErrorKind = Literal[
    "cancelled",
    "terminated",
    "timed_out",
    "bug",
    "usage",
    "agent_died",
    "auth_required",
    "agent_error",
    "nobody_to_ask",
    "stopped_early",
    "denied",
    "violation",
]


class Error(Struct, kw_only=True):
    """Why the exit code is not 0."""

    kind: ErrorKind
    message: str
    hint: str | None = None
    code: int | None = None
    """The JSON-RPC code of the agent's answer."""
    data: Any = None
    """The data of the agent's answer, of any type."""
    returncode: int | None = None
    """How the agent's process ended; negative for a signal."""
    stderr_tail: str | None = None
    login_methods: list[str] = []


class RunAgent(Struct, kw_only=True):
    """The agent that the prompt was sent to."""

    name: str | None
    """As configured; null for a command after `--`."""
    command: list[str]
    title: str | None = None
    """The agent's own name for itself."""
    version: str | None = None


class Cost(Struct):
    """The cost of the session so far, as the agent reports it."""

    amount: float
    currency: str


class RunUsage(Struct, kw_only=True):
    """Usage as the agent reported it; null for what it did not report."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    context_used: int | None = None
    context_size: int | None = None
    cost: Cost | None = None


class RunLocation(Struct):
    """A place in a file."""

    path: str
    line: int | None = None


class ToolCall(Struct, kw_only=True):
    """A tool call of the turn, as last reported."""

    id: str
    title: str
    kind: str
    status: str
    is_open: bool
    """Neither completed nor failed when the turn ended or was interrupted."""
    locations: list[RunLocation] = []


class FileChange(Struct, kw_only=True):
    """A file that differs from before the turn."""

    path: str
    change: Literal["created", "modified", "deleted"]
    seen_by: list[Literal["workspace", "tool_call"]]
    """`workspace`: dragoman wrote it for the agent. `tool_call`: a completed tool call shows the change."""


class RunPermission(Struct, kw_only=True):
    """A permission request of the agent, or a file or terminal request, and the decision."""

    title: str
    kind: str
    action: Literal["allow", "deny", "cancelled"]
    decided_by: str
    rule: str | None = None
    tool_call_id: str | None = None
    option_id: str | None = None
    option_kind: str | None = None


class RunViolation(Struct, kw_only=True):
    """Something that the agent did although a rule denies it."""

    title: str
    kind: str
    rule: str
    decided_by: str
    """The rule and where it is written."""
    tool_call_id: str
    paths: list[str] = []


class RunResult(Struct, kw_only=True):
    """The result of one run of `dragoman exec`."""

    schema: Literal["dragoman.exec.result/1"] = "dragoman.exec.result/1"
    exit_code: int
    error: Error | None
    text: str
    """The agent's text after its last tool call, or before it if none came after."""
    messages: list[str]
    """All text of the agent, message by message."""
    stop_reason: str | None
    """Why the agent ended the turn; null if it did not, or answered only after it was asked to stop."""
    session_id: str | None
    agent: RunAgent | None
    scripted: bool
    """True if a script was played: no part of this result comes from a model."""
    usage: RunUsage | None
    tool_calls: list[ToolCall]
    files_changed: list[FileChange]
    permissions: list[RunPermission]
    duration_ms: int
    dangerously_allow_all: bool = False
    """True if everything that no rule denied was allowed, protected files included."""
    violations: list[RunViolation] = []
    """What the agent did although a rule denies it, as far as its tool calls show it."""


def final_text(state: SessionState, turn: TurnState) -> str:
    """Return the final answer, without the text that came before it.

    Pieces of one answer separated only by thoughts belong together; messages with their own ids are paragraphs.
    """
    texts = dict(zip(map(id, turn.messages), turn.texts, strict=True))
    items: list[object] = list(state.timeline[turn.start : turn.end])
    here = set(map(id, items))
    # A message may continue one of the history: some agents restart their numbering in each process.
    items = [message for message in turn.messages if id(message) not in here] + items
    answer: list[tuple[Message, str]] = []
    is_closed = False
    for item in items:
        if isinstance(item, ToolCallState):
            is_closed = True
        elif texts.get(id(item), "").strip():
            if is_closed:
                answer, is_closed = [], False
            answer.append((item, texts[id(item)]))  # type: ignore[arg-type]  # only messages are in `texts`
    text = ""
    for message, piece in answer:
        text += f"{chr(10) * 2 if text and message.message_id else ''}{piece}"
    return text


def tool_call(call: ToolCallState, reported: str | None = None) -> ToolCall:
    """Describe a tool call with its reported status; the state marks open calls as failed if the agent dies."""
    status = reported or call.status
    return ToolCall(
        id=call.id,
        title=call.title,
        kind=call.kind,
        status=status,
        is_open=status not in FINISHED,
        locations=[RunLocation(place.path, place.line or None) for place in call.locations],
    )


def tool_calls(state: SessionState, turn: TurnState, reported: Mapping[str, str]) -> list[ToolCall]:
    calls = [item for item in state.timeline[turn.start : turn.end] if isinstance(item, ToolCallState)]
    return [tool_call(call, reported.get(call.id)) for call in calls]


def usage(state: SessionState, tokens: v1.Usage | None) -> RunUsage | None:
    context, cost = state.usage, state.cost
    if tokens is None and context is None and cost is None:
        return None
    found = RunUsage()
    if tokens is not None:
        for name in ("input", "output", "total", "thought", "cached_read", "cached_write"):
            value = getattr(tokens, f"{name}_tokens")
            setattr(found, f"{name}_tokens", None if value is UNSET else value)
    if context is not None:
        found.context_used, found.context_size = context.used, context.size
    if cost is not None:
        found.cost = Cost(cost.amount, cost.currency)
    return found


def files_changed(changes: Iterable[Change], state: SessionState, turn: TurnState | None) -> list[FileChange]:
    """Return the files dragoman wrote and those completed tool calls show as a diff, sorted by path."""
    found: dict[str, FileChange] = {}
    for change in changes:
        what: Any = "created" if change.before is None else "deleted" if change.after is None else "modified"
        known = found.setdefault(change.path, FileChange(path=change.path, change=what, seen_by=["workspace"]))
        if what == "deleted":  # one file may have several changes, if another program changed it in between
            known.change = what
    for path, is_new in _diffs(state, turn):
        what = "created" if is_new else "modified"
        known = found.setdefault(path, FileChange(path=path, change=what, seen_by=[]))
        if "tool_call" not in known.seen_by:
            known.seen_by.append("tool_call")
    return [found[path] for path in sorted(found)]


def _diffs(state: SessionState, turn: TurnState | None) -> Iterable[tuple[str, bool]]:
    items: Sequence[object] = () if turn is None else state.timeline[turn.start : turn.end]
    for item in items:
        if isinstance(item, ToolCallState) and item.status == "completed":
            for content in item.content:
                if isinstance(content, v1.Diff) and content.old_text != content.new_text:
                    yield content.path, content.old_text is UNSET or content.old_text is None


def permission(decision: Decision) -> RunPermission:
    return RunPermission(
        title=decision.title,
        kind=decision.kind,
        action=decision.action,
        decided_by=decision.decided_by,
        rule=decision.rule,
        tool_call_id=decision.tool_call_id,
        option_id=decision.option_id,
        option_kind=decision.option_kind,
    )


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a result or of an event, under its published names."""
    from msgspec import json

    text = json.encode(json.schema(kind)).decode()
    for name, published in _PUBLISHED.items():
        text = text.replace(f'"{name}"', f'"{published}"').replace(f'/{name}"', f'/{published}"')
    schema: dict[str, Any] = json.decode(text)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema
