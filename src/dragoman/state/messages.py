"""The messages of a session, and which chunk belongs to which message.

With a message id the id decides, within its role (one real agent gives a thought and its answer the same id), even
when messages interleave (rule 212). Without one, or with null (213), a chunk continues the message before it, unless
the role changed, that message has an id, or something new came between: a tool call, a plan, a compaction, a message
between sessions, the beginning or end of a turn. Changes of known items, notices and unknown updates do not separate
it. Does not know how messages are shown or joined into a turn's text (turns.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.schema import UNSET
from dragoman.schema.v1 import AgentMessageChunk, AgentThoughtChunk, TextContent, UserMessageChunk
from dragoman.state.message import Message
from dragoman.state.text_buffer import LONG_PIECE, MANY_PIECES, GrowingPassage, TextRoom

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final, TypeAlias

    from dragoman.schema import UnsetType
    from dragoman.schema.v1 import ContentBlock
    from dragoman.state.message import Role
    from dragoman.state.timeline import Timeline
    from dragoman.state.turns import Turns

    Chunk: TypeAlias = UserMessageChunk | AgentMessageChunk | AgentThoughtChunk

_ROLES: Final[dict[type, Role]] = {
    UserMessageChunk: "user",
    AgentMessageChunk: "agent",
    AgentThoughtChunk: "thought",
}


class _GrowingMessage(Message, GrowingPassage):
    __slots__ = ()

    def set_id(self, message_id: str) -> None:
        self._message_id = message_id
        self._changes += 1

    def set_meta(self, meta: dict[str, Any] | None) -> None:
        self._meta = meta


class Messages:
    """All messages of a session. One is open: the message that a chunk without an id continues.

    What a chunk is compared with, and the list it is written to, are kept here for the open message (`_kind`,
    `_wire_id`, `_pending`), because `fold_chunk` runs for every token of a model.
    """

    __slots__ = (
        "_by_id",
        "_kind",
        "_open",
        "_pending",
        "_prompt",
        "_timeline",
        "_turns",
        "_wire_id",
        "items",
        "room",
        "thoughts",
        "user_count",
    )

    def __init__(self, timeline: Timeline, turns: Turns, room: TextRoom) -> None:
        self.room = room  # for the text of agents; the user's own prompts are kept whole
        self._timeline = timeline
        self._turns = turns
        self.items: list[Message] = []
        self.thoughts: list[Message] = []
        self.user_count = 0  # how many messages of the user there are
        self._by_id: dict[tuple[type[Chunk], str], _GrowingMessage] = {}
        self._open = _GrowingMessage("agent", None, None)  # not shown: it stands where no message is open
        self._kind: type | None = None  # of the open message's chunks; None if no message is open
        self._wire_id: str | UnsetType | None = None  # as in its last chunk: here null and absent differ
        self._pending = self._open.pending
        self._prompt = self._open  # of the running turn

    def fold_chunk(self, chunk: Chunk) -> None:
        """Append a chunk to its message. Plain text for the open message is the fast path."""
        wire_id = chunk.message_id
        if self._kind is not type(chunk) or (self._wire_id is not wire_id and self._wire_id != wire_id):
            self._open_for(chunk)
        content = chunk.content
        if type(content) is TextContent and content.annotations is UNSET and content.meta is UNSET:
            text = content.text
            self._pending.append(text)
            if len(text) > LONG_PIECE:
                self._open.compress()
        else:
            self._open.append(content)
        if chunk.meta is not UNSET:
            self._open.set_meta(chunk.meta)

    def fold_user_chunk(self, chunk: UserMessageChunk) -> None:
        """Append a chunk of the user's message; an echo of the running prompt only gives its message an id."""
        turn = self._turns.running
        if turn is None or not turn.takes_echo(chunk.content):
            self.fold_chunk(chunk)
        elif isinstance(chunk.message_id, str):
            self._prompt.set_id(chunk.message_id)
            self._by_id[UserMessageChunk, chunk.message_id] = self._prompt

    def add_prompt(self, prompt: Sequence[ContentBlock]) -> None:
        """Add the user's prompt as a message: agents do not send it back."""
        self.room.refill()
        self._prompt = self._begin(UserMessageChunk, None, has_room=True)
        self._prompt.replace(prompt)

    def close(self) -> None:
        """End the open message: the next chunk without an id begins another one."""
        self._open.compress()
        self._kind = None

    def compress_long(self) -> None:
        """Join the texts of the open message if there are many: apart they take many times their size."""
        if len(self._pending) > MANY_PIECES:
            self._open.compress()

    def compress_open(self) -> None:
        """Join the texts of the open message, which stays open."""
        self._open.compress()

    def _open_for(self, chunk: Chunk) -> None:
        """Make the message of this chunk the open one."""
        kind, wire_id = type(chunk), chunk.message_id
        message: _GrowingMessage | None
        if isinstance(wire_id, str):
            message = self._by_id.get((kind, wire_id))
            if message is None:
                message = self._by_id[kind, wire_id] = self._begin(kind, wire_id)
        elif self._kind is not kind or self._open.message_id is not None:
            message = self._begin(kind, None)
        else:
            message = self._open
        self._wire_id = wire_id
        if message is not self._open or self._kind is None:
            self._open.compress()
            self._open = message
            self._kind = kind
            self._pending = message.pending
            if kind is AgentMessageChunk:
                self._turns.enter(message)

    def _begin(self, kind: type[Chunk], message_id: str | None, *, has_room: bool = False) -> _GrowingMessage:
        room = None if has_room else self.room
        message = _GrowingMessage(_ROLES[kind], message_id, self._turns.current_index, room)
        if kind is UserMessageChunk:
            self.user_count += 1
        self.items.append(message)
        if kind is AgentThoughtChunk:
            self.thoughts.append(message)
        self._timeline.append(message)
        return message
