"""Blocks as styled lines with a rail: the first column says what a line belongs to, so nothing depends on colour.

A line is a list of runs, each a text with the name of a style; what a style looks like is up to the screen. All texts
are safe when they leave this module: controls are gone, and what will happen is spelled out. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from dragoman.text.terminal import cells, clip, plain, size
from dragoman.text.visible import label, spelled
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
from dragoman.view.labels import ending, outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dragoman.view.blocks import Block, ToolPiece

Style: TypeAlias = Literal["", "dim", "bold", "user", "good", "bad", "warn", "added", "removed", "code", "heading"]
Run: TypeAlias = tuple[str, Style]
RailLine: TypeAlias = tuple[Run, ...]


class Glyphs(NamedTuple):
    """The characters of the rail and of states; each is one column wide."""

    you: str
    agent: str
    thought: str
    tool: str
    note: str
    running: str
    needs_you: str
    queued: str
    done: str
    failed: str
    cancelled: str
    offline: str


UNICODE: Final = Glyphs("❯", "│", "┊", "▸", "!", "●", "◆", "○", "✔", "✘", "–", "~")
ASCII: Final = Glyphs(">", "|", ":", "#", "!", "*", "?", "o", "+", "x", "-", "~")

_OUTPUT_LINES: Final = 6
_DIFF_LINES: Final = 40
_MOST_LINES: Final = 5_000  # of one block, opened
_INLINE: Final = re.compile(r"(`[^`\n]+`|\*\*[^*\n]+\*\*)")


class RailView(NamedTuple):
    """How blocks are written."""

    width: int
    glyphs: Glyphs = UNICODE
    is_open: bool = False
    """Thoughts and long outputs are shown whole."""


def rail_lines(block: Block, view: RailView) -> list[RailLine]:
    """The lines of one block, none wider than the view."""
    lines = list(_lines(block, view))
    if len(lines) > _MOST_LINES:
        left = len(lines) - _MOST_LINES
        lines = [*lines[:_MOST_LINES], ((f"{view.glyphs.agent} … {left} more lines", "dim"),)]
    return [_fitted(line, view.width) for line in lines]


def _lines(block: Block, view: RailView) -> Iterator[RailLine]:
    match block:
        case MessageBlock():
            yield from _message(block, view)
        case ToolBlock():
            yield from _tool(block, view)
        case PlanBlock():
            yield from _plan(block, view)
        case NoteBlock():
            text = f"{label(block.title, 200)} {label(block.text, 400, '')}".rstrip()
            yield from _railed(view.glyphs.note, text, view, "dim")
        case TurnBlock():
            if block.stop_reason != "end_turn":
                yield ((f"{view.glyphs.cancelled} {label(ending(block), view.width - 2)}", "warn"),)


def _message(block: MessageBlock, view: RailView) -> Iterator[RailLine]:
    glyphs = view.glyphs
    if block.role == "thought" and not view.is_open:
        words = sum(len(piece.text.split()) for piece in block.content if isinstance(piece, TextPiece))
        yield ((f"{glyphs.thought} thought, {words} words, Ctrl+T to read", "dim"),)
        return
    rail = {"user": glyphs.you, "thought": glyphs.thought}.get(block.role, glyphs.agent)
    style: Style = {"user": "user", "thought": "dim"}.get(block.role, "")  # type: ignore[assignment]  # both are styles
    for piece in block.content:
        if not isinstance(piece, TextPiece):
            yield ((f"{rail} {_described(piece)}", "dim"),)
        elif block.role == "agent":
            yield from _markdown(piece.text, rail, view)
        else:
            yield from _railed(rail, plain(piece.text).strip("\n"), view, style)


def _markdown(text: str, rail: str, view: RailView) -> Iterator[RailLine]:
    """Markdown with its marks: headings, code and emphasis are styled, not changed, so that text can be copied."""
    is_code = False
    for line in plain(text).strip("\n").split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
            yield ((f"{rail} ", ""), (line, "dim"))
        elif is_code:
            for part in _broken(line, view.width - 2):
                yield ((f"{rail} ", ""), (part, "code"))
        elif re.match(r"#{1,6} ", line):
            for part in by_words(line, view.width - 2):
                yield ((f"{rail} ", ""), (part, "heading"))
        else:
            for part in by_words(line, view.width - 2):
                yield ((f"{rail} ", ""), *_inline(part))


def _inline(text: str) -> Iterator[Run]:
    for piece in _INLINE.split(text):
        if piece.startswith("`") and len(piece) > 1:
            yield piece, "code"
        elif piece.startswith("**") and len(piece) > 2:
            yield piece, "bold"
        elif piece:
            yield piece, ""


def _tool(block: ToolBlock, view: RailView) -> Iterator[RailLine]:
    glyphs = view.glyphs
    word = outcome(block)
    sign, style = _sign(word, glyphs)
    diffs = [piece for piece in block.content if isinstance(piece, DiffPiece)]
    figures = f"  +{sum(each.added for each in diffs)} -{sum(each.removed for each in diffs)}" if diffs else ""
    extra = f"  {label(word, 30)}" if style == "bad" or word == "cancelled" else ""
    kind = label(block.kind, 7)
    room = max(10, view.width - 14 - len(figures) - len(extra))
    title = label(block.title, room)
    yield ((f"{glyphs.tool} ", ""), (sign, style), (f" {kind:<7} ", "bold"), (title, ""), (figures + extra, "dim"))
    if block.command and block.command.strip() not in block.title:
        yield from _indented(f"$ {spelled(block.command)}", view, "code")
    for piece in block.content:
        yield from _piece(piece, view)
    if block.output is not None:
        yield from _output(block.output, view)


def _sign(word: str, glyphs: Glyphs) -> tuple[str, Style]:
    match word:
        case "completed":
            return glyphs.done, "good"
        case "pending":
            return glyphs.queued, "dim"
        case "in_progress":
            return glyphs.running, "warn"
        case "cancelled":
            return glyphs.cancelled, "warn"
    return glyphs.failed, "bad"


def _piece(piece: ToolPiece, view: RailView) -> Iterator[RailLine]:
    match piece:
        case TextPiece():
            yield from _output(piece.text, view)
        case DiffPiece():
            yield from diff_lines(piece, view)
        case ShownTerminal():
            if piece.output:
                yield from _output(piece.output, view)
        case _:
            yield from _indented(_described(piece), view, "dim")


def diff_lines(piece: DiffPiece, view: RailView) -> Iterator[RailLine]:
    """A change with line numbers and signs; long ones are cut unless the view is open."""
    left = piece.left_out
    shown = 0
    limit = _MOST_LINES if view.is_open else _DIFF_LINES
    for hunk in piece.hunks:
        old, new = hunk.old_line, hunk.new_line
        for line in hunk.lines:
            number = old if line.sign == "-" else new
            old, new = old + (line.sign != "+"), new + (line.sign != "-")
            if shown >= limit:
                left += 1
                continue
            shown += 1
            style: Style = {"+": "added", "-": "removed"}.get(line.sign, "")  # type: ignore[assignment]
            text = clip(spelled(line.text.rstrip("\n")), max(10, view.width - 11))
            yield ((f"{view.glyphs.agent} ", ""), (f"{number:>6} {line.sign} {text}", style))
    if left:
        yield from _indented(f"… {left} more lines, Ctrl+T to read", view, "dim")


def _output(text: str, view: RailView) -> Iterator[RailLine]:
    lines = plain(text).strip("\n").split("\n")
    if not any(line.strip() for line in lines):
        return
    shown = lines if view.is_open else lines[-_OUTPUT_LINES:]
    if len(lines) > len(shown):
        yield from _indented(f"… {len(lines) - len(shown)} lines before, Ctrl+T to read", view, "dim")
    for line in shown:
        yield from _indented(line, view, "dim")


def _plan(block: PlanBlock, view: RailView) -> Iterator[RailLine]:
    glyphs = view.glyphs
    done = sum(step.status == "completed" for step in block.steps)
    yield (
        (f"{glyphs.tool} ", ""),
        (f"plan    {'removed' if block.is_removed else f'{done} of {len(block.steps)}'}", "bold"),
    )
    for step in () if block.is_removed else block.steps:
        sign, style = _sign(step.status, glyphs)
        yield ((f"{glyphs.agent}   ", ""), (sign, style), (f" {label(step.text, view.width - 7)}", ""))
    if block.text:
        yield from _markdown(block.text, glyphs.agent, view)


def _described(piece: ToolPiece) -> str:
    match piece:
        case MediaPiece():
            return f"[{label(piece.media_type, 60)}, {size(piece.size_bytes)} bytes]"
        case LinkPiece():
            return f"[{label(piece.name, 60)}: {label(piece.uri, 200)}]"
        case ResourcePiece():
            return f"[{label(piece.uri, 200)}, {size(len(piece.text))} letters]"
        case OtherPiece():
            return f"[{label(piece.kind, 60, 'content of an unknown kind')}]"
    return ""


# Lines


def _railed(rail: str, text: str, view: RailView, style: Style) -> Iterator[RailLine]:
    lead = f"{rail} "
    for line in text.split("\n"):
        for part in by_words(line, view.width - 2):
            yield ((lead, style), (part, style))
            lead = f"{rail} " if rail != view.glyphs.you else "  "


def _indented(text: str, view: RailView, style: Style) -> Iterator[RailLine]:
    for line in text.split("\n"):
        for part in _broken(line, view.width - 5):
            yield ((f"{view.glyphs.agent}    ", ""), (part, style))


def by_words(text: str, width: int) -> Iterator[str]:
    """Break a line between words; a word that is too long is broken where it has to be."""
    width = max(4, width)
    if cells(text) <= width:
        yield text
        return
    line = text[: len(text) - len(text.lstrip(" "))][: width // 2]
    for word in text.split():
        if line.strip() and cells(line) + cells(word) + 1 > width:
            yield line
            line = ""
        line = f"{line} {word}" if line.strip() else line + word
        while cells(line) > width:
            *full, line = _broken(line, width)
            yield from full
    yield line


def _broken(text: str, width: int) -> Iterable[str]:
    """Break a line at a width, whatever is there; of a tab the next column that is a multiple of four."""
    text = text.expandtabs(4)
    width = max(4, width)
    if cells(text) <= width:
        return [text]
    found, line, used = [], "", 0
    for letter in text:
        wide = cells(letter)
        if used + wide > width:
            found.append(line)
            line, used = "", 0
        line += letter
        used += wide
    return [*found, line]


def _fitted(line: RailLine, width: int) -> RailLine:
    """Cut a line that is too wide after all."""
    if sum(cells(text) for text, _ in line) <= width:
        return line
    left, kept = width, []
    for text, style in line:
        shown = clip(text, left) if cells(text) > left else text
        left -= cells(shown)
        kept.append((shown, style))
        if left <= 0:
            break
    return tuple(kept)
