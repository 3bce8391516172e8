"""Inline elements of a page as text: words, links, emphasis, code.

Owns how a run of inline elements becomes text, and which elements are never shown. Does not handle blocks.
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
_BREAK: Final = "\x01"  # decoded text does not contain this character
_BREAKS: Final = re.compile(rf" ?{_BREAK} ?")
_INVISIBLE: Final = str.maketrans("", "", "\u00ad\u200b\u2060\ufeff" + _BREAK)
_ANCHORS: Final = frozenset({"#", "¶", "§", "🔗", ""})
_MARKS: Final = {"strong": "**", "b": "**", "em": "*", "i": "*", "cite": "*", "del": "~~", "s": "~~"}
_LONGEST_LINK: Final = 2000


def is_dropped(node: Node) -> bool:
    """Whether an element has no text, or only text that a browser does not show."""
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
    """Return the text on one line."""
    return " ".join(text.replace(_BREAK, " ").translate(_INVISIBLE).split())


class InlineText:
    """The text of runs of inline elements. Links become absolute URLs."""

    def __init__(self, url: str, base: str = "") -> None:
        self._base = join(url, base) if base else url

    def line(self, children: Iterable[Node | str]) -> str:
        """Return the text of a paragraph: one line, or several if the page breaks it."""
        text = " ".join(self._run(children).split())
        return _BREAKS.sub("\n", text).strip()

    def link(self, text: str, node: Node) -> str:
        """Return a Markdown link with this text and the target of `node`."""
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
        """Return preformatted text with its line ends."""
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
                alt = collapse(node.attributes.get("alt", ""))
                src = join(self._base, node.attributes.get("src", ""))
                is_link = src.startswith(("http://", "https://")) and len(src) < _LONGEST_LINK
                return f"![{alt}]({src})" if alt and is_link else alt
            case "input":
                return "[x] " if "checked" in node.attributes else "[ ] "
            case "code" | "tt" | "kbd" | "samp":
                code = collapse(self.code(node))
                return "" if not code else f"`` {code} ``" if "`" in code else f"`{code}`"
        inner = collapse(node.attributes.get("alttext", "")) or self._run(node.children)
        if node.name == "a":
            return _around(inner, self.link(collapse(inner), node))
        mark = _MARKS.get(node.name)
        if mark is None or not inner.strip() or mark in inner or _BREAK in inner:
            return inner
        return _around(inner, f"{mark}{inner.strip()}{mark}")


def _around(inner: str, text: str) -> str:
    """Return the text with a space where `inner` begins or ends with white space, which separates words."""
    before = " " if inner[:1].isspace() else ""
    after = " " if inner[-1:].isspace() else ""
    return f"{before}{text}{after}"
