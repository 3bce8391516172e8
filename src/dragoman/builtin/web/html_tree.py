"""HTML as a tree, for any input and in time linear in its length.

Owns the scanner and the tree: tags, attributes, raw text, elements without end tags, and a bounded depth that recursion
can follow. It does as browsers do where pages depend on it, and ignores the rest. Does not convert the tree to text.
"""

from __future__ import annotations

import re
from collections import Counter
from html import unescape
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

# Deeper elements are flattened. Real pages stay below 60; the tree is read by recursion.
DEEPEST: Final = 120
# A page of 5 MiB has about 200,000; a page with more was made to cost time, and this many take a few seconds.
MOST_TOKENS: Final = 500_000
_LONGEST_VALUE: Final = 4096

_NAME: Final = re.compile(r"[a-zA-Z][^\s/>\x00]*+")
_ATTRIBUTE: Final = re.compile(r"""[\s/]*+(?:(>)|([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:(["'])|([^\s>]*+)))?+)""")
_KEPT: Final = frozenset(
    ("href", "src", "alt", "role", "class", "hidden", "aria-hidden", "style", "start", "type", "checked", "alttext")
)
VOID: Final = frozenset(
    (
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source"),
        *("track", "wbr"),
    )
)
_RAW: Final = frozenset(("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"))
BLOCKS: Final = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog"),
        *("dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3"),
        *("h4", "h5", "h6", "header", "hgroup", "hr", "html", "li", "main", "menu", "nav", "ol", "p", "pre"),
        *("search", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul", "xmp"),
    )
)
_ROWS: Final = frozenset({"thead", "tbody", "tfoot", "caption", "colgroup"})
# A start tag closes open elements of the first set, up to the nearest one of the second set.
_ENDS: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    "li": (frozenset({"li"}), frozenset({"ul", "ol", "menu", "table"})),
    "dt": (frozenset({"dt", "dd"}), frozenset({"dl", "table"})),
    "dd": (frozenset({"dt", "dd"}), frozenset({"dl", "table"})),
    "tr": (frozenset({"tr", "td", "th", "caption"}), frozenset({"table"})),
    "td": (frozenset({"td", "th"}), frozenset({"table", "tr"})),
    "th": (frozenset({"td", "th"}), frozenset({"table", "tr"})),
    "option": (frozenset({"option"}), frozenset({"select"})),
    **{name: (frozenset({"tr", "td", "th", *_ROWS}), frozenset({"table"})) for name in _ROWS},
}
_P: Final = (frozenset({"p"}), frozenset({"table", "td", "th", "button", "object", "caption"}))
# An end tag inside a cell closes nothing outside of it.
_CELLS: Final = frozenset({"td", "th", "table", "caption"})
_OF_TABLES: Final = _CELLS | _ROWS | {"tr"}


_Token: TypeAlias = tuple[str, str, dict[str, str]]


class Node:
    """An element. Children are nodes and texts; `has_blocks`: there is a block element somewhere below."""

    __slots__ = ("attributes", "children", "has_blocks", "name")

    def __init__(self, name: str, attributes: dict[str, str] | None = None) -> None:
        self.name = name
        self.attributes = attributes or {}
        self.children: list[Node | str] = []
        self.has_blocks = False

    def walk(self) -> Iterator[Node]:
        """Yield this element and all below it, in document order."""
        todo = [self]
        while todo:
            node = todo.pop()
            yield node
            todo.extend(child for child in reversed(node.children) if isinstance(child, Node))

    def text(self) -> str:
        """Return all text below, unchanged."""
        found: list[str] = []
        todo: list[Node | str] = [self]
        while todo:
            node = todo.pop()
            if isinstance(node, str):
                found.append(node)
            else:
                todo.extend(reversed(node.children))
        return "".join(found)


def read_html(text: str) -> tuple[Node, bool]:
    """Return the tree of a page, and whether it was cut because the page has too many tokens."""
    tree = _Tree()
    for number, (kind, name, attributes) in enumerate(_Scanner(text).tokens()):
        if number == MOST_TOKENS:
            return tree.root, True
        if kind == "text":
            tree.add_text(name)
        elif kind == "start":
            tree.start(name, attributes)
        else:
            tree.end(name)
    return tree.root, False


class _Scanner:
    """The text split into tokens. A search that finds nothing ends the page, so no text is searched twice."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def tokens(self) -> Iterator[_Token]:
        text, end = self._text, len(self._text)
        while self._at < end:
            opening = text.find("<", self._at)
            if opening < 0:
                opening = end
            if opening > self._at:
                yield "text", unescape(text[self._at : opening]), {}
            after = text[opening + 1 : opening + 2]
            self._at = opening + 1
            if after.isascii() and after.isalpha():
                yield from self._start_tag()
            elif after == "/":
                name = _NAME.match(text, opening + 2)
                if name is not None:
                    yield "end", name[0].lower(), {}
                self._skip_past(">", opening + 2)
            elif after in ("!", "?") and after:
                self._skip_comment(opening)
            elif opening < end:
                yield "text", "<", {}

    def _start_tag(self) -> Iterator[_Token]:
        text = self._text
        found = _NAME.match(text, self._at)
        assert found is not None  # a letter was seen there
        name, self._at = found[0].lower(), found.end()
        attributes: dict[str, str] = {}
        while (part := _ATTRIBUTE.match(text, self._at)) is not None:
            self._at = part.end()
            if part[1]:
                yield "start", name, attributes
                if name in _RAW:
                    yield from self._raw_text(name)
                return
            value = part[4] or ""
            if part[3]:
                closing = text.find(part[3], self._at)
                if closing < 0:
                    break
                value, self._at = text[self._at : closing], closing + 1
            key = part[2].lower()
            if key in _KEPT and key not in attributes:
                attributes[key] = unescape(value[:_LONGEST_VALUE])
        self._at = len(text)

    def _raw_text(self, name: str) -> Iterator[_Token]:
        """Skip or yield the content of elements such as script and title, which is not markup."""
        found = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(self._text, self._at)
        closing = found.start() if found else len(self._text)
        if name in ("title", "textarea"):
            yield "text", unescape(self._text[self._at : closing]), {}
        elif name == "xmp":
            yield "text", self._text[self._at : closing], {}
        self._at = closing

    def _skip_comment(self, opening: int) -> None:
        text = self._text
        if not text.startswith("<!--", opening):
            self._skip_past(">", opening + 2)
        elif text.startswith((">", "->"), opening + 4):
            self._skip_past(">", opening + 4)
        else:
            self._skip_past("-->", opening + 4)

    def _skip_past(self, mark: str, start: int) -> None:
        found = self._text.find(mark, start)
        self._at = len(self._text) if found < 0 else found + len(mark)


class _Tree:
    """The tree, built from tokens."""

    def __init__(self) -> None:
        self.root = Node("html")
        self._open = [self.root]
        self._counts: Counter[str] = Counter()  # of the open elements by name, which makes most searches unnecessary
        self._too_deep = 0

    def add_text(self, text: str) -> None:
        self._open[-1].children.append(text)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in ("html", "body"):
            return  # the root stands for both, and browsers ignore a second one
        if name in _ENDS:
            self._end_these(*_ENDS[name])
        elif name in BLOCKS and self._counts["p"]:
            self._end_these(*_P)
        node = Node(name, attributes)
        self._open[-1].children.append(node)
        if name in BLOCKS:
            for ancestor in reversed(self._open):
                if ancestor.has_blocks:
                    break
                ancestor.has_blocks = True
        if name in VOID:
            return
        if len(self._open) < DEEPEST:
            self._open.append(node)
            self._counts[name] += 1
        else:
            self._too_deep += 1

    def end(self, name: str) -> None:
        if name in VOID or name in ("html", "body"):
            return
        if self._too_deep:
            self._too_deep -= 1
            return
        if not self._counts[name]:
            return
        for place in range(len(self._open) - 1, 0, -1):
            opened = self._open[place].name
            if opened == name:
                self._close(place)
                return
            if opened in _CELLS and name not in _OF_TABLES:
                return

    def _end_these(self, ended: frozenset[str], bounds: frozenset[str]) -> None:
        """Close the outermost open element of `ended` within the bounds, and everything in it."""
        if not any(self._counts[name] for name in ended):
            return
        outermost = 0
        for place in range(len(self._open) - 1, 0, -1):
            name = self._open[place].name
            if name in bounds:
                break
            if name in ended:
                outermost = place
        if outermost:
            self._close(outermost)

    def _close(self, place: int) -> None:
        self._counts.subtract(node.name for node in self._open[place:])
        del self._open[place:]
