"""Blocks as lines of a terminal: append-only, without cursor movement, and readable without colour.

Every block begins with a word that says what it is (`you:`, `agent:`, `tool:`), so that nothing depends on colour or
boxes. Owns the wrapping. Pure: the caller knows the width and whether there is colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.colour import BOLD, CYAN, DIM, GREEN, RED, YELLOW
from dragoman.text.terminal import plain
from dragoman.text.visible import label, spelled, wrapped
from dragoman.view.blocks import (
    DiffPiece,
    LinkPiece,
    MediaPiece,
    MessageBlock,
    NoteBlock,
    OtherPiece,
    PlanBlock,
    ResourcePiece,
    ShownTerminal,
    TextPiece,
    ToolBlock,
    TurnBlock,
)
from dragoman.view.labels import STEP_SIGNS, described, ending, outcome, seconds_text, tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dragoman.text.colour import Painter
    from dragoman.view.blocks import Block, ToolPiece

_WHO: Final = {"user": ("you:", CYAN), "agent": ("agent:", BOLD), "thought": ("thought:", DIM)}
_INDENT: Final = "  "
_OUTPUT_LINES: Final = 20  # of a tool's output; the export has all of it
_DIFF_LINES: Final = 60


def lines_of(blocks: Iterable[Block], width: int, paint: Painter, *, is_full: bool = False) -> Iterator[str]:
    """Yield the lines of a conversation, each at most `width` columns.

    Args:
        is_full: long outputs and changes are not cut.
    """
    view = _Lines(max(20, width), paint, is_full=is_full)
    for number, block in enumerate(blocks):
        if number:
            yield ""
        yield from view.block(block)


class _Lines:
    def __init__(self, width: int, paint: Painter, *, is_full: bool) -> None:
        self._width = width
        self._paint = paint
        self._is_full = is_full

    def block(self, block: Block) -> Iterator[str]:
        paint = self._paint
        match block:
            case MessageBlock():
                word, style = _WHO[block.role]
                yield paint(word, style)
                for piece in block.content:
                    yield from self._piece(piece, DIM if block.role == "thought" else "")
            case ToolBlock():
                yield from self._tool(block)
            case PlanBlock():
                yield paint("plan:", BOLD) + (" removed" if block.is_removed else "")
                for step in block.steps:
                    yield from self._text(f"{STEP_SIGNS.get(step.status, '☐')} {step.text}")
                yield from self._text(block.text)
                yield from self._text(block.uri or "")
            case NoteBlock():
                status = f" ({label(block.status, 20)})" if block.status else ""
                word = paint(f"{block.kind.replace('_', ' ')}:", BOLD)
                yield f"{word} {label(block.title, self._width - 20)}{status}"
                yield from self._text(block.text, DIM)
            case TurnBlock():
                words = " · ".join(filter(None, (ending(block), seconds_text(block.seconds), tokens(block))))
                yield paint(f"-- {label(words, self._width - 3)}", DIM)

    def _tool(self, block: ToolBlock) -> Iterator[str]:
        word = label(outcome(block), 30)
        style = {"completed": GREEN, "failed": RED, "cancelled": YELLOW}.get(word, RED if " " in word else "")
        head = f"tool: {label(block.kind, 12)} {label(block.title, self._width - 30)}"
        yield f"{self._paint('tool:', BOLD)}{head[5:]}, {self._paint(word, style) if style else word}{_time(block)}"
        if block.command and block.command.strip() not in block.title:
            yield from self._text(f"$ {block.command}")
        places = [place for place in block.locations if place.partition(":")[0].rpartition("/")[2] not in block.title]
        if places:
            yield from self._text(", ".join(places[:10]), DIM)
        for piece in block.content:
            yield from self._piece(piece, DIM, is_output=True)
        if block.output is not None:
            yield from self._output(block.output)

    def _piece(self, piece: ToolPiece, style: str, *, is_output: bool = False) -> Iterator[str]:
        match piece:
            case TextPiece():
                yield from self._output(piece.text) if is_output else self._text(piece.text, style)
            case MediaPiece() | LinkPiece() | ResourcePiece() | OtherPiece():
                yield from self._text(described(piece), DIM)
            case DiffPiece():
                yield from self._diff(piece)
            case ShownTerminal():
                if piece.command:
                    yield from self._text(f"$ {piece.command}")
                yield from self._output("(its output is not known)" if piece.output is None else piece.output)

    def _diff(self, piece: DiffPiece) -> Iterator[str]:
        note = ", new file" if piece.is_new else ""
        yield from self._text(f"{piece.path} +{piece.added} -{piece.removed}{note}", BOLD)
        lines = [(line.sign, line.text) for hunk in piece.hunks for line in hunk.lines]
        shown = lines if self._is_full else lines[:_DIFF_LINES]
        for sign, text in shown:
            style = {"+": GREEN, "-": RED}.get(sign, "")
            for part in wrapped(sign + spelled(text), self._width - len(_INDENT)):
                yield _INDENT + (self._paint(part, style) if style else part)
        left = len(lines) - len(shown) + piece.left_out
        if left:
            yield _INDENT + self._paint(f"… {left} more lines", DIM)

    def _output(self, text: str) -> Iterator[str]:
        lines = plain(text).strip("\n").split("\n")
        shown = lines if self._is_full else lines[-_OUTPUT_LINES:]
        if len(lines) > len(shown):
            yield _INDENT + self._paint(f"… {len(lines) - len(shown)} lines before", DIM)
        yield from self._text("\n".join(shown), DIM)

    def _text(self, text: str, style: str = "") -> Iterator[str]:
        text = plain(text).strip("\n")
        if not text.strip():
            return
        for line in text.split("\n"):
            for part in wrapped(line.expandtabs(4), self._width - len(_INDENT)):
                yield (_INDENT + (self._paint(part, style) if style else part)).rstrip()


def _time(block: ToolBlock) -> str:
    time = seconds_text(block.seconds)
    return f", {time}" if time else ""
