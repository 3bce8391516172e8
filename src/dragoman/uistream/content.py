"""Content blocks of a prompt as message parts, and the inverse.

Owns both directions, so that a loaded session shows the user's messages as they were sent. A part without a matching
block gives none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from dragoman.schema import Unknown, v1
from dragoman.uistream.messages import (
    DataPart,
    FilePart,
    Part,
    SourceDocumentPart,
    SourceUrlPart,
    TextPart,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RESOURCE: Final = "resource"
RESOURCE_LINK: Final = "resource-link"
_DATA_URL: Final = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)


def parts_of(blocks: Iterable[v1.ContentBlock]) -> list[Part]:
    """Convert the blocks of a prompt to parts. A block of an unknown kind is left out: no model could read it."""
    return [_part(block) for block in blocks if not isinstance(block, Unknown)]


def blocks_of(parts: Iterable[Part]) -> list[v1.ContentBlock]:
    """Convert parts back to blocks; parts that are not content give none."""
    return [block for part in parts for block in block_of(part)]


def block_of(part: Part) -> Sequence[v1.ContentBlock]:
    match part:
        case TextPart():
            return (v1.TextContent(part.text),)
        case FilePart():
            name = part.filename if part.filename is not UNSET else ""
            return (file_block(part.url, part.media_type, name),)
        case SourceUrlPart():
            return (v1.ResourceLink(part.title or part.url, part.url),)
        case SourceDocumentPart():
            name = f"{part.title} ({part.filename})" if part.filename else part.title
            return (v1.TextContent(f"[{name}]"),)
        case DataPart(name="resource"):
            return (_resource(part.data),)
        case DataPart(name="resource-link"):
            return (_link(part.data),)
        case _:
            return ()


def file_block(url: str, media_type: str, name: str = "") -> v1.ContentBlock:
    """Return a file as a block: its content if the URL carries it, otherwise a link."""
    found = _DATA_URL.fullmatch(url)
    if found is None:
        return v1.ResourceLink(name or url.rsplit("/", 1)[-1] or url, url, mime_type=media_type)
    data = found[2]
    if media_type.startswith("image/"):
        return v1.ImageContent(data, media_type)
    if media_type.startswith("audio/"):
        return v1.AudioContent(data, media_type)
    return v1.EmbeddedResource(v1.BlobResourceContents(data, f"attachment:///{name or 'file'}", media_type))


def _part(block: v1.ContentBlock) -> Part:
    match block:
        case v1.TextContent():
            return TextPart(block.text)
        case v1.ImageContent() | v1.AudioContent():
            return FilePart(f"data:{block.mime_type};base64,{block.data}", block.mime_type)
        case v1.ResourceLink():
            optional = {"title": block.title, "description": block.description, "media_type": block.mime_type}
            return DataPart(RESOURCE_LINK, {"name": block.name, "uri": block.uri, **_present(optional)})
        case v1.EmbeddedResource():
            contents = block.resource
            body = {"text": contents.text} if isinstance(contents, v1.TextResourceContents) else {"blob": contents.blob}
            return DataPart(RESOURCE, {"uri": contents.uri, **body, **_present({"media_type": contents.mime_type})})
        case _:
            raise AssertionError(block)


def _resource(data: dict[str, Any]) -> v1.EmbeddedResource:
    media_type = data.get("media_type", UNSET)
    if "text" in data:
        return v1.EmbeddedResource(v1.TextResourceContents(data["text"], data["uri"], media_type))
    return v1.EmbeddedResource(v1.BlobResourceContents(data["blob"], data["uri"], media_type))


def _link(data: dict[str, Any]) -> v1.ResourceLink:
    return v1.ResourceLink(
        data["name"],
        data["uri"],
        description=data.get("description", UNSET),
        mime_type=data.get("media_type", UNSET),
        title=data.get("title", UNSET),
    )


def _present(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not UNSET and value is not None}
