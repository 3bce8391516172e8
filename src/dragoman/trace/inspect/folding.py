"""The sessions of a recording, folded: the state that a client would show at any point.

Owns folding both directions into `dragoman.state`: prompts, responses and settings as well as updates. Does not judge
what was sent; what cannot be decoded is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import LocalProtocolError
from dragoman.schema import Unknown, v1
from dragoman.state import (
    CompactionState,
    Message,
    PlanState,
    SessionMessageState,
    SessionState,
    SubagentState,
    ToolCallState,
    fold,
)

if TYPE_CHECKING:
    from dragoman.state import TimelineItem
    from dragoman.trace.inspect.exchange import DecodedFrame
    from dragoman.trace.inspect.version2 import FoldedVersion2

_OPENING: Final = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
_SETTING: Final = frozenset({"session/set_mode", "session/set_config_option"})


class FoldedSessions:
    """Session id -> state, as of the last frame."""

    def __init__(self) -> None:
        self.states: dict[str, SessionState] = {}
        self._newer: FoldedVersion2 | None = None

    def _version2(self) -> FoldedVersion2:
        if self._newer is None:
            from dragoman.trace.inspect.version2 import FoldedVersion2

            self._newer = FoldedVersion2(self.states)
        return self._newer

    def feed(self, frame: DecodedFrame) -> tuple[str, int] | None:
        """Fold one frame; return its session and the place in the timeline that it changed, or -1.

        Returns None for a frame that is not about a session.
        """
        if frame.value is None and frame.part != "error":
            return None
        if frame.row is not None and type(frame.value).__module__.startswith("dragoman.schema.v2."):
            return self._version2().feed(frame)
        if frame.part == "error" and frame.method == "session/prompt" and self._newer is not None:
            return self._newer.feed(frame)
        method, part = frame.method, frame.part
        name, place = frame.session_id or "", -1
        if method == "session/update" and part == "params":
            place = self._update(frame)
        elif method == "session/prompt":
            place = self._begin(frame) if part == "params" else self._end(frame)
        elif method in _OPENING:
            name = self._open(frame)
        elif method == "session/request_permission" and part == "params":
            place = self._state(frame).note_permission(frame.value.tool_call).position
        elif method == "session/cancel":
            self._state(frame).cancel_turn()
        elif method in _SETTING and part == "result" and frame.request is not None:
            self._set(frame, frame.request.value)
        else:
            return None
        return (name, place) if name else None

    def _state(self, frame: DecodedFrame) -> SessionState:
        return self.states.setdefault(frame.session_id or "", SessionState())

    def _open(self, frame: DecodedFrame) -> str:
        name = frame.session_id or ""
        if frame.part == "params":
            if frame.method == "session/load" and name:
                self.states[name] = SessionState()  # its history comes again
            return name
        if frame.part == "result":
            if isinstance(frame.value, (v1.NewSessionResponse, v1.ForkSessionResponse)):
                name = frame.value.session_id
            self.states.setdefault(name, SessionState()).open(frame.value.modes, frame.value.config_options)
        return name

    def _begin(self, frame: DecodedFrame) -> int:
        state = self._state(frame)
        try:
            return state.begin_turn(frame.value.prompt).start
        except LocalProtocolError:  # a second prompt while one runs (rule 187): the state has one turn at a time
            return -1

    def _end(self, frame: DecodedFrame) -> int:
        state = self._state(frame)
        if state.is_running:
            answer = frame.value if isinstance(frame.value, v1.PromptResponse) else None
            state.end_turn(*(None, None) if answer is None else (answer.stop_reason, answer.usage))
        return -1

    def _set(self, frame: DecodedFrame, asked: Any) -> None:
        if frame.method == "session/set_mode" and asked is not None:
            fold(self._state(frame), v1.CurrentModeUpdate(asked.mode_id))
        elif frame.method == "session/set_config_option":
            fold(self._state(frame), v1.ConfigOptionUpdate(frame.value.config_options))

    def _update(self, frame: DecodedFrame) -> int:
        state, update = self._state(frame), frame.value.update
        before = len(state.timeline)
        length = _length(state, update) if isinstance(update, v1.UserMessageChunk) else -1
        fold(state, update)
        if len(state.timeline) > before:
            return before
        if length >= 0 and _length(state, update) == length:
            return -1  # the prompt sent back: it is there already
        return find_place(state, update)


def _length(state: SessionState, update: v1.UserMessageChunk) -> int:
    place = find_place(state, update)
    item = state.timeline[place] if place >= 0 else None
    return len(item.blocks) + len(item.text) if isinstance(item, Message) else 0


def find_place(state: SessionState, update: Any) -> int:
    """Return the place of the item that an update changed, -1 if there is none."""
    if isinstance(update, (v1.ToolCall, v1.ToolCallPatch)):
        return state.tool_calls[update.tool_call_id].position
    for place in range(len(state.timeline) - 1, -1, -1):
        if _is_about(update, state.timeline[place]):
            return place
    return -1


def _is_about(update: Any, item: TimelineItem) -> bool:
    match update:
        case v1.UserMessageChunk() | v1.AgentMessageChunk() | v1.AgentThoughtChunk():
            wanted = update.message_id if isinstance(update.message_id, str) else None
            return isinstance(item, Message) and (item.role, item.message_id) == (_role(update), wanted)
        case v1.Plan():
            return isinstance(item, PlanState) and item.id is None
        case v1.PlanUpdate() | v1.PlanRemoved():
            plan = update.plan if isinstance(update, v1.PlanUpdate) else update
            return isinstance(item, PlanState) and not isinstance(plan, Unknown) and item.id == plan.plan_id
        case v1.CompactionUpdate() | v1.CompactionSummaryChunk():
            return isinstance(item, CompactionState) and item.id == update.compaction_id
        case v1.SubagentUpdate():
            return isinstance(item, SubagentState) and item.session_id == update.session_id
        case v1.SessionMessage() | v1.SessionMessageChunk():
            return isinstance(item, SessionMessageState) and item.message_id == update.message_id
    return False


def _role(update: v1.ContentChunk) -> str:
    return {v1.UserMessageChunk: "user", v1.AgentMessageChunk: "agent"}.get(type(update), "thought")


def describe(state: SessionState) -> dict[str, Any]:
    """Return a session as plain data, for a screen or for JSON."""
    usage = state.usage
    return {
        "title": state.title,
        "mode": state.mode,
        "modes": [mode.id for mode in state.modes.available_modes] if state.modes is not None else [],
        "options": {
            option.id: option.current_value for option in state.config_options if not isinstance(option, Unknown)
        },
        "commands": [command.name for command in state.commands],
        "usage": {"used": usage.used, "size": usage.size} if usage is not None else None,
        "cost": {"amount": state.cost.amount, "currency": state.cost.currency} if state.cost is not None else None,
        "running": state.is_running,
        "turns": len(state.turns),
        "stop_reason": state.stop_reason,
        "unknown": len(state.unknown),
        "timeline": [_describe_item(item) for item in state.timeline],
        **_work_without_turn(state),
    }


def _work_without_turn(state: SessionState) -> dict[str, Any]:
    """Return what an agent of version 2 reports to be doing, if that does not follow from the turns."""
    is_plain = state.activity == ("running" if state.is_running else "idle")
    return {} if is_plain else {"activity": state.activity}


def _describe_item(item: TimelineItem) -> dict[str, Any]:
    match item:
        case Message():
            return {
                "item": item.role,
                "id": item.message_id,
                "turn": item.turn,
                "text": item.text,
                **_other(item.blocks),
            }
        case ToolCallState():
            return {
                "item": "tool_call",
                "id": item.id,
                "turn": item.turn,
                "title": item.title,
                "kind": item.kind,
                "status": "cancelled" if item.is_cancelled else item.status,
                "locations": [location.path for location in item.locations],
                "content": len(item.content),
            }
        case PlanState():
            entries = [{"status": entry.status, "content": entry.content} for entry in item.entries]
            return {"item": "plan", "id": item.id, "entries": entries}
        case CompactionState():
            return {"item": "compaction", "id": item.id, "status": item.status, "text": item.text}
        case v1.Notice():
            return {"item": "notice", "severity": item.severity, "text": item.title}
        case SubagentState():
            return {"item": "subagent", "id": item.session_id, "text": item.title or ""}
        case SessionMessageState():
            return {"item": "session_message", "id": item.message_id, "text": item.text}
    return {"item": "unknown", "text": item.tag or ""}


def _other(blocks: tuple[Any, ...]) -> dict[str, Any]:
    """Return the types of the blocks that are not plain text."""
    kinds = [
        block.tag if isinstance(block, Unknown) else str(block.__struct_config__.tag)
        for block in blocks
        if not isinstance(block, v1.TextContent)
    ]
    return {"blocks": kinds} if kinds else {}
