"""Short ways to write updates, and to fold several of them."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.schema import UNSET, UnsetType
from dragoman.schema.v1 import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ContentBlock,
    SessionUpdate,
    TextContent,
    ToolCall,
    UserMessageChunk,
)
from dragoman.state import SessionState, fold


def text(words: str) -> TextContent:
    return TextContent(words)


def agent(content: str | ContentBlock, message_id: str | UnsetType | None = UNSET) -> AgentMessageChunk:
    return AgentMessageChunk(text(content) if isinstance(content, str) else content, message_id)


def thought(content: str | ContentBlock, message_id: str | UnsetType | None = UNSET) -> AgentThoughtChunk:
    return AgentThoughtChunk(text(content) if isinstance(content, str) else content, message_id)


def user(content: str | ContentBlock, message_id: str | UnsetType | None = UNSET) -> UserMessageChunk:
    return UserMessageChunk(text(content) if isinstance(content, str) else content, message_id)


def tool(tool_call_id: str, title: str = "Read") -> ToolCall:
    return ToolCall(tool_call_id, title)


def folded(*updates: SessionUpdate, into: SessionState | None = None) -> SessionState:
    return fold_all(SessionState() if into is None else into, updates)


def fold_all(state: SessionState, updates: Iterable[SessionUpdate]) -> SessionState:
    for update in updates:
        assert fold(state, update) is state
    return state


def in_turn(*updates: SessionUpdate) -> SessionState:
    """A state with one turn running in which these updates came."""
    state = SessionState()
    state.begin_turn([text("go")])
    return fold_all(state, updates)


def messages_of(state: SessionState) -> list[tuple[str, str]]:
    """Each message as (role, text)."""
    return [(message.role, message.text) for message in state.messages]
