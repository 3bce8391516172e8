"""What a conversation shows besides its session's state: prompts that wait, questions that are open, other sessions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from dragoman.schema import v1

Phase: TypeAlias = Literal["connecting", "opening", "ready", "lost", "failed"]
"""Where the conversation is: `lost` while the host is looked for again, `failed` when only the user can go on."""

SETTLE_SECONDS: Final = 0.4
"""Nothing that is typed so soon after a question appeared is an answer: it was meant for something else."""


class AgentInput(NamedTuple):
    """What an agent takes in prompts."""

    image: bool = False
    embedded: bool = False
    steer: bool = False


class TypedPrompt:
    """A prompt that was sent to the host, and whether its turn runs."""

    def __init__(self, id: str, blocks: list[v1.ContentBlock], text: str) -> None:
        self.id = id
        self.blocks = blocks
        self.text = text
        self.has_started = False
        self.sending: asyncio.Task[None] | None = None


class AskedQuestion:
    """A permission request that waits for an answer, from this client or from another one."""

    def __init__(self, id: str, request: v1.RequestPermissionRequest, shown_at: float) -> None:
        self.id = id
        self.request = request
        self.shown_at = shown_at
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    @property
    def options(self) -> list[v1.PermissionOption]:
        """What can be chosen, as the agent offers it."""
        return list(self.request.options)

    def is_settled(self, now: float) -> bool:
        """Whether the question was in sight long enough for an answer to be meant for it."""
        return now - self.shown_at >= SETTLE_SECONDS


class OpenForm:
    """A form of the agent that waits to be filled in."""

    def __init__(self, request: v1.ElicitationFormMode) -> None:
        self.request = request
        self.answer: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()


class ListedSession(Struct, frozen=True, kw_only=True):
    """One session of the host, in a list to choose from."""

    session_id: str
    name: str | None
    agent: str
    folder: str
    state: str
    title: str | None = None
    updated_at: str | None = None

    @property
    def word(self) -> str:
        """The state in words that a user reads."""
        return _WORDS.get(self.state, self.state)


_WORDS: Final = {
    "waiting": "needs you",
    "running": "running",
    "idle": "done",
    "lost": "agent ended",
    "stuck": "stuck",
    "closed": "closed",
    "readOnly": "history only",
}
