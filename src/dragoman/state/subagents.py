"""Child sessions and the messages between sessions, both of the unstable schema.

Both are upserts: an absent member keeps what is there, null clears it, a value replaces it. What a child session does
is folded in the child's own state, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from dragoman.schema import UNSET
from dragoman.state.messages import close_open
from dragoman.state.text_buffer import Passage

if TYPE_CHECKING:
    from typing import Any

    from dragoman.schema.v1 import (
        SessionMessage,
        SessionMessageChunk,
        StateUpdate,
        SubagentSessionCapabilities,
        SubagentUpdate,
    )
    from dragoman.state.session import SessionState


class SubagentState(Struct, frozen=True):
    """A child session as its parent presents it; None where nothing is reported."""

    session_id: str
    position: int  # in the timeline
    turn: int | None = None
    title: str | None = None
    description: str | None = None
    capabilities: SubagentSessionCapabilities | None = None
    state: StateUpdate | None = None
    cwd: str | None = None  # None: the parent's
    additional_directories: tuple[str, ...] | None = None  # None: the parent's
    meta: dict[str, Any] | None = None
    revision: int = 1


class SessionMessageState(Passage):
    """A message from one session to another."""

    __slots__ = ("_message_id", "_recipient_message_id", "_recipient_session_id", "_sender_message_id",
                 "_sender_session_id")  # fmt: skip

    def __init__(self, message_id: str, turn: int | None) -> None:
        super().__init__(turn)
        self._message_id = message_id
        self._sender_session_id: str | None = None
        self._sender_message_id: str | None = None
        self._recipient_session_id: str | None = None
        self._recipient_message_id: str | None = None

    @property
    def message_id(self) -> str:
        """Its id in this session."""
        return self._message_id

    @property
    def sender_session_id(self) -> str | None:
        """The session that sent it."""
        return self._sender_session_id

    @property
    def sender_message_id(self) -> str | None:
        """Its id in the sender's session."""
        return self._sender_message_id

    @property
    def recipient_session_id(self) -> str | None:
        """The session it is for."""
        return self._recipient_session_id

    @property
    def recipient_message_id(self) -> str | None:
        """Its id in the recipient's session."""
        return self._recipient_message_id

    def __repr__(self) -> str:
        return f"SessionMessageState({self._message_id!r}, {self.text!r})"


def fold_subagent(state: SessionState, update: SubagentUpdate) -> None:
    known = state._subagents.get(update.session_id)
    if known is None:
        known = SubagentState(update.session_id, len(state._timeline), state._turn_index)
        state._timeline.append(known)
        changes: dict[str, Any] = {}
    else:
        changes = {"revision": known.revision + 1}
    for name in ("title", "description", "capabilities", "state", "cwd", "meta"):
        value = getattr(update, name)
        if value is not UNSET:
            changes[name] = value
    directories = update.additional_directories
    if directories is not UNSET:
        changes["additional_directories"] = None if directories is None else tuple(directories)
    known = replace(known, **changes)
    state._subagents[known.session_id] = known
    state._timeline[known.position] = known


def fold_session_message(state: SessionState, update: SessionMessage) -> None:
    message = _get(state, update.message_id)
    message._changes += 1
    if update.sender_session_id is not UNSET:
        message._sender_session_id = update.sender_session_id
    if update.sender_message_id is not UNSET:
        message._sender_message_id = update.sender_message_id
    if update.recipient_session_id is not UNSET:
        message._recipient_session_id = update.recipient_session_id
    if update.recipient_message_id is not UNSET:
        message._recipient_message_id = update.recipient_message_id
    if update.content is not UNSET:
        message._replace(update.content)
    message._patch_meta(update.meta)


def fold_session_message_chunk(state: SessionState, chunk: SessionMessageChunk) -> None:
    _get(state, chunk.message_id)._append(chunk.content)  # the chunk's _meta speaks of the chunk alone


def _get(state: SessionState, message_id: str) -> SessionMessageState:
    message = state._session_messages.get(message_id)
    if message is None:
        close_open(state)
        message = SessionMessageState(message_id, state._turn_index)
        state._session_messages[message_id] = message
        state._timeline.append(message)
    return message
