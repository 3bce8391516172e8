"""Blocks as elements of a page, and a whole page of them that loads nothing.

Owns how a conversation looks in a browser: messages, thoughts that can be opened, tool calls with their changes and
terminals, plans. The page has no script at all, and a policy that forbids one.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman._version import __version__
from dragoman.text.terminal import size
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
from dragoman.view.changed_files import DiffElements, LinkedChange, file_tree
from dragoman.view.elements import is_web, make, shown, write
from dragoman.view.labels import STEP_SIGNS, ending, outcome, tokens
from dragoman.view.prose import prose

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.view.blocks import Block, ContentPiece
    from dragoman.view.elements import Element, ElementChild

_FOLDER: Final = Path(__file__).parent
_WHO: Final = {"user": "You", "agent": "Agent", "thought": "Thought"}
_STATUS: Final = frozenset({"pending", "in_progress", "completed", "failed", "cancelled"})


def elements_of(blocks: Iterable[Block]) -> list[Element]:
    """Return the blocks as elements, one each; `data-place` is a block's place in the timeline."""
    diffs = DiffElements()
    return [_element(block, diffs) for block in blocks]


def page_style(own: str = "") -> str:
    """Return the style of a page: what all pages share, the page's own, and that of a conversation."""
    return f"{_style('page.css')}{own}{_style('conversation.css')}"


def _style(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


def page_of(blocks: Iterable[Block], title: str, facts: Sequence[tuple[str, str]]) -> str:
    """Return one HTML page with a conversation, its title, and facts about it such as the agent and the folder."""
    blocks = list(blocks)
    rows = [make("tr", "", make("th", "", name), make("td", "", value)) for name, value in facts if value]
    body = [make("table", "facts", make("tbody", "", *rows))] if rows else []
    files = [
        LinkedChange(piece.path, piece.added, piece.removed, (_anchor(block, number),), "new" if piece.is_new else "")
        for block in blocks
        if isinstance(block, ToolBlock)
        for number, piece in enumerate(block.content)
        if isinstance(piece, DiffPiece)
    ]
    if files:
        body.append(file_tree(files))
    return whole_page(title, [*body, make("div", "conversation", *elements_of(blocks))], page_style())


def whole_page(title: str, body: Iterable[ElementChild], style: str, *, is_wide: bool = False) -> str:
    """Return a page with a head and these elements. It loads nothing, runs nothing, and has no style but this one."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    wide = ' class="wide"' if is_wide else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        f'<meta name="generator" content="dragoman {__version__}">\n'
        f"<title>{escape(shown(title))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<main{wide}>\n<h1>{escape(shown(title))}</h1>\n{write(body)}\n"
        "</main>\n</body>\n</html>\n"
    )


def _anchor(block: ToolBlock, number: int) -> str:
    return f"change-{block.position}-{number}"


def _element(block: Block, diffs: DiffElements) -> Element:
    match block:
        case MessageBlock(role="thought"):
            inner = [make("summary", "who", _WHO["thought"]), *_content(block)]
            return make("details", _attributes("block thought", block), *inner)
        case MessageBlock():
            return make("article", _attributes(f"block {block.role}", block), _who(_WHO[block.role]), *_content(block))
        case ToolBlock():
            return _tool(block, diffs)
        case PlanBlock():
            return _plan(block)
        case NoteBlock():
            words = " · ".join(word for word in (block.kind.replace("_", " "), block.status) if word)
            inner = [_who(words), make("p", "", block.title), *prose(block.text)]
            return make("article", _attributes("block note", block), *inner)
        case TurnBlock():
            return make("div", _attributes("turn-end", block), " · ".join(filter(None, (ending(block), tokens(block)))))


def _attributes(classes: str, block: Block) -> dict[str, str]:
    return {"class": classes, "data-place": str(block.position)}


def _who(text: str) -> Element:
    return make("div", "who", text)


def _content(block: MessageBlock) -> Iterable[Element]:
    for piece in block.content:
        if isinstance(piece, TextPiece) and block.role == "user":
            # What the user typed is not Markdown, and every line break counts.
            yield make("div", "typed", piece.text.strip("\n"))
        else:
            yield from _piece(piece)


def _tool(block: ToolBlock, diffs: DiffElements) -> Element:
    status = block.status if block.status in _STATUS else ""
    word = outcome(block)
    head: list[ElementChild] = [make("span", "kind", block.kind), make("span", "name", block.title)]
    head.append(make("span", f"status {'failed' if word.startswith(('exit', 'killed')) else status}".strip(), word))
    inner: list[Element] = []
    if block.command and block.command.strip() not in block.title:
        inner.append(make("pre", "command", make("code", "", block.command)))
    places = [place for place in block.locations if place not in block.title]
    if places:
        inner.append(make("div", "places", ", ".join(places[:20])))
    for number, piece in enumerate(block.content):
        inner += [diffs.of(piece, _anchor(block, number))] if isinstance(piece, DiffPiece) else _piece(piece)
    if block.output is not None:
        inner.append(_output(block.output))
    # A change, and what failed, is what a reader looks for; other output can be opened.
    is_open = word != "completed" or any(isinstance(piece, DiffPiece) for piece in block.content)
    if not inner:
        return make("article", _attributes("block tool", block), make("div", "head", *head))
    attributes = _attributes("block tool", block) | ({"open": ""} if is_open else {})
    return make("details", attributes, make("summary", "head", *head), *inner)


def _plan(block: PlanBlock) -> Element:
    inner: list[Element] = [_who("Plan, removed" if block.is_removed else "Plan")]
    if block.steps:
        steps = [
            make("li", step.status if step.status in _STATUS else "", f"{STEP_SIGNS.get(step.status, '☐')} {step.text}")
            for step in block.steps
        ]
        inner.append(make("ul", "steps", *steps))
    inner += prose(block.text)
    if block.uri:
        inner.append(make("p", "", _address(block.uri, block.uri)))
    return make("article", _attributes("block plan", block), *inner)


def _piece(piece: ContentPiece | ShownTerminal) -> list[Element]:
    match piece:
        case TextPiece():
            return prose(piece.text)
        case MediaPiece():
            return [make("p", "media", f"[{piece.media_type}, {size(piece.size_bytes)} bytes]")]
        case LinkPiece():
            return [make("p", "media", _address(piece.uri, piece.name))]
        case ResourcePiece():
            return [make("details", "resource", make("summary", "", piece.uri), _output(piece.text))]
        case OtherPiece():
            return [make("p", "media", f"[{piece.kind or 'content of an unknown kind'}]")]
        case ShownTerminal():
            return _terminal(piece)


def _address(uri: str, name: str) -> ElementChild:
    if is_web(uri):
        return make("a", {"href": uri, "rel": "noopener noreferrer nofollow"}, name)
    return name if name == uri else f"{name} ({uri})"


def _terminal(piece: ShownTerminal) -> list[Element]:
    command: list[ElementChild] = [make("span", "prompt", "$ "), piece.command, "\n"] if piece.command else []
    output = "(its output is not known)" if piece.output is None else piece.output.rstrip("\n")
    cut = [make("span", "gap", "… the beginning is cut\n")] if piece.is_cut else []
    return [make("pre", "terminal", *command, *cut, output)]


def _output(text: str) -> Element:
    return make("pre", "output", text.strip("\n"))
