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
        "_has_own_prompt",
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
        self._has_own_prompt = False  # its content is what was sent, not yet what the agent made of it

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
        self._has_own_prompt = True

    # Messages of version 2, which all have an id

    def name_prompt(self, message_id: str) -> None:
        """Take the id that the agent gave the prompt of the last turn."""
        if self._prompt.message_id is None and (UserMessageChunk, message_id) not in self._by_id:
            self._prompt.set_id(message_id)
            self._by_id[UserMessageChunk, message_id] = self._prompt

    def fold_named_user_chunk(self, chunk: UserMessageChunk) -> None:
        """Append a chunk of a user message; the agent's form of the prompt takes the place of what was sent."""
        if isinstance(chunk.message_id, str):
            self._find_prompt(chunk.message_id, (chunk.content,))
            if self._has_own_prompt and self._prompt.message_id == chunk.message_id:
                self._timeline.touch(self._prompt)
                self._prompt.replace(())
                self._has_own_prompt = False
        self.fold_chunk(chunk)

    def fold_whole(
        self,
        kind: type[Chunk],
        message_id: str,
        content: Sequence[ContentBlock] | UnsetType,
        meta: dict[str, Any] | UnsetType | None,
    ) -> None:
        """Add a message, or replace the content of the one that has this id.

        Args:
            kind: The type of the chunks of such a message.
            content: Its new content; UNSET leaves what is there.
            meta: Changes `_meta` member by member; null clears all, or the member.
        """
        if kind is UserMessageChunk and content is not UNSET:
            self._find_prompt(message_id, content)
        message = self._by_id.get((kind, message_id))
        if message is None:
            self.close()
            message = self._by_id[kind, message_id] = self._begin(kind, message_id)
        self._timeline.touch(message)
        if content is not UNSET:
            message.replace(content)
            if message is self._prompt:
                self._has_own_prompt = False
            if kind is AgentMessageChunk:
                self._turns.rewrite(message)
        if meta is not UNSET:
            message.patch_meta(patched(message.meta, meta))

    def find(self, role: Role, message_id: str) -> Message | None:
        """Return the message of this role that has this id."""
        kind = next(kind for kind, known in _ROLES.items() if known == role)
        return self._by_id.get((kind, message_id))

    def _find_prompt(self, message_id: str, content: Sequence[ContentBlock]) -> None:
        """Name the prompt of the running turn if a message with a new id is what was sent, or its beginning."""
        if (
            self._turns.running is not None
            and self._prompt.message_id is None
            and (UserMessageChunk, message_id) not in self._by_id
            and begins_with(self._turns.running.prompt, content)
        ):
            self.name_prompt(message_id)

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
            self._timeline.touch(message)
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


def patched(meta: dict[str, Any] | None, patch: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return `_meta` after a change by version 2: member by member; null removes a member, or everything."""
    if patch is None:
        return None
    return {name: value for name, value in {**(meta or {}), **patch}.items() if value is not None}


def begins_with(prompt: Sequence[ContentBlock], content: Sequence[ContentBlock]) -> bool:
    """Whether this content is a prompt or its beginning; texts may be cut differently."""
    shown = "".join(block.text for block in content if isinstance(block, TextContent))
    asked = "".join(block.text for block in prompt if isinstance(block, TextContent))
    others = [block for block in content if not isinstance(block, TextContent)]
    return asked.startswith(shown) and others == [b for b in prompt if not isinstance(b, TextContent)][: len(others)]
