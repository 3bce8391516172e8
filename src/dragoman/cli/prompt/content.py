"""A content block as text: text as it is, everything else as a short description."""

from __future__ import annotations

from dragoman.schema import Unknown, v1
from dragoman.text.terminal import plain, size
from dragoman.text.visible import label

_NAME = 120  # columns of an address or a name


def text_of(block: v1.ContentBlock) -> str:
    """Return the block as text that is safe to show."""
    match block:
        case v1.TextContent(text=text):
            return plain(text)
        case v1.ImageContent(data=data, mime_type=mime) | v1.AudioContent(data=data, mime_type=mime):
            return f"[{label(mime, 40)}, {size(len(data) * 3 // 4)} bytes]"
        case v1.ResourceLink(name=name, uri=uri):
            return f"[{label(name, _NAME)}: {label(uri, _NAME)}]"
        case v1.EmbeddedResource(resource=v1.TextResourceContents(uri=uri, text=text)):
            return f"[{label(uri, _NAME)}, {size(len(text))} letters]"
        case v1.EmbeddedResource(resource=resource):
            return f"[{label(resource.uri, _NAME)}]"
        case Unknown(tag=tag):
            return f"[{label(tag or '', 40, 'content of unknown kind')}]"
