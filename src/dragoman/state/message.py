"""One message, as programs read it. Which chunk belongs to which message is decided in messages.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.state.text_buffer import Passage

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from dragoman.state.text_buffer import TextRoom

    Role: TypeAlias = Literal["user", "agent", "thought"]


class Message(Passage):
    """One message of the user or of the agent, or one thought of the agent."""

    __slots__ = ("_message_id", "_role")

    def __init__(self, role: Role, message_id: str | None, turn: int | None, room: TextRoom | None = None) -> None:
        super().__init__(turn, room)
        self._role = role
        self._message_id = message_id

    @property
    def role(self) -> Role:
        """`user`, `agent`, or `thought` for the agent's thinking."""
        return self._role

    @property
    def message_id(self) -> str | None:
        """The agent's id for this message, if it gave one."""
        return self._message_id

    def __repr__(self) -> str:
        return f"Message({self._role!r}, {self._message_id!r}, {self.text!r})"
