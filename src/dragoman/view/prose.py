"""Markdown, as models write it, to elements of a page.

Owns a subset that is read the same way by every reader: headings, paragraphs, lists, quotes, tables, code, emphasis and
links to the web. Raw HTML, images and links to anything else stay text. Every pattern has a bound, so that the cost is
linear in the text, whatever it contains.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman.view.code import code_elements, code_lines
from dragoman.view.elements import is_web, make, shown

if TYPE_CHECKING:
    from dragoman.view.elements import Element, ElementChild

_DEEPEST: Final = 6  # quotes and lists in each other
_LONGEST: Final = 20_000  # characters of a paragraph that are searched for emphasis and links

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})\s{0,40}([^\s`]{0,40})[^`]*")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})\s(.*)")
_RULE: Final = re.compile(r" {0,3}([-*_])(?:\s*\1){2,}\s*")
_ITEM: Final = re.compile(r"( {0,8})([-*+]|\d{1,9}[.)])(\s+)(.*)")
_QUOTE: Final = re.compile(r" {0,3}> ?(.*)")
_TABLE_RULE: Final = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+\s*(?::?-+:?\s*)?")
_INLINE: Final = re.compile(
    r"""
    (?P<ticks>`{1,3})(?!`)(?P<code>.{1,2000}?)(?<!`)(?P=ticks)(?!`)
    | \\(?P<escaped>[!-/:-@\[-`{-~])
    | \[(?P<label>[^\[\]\n]{1,500})\]\((?P<target>[^()\s]{1,2000})(?:\s"[^"\n]{0,200}")?\)
    | <(?P<auto>https?://[^\s<>]{1,2000})>
    | (?P<bare>https?://[^\s<>"'`)\]]{1,2000})
    | \*\*(?P<strong>[^\s*](?:[^*\n]{0,998}[^\s*])?)\*\*
    | (?<![\w*])\*(?P<em>[^\s*](?:[^*\n]{0,998}[^\s*])?)\*(?!\w)
    | (?<!\w)_(?P<em2>[^\s_](?:[^_\n]{0,998}[^\s_])?)_(?!\w)
    | ~~(?P<gone>[^\s~](?:[^~\n]{0,998}[^\s~])?)~~
    """,
    re.VERBOSE | re.DOTALL,
)


def prose(text: str) -> list[Element]:
    """Return the elements of a Markdown text."""
    return _blocks(text.replace("\r\n", "\n").split("\n"), 0)


def _blocks(lines: list[str], depth: int) -> list[Element]:
    elements: list[Element] = []
    paragraph: list[str] = []

    def close() -> None:
        if any(line.strip() for line in paragraph):
            elements.append(make("p", "", *inline("\n".join(paragraph).strip())))
        paragraph.clear()

    at = 0
    while at < len(lines):
        line = lines[at]
        if fence := _FENCE.fullmatch(line):
            close()
            body, at = _fenced(lines, at, fence[1])
            elements.append(_code(fence[2], body))
            continue
        if not line.strip():
            close()
        elif heading := _HEADING.fullmatch(line):
            close()
            elements.append(
                make(f"h{min(6, len(heading[1]) + 2)}", "", *inline(heading[2].strip().rstrip("#").rstrip()))
            )
        elif _RULE.fullmatch(line):
            close()
            elements.append(make("hr"))
        elif depth < _DEEPEST and _QUOTE.fullmatch(line):
            close()
            inner, at = _quoted(lines, at)
            elements.append(make("blockquote", "", *_blocks(inner, depth + 1)))
            continue
        elif depth < _DEEPEST and (item := _ITEM.fullmatch(line)) and (not paragraph or not item[2][0].isdigit()):
            close()
            element, at = _list(lines, at, depth)
            elements.append(element)
            continue
        elif "|" in line and at + 1 < len(lines) and _is_table_rule(lines[at + 1]):
            close()
            element, at = _table(lines, at)
            elements.append(element)
            continue
        else:
            paragraph.append(line)
        at += 1
    close()
    return elements


def _code(language: str, body: str) -> Element:
    attributes = {"class": "code"} | ({"title": language} if language else {})
    lines = code_lines(language.partition(" ")[0], shown(body).split("\n"))
    coloured: list[ElementChild] = [body]
    if lines is not None:
        # One run after another, with the line breaks between them.
        coloured = code_elements(
            run for number, line in enumerate(lines) for run in ([("\n", "")] if number else []) + line
        )
    return make("pre", attributes, make("code", "", *coloured))


def _fenced(lines: list[str], at: int, fence: str) -> tuple[str, int]:
    """Return the text of a code block, and the line after it; one without an end reaches to the end of the text."""
    body: list[str] = []
    for number in range(at + 1, len(lines)):
        end = lines[number].strip()
        if end.startswith(fence) and not end.strip(fence[0]):
            return "\n".join(body), number + 1
        body.append(lines[number])
    return "\n".join(body), len(lines)


def _quoted(lines: list[str], at: int) -> tuple[list[str], int]:
    inner = []
    while at < len(lines) and (quote := _QUOTE.fullmatch(lines[at])):
        inner.append(quote[1])
        at += 1
    return inner, at


def _list(lines: list[str], at: int, depth: int) -> tuple[Element, int]:
    first = _ITEM.fullmatch(lines[at])
    assert first is not None
    is_numbered, margin = first[2][0].isdigit(), len(first[1])
    items: list[Element] = []
    while at < len(lines):
        item = _ITEM.fullmatch(lines[at])
        if item is None or len(item[1]) != margin or item[2][0].isdigit() != is_numbered:
            break
        body, at = _item_lines(lines, at, len(item[1]) + len(item[2]) + 1, item[4])
        inner = _blocks(body, depth + 1)
        # The usual item is one paragraph, and reads better without its margins.
        is_plain = len(inner) >= 1 and inner[0].tag == "p"
        items.append(make("li", "", *(inner[0].children if is_plain else ()), *(inner[1:] if is_plain else inner)))
        while at + 1 < len(lines) and not lines[at].strip() and _ITEM.fullmatch(lines[at + 1]):
            at += 1
    number = first[2][:-1]
    return make("ol" if is_numbered else "ul", {"start": number} if is_numbered and number != "1" else "", *items), at


def _item_lines(lines: list[str], at: int, indent: int, first: str) -> tuple[list[str], int]:
    """Return the lines of one item without their indent, and the line after it."""
    body = [first]
    at += 1
    while at < len(lines):
        line = lines[at]
        lead = len(line) - len(line.lstrip(" "))
        if line.strip() and lead < min(indent, 2) and (_ITEM.fullmatch(line) or not body[-1].strip()):
            break
        if line.strip() and lead < indent and _ITEM.fullmatch(line):
            break
        if line.strip() and lead == 0 and (_HEADING.fullmatch(line) or _FENCE.fullmatch(line) or _RULE.fullmatch(line)):
            break
        body.append(line[min(lead, indent) :])
        at += 1
    while len(body) > 1 and not body[-1].strip():
        body.pop()
        at -= 1
    return body, at


def _is_table_rule(line: str) -> bool:
    return len(line) <= 1_000 and "-" in line and _TABLE_RULE.fullmatch(line) is not None


def _table(lines: list[str], at: int) -> tuple[Element, int]:
    head = [make("th", "", *inline(cell)) for cell in _cells(lines[at])]
    rows = []
    at += 2
    while at < len(lines) and "|" in lines[at]:
        rows.append(make("tr", "", *(make("td", "", *inline(cell)) for cell in _cells(lines[at])[: len(head)])))
        at += 1
    return make("table", "", make("thead", "", make("tr", "", *head)), make("tbody", "", *rows)), at


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def inline(text: str) -> list[ElementChild]:
    """Return the elements of one paragraph."""
    if len(text) > _LONGEST:
        return [text]
    parts: list[ElementChild] = []
    at = 0
    for match in _INLINE.finditer(text):
        parts += [text[at : match.start()], *_span(match)]
        at = match.end()
    return [part for part in (*parts, text[at:]) if part]


def _span(match: re.Match[str]) -> list[ElementChild]:
    group = match.lastgroup
    if group == "code":
        return [make("code", "", match["code"].strip() or match["code"])]
    if group == "escaped":
        return [match["escaped"]]
    if group == "target":
        if not is_web(match["target"]):
            return [match[0]]
        return [_link(match["target"], *_emphasis(match["label"]))]
    if group in ("auto", "bare"):
        uri = match[group]
        end = len(uri.rstrip(".,;:!?*_~")) if group == "bare" else len(uri)
        return [_link(uri[:end], uri[:end]), uri[end:]] if is_web(uri[:end]) else [match[0]]
    tag = {"strong": "strong", "em": "em", "em2": "em", "gone": "del"}[group or ""]
    return [make(tag, "", *_emphasis(match[group or ""]))]


def _emphasis(text: str) -> list[ElementChild]:
    """Return a mark as elements: code inside emphasis is code; other marks inside each other stay text."""
    pieces = re.split(r"`([^`\n]{1,500})`", text)
    return [make("code", "", piece) if number % 2 else piece for number, piece in enumerate(pieces) if piece]


def _link(uri: str, *children: ElementChild) -> Element:
    return make("a", {"href": uri, "rel": "noopener noreferrer nofollow"}, *children)
