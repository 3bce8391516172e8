"""The readable part of a page: its title and its main text.

Owns which part of a page is content, and how it is written: as plain Markdown with headings, lists, tables, code and
absolute links. Hidden text is left out, because a user who looks at the page does not see it. Does no network access.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.builtin.web.html_tree import BLOCKS, Node, read_html
from dragoman.builtin.web.inline_text import InlineText, collapse, is_dropped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# An element that is marked as the main part is taken for it if it has this much text, or this share of all text.
_MAIN_LETTERS: Final = 250
_MAIN_SHARE: Final = 0.3
_ARTICLE_SHARE: Final = 0.5
_MOST_CANDIDATES: Final = 5
_DEEPEST_INDENT: Final = 8
_LONGEST_CARD: Final = 500
_LONGEST_CELL: Final = 400
_LANGUAGE: Final = re.compile(r"(?:^|\s)(?:language-|lang-|highlight-source-|brush:\s*)([\w+#-]{1,20})")
_LAYOUT: Final = frozenset({"table", "pre", "ul", "ol", "dl", "h1", "h2", "h3", "h4", "blockquote", "article", "form"})


class ReadablePage(Struct, frozen=True):
    """The title and the text of a page. `is_cut`: the page is longer."""

    title: str
    text: str
    is_cut: bool = False


def read_page(html: str, url: str) -> ReadablePage:
    """Return the readable part of a page that was fetched from `url`. Accepts any text."""
    root, is_cut = read_html(html)
    title, base = "", ""
    for node in root.walk():
        if node.name == "title" and not title:
            title = collapse(node.text())
        elif node.name == "base" and not base:
            base = node.attributes.get("href", "")
        elif node.name in ("main", "article", "table", "p"):
            break  # title and base come before the content
    inline = InlineText(url, base)
    text = _Reader(inline).read(_main_part(root)) or _Reader(inline, keeps_frame=True).read(root)
    return ReadablePage(title, text, is_cut)


def _main_part(root: Node) -> Node:
    mains: list[Node] = []
    articles: list[Node] = []
    for node in root.walk():
        if node.name == "main" or node.attributes.get("role") == "main":
            mains.append(node)
        elif node.name == "article":
            articles.append(node)
    if not mains and len(articles) != 1:
        return root
    whole = _letters(root)
    for candidates, least in ((mains, min(_MAIN_LETTERS, whole * _MAIN_SHARE)), (articles, whole * _ARTICLE_SHARE)):
        sizes = [(_letters(node), node) for node in candidates[:_MOST_CANDIDATES]]
        if sizes and len(candidates) <= _MOST_CANDIDATES:
            size, node = max(sizes, key=lambda sized: sized[0])
            if size and size >= least:
                return node
    return root


def _letters(node: Node) -> int:
    return len("".join(node.text().split()))


class _Reader:
    """The conversion of one page. A block is a text of one or more lines; an empty line separates blocks.

    `keeps_frame`: also converts navigation, headers and footers of the page.
    """

    def __init__(self, inline: InlineText, *, keeps_frame: bool = False) -> None:
        self._inline = inline
        self._keeps_frame = keeps_frame
        self._sections = 0
        self._indents = 0
        self._readers: dict[str, Callable[[Node], list[str]]] = {
            **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), self._heading),
            **dict.fromkeys(("pre", "xmp"), self._code),
            **dict.fromkeys(("ul", "ol", "menu", "dir"), self._list),
            "hr": lambda node: ["---"],
            "dl": self._definitions,
            "blockquote": lambda node: self._indented(node.children, "> "),
            "table": self._table,
            "a": self._card,
        }

    def read(self, node: Node) -> str:
        if node.name in ("main", "article"):
            self._sections = 1
        blocks = self._flow(node.children)
        return "\n\n".join(blocks).strip("\n")

    def _flow(self, children: Iterable[Node | str]) -> list[str]:
        blocks: list[str] = []
        run: list[Node | str] = []

        def flush() -> None:
            if run and (text := self._inline.line(run)):
                blocks.append(text)
            run.clear()

        for child in children:
            if isinstance(child, str):
                run.append(child)
            elif self._is_left_out(child):
                continue
            elif child.name in BLOCKS or child.has_blocks:
                flush()
                blocks += self._block(child)
            else:
                run.append(child)
        flush()
        return blocks

    def _is_left_out(self, node: Node) -> bool:
        if is_dropped(node):
            return True
        if self._keeps_frame:
            return False
        if node.name in ("nav", "search") or node.attributes.get("role") in ("navigation", "search", "menu", "menubar"):
            return True
        # The header of an article has its title; that of the page has the logo.
        is_frame = node.name in ("header", "footer", "aside")
        is_frame |= node.attributes.get("role") in ("banner", "contentinfo", "complementary")
        return is_frame and not self._sections

    def _block(self, node: Node) -> list[str]:
        read = self._readers.get(node.name)
        if read is not None:
            return read(node)
        is_section = node.name in ("main", "article", "section")
        self._sections += is_section
        try:
            return self._flow(node.children)
        finally:
            self._sections -= is_section

    def _heading(self, node: Node) -> list[str]:
        text = self._inline.line(node.children).replace("\n", " ")
        if text.startswith("**") and text.find("**", 2) == len(text) - 2:
            text = text[2:-2]  # bold adds nothing to a heading
        return [f"{'#' * int(node.name[1])} {text}"] if text else []

    def _code(self, node: Node) -> list[str]:
        text = self._inline.code(node).strip("\n")
        if not text.strip():
            return []
        places = [node, *(child for child in node.children if isinstance(child, Node))]
        found = (_LANGUAGE.search(place.attributes.get("class", "")) for place in places)
        language = next((match[1] for match in found if match), "")
        fence = "````" if "```" in text else "```"
        return [f"{fence}{language}\n{text}\n{fence}"]

    def _list(self, node: Node) -> list[str]:
        start = node.attributes.get("start", "")
        number = int(start) if start.isascii() and start.isdecimal() and len(start) < 7 else 1
        items: list[str] = []
        for child in node.children:
            if isinstance(child, str) or self._is_left_out(child):
                continue
            marker = f"{number}. " if node.name == "ol" else "- "
            # A list that is a direct child of a list belongs to the item above.
            is_below = child.name in ("ul", "ol")
            lines = self._indented([child] if is_below else child.children, " " * len(marker), joint="\n")
            if lines and not is_below:
                lines = [marker + lines[0].removeprefix(" " * len(marker))]
                number += 1
            items += lines
        return ["\n".join(items)] if items else []

    def _indented(self, children: Iterable[Node | str], indent: str, *, joint: str = "\n\n") -> list[str]:
        """Return the content of a list item or a quote as one block."""
        self._indents += 1
        try:
            text = joint.join(self._flow(children))
        finally:
            self._indents -= 1
        if not text:
            return []
        if self._indents >= _DEEPEST_INDENT:
            return [text]  # indenting deep text again at each level would take quadratic time
        return ["\n".join(f"{indent}{line}".rstrip() for line in text.split("\n"))]

    def _definitions(self, node: Node) -> list[str]:
        blocks: list[str] = []
        for child in node.children:
            if isinstance(child, str) or self._is_left_out(child):
                continue
            if child.name == "dd":
                blocks += self._indented(child.children, "  ")
            else:
                blocks += self._definitions(child) if child.name == "div" else self._flow(child.children)
        return blocks

    def _card(self, node: Node) -> list[str]:
        """Convert a link around blocks to one line, unless it is too long or contains links or code."""
        blocks = self._flow(node.children)
        text = " ".join(" ".join(block.lstrip("# ") for block in blocks).split())
        if not text or len(text) > _LONGEST_CARD or "](" in text or "```" in text:
            return blocks
        return [self._inline.link(text, node)]

    def _table(self, node: Node) -> list[str]:
        caption, rows = self._rows(node)
        is_layout = max(map(len, rows), default=0) < 2 or any(
            below.name in _LAYOUT for row in rows for cell in row for below in cell.walk()
        )
        if not is_layout:
            table = [[self._cell(cell) for cell in row] for row in rows]
            table = [row for row in table if any(row)]
            if not any(len(cell) > _LONGEST_CELL for row in table for cell in row):
                return [*caption, _drawn(table)] if table else caption
        return [*caption, *(block for row in rows for cell in row for block in self._flow(cell.children))]

    def _rows(self, node: Node) -> tuple[list[str], list[list[Node]]]:
        caption: list[str] = []
        rows: list[list[Node]] = []
        for child in node.children:
            if isinstance(child, str) or self._is_left_out(child):
                continue
            if child.name == "tr":
                cells = [cell for cell in child.children if isinstance(cell, Node) and not self._is_left_out(cell)]
                rows.append([cell for cell in cells if cell.name in ("td", "th")])
            elif child.name in ("thead", "tbody", "tfoot"):
                rows += self._rows(child)[1]
            else:
                caption += self._flow([child])
        return caption, [row for row in rows if row]

    def _cell(self, cell: Node) -> str:
        return " ".join(" ".join(self._flow(cell.children)).split()).replace("|", "\\|")


def _drawn(table: list[list[str]]) -> str:
    width = max(map(len, table))
    lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in table]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])
