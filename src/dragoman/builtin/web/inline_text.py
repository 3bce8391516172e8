"""What stands within a line of a page: words, links, emphasis, code.

Owns how a run of inline elements becomes text and what is never shown, inline or not. Knows no blocks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman.builtin.web.html_tree import Node
from dragoman.builtin.web.url import join

if TYPE_CHECKING:
    from collections.abc import Iterable

_DROPPED: Final = frozenset(
    (
        *("script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "embed", "audio"),
        *("video", "button", "select", "textarea", "dialog", "title", "link", "meta", "base", "map"),
        *("datalist", "noembed", "noframes", "rp"),
    )
)
_DROPPED_CLASSES: Final = frozenset(
    ("linenos", "lineno", "linenodiv", "gutter", "blob-num", "mw-editsection", "headerlink", "anchorjs-link")
)
_HIDDEN: Final = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_BREAK: Final = "\x01"  # no such character is left in a decoded text
_BREAKS: Final = re.compile(rf" ?{_BREAK} ?")
_INVISIBLE: Final = str.maketrans("", "", "\u00ad\u200b\u2060\ufeff" + _BREAK)
_ANCHORS: Final = frozenset({"#", "¶", "§", "🔗", ""})
_MARKS: Final = {"strong": "**", "b": "**", "em": "*", "i": "*", "cite": "*", "del": "~~", "s": "~~"}
_LONGEST_LINK: Final = 2000


def is_dropped(node: Node) -> bool:
    """Whether an element has nothing to read, or nothing that anybody sees."""
    attributes = node.attributes
    if node.name in _DROPPED:
        return True
    if node.name == "input" and attributes.get("type") != "checkbox":
        return True
    if not attributes:
        return False
    if attributes.get("hidden", "until-found") != "until-found" or attributes.get("aria-hidden") == "true":
        return True
    if attributes.get("role") in ("dialog", "alertdialog"):
        return True
    if _HIDDEN.search(attributes.get("style", "")):
        return True
    return not _DROPPED_CLASSES.isdisjoint(attributes.get("class", "").split())


def collapse(text: str) -> str:
    """Text on one line."""
    return " ".join(text.replace(_BREAK, " ").translate(_INVISIBLE).split())


class Words:
    """Turns runs of inline elements into text. Links are made whole by the page's URL."""

    def __init__(self, url: str, base: str = "") -> None:
        self._base = join(url, base) if base else url

    def line(self, children: Iterable[Node | str]) -> str:
        """The words of a paragraph: one line, more where the page breaks it."""
        text = " ".join(self._run(children).split())
        return _BREAKS.sub("\n", text).strip()

    def link(self, text: str, node: Node) -> str:
        """A text that leads to where `node` does."""
        href = node.attributes.get("href", "").strip()
        if href.startswith("#"):
            return "" if text in _ANCHORS else text
        url = join(self._base, href) if href else ""
        if not url.startswith(("http://", "https://", "mailto:")) or len(url) > _LONGEST_LINK or text == url:
            return text
        for sign, code in ((" ", "%20"), ("(", "%28"), (")", "%29")):
            url = url.replace(sign, code)
        return f"[{text}]({url})" if text else ""

    def code(self, node: Node) -> str:
        """Text as it stands, line by line."""
        pieces: list[str] = []
        todo: list[Node | str] = [node]
        while todo:
            item = todo.pop()
            if isinstance(item, str):
                pieces.append(item.replace("\u00a0", " ").translate(_INVISIBLE))
            elif item.name == "br":
                pieces.append("\n")
            elif item is node or not is_dropped(item):
                todo.extend(reversed(item.children))
        return "".join(pieces)

    def _run(self, children: Iterable[Node | str]) -> str:
        return "".join(
            child.translate(_INVISIBLE) if isinstance(child, str) else self._element(child) for child in children
        )

    def _element(self, node: Node) -> str:
        if is_dropped(node):
            return ""
        match node.name:
            case "br":
                return _BREAK
            case "img":
                return self._image(node)
            case "input":
                return "[x] " if "checked" in node.attributes else "[ ] "
            case "code" | "tt" | "kbd" | "samp":
                return _quoted(self.code(node))
        inner = collapse(node.attributes.get("alttext", "")) or self._run(node.children)
        if node.name == "a":
            return _around(inner, self.link(collapse(inner), node))
        mark = _MARKS.get(node.name)
        if mark is None or not inner.strip() or mark in inner or _BREAK in inner:
            return inner
        return _around(inner, f"{mark}{inner.strip()}{mark}")

    def _image(self, node: Node) -> str:
        alt = collapse(node.attributes.get("alt", ""))
        src = join(self._base, node.attributes.get("src", ""))
        if not alt:
            return ""
        return f"![{alt}]({src})" if src.startswith(("http://", "https://")) and len(src) < _LONGEST_LINK else alt


def _around(inner: str, text: str) -> str:
    """The text with the spaces that `inner` has at its ends: they are the words' around it."""
    before = " " if inner[:1].isspace() else ""
    after = " " if inner[-1:].isspace() else ""
    return f"{before}{text}{after}"


def _quoted(text: str) -> str:
    text = collapse(text)
    if not text:
        return ""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
