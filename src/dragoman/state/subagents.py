"""Child sessions and the messages between sessions, both of the unstable schema.

Both are upserts: an absent member keeps the value that is there, null clears it, a value replaces it. The updates of
a child session are folded into the child's own state, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from dragoman.schema import UNSET
from dragoman.state.text_buffer import GrowingPassage, Passage

if TYPE_CHECKING:
    from typing import Any

    from dragoman.schema.v1 import (
        SessionMessage,
        SessionMessageChunk,
        StateUpdate,
        SubagentSessionCapabilities,
        SubagentUpdate,
    )
    from dragoman.state.messages import Messages
    from dragoman.state.text_buffer import TextRoom
    from dragoman.state.timeline import Timeline
    from dragoman.state.turns import Turns


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

    def __init__(self, message_id: str, turn: int | None, room: TextRoom | None = None) -> None:
        super().__init__(turn, room)
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


class _GrowingSessionMessage(SessionMessageState, GrowingPassage):
    __slots__ = ()

    def fold(self, update: SessionMessage) -> None:
        self._changes += 1
        if update.sender_session_id is not UNSET:
            self._sender_session_id = update.sender_session_id
        if update.sender_message_id is not UNSET:
            self._sender_message_id = update.sender_message_id
        if update.recipient_session_id is not UNSET:
            self._recipient_session_id = update.recipient_session_id
        if update.recipient_message_id is not UNSET:
            self._recipient_message_id = update.recipient_message_id
        if update.content is not UNSET:
            self.replace(update.content)
        self.patch_meta(update.meta)


class Subagents:
    """All child sessions, by session id."""

    __slots__ = ("_timeline", "_turns", "by_id")

    def __init__(self, timeline: Timeline, turns: Turns) -> None:
        self._timeline = timeline
        self._turns = turns
        self.by_id: dict[str, SubagentState] = {}

    def fold(self, update: SubagentUpdate) -> None:
        """Add a child session, or change the one that has this id."""
        known = self.by_id.get(update.session_id)
        changes: dict[str, Any] = {}
        if known is None:
            known = SubagentState(update.session_id, len(self._timeline), self._turns.current_index)
            self._timeline.append(known)
        else:
            changes["revision"] = known.revision + 1
        if update.title is not UNSET:
            changes["title"] = update.title
        if update.description is not UNSET:
            changes["description"] = update.description
        if update.capabilities is not UNSET:
            changes["capabilities"] = update.capabilities
        if update.state is not UNSET:
            changes["state"] = update.state
        if update.cwd is not UNSET:
            changes["cwd"] = update.cwd
        if update.additional_directories is not UNSET:
            directories = update.additional_directories
            changes["additional_directories"] = None if directories is None else tuple(directories)
        if update.meta is not UNSET:
            changes["meta"] = update.meta
        known = self.by_id[known.session_id] = replace(known, **changes)
        self._timeline.put(known.position, known)


class SessionMessages:
    """All messages between sessions, by message id."""

    __slots__ = ("_messages", "_timeline", "_turns", "by_id")

    def __init__(self, timeline: Timeline, messages: Messages, turns: Turns) -> None:
        self._timeline = timeline
        self._messages = messages
        self._turns = turns
        self.by_id: dict[str, _GrowingSessionMessage] = {}

    def fold(self, update: SessionMessage) -> None:
        """Add a message, or change the one that has this id."""
        self._get(update.message_id).fold(update)

    def fold_chunk(self, chunk: SessionMessageChunk) -> None:
        """Append to a message. The chunk's `_meta` is about the chunk alone."""
        self._get(chunk.message_id).append(chunk.content)

    def _get(self, message_id: str) -> _GrowingSessionMessage:
        message = self.by_id.get(message_id)
        if message is None:
            self._messages.close()
            message = self.by_id[message_id] = _GrowingSessionMessage(
                message_id, self._turns.current_index, self._messages.room
            )
            self._timeline.append(message)
        else:
            self._timeline.touch(message)
        return message
