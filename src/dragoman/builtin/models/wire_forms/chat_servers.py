"""What servers of OpenAI's chat completions do differently from each other.

Owns the table. A server that is not in it gets the defaults, which are those that most servers accept: only members
that the form has had from its beginning.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct


class ChatServer(Struct, frozen=True):
    """The differences of one server."""

    tokens_member: str = "max_tokens"
    """The member that limits the output."""
    usual_output: int | None = None
    """The limit to send when none is wanted, for a server whose own is too small for a coding agent."""
    has_stream_options: bool = True
    """Whether `stream_options` may be sent; without it most servers send no usage."""
    effort: Literal["gpt-oss", "thinking", "openrouter", "none"] = "gpt-oss"
    """When the effort is sent, as `reasoning_effort`: only to the gpt-oss models, to all that are known to think; as
    `reasoning`, OpenRouter's own member; or never."""
    thoughts: Literal["same", "details", "none"] = "same"
    """How thoughts are sent back: in the member they came in, as `reasoning_details`, or not at all."""
    sees_images: bool = True
    reads_documents: bool = False
    """Whether PDFs may be sent, as parts of the type `file`."""
    has_cache_key: bool = False
    """Whether `prompt_cache_key` may be sent."""
    has_cache_marks: bool = False
    """Whether `cache_control` may be sent for Anthropic's models."""
    id_length: int = 40
    """The longest id of a tool call."""
    has_exact_ids: bool = False
    """Whether ids must have exactly that length, in letters and digits."""


_DEFAULT: Final = ChatServer()
_SERVERS: Final = {
    "openai-chat": ChatServer(
        tokens_member="max_completion_tokens",
        effort="thinking",
        thoughts="none",
        reads_documents=True,
        has_cache_key=True,
    ),
    "openrouter": ChatServer(effort="openrouter", thoughts="details", reads_documents=True, has_cache_marks=True),
    "vercel": ChatServer(thoughts="details", has_cache_marks=True),
    # Refuses members that it does not know, and sends the usage without being asked for it.
    "mistral": ChatServer(has_stream_options=False, effort="none", thoughts="none", id_length=9, has_exact_ids=True),
    "github": ChatServer(thoughts="none"),
    "deepseek": ChatServer(effort="none", sees_images=False),
    "cerebras": ChatServer(tokens_member="max_completion_tokens", sees_images=False),
    "groq": ChatServer(tokens_member="max_completion_tokens"),
    # Its models refuse an effort, except the small ones of the third generation.
    "xai": ChatServer(tokens_member="max_completion_tokens", effort="none"),
    "moonshotai": ChatServer(effort="none"),
    "zai": ChatServer(effort="none"),
    "alibaba": ChatServer(effort="none"),
    "fireworks": ChatServer(usual_output=16_384),
}


def server_of(provider: str) -> ChatServer:
    return _SERVERS.get(provider, _DEFAULT)
