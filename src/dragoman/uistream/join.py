"""Deltas of one text that follow one another directly, joined, so that a fast stream is stored and shown in few pieces.

Owns which chunks can be joined, and how long a piece becomes: the result folds into the same message and is shown as
the same text, and a long text is still shown in pieces. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Characters of joined text that appear at once, about three lines. More of them are shown as two pieces or three.
LETTERS: Final = 256


def joined(chunks: Sequence[c.Chunk]) -> list[c.Chunk]:
    """Return the chunks with each run of plain deltas of one text, thought or tool input as few chunks."""
    result: list[c.Chunk] = []
    start = 0
    while start < len(chunks):
        end = start + 1
        key = _key(chunks[start])
        if key is not None:
            while end < len(chunks) and _key(chunks[end]) == key:
                end += 1
        if end > start + 1 and key is not None:
            kind, id = key
            result += (kind(id, text) for text in _pieces(kind, list(map(_piece, chunks[start:end]))))
        else:
            result.append(chunks[start])
        start = end
    return result


def _pieces(kind: Callable[[str, str], c.Chunk], texts: list[str]) -> Iterator[str]:
    """Join the texts of a run: up to `LETTERS` or half of the run at a time. Arguments of a tool become one piece."""
    length = sum(map(len, texts))
    most = length if kind is c.ToolInputDelta else max(LETTERS, (length + 1) // 2)
    piece: list[str] = []
    size = 0
    for text in texts:
        if piece and size + len(text) > most:
            yield "".join(piece)
            piece, size = [], 0
        piece.append(text)
        size += len(text)
    yield "".join(piece)


def _key(chunk: c.Chunk) -> tuple[Callable[[str, str], c.Chunk], str] | None:
    """Return what two deltas must have in common to be joined; None for any other chunk."""
    if isinstance(chunk, c.ToolInputDelta):
        return c.ToolInputDelta, chunk.tool_call_id
    if isinstance(chunk, (c.TextDelta, c.ReasoningDelta)) and chunk.provider_metadata is UNSET:
        return type(chunk), chunk.id
    return None


def _piece(chunk: c.Chunk) -> str:
    if isinstance(chunk, c.ToolInputDelta):
        return chunk.input_text_delta
    assert isinstance(chunk, (c.TextDelta, c.ReasoningDelta))
    return chunk.delta
