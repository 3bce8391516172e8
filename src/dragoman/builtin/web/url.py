"""URLs in one normal form, in which they are requested, checked and shown.

Owns which URLs are fetched at all, and how a redirect or a link is joined. Does not connect.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from msgspec import Struct

from dragoman.builtin.tools.tool import ToolError
from dragoman.policy.hosts import plain_host
from dragoman.text.terminal import cut

_LONGEST: Final = 8192  # what servers accept
_PORTS: Final = {"http": 80, "https": 443}
# Spaces and control characters would end a line of the request early; some programs read a backslash as a slash.
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\]")
_KEPT: Final = "%/:=&?~#+!$,;'@()*[]"


class ParsedUrl(Struct, frozen=True):
    """The parts of a URL that a request needs. `host` is in the form that rules use: ASCII, IPv6 in brackets."""

    scheme: str
    host: str
    port: int
    path: str
    """The path with the query."""

    @property
    def authority(self) -> str:
        return self.host if self.port == _PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def read_url(text: str) -> ParsedUrl:
    """Parse a URL, without its fragment. Raises: ToolError that states what is wrong."""
    text = text.strip()
    if not text or len(text) > _LONGEST or _UNSAFE.search(text):
        raise ToolError(f"{_shown(text)} is not a URL; write it like https://example.org/page, with spaces as %20")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ToolError(f"{_shown(text)} is not a URL; write it like https://example.org/page") from None
    if parts.scheme not in _PORTS:
        raise ToolError(f"{_shown(text)} cannot be fetched; give an http or https URL")
    if "@" in parts.netloc:
        raise ToolError(f"{_shown(text)} contains a user name or password, which are not sent; leave them out")
    try:
        host = plain_host(f"[{host}]" if ":" in host else host)
    except ValueError as error:
        raise ToolError(f"{_shown(text)} cannot be fetched: {host or 'nothing'} {error}") from None
    path = quote(parts.path or "/", safe=_KEPT)
    query = f"?{quote(parts.query, safe=_KEPT)}" if parts.query else ""
    return ParsedUrl(parts.scheme, host, _PORTS[parts.scheme] if port is None else port, path + query)


def join(base: str, reference: str) -> str:
    """Return a link of a page as an absolute URL, empty if it is not valid."""
    try:
        return urljoin(base, reference.strip())
    except ValueError:
        return ""


def _shown(text: str) -> str:
    return repr(cut(text, 200))
