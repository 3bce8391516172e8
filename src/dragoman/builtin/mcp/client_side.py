"""What an MCP server can ask of its client: the folders of the session, an answer of the user, an answer of the model.

Owns the shapes between a connection and the session, so that neither depends on the other. Does not depend on the `mcp`
package or on ACP types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.builtin.mcp.config import ServerSpec


class UserQuestion(Struct, frozen=True):
    """A question of a server: a form with a JSON schema, or a page to visit."""

    message: str
    schema: dict[str, Any] | None = None
    url: str = ""
    id: str = ""
    """The server's id of the page."""


class UserReply(Struct, frozen=True):
    """The answer of the user; `content` holds the fields of a form that was accepted."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class SampleMessage(Struct, frozen=True):
    """One message for the model: its text, with what is not text described."""

    role: Literal["user", "assistant"]
    text: str


class SampleRequest(Struct, frozen=True):
    """A conversation that a server wants the model to continue."""

    messages: tuple[SampleMessage, ...]
    system: str = ""
    max_tokens: int = 0


class Sample(Struct, frozen=True):
    """The answer of the model."""

    text: str
    model: str
    is_cut: bool = False


class SampleRefused(DragomanError):
    """The model was not asked; the message states why."""


class ClientSide(Protocol):
    """The session, as its servers see it. The defaults offer nothing."""

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders of the session."""
        return ()

    async def ask_user(self, spec: ServerSpec, question: UserQuestion) -> UserReply:
        """Ask the user."""
        return UserReply("cancel")

    async def page_done(self, spec: ServerSpec, id: str) -> None:
        """Note that the user has finished on the page with this id, as the server reports."""
        return  # without this line the method would count as abstract

    async def ask_model(self, spec: ServerSpec, request: SampleRequest) -> Sample:
        """Ask the model. Raises: SampleRefused."""
        raise SampleRefused("no model can be asked here")


class NoClientSide(ClientSide):
    """A client that offers nothing, for a connection outside of a session."""
