"""A prompt as the content of a message to Claude.

Owns both directions: blocks of a prompt as Anthropic's content blocks, and those of a stored message as parts. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from dragoman.schema import v1
from dragoman.uistream.messages import FilePart, Part, TextPart

if TYPE_CHECKING:
    from collections.abc import Iterable

_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_PDF: Final = "application/pdf"


def content_of(blocks: Iterable[v1.ContentBlock]) -> str | list[dict[str, Any]]:
    """Return the content of a message: one text if there is nothing else, so that slash commands are recognised."""
    content: list[dict[str, Any]] = []
    for block in blocks:
        made = _content(block)
        if isinstance(made, str):
            made = {"type": "text", "text": made}
        if made["type"] == "text" and content and content[-1]["type"] == "text":
            content[-1]["text"] += made["text"]
        else:
            content.append(made)
    if len(content) == 1 and content[0]["type"] == "text":
        text: str = content[0]["text"]
        return text
    return content


def parts_of_content(content: Any) -> list[Part]:
    """Return the parts of a stored message of the user."""
    if isinstance(content, str):
        return [TextPart(content)]
    parts: list[Part] = []
    for block in content if isinstance(content, list) else ():
        match block:
            case {"type": "text", "text": str(text)}:
                parts.append(TextPart(text))
            case {"type": "image" | "document", "source": {"data": str(data), "media_type": str(kind)}}:
                parts.append(FilePart(f"data:{kind};base64,{data}", kind))
    return parts


def _content(block: v1.ContentBlock) -> str | dict[str, Any]:
    match block:
        case v1.TextContent():
            return block.text
        case v1.ImageContent():
            return _binary(block.data, block.mime_type, block.uri or "image")
        case v1.ResourceLink():
            return _mention(block.uri, block.name)
        case v1.EmbeddedResource(resource=v1.TextResourceContents() as resource):
            return f'\n<resource uri="{resource.uri}">\n{resource.text}\n</resource>\n'
        case v1.EmbeddedResource(resource=v1.BlobResourceContents() as blob):
            return _binary(blob.blob, blob.mime_type or "", blob.uri)
    return ""


def _binary(data: str, media_type: str, uri: str) -> str | dict[str, Any]:
    """Put bytes in a form that the model reads; what it cannot read is named."""
    source = {"type": "base64", "media_type": media_type, "data": data}
    if media_type in _IMAGES:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source} if media_type == _PDF else _mention(uri, uri)


def _mention(uri: str, name: str) -> str:
    """Return a link. A file is mentioned as users do it, which makes Claude read it."""
    place = urlsplit(uri)
    if place.scheme != "file" or place.netloc not in ("", "localhost"):
        return f"[{name}]({uri})" if name != uri else uri
    path = unquote(place.path)
    return f'@"{path}" ' if any(letter.isspace() for letter in path) else f"@{path} "
