"""A block as text to be copied: as it was written, without rails, line numbers and wrapping. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.text.terminal import plain
from dragoman.view.blocks import (
    DiffPiece,
    MessageBlock,
    NoteBlock,
    PlanBlock,
    ResourcePiece,
    ShownTerminal,
    TextPiece,
    ToolBlock,
    TurnBlock,
)
from dragoman.view.labels import described, ending
from dragoman.view.rails.drawing import without_fence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.view.blocks import Block, ToolPiece


def copied_text(block: Block) -> str:
    """Return the text of a block; controls are removed, so that it is safe to be pasted into a terminal."""
    return plain("\n".join(part.strip("\n") for part in _parts(block) if part.strip()))


def _parts(block: Block) -> Iterator[str]:
    match block:
        case MessageBlock():
            yield from (_piece(piece) for piece in block.content)
        case ToolBlock():
            yield block.command or block.title
            yield from (_piece(piece) for piece in block.content)
            yield without_fence(block.output or "")
        case PlanBlock():
            yield from (f"- [{'x' if step.status == 'completed' else ' '}] {step.text}" for step in block.steps)
            yield block.text
            yield block.uri or ""
        case NoteBlock():
            yield block.title
            yield block.text
        case TurnBlock():
            yield ending(block)


def _piece(piece: ToolPiece) -> str:
    match piece:
        case TextPiece():
            return without_fence(piece.text)
        case ResourcePiece():
            return piece.text
        case ShownTerminal():
            return piece.output or ""
        case DiffPiece():
            lines = [line.sign + line.text for hunk in piece.hunks for line in hunk.lines]
            return "\n".join([f"--- {piece.path}", f"+++ {piece.path}", *lines])
    return described(piece)
