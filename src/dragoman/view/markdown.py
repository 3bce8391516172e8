"""Blocks as Markdown.

Owns a form that reads well as text and rendered. A peer's text cannot leave its place: code is fenced by more ticks
than it contains, and HTML in a message is shown, not used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import one_line, plain, size
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
from dragoman.view.elements import is_web
from dragoman.view.labels import ending, outcome, tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dragoman.view.blocks import Block, ToolPiece

_HEADS: Final = {"user": "## You", "agent": "## Agent"}
_FENCE: Final = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_CODE: Final = re.compile(r"(`+)([^`]|[^`].*?[^`])\1(?!`)")
_HTML: Final = re.compile(r"<(?!https?://)(?=[A-Za-z/!?])")
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>#|])")


def to_markdown(blocks: Iterable[Block], title: str, facts: Sequence[tuple[str, str]] = ()) -> str:
    """Return a conversation as one Markdown document."""
    paragraphs = [f"# {_escaped(title)}"]
    if any(value for _, value in facts):
        paragraphs.append("\n".join(f"- {_escaped(name)}: {_code(value)}" for name, value in facts if value))
    speaker = ""
    for block in blocks:
        if isinstance(block, MessageBlock) and block.role != "thought":
            if block.role != speaker:
                paragraphs.append(_HEADS[block.role])
            speaker = block.role
        elif isinstance(block, TurnBlock):
            speaker = ""
        elif speaker != "agent":
            paragraphs.append(_HEADS["agent"])
            speaker = "agent"
        paragraphs += _paragraphs(block)
    return "\n\n".join(paragraphs) + "\n"


def _paragraphs(block: Block) -> Iterator[str]:
    match block:
        case MessageBlock(role="thought"):
            text = "\n\n".join(paragraph for piece in block.content for paragraph in _piece(piece))
            yield "\n".join(f"> {line}".rstrip() for line in f"*Thought*\n\n{text}".split("\n"))
        case MessageBlock():
            for piece in block.content:
                yield from _piece(piece)
        case ToolBlock():
            yield from _tool(block)
        case PlanBlock():
            yield "**Plan**" + (" (removed)" if block.is_removed else "")
            if block.steps:
                marks = {"completed": "[x]"}
                steps = (
                    f"- {marks.get(step.status, '[ ]')} {_escaped(step.text)}"
                    f"{' (in progress)' if step.status == 'in_progress' else ''}"
                    for step in block.steps
                )
                yield "\n".join(steps)
            if block.text:
                yield _message(block.text)
            if block.uri:
                yield _link(block.uri, block.uri)
        case NoteBlock():
            status = f" ({_escaped(block.status)})" if block.status else ""
            yield f"*{_escaped(block.title)}*{status}"
            if block.text:
                yield _message(block.text)
        case TurnBlock():
            yield f"*{_escaped(' · '.join(filter(None, (ending(block), tokens(block)))))}*"


def _tool(block: ToolBlock) -> Iterator[str]:
    yield f"**{_escaped(block.kind)}** {_escaped(block.title)}: {_escaped(outcome(block))}"
    places = [place for place in block.locations if place not in block.title]
    if places:
        yield ", ".join(map(_code, places[:20]))
    if block.command and block.command.strip() not in block.title:
        yield _fenced(block.command, "sh")
    for piece in block.content:
        yield from _piece(piece)
    if block.output is not None:
        yield _fenced(block.output)


def _piece(piece: ToolPiece) -> Iterator[str]:
    match piece:
        case TextPiece():
            if piece.text.strip():
                yield _message(piece.text)
        case MediaPiece():
            yield f"*{_escaped(piece.media_type)}, {size(piece.size_bytes)} bytes*"
        case LinkPiece():
            yield _link(piece.name, piece.uri)
        case ResourcePiece():
            yield _code(piece.uri)
            yield _fenced(piece.text)
        case OtherPiece():
            yield f"*{_escaped(piece.kind or 'content of an unknown kind')}*"
        case DiffPiece():
            yield f"{_code(piece.path)} +{piece.added} -{piece.removed}{' (new file)' if piece.is_new else ''}"
            yield _fenced("\n".join(_diff_lines(piece)), "diff")
        case ShownTerminal():
            lines = [f"$ {piece.command}"] if piece.command else []
            lines += ["… the beginning is cut"] if piece.is_cut else []
            lines.append("(its output is not known)" if piece.output is None else piece.output.rstrip("\n"))
            yield _fenced("\n".join(lines), "console")


def _diff_lines(piece: DiffPiece) -> Iterator[str]:
    for hunk in piece.hunks:
        old = sum(line.sign != "+" for line in hunk.lines)
        new = sum(line.sign != "-" for line in hunk.lines)
        yield f"@@ -{hunk.old_line if old else 0},{old} +{hunk.new_line if new else 0},{new} @@"
        for line in hunk.lines:
            yield f"{line.sign}{line.text}"
    if piece.left_out:
        yield f"… {piece.left_out} more lines"


def _message(text: str) -> str:
    """Write a message, which is Markdown already; HTML in it is shown as text, and an open code block is closed."""
    lines = []
    fence = ""
    for line in plain(text).strip("\n").split("\n"):
        marker = _FENCE.match(line)
        if fence:
            if marker and marker[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif marker:
            fence = marker[1]
        else:
            line = _without_html(line)
        lines.append(line)
    return "\n".join([*lines, fence] if fence else lines)


def _without_html(line: str) -> str:
    if "<" not in line:
        return line
    pieces, at = [], 0
    if len(line) <= 10_000:
        for code in _CODE.finditer(line):
            pieces += [_HTML.sub("&lt;", line[at : code.start()]), code[0]]
            at = code.end()
    return "".join([*pieces, _HTML.sub("&lt;", line[at:])])


def _fenced(text: str, language: str = "") -> str:
    text = plain(text).strip("\n")
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _code(text: str) -> str:
    text = one_line(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text))


def _link(name: str, uri: str) -> str:
    return f"[{_escaped(name)}](<{uri}>)" if is_web(uri) else f"{_escaped(name)} ({_code(uri)})"
