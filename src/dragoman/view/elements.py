"""Elements of a page as values: what may stand in a page at all, and how it is written as HTML.

Both writers of pages use these values: `write` here, and the script of the inspector's page, which makes elements of
their JSON. Safety is here and not in the text: an element can only have a tag and attributes of these lists, a link
only an address of the web or a place of the same page, and all text is escaped. Characters that are invisible or move
text are spelled out.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from dragoman.text.secrets import known_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TAGS: Final = frozenset(
    (
        *(
            "a",
            "article",
            "blockquote",
            "br",
            "code",
            "del",
            "details",
            "div",
            "em",
            "h3",
            "h4",
            "h5",
            "h6",
            "hr",
            "li",
        ),
        *("li", "ol", "p", "pre", "span", "strong", "summary", "table", "tbody", "td", "th", "thead", "tr", "ul"),
    )
)
ATTRIBUTES: Final = frozenset({"class", "href", "id", "open", "start", "data-place", "rel", "title"})
_VOID: Final = frozenset({"br", "hr"})
# A place of a page has a name that we give it: no text of a peer can be one.
_PLACE: Final = re.compile(r"[a-z][a-z0-9-]{0,40}")
_WEB: Final = re.compile(r"https?://[^\s\"'<>`\\\x00-\x20\x7f-\x9f]+", re.IGNORECASE)
# Controls, reading direction and tags; a tab and a line break are shown as what they are.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)


class Element(Struct, frozen=True, array_like=True):
    """One element; a child is an element or text."""

    tag: str
    attributes: dict[str, str]
    children: tuple[ElementChild, ...] = ()


ElementChild: TypeAlias = Element | str


def make(tag: str, attributes: Mapping[str, str] | str = "", *children: ElementChild) -> Element:
    """Return an element; a string instead of attributes is its class.

    Raises: ValueError for a tag, an attribute or an address that a page must not have.
    """
    named = ({"class": attributes} if attributes else {}) if isinstance(attributes, str) else dict(attributes)
    if tag not in TAGS or not named.keys() <= ATTRIBUTES:
        raise ValueError(f"not an element of a page: {tag} {sorted(named)}")
    href = named.get("href", "#a")
    if not (is_web(href) or (href[:1] == "#" and _PLACE.fullmatch(href[1:]))):
        raise ValueError("a link must be an address that begins with http:// or https://, or a place of the page")
    if not _PLACE.fullmatch(named.get("id", "a")):
        raise ValueError("the name of a place must be of small letters, digits and hyphens")
    return Element(tag, named, tuple(shown(child) if isinstance(child, str) else child for child in children if child))


def is_web(uri: str) -> bool:
    """Whether a page may link to this address."""
    return len(uri) <= 2_000 and _WEB.fullmatch(uri) is not None


def shown(text: str) -> str:
    """Return text without known keys, with hidden characters spelled out as `\\u202e`."""
    text = known_keys.mask(text)
    if text.isprintable():
        return text
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


def write(elements: Iterable[ElementChild]) -> str:
    """Return the elements as HTML."""
    pieces: list[str] = []
    _write(elements, pieces)
    return "".join(pieces)


def _write(elements: Iterable[ElementChild], pieces: list[str]) -> None:
    for element in elements:
        if isinstance(element, str):
            pieces.append(escape(element))
            continue
        attributes = "".join(
            f' {name}="{escape(shown(value))}"' if value else f" {name}" for name, value in element.attributes.items()
        )
        pieces.append(f"<{element.tag}{attributes}>")
        if element.tag not in _VOID:
            _write(element.children, pieces)
            pieces.append(f"</{element.tag}>")
