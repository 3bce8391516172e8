"""Content blocks from files and plain values, for prompts and for an agent's messages.

Owns reading the file, its media type and the base64. Whether the other side takes such a block is checked when it is
sent.
"""

from __future__ import annotations

import base64
import mimetypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.errors import LocalProtocolError
from dragoman.schema import UNSET, v1

if TYPE_CHECKING:
    from collections.abc import Sequence

# How the files of each type begin. Webp has its name after the size.
_IMAGES: Final[Sequence[tuple[bytes, int, str]]] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF8", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
)


def image(source: str | os.PathLike[str] | bytes, *, mime_type: str | None = None) -> v1.ImageContent:
    """Make an image for a prompt or a message.

    Args:
        source: the path of a file, or the bytes of one.
        mime_type: its type; found in the first bytes if not given.

    Raises:
        OSError: the file cannot be read.
        LocalProtocolError: it is not a PNG, JPEG, GIF or WebP, and `mime_type` is not given.
    """
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    kind = mime_type or next((kind for head, at, kind in _IMAGES if data[at : at + len(head)] == head), None)
    if kind is None:
        what = "the given bytes" if isinstance(source, bytes) else os.fspath(source)
        raise LocalProtocolError(f"{what}: not a PNG, JPEG, GIF or WebP image; give its mime_type")
    return v1.ImageContent(base64.b64encode(data).decode(), kind)


def resource(path: str | os.PathLike[str], *, mime_type: str | None = None) -> v1.EmbeddedResource:
    """Make a block of a file with its content, so that the agent need not read it: as text if it is UTF-8, else as
    base64.

    Raises:
        OSError: the file cannot be read.
    """
    data, uri, kind = Path(path).read_bytes(), _uri(path), _type_of(path, mime_type)
    try:
        return v1.EmbeddedResource(v1.TextResourceContents(data.decode(), uri, kind))
    except UnicodeDecodeError:
        return v1.EmbeddedResource(v1.BlobResourceContents(base64.b64encode(data).decode(), uri, kind))


def link(path: str | os.PathLike[str], *, mime_type: str | None = None) -> v1.ResourceLink:
    """Make a link to a file that the agent may read by itself; every agent takes links.

    Raises:
        OSError: there is no such file.
    """
    size = os.stat(path).st_size
    return v1.ResourceLink(Path(path).name, _uri(path), mime_type=_type_of(path, mime_type) or UNSET, size=size)


def _uri(path: str | os.PathLike[str]) -> str:
    return Path(os.path.abspath(path)).as_uri()


def _type_of(path: str | os.PathLike[str], mime_type: str | None) -> str | None:
    return mime_type or mimetypes.guess_type(os.fspath(path))[0]
