"""A whole session as one document: Markdown, an HTML page, or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.text.secrets import known_keys
from dragoman.text.terminal import escape_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.view.blocks import Block

FORMS: Final = ("md", "html", "json")
_ENDINGS: Final = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html", ".json": "json"}


def form_of(path: str, default: str = "md") -> str:
    """Return the form that the name of a file stands for."""
    return _ENDINGS.get(path[path.rfind(".") :].lower() if "." in path else "", default)


def session_document(
    form: str, blocks: Sequence[Block], title: str, facts: Sequence[tuple[str, str]], about: Mapping[str, Any]
) -> str:
    """Write a session in one of `FORMS`.

    Args:
        blocks: the conversation.
        title: stands above it.
        facts: stand below the title, in Markdown and HTML.
        about: the members of the JSON object.
    """
    if form == "html":
        from dragoman.view.html import page_of

        return page_of(blocks, title, facts)
    if form == "json":
        return escape_json(json_document(blocks, about).decode()) + "\n"
    from dragoman.view.markdown import to_markdown

    return to_markdown(blocks, title, facts)


def json_document(blocks: Sequence[Block], about: Mapping[str, Any]) -> bytes:
    """Write a session as JSON; keys that are known are masked."""
    whole = {"schema": "dragoman.session/1", **about, "blocks": list(blocks)}
    return known_keys.mask_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=2))
