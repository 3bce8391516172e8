"""What sources yield as typed chunks: text, typed chunks, and chunks as JSON objects.

Owns which values are accepted and how loose text becomes passages. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast, get_args

import msgspec

from dragoman.adapters.values import AdapterError
from dragoman.schema import v1
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TYPED: Final[tuple[type, ...]] = (*get_args(c.Chunk),)


def as_chunk(item: Any) -> c.Chunk:
    """Return one yielded value as a chunk. Text becomes a delta of the passage `text`.

    Raises: AdapterError for a value of another kind, or a chunk with a wrong member.
    """
    if isinstance(item, _TYPED):
        return cast("c.Chunk", item)
    if isinstance(item, str):
        return c.TextDelta("text", item)
    if isinstance(item, Mapping):
        try:
            return c.decode_chunk(msgspec.json.encode(dict(item)))
        except (c.ChunkError, TypeError) as error:
            raise AdapterError(
                f"the source yielded a JSON object that is not a chunk of a UI-message stream: {error}"
            ) from None
    raise AdapterError(
        f"the source yielded {type(item).__name__}; yield text (str), or chunks of a UI-message stream "
        "(dragoman.uistream.chunks, or their JSON objects)"
    )


class Passages:
    """The passages of loose text, begun and ended so that text after a tool call is a message below it."""

    def __init__(self) -> None:
        self._count = 0
        self._open: str | None = None

    def feed(self, item: Any) -> Iterator[c.Chunk]:
        """Yield the chunks for one yielded value. Raises: AdapterError."""
        if isinstance(item, str):
            if item:
                yield from self._text(item)
            return
        chunk = as_chunk(item)
        if not isinstance(chunk, c.Data):
            yield from self.close()
        yield chunk

    def close(self) -> Iterator[c.Chunk]:
        """End the passage that is open."""
        if self._open is not None:
            yield c.TextEnd(self._open)
            self._open = None

    def _text(self, text: str) -> Iterator[c.Chunk]:
        if self._open is None:
            self._count += 1
            self._open = f"passage_{self._count}"
            yield c.TextStart(self._open)
        yield c.TextDelta(self._open, text)


def text_of(blocks: Iterable[v1.ContentBlock]) -> str:
    """Return a prompt as one text: embedded texts and links are included, images and audio are not."""
    pieces: list[str] = []
    for block in blocks:
        match block:
            case v1.TextContent():
                pieces.append(block.text)
            case v1.ResourceLink():
                pieces.append(f"[{block.name}]({block.uri})")
            case v1.EmbeddedResource(resource=v1.TextResourceContents() as contents):
                pieces.append(f'\n<resource uri="{contents.uri}">\n{contents.text}\n</resource>\n')
            case v1.EmbeddedResource():
                pieces.append(f"[{block.resource.uri}]")
    return "".join(pieces)
