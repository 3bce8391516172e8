"""The sessions of a recording of version 2, folded: prompts end by idle states instead of by responses.

Loaded only for such recordings: most are of version 1, and do not need its types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.errors import LocalProtocolError
from dragoman.schema import UNSET, decode, encode, v1, v2
from dragoman.state import SessionState, fold
from dragoman.state.version2.reading import read_blocks, read_commands, read_options, read_tool_patch, read_update

if TYPE_CHECKING:
    from dragoman.trace.inspect.exchange import DecodedFrame

_WHOLE: dict[type, Any] = {
    v2.UserMessage: v1.UserMessageChunk,
    v2.AgentMessage: v1.AgentMessageChunk,
    v2.AgentThought: v1.AgentThoughtChunk,
}


class FoldedVersion2:
    """Frames of version 2 folded into the states of their sessions."""

    def __init__(self, states: dict[str, SessionState]) -> None:
        self._states = states
        self._held: dict[str, list[DecodedFrame]] = {}  # prompts that have not begun, by session

    def feed(self, frame: DecodedFrame) -> tuple[str, int] | None:
        """Fold one frame; return its session and the place in the timeline that it changed, or -1."""
        value, name, place = frame.value, frame.session_id or "", -1
        if isinstance(value, v2.UpdateSessionNotification):
            place = self._update(name, value.update)
        elif frame.method == "session/prompt":
            place = self._prompt(name, frame)
        elif isinstance(value, v2.NewSessionResponse | v2.ForkSessionResponse):
            name = value.session_id
            self._open(name, value)
        elif isinstance(value, v2.ResumeSessionRequest):
            if value.replay_from:
                self._states[name] = SessionState()  # its history comes again
        elif isinstance(value, v2.ResumeSessionResponse):
            self._open(name, value)
        elif isinstance(value, v2.SetSessionConfigOptionResponse):
            self._state(name).open(config_options=read_options(value.config_options))
        elif isinstance(value, v2.CancelSessionNotification):
            self._state(name).cancel_turn()
        elif isinstance(value, v2.RequestPermissionRequest) and isinstance(value.subject, v2.ToolCallPermissionSubject):
            place = self._state(name).note_permission(value.subject.tool_call).position
        else:
            return None
        return (name, place) if name else None

    def _state(self, name: str) -> SessionState:
        return self._states.setdefault(name, SessionState())

    def _open(self, name: str, value: Any) -> None:
        state = self._state(name)
        state.open(config_options=UNSET if value.config_options is UNSET else read_options(value.config_options))
        if value.available_commands:
            fold(state, v1.AvailableCommandsUpdate(read_commands(value.available_commands)))

    def _prompt(self, name: str, frame: DecodedFrame) -> int:
        state = self._state(name)
        if isinstance(frame.value, v2.PromptRequest):
            self._held.setdefault(name, []).append(frame)
            return -1 if state.is_running else self._begin(name, frame)
        if frame.part == "error":
            self._refuse(name, frame)
        elif isinstance(frame.value, v2.PromptResponse) and frame.request is not None:
            if not state.is_running:
                self._begin(name, frame.request)
            state.name_prompt(frame.value.message_id)
        return -1

    def _begin(self, name: str, request: DecodedFrame) -> int:
        held = self._held.get(name, [])
        if request not in held:
            return -1
        held.remove(request)
        try:
            return self._state(name).begin_turn(read_blocks(request.value.prompt)).start
        except LocalProtocolError:  # it joins the work of another prompt
            return -1

    def _refuse(self, name: str, frame: DecodedFrame) -> None:
        held = self._held.get(name, [])
        if frame.request in held:
            held.remove(frame.request)
        elif self._state(name).is_running:
            self._state(name).end_turn(None, None)

    def _update(self, name: str, update: Any) -> int:
        from dragoman.trace.inspect.folding import find_place

        state = self._state(name)
        if isinstance(update, v2.UserMessage | v2.UserMessageChunk) and not state.is_running and self._held.get(name):
            self._begin(name, self._held[name][0])
        before = len(state.timeline)
        fold(state, update)
        if isinstance(update, v2.SessionStateUpdate):
            if update.state == "idle" and state.is_running:
                reason: Any = None if update.stop_reason == "error" else update.stop_reason or "end_turn"
                state.end_turn(reason, decode(v1.Usage, encode(update.usage)) if update.usage else None)
            return -1
        if len(state.timeline) > before:
            return before
        same: Any = read_update(update)
        if isinstance(update, v2.ToolCallPatch):
            same = read_tool_patch(update)
        elif type(update) in _WHOLE:
            same = _WHOLE[type(update)](v1.TextContent(""), message_id=update.message_id)
        return -1 if same is None else find_place(state, same)
