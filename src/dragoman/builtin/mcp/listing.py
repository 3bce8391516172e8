"""What an MCP server offers: tools, resources, templates of resources, and prompts, in our own form.

Owns these shapes, their limits, and the translation from the objects of the `mcp` package, which have the same members.
The texts are those of the server: they are data, and are made safe where they are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.builtin.mcp.tools import Offer
from dragoman.builtin.skills.manifest import SkillOffer

if TYPE_CHECKING:
    import mcp_types

MOST_ENTRIES: Final = 512
MOST_PAGES: Final = 64


class ResourceOffer(Struct, frozen=True):
    """A resource, or a template whose `uri` has places to fill, such as `log://{day}`."""

    uri: str
    name: str = ""
    description: str = ""
    media_type: str = ""
    size_bytes: int | None = None
    is_template: bool = False


class PromptParameter(Struct, frozen=True):
    """One argument of a prompt."""

    name: str
    is_required: bool = False


class PromptOffer(Struct, frozen=True):
    """A prompt that the user can send."""

    name: str
    description: str = ""
    parameters: tuple[PromptParameter, ...] = ()


class Listing(Struct, frozen=True):
    """Everything that a server offers, and what it says about itself."""

    tools: tuple[Offer, ...] = ()
    resources: tuple[ResourceOffer, ...] = ()
    """Resources first, then templates."""
    prompts: tuple[PromptOffer, ...] = ()
    has_resources: bool = False
    """Whether it has resources, even if it lists none."""
    title: str = ""
    """Its own name and version."""
    protocol: str = ""
    skills: tuple[SkillOffer, ...] | None = None
    """The skills that it lists; None if it does not know the extension for them."""
    problems: tuple[str, ...] = ()
    """What is wrong with entries that were left out."""


class PromptMessage(Struct, frozen=True):
    """One message of a prompt, as text."""

    role: str
    text: str


def tool_offer(tool: mcp_types.Tool) -> Offer:
    hints = tool.annotations
    return Offer(
        tool.name,
        (hints and hints.title) or tool.title or "",
        tool.description or "",
        tool.input_schema,
        is_read_only=hints is not None and hints.read_only_hint is True,
        is_open_world=hints is not None and hints.open_world_hint is True,
    )


def resource_offer(found: mcp_types.Resource) -> ResourceOffer:
    title = found.title or found.name
    return ResourceOffer(found.uri, title, found.description or "", found.mime_type or "", found.size)


def template_offer(found: mcp_types.ResourceTemplate) -> ResourceOffer:
    title, media_type = found.title or found.name, found.mime_type or ""
    return ResourceOffer(found.uri_template, title, found.description or "", media_type, is_template=True)


def prompt_offer(found: mcp_types.Prompt) -> PromptOffer:
    parameters = tuple(PromptParameter(argument.name, argument.required is True) for argument in found.arguments or ())
    return PromptOffer(found.name, found.description or found.title or "", parameters)


class ResourceText(Struct, frozen=True):
    """One part of a resource that was read; `text` is None for binary content."""

    uri: str
    text: str | None
    media_type: str = ""
    blob: str = ""
    """Base64."""


def resource_texts(contents: Any) -> tuple[ResourceText, ...]:
    """Read the contents of a resource of the package."""
    return tuple(
        ResourceText(content.uri, getattr(content, "text", None), content.mime_type or "", getattr(content, "blob", ""))
        for content in contents
    )
