"""One block as lines with a rail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeGuard

from dragoman.text.terminal import cells, plain
from dragoman.text.visible import label, spelled
from dragoman.view.blocks import (
    DiffPiece,
    MediaPiece,
    MessageBlock,
    NoteBlock,
    PlanBlock,
    ShownTerminal,
    TextPiece,
    ToolBlock,
    TurnBlock,
)
from dragoman.view.labels import described, ending, kind_word, outcome, seconds_text, tokens
from dragoman.view.rails.wrapping import broken, broken_runs, by_words, fitted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.view.blocks import Block, ToolPiece
    from dragoman.view.rails.markdown import MarkdownLines
    from dragoman.view.rails.values import Glyphs, RailLine, RailView, Run, Style

_OUTPUT_LINES: Final = 6
_LONG_OUTPUT: Final = 4_000  # characters of an output of which only the end is read, if only that is shown
_MOST_LINES: Final = 5_000  # of one block, opened
MOST_PIXELS: Final = 16_000_000
"""Of an image that is drawn: a screen of 5120 by 2880. Decoded it takes 64 MB for a moment."""
_DEEPEST: Final = 4  # calls of subagents in each other that are moved to the right
_SEVERITIES: Final = {"error": "bad", "warning": "warn", "failed": "bad"}


def rail_lines(block: Block, view: RailView, markdown: MarkdownLines | None = None) -> list[RailLine]:
    """Return the lines of one block, none wider than the view.

    Args:
        markdown: the lines of this message as far as they were written before; of a message that is one text.
    """
    depth = min(_DEEPEST, block.depth if isinstance(block, MessageBlock | ToolBlock) else 0)
    inner = view._replace(width=view.width - 2 * depth) if depth else view
    answer = block if isinstance(block, MessageBlock) and block.role == "agent" else None
    if answer is not None and len(answer.content) == 1 and isinstance(text := answer.content[0], TextPiece):
        lines = _markdown(text.text, inner.glyphs.agent, inner, markdown)  # of an answer that grows: no line one by one
    else:
        lines = list(_lines(block, inner))
    if answer is None:  # the lines of an answer fit already; most of them were measured long before
        lines = [fitted(line, inner.width, inner.glyphs) for line in lines]
    if len(lines) > _MOST_LINES:
        left = len(lines) - _MOST_LINES
        lines = [*lines[:_MOST_LINES], ((f"{view.glyphs.agent} … {left} more lines", "dim"),)]
    if depth:
        lines = [(("  " * depth, ""), *line) for line in lines]
    return lines


def _lines(block: Block, view: RailView) -> Iterator[RailLine]:
    match block:
        case MessageBlock():
            yield from _message(block, view)
        case ToolBlock():
            yield from _tool(block, view)
        case PlanBlock():
            yield from _plan(block, view)
        case NoteBlock():
            yield from _note(block, view)
        case TurnBlock():
            yield from _turn_end(block, view)


# Messages


def _message(block: MessageBlock, view: RailView) -> Iterator[RailLine]:
    glyphs = view.glyphs
    if block.role == "thought" and not view.is_open:
        words = sum(len(piece.text.split()) for piece in block.content if isinstance(piece, TextPiece))
        count = f"{words} word{'' if words == 1 else 's'}"
        yield ((f"{glyphs.thought} thought, {count}, Ctrl+T to read", "dim"),)
        return
    if block.role == "user" and block.position:
        yield ()  # room between turns
    rail = {"user": glyphs.you, "thought": glyphs.thought}.get(block.role, glyphs.agent)
    style = {"user": "user", "thought": "dim"}.get(block.role, "")
    for number, piece in enumerate(block.content):
        if _has_picture(piece, (block.position, number), view):
            yield from _picture(piece, (block.position, number), rail, view)
        elif not isinstance(piece, TextPiece):
            yield fitted(((f"{rail} {described(piece)}", "dim"),), view.width, view.glyphs)
        elif block.role == "agent":
            yield from _markdown(piece.text, rail, view)
        else:
            yield from _railed(rail, plain(piece.text).strip("\n"), view, style)
    if block.position in view.taken_back:
        yield ((f"{glyphs.cancelled} its changes were taken back; /redo brings the last ones back", "warn"),)


def _markdown(text: str, rail: str, view: RailView, lines: MarkdownLines | None = None) -> list[RailLine]:
    if lines is None:
        # Not before there is text of an agent: the first frame needs none of it.
        from dragoman.view.rails.markdown import MarkdownLines

        lines = MarkdownLines(rail, view)
    return lines.feed(text)


def _has_picture(piece: ToolPiece, place: tuple[int, int], view: RailView) -> TypeGuard[MediaPiece]:
    """Whether the screen draws this piece, whose size is known from its first bytes."""
    if not isinstance(piece, MediaPiece) or not piece.width or not piece.height:
        return False
    return piece.width * piece.height <= MOST_PIXELS and view.has_picture(*place)


def _picture(piece: MediaPiece, place: tuple[int, int], rail: str, view: RailView) -> Iterator[RailLine]:
    from dragoman.view.rails.pictures import picture_lines  # (not before there is one)

    yield from picture_lines(piece, place, rail, view)


def _note(block: NoteBlock, view: RailView) -> Iterator[RailLine]:
    """Yield a notice with its severity, a compaction with its state, a child session, or an unknown kind of update."""
    style = _SEVERITIES.get(block.status, "dim")
    status = f"{label(block.status, 20)}: " if block.kind == "notice" and block.status not in ("", "info") else ""
    state = f" ({label(block.status, 20)})" if block.status and block.kind != "notice" else ""
    word = "subagent: " if block.kind == "subagent" else ""
    text = f"{status}{word}{label(block.title, 200)}{state}"
    yield from _railed(view.glyphs.note, text, view, style)
    if block.text.strip():
        shown = plain(block.text).strip("\n") if view.is_open else label(block.text, 400, "")
        yield from _railed(view.glyphs.agent, shown, view, "dim")


def _turn_end(block: TurnBlock, view: RailView) -> Iterator[RailLine]:
    figures = f" {view.glyphs.dot} ".join(filter(None, (seconds_text(block.seconds), tokens(block))))
    if block.stop_reason != "end_turn":
        text = ending(block) + (f" {view.glyphs.dot} {figures}" if figures else "")
        yield ((f"{view.glyphs.cancelled} {label(text, view.width - 2)}", "warn"),)
    elif figures:
        yield ((f"  done {view.glyphs.dot} {figures}", "dim"),)


# Tool calls


def _tool(block: ToolBlock, view: RailView) -> Iterator[RailLine]:
    glyphs = view.glyphs
    word = outcome(block)
    sign, style = _sign(word, glyphs)
    diffs = [piece for piece in block.content if isinstance(piece, DiffPiece)]
    figures = f"  +{sum(diff.added for diff in diffs)} -{sum(diff.removed for diff in diffs)}" if diffs else ""
    result = label(word.replace("exit ", "exit code "), 30) if style == "bad" or word == "cancelled" else ""
    time = seconds_text(block.seconds)
    kind = label(kind_word(block.kind), 7)
    room = max(10, view.width - 14 - cells(figures + result + time) - 2 * bool(result) - 2 * bool(time))
    title = label(block.title, room)
    head: list[Run] = [(f"{glyphs.tool} ", ""), (sign, style), (f" {kind:<7} ", "bold"), (title, ""), (figures, "dim")]
    if result:
        head.append((f"  {result}", style))
    if time:
        gap = view.width - sum(cells(text) for text, _ in head) - cells(time) - 1
        head += [(" " * max(2, gap), ""), (time, "dim")]
    yield tuple(head)
    if block.command and block.command.strip() not in block.title:
        yield from _indented(f"$ {spelled(block.command)}", view, "code")
    for number, piece in enumerate(block.content):
        if isinstance(piece, DiffPiece) and (len(diffs) > 1 or piece.path.rpartition("/")[2] not in block.title):
            new = ", new file" if piece.is_new else ""
            yield from _indented(f"{label(piece.path, 400)}  +{piece.added} -{piece.removed}{new}", view, "bold")
        if _has_picture(piece, (block.position, number), view):
            yield from _picture(piece, (block.position, number), f"{glyphs.agent}   ", view)
        else:
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
            from dragoman.view.rails.changes import diff_lines  # (not before there is a change: it takes its time)

            yield from diff_lines(piece, view)
        case ShownTerminal():
            yield from _terminal(piece, view)
        case _:
            yield from _indented(described(piece), view, "dim")


def _terminal(piece: ShownTerminal, view: RailView) -> Iterator[RailLine]:
    if piece.output:
        screen = view.emulate(piece)
        if screen is not None:
            yield from _rows(screen, view)
        else:
            yield from _output(piece.output, view, is_cut=piece.is_cut)


def _output(text: str, view: RailView, *, is_cut: bool = False) -> Iterator[RailLine]:
    from dragoman.view.terminal_lines import output_lines

    text = without_fence(text)
    skipped = 0
    if not view.is_open and len(text) > _LONG_OUTPUT:
        # Only the end is shown, many times while it grows. (The colours of the lines before it are lost.)
        end = text.rstrip("\n").rsplit("\n", 2 * _OUTPUT_LINES)
        skipped = end[0].count("\n") + 1 if len(end) > 2 * _OUTPUT_LINES else 0
        text = "\n".join(end[1:] if skipped else end)
    lines = output_lines(text)
    while lines and not lines[-1]:
        lines.pop()
    while not skipped and lines and not lines[0]:
        del lines[0]
    shown = lines if view.is_open else lines[-_OUTPUT_LINES:]
    before = skipped + len(lines) - len(shown)
    if before:
        yield from _indented(f"… {before} lines before, Enter or Ctrl+T to read", view, "dim")
    elif is_cut and lines:
        yield from _indented("… the beginning is not kept", view, "dim")
    yield from _rows(shown, view)


def _rows(rows: Sequence[Sequence[Run]], view: RailView) -> Iterator[RailLine]:
    rail = (f"{view.glyphs.agent}    ", "")
    for row in rows:
        spread = [(text.expandtabs(4), style or "dim") for text, style in row]
        for part in broken_runs(spread, view.width - 5):
            yield (rail, *part)


def without_fence(text: str) -> str:
    """Return the text of an output that an agent, or the host, sent as a code block of Markdown."""
    stripped = text.strip("\n")
    ticks = len(stripped) - len(stripped.lstrip("`"))
    if ticks < 3 or "\n" not in stripped:
        return text
    first, _, rest = stripped.partition("\n")
    body, _, last = rest.rpartition("\n")
    if len(first) > ticks + 20 or "`" in first[ticks:] or last.strip() != "`" * ticks or "`" * ticks in body:
        return text
    return body


# Plans


def _plan(block: PlanBlock, view: RailView) -> Iterator[RailLine]:
    glyphs = view.glyphs
    done = sum(step.status == "completed" for step in block.steps)
    count = f"{done} of {len(block.steps)}" if block.steps else ""
    yield ((f"{glyphs.tool} ", ""), (f"plan    {'removed' if block.is_removed else count}".rstrip(), "bold"))
    if block.is_removed:
        return
    for step in block.steps:
        sign, style = _sign(step.status, glyphs)
        text = "dim" if step.status == "completed" else "bold" if step.status == "in_progress" else ""
        yield ((f"{glyphs.agent}   ", ""), (sign, style), (f" {label(step.text, view.width - 7)}", text))
    if block.text:
        yield from _markdown(block.text, glyphs.agent, view)
    if block.uri:
        yield from _indented(label(block.uri, 400), view, "dim")


# Lines


def _railed(rail: str, text: str, view: RailView, style: Style) -> Iterator[RailLine]:
    lead = f"{rail} "
    for line in text.split("\n"):
        for part in by_words(line.expandtabs(4), view.width - 2):
            yield ((lead, style), (part, style))
            lead = f"{rail} " if rail not in (view.glyphs.you, view.glyphs.note) else "  "


def _indented(text: str, view: RailView, style: Style) -> Iterator[RailLine]:
    for line in text.split("\n"):
        for part in broken(line, view.width - 5):
            yield ((f"{view.glyphs.agent}    ", ""), (part, style))
