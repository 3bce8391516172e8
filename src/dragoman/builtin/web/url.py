"""URLs as they are asked for, judged and shown: one spelling each, nothing hidden in them.

Owns which URLs are fetched at all and how a redirect or a link is joined. Connects to nothing.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from msgspec import Struct

from dragoman.builtin.tools.tool import ToolError
from dragoman.policy.hosts import plain_host
from dragoman.text.terminal import cut

_LONGEST: Final = 8192  # what servers take
_PORTS: Final = {"http": 80, "https": 443}
# Spaces and controls would end a line of the request early; a backslash is a slash to some readers and not to others.
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\]")
_KEPT: Final = "%/:=&?~#+!$,;'@()*[]"


class Target(Struct, frozen=True):
    """Where a request goes. `host` is in the spelling that rules use: ASCII, IPv6 in brackets."""

    scheme: str
    host: str
    port: int
    path: str
    """With the query."""

    @property
    def authority(self) -> str:
        return self.host if self.port == _PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def read_url(text: str) -> Target:
    """The target a URL names; what stands behind `#` is left out. Raises: ToolError that says what is wrong."""
    text = text.strip()
    if not text or len(text) > _LONGEST or _UNSAFE.search(text):
        raise ToolError(f"{_shown(text)} is no URL; write spaces as %20, and it like https://example.org/page")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ToolError(f"{_shown(text)} is no URL; write it like https://example.org/page") from None
    if parts.scheme not in _PORTS:
        raise ToolError(f"{_shown(text)} cannot be fetched: only http and https URLs can")
    if "@" in parts.netloc:
        raise ToolError(f"{_shown(text)} holds a user name or password, which are not sent; leave them out")
    try:
        host = plain_host(f"[{host}]" if ":" in host else host)
    except ValueError as error:
        raise ToolError(f"{_shown(text)} cannot be fetched: {host or 'nothing'} {error}") from None
    path = quote(parts.path or "/", safe=_KEPT)
    query = f"?{quote(parts.query, safe=_KEPT)}" if parts.query else ""
    return Target(parts.scheme, host, _PORTS[parts.scheme] if port is None else port, path + query)


def join(base: str, reference: str) -> str:
    """A link as a page has it, as a whole URL; empty if it is none."""
    try:
        return urljoin(base, reference.strip())
    except ValueError:
        return ""


def _shown(text: str) -> str:
    return repr(cut(text, 200))
