"""Which chunk belongs to which message.

With a message id the id decides, within its role (one real agent gives a thought and its answer the same id), even
when messages interleave (rule 212). Without one, or with null (213), a chunk continues the message before it, unless
the role changed, that message has an id, or something new came between: a tool call, a plan, a compaction, a message
between sessions, the beginning or end of a turn. Changes of known items, notices and unknown updates do not part it.
Does not know how messages are shown or joined into a turn's text (turns.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.schema import UNSET
from dragoman.schema.v1 import AgentMessageChunk, AgentThoughtChunk, TextContent, UserMessageChunk
from dragoman.state.text_buffer import Passage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final, Literal, TypeAlias

    from dragoman.schema import UnsetType
    from dragoman.schema.v1 import ContentBlock
    from dragoman.state.session import SessionState
    from dragoman.state.turns import Span

    Role: TypeAlias = Literal["user", "agent", "thought"]
    Chunk: TypeAlias = UserMessageChunk | AgentMessageChunk | AgentThoughtChunk

ROLES: Final[dict[type, Role]] = {
    UserMessageChunk: "user",
    AgentMessageChunk: "agent",
    AgentThoughtChunk: "thought",
}


class Message(Passage):
    """One message of the user, the agent, or the agent's thinking."""

    __slots__ = ("_kind", "_message_id", "_role", "_span", "_wire_id")

    def __init__(self, kind: type[Chunk], message_id: str | None, turn: int | None) -> None:
        super().__init__(turn)
        self._kind: type | None = kind
        self._role = ROLES[kind]
        self._message_id = message_id
        self._wire_id: str | UnsetType | None = message_id  # as the last chunk had it: null and absent differ here only
        self._span: Span | None = None

    @property
    def role(self) -> Role:
        """Who speaks: `user`, `agent`, or `thought` for the agent's thinking."""
        return self._role

    @property
    def message_id(self) -> str | None:
        """The agent's id for this message, if it gave one."""
        return self._message_id

    def __repr__(self) -> str:
        return f"Message({self._role!r}, {self._message_id!r}, {self.text!r})"


def nobody() -> Message:
    """A message that no chunk continues: it stands where none is open."""
    message = Message(AgentMessageChunk, None, None)
    message._kind = None
    return message


def fold_chunk(state: SessionState, chunk: Chunk) -> None:
    """The streaming path: everything that is not the next plain text of the open message is left to others."""
    message = state._open
    wire_id = chunk.message_id
    if message._kind is not type(chunk) or (message._wire_id is not wire_id and message._wire_id != wire_id):
        message = _find(state, chunk)
    content = chunk.content
    if type(content) is TextContent and content.annotations is UNSET and content.meta is UNSET:
        message._pending.append(content.text)
    else:
        message._append(content)
    if chunk.meta is not UNSET:
        message._meta = chunk.meta


def fold_user_chunk(state: SessionState, chunk: UserMessageChunk) -> None:
    """An agent that repeats the prompt it was just given names the message that is already there."""
    turn = state._running
    if turn is not None and turn._takes_echo(chunk.content):
        if isinstance(chunk.message_id, str):
            message = turn._prompt_message
            message._message_id = chunk.message_id
            message._changes += 1
            state._by_id["user", chunk.message_id] = message
    else:
        fold_chunk(state, chunk)


def say_prompt(state: SessionState, prompt: Sequence[ContentBlock]) -> Message:
    """What the user asks, as a message; agents do not send it back."""
    message = _begin(state, UserMessageChunk, None)
    message._replace(prompt)
    return message


def close_open(state: SessionState) -> None:
    """No chunk without an id continues what was said before this point."""
    state._open._absorb()  # text parts take several times the memory of the text
    state._open = state._nobody


def _find(state: SessionState, chunk: Chunk) -> Message:
    wire_id = chunk.message_id
    message: Message | None
    if isinstance(wire_id, str):
        message = state._by_id.get((ROLES[type(chunk)], wire_id))
        if message is None:
            message = _begin(state, type(chunk), wire_id)
            state._by_id[message._role, wire_id] = message
    else:
        message = state._open
        if message._kind is not type(chunk) or message._message_id is not None:
            message = _begin(state, type(chunk), None)
    message._wire_id = wire_id
    if message is not state._open:
        close_open(state)
        state._open = message
        if message._role == "agent":
            _enter_turn(state, message)
    return message


def _begin(state: SessionState, kind: type[Chunk], message_id: str | None) -> Message:
    message = Message(kind, message_id, state._turn_index)
    if kind is UserMessageChunk:
        state._plan_is_open = False
    state._messages.append(message)
    if kind is AgentThoughtChunk:
        state._thoughts.append(message)
    state._timeline.append(message)
    return message


def _enter_turn(state: SessionState, message: Message) -> None:
    """Its text counts for the running turn, or, late, for the turn that was cancelled or already has it."""
    span = message._span
    turn = state._running or state._late or (span._turn if span is not None else None)
    if turn is not None:
        turn._enter(message)
