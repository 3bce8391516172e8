"""Why there is no connection to an MCP server, in words for the user: what is wrong, and what to do.

Owns the messages, and which of them ask for a login. The `mcp` package is already loaded when this is used.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from dragoman.builtin.mcp.server import McpConnectionLost, McpLoginNeeded
from dragoman.text.secrets import Secrets
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from dragoman.builtin.mcp.config import ServerSpec

_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_ERROR_CHARACTERS: Final = 300


def loss_of(spec: ServerSpec, error: BaseException, status: int | None) -> McpConnectionLost:
    """Return the error of a connection that failed or is over, with keys masked.

    Args:
        status: the HTTP status of the last answer, if that was an error.
    """
    from httpx2 import HTTPStatusError, TransportError

    first = first_of(error)
    if isinstance(first, McpConnectionLost):
        return first
    if isinstance(first, HTTPStatusError):
        status = first.response.status_code
    if type(first).__module__.startswith("mcp.client.auth"):
        why = f"the login failed: {shorten(str(first), _ERROR_CHARACTERS)}; try: {spec.login_command}"
    elif status is not None:
        why = _refusal(spec, status)
    elif isinstance(first, TransportError) and "CERTIFICATE" in str(first):
        why = f"the certificate of {spec.where} is not accepted ({first}); check the address and its TLS"
    elif isinstance(first, TransportError):
        why = f"{spec.where} cannot be reached ({str(first) or type(first).__name__}); check that it runs"
    elif is_end(first):
        why = f"{spec.where} closed the connection"
    else:
        why = shorten(words_of(first), _ERROR_CHARACTERS) or type(first).__name__
    masked = Secrets(os.environ, spec.env).mask(why)
    return McpLoginNeeded(masked) if status == _UNAUTHORIZED and spec.can_login else McpConnectionLost(masked)


def _refusal(spec: ServerSpec, status: int) -> str:
    if status == _UNAUTHORIZED:
        how = f"log in with: {spec.login_command}, or " if spec.can_login else ""
        return f"it requires authentication (HTTP 401); {how}configure an Authorization header for it"
    if status == _FORBIDDEN:
        return "it refuses access (HTTP 403); check that this account or Authorization header may use it"
    return f"{spec.where} answered with HTTP {status}; check the address"


def words_of(error: BaseException) -> str:
    """Return the text of an error.

    Of a message that is not what the protocol requires, it is the first place that is wrong.
    """
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    first, *others = error.errors(include_url=False, include_input=False)
    place = ".".join(map(str, first["loc"]))
    more = f" and {len(others)} more" if others else ""
    return f"its {error.title} is not what the protocol requires: {place}: {first['msg']}{more}"


def is_end(error: BaseException) -> bool:
    """Whether the connection is over. A session that the server no longer has is one that ended."""
    from anyio import BrokenResourceError, ClosedResourceError
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    if isinstance(error, MCPError):
        return error.code == CONNECTION_CLOSED or error.message == "Session terminated"
    return isinstance(error, (BrokenResourceError, ClosedResourceError))


def first_of(error: BaseException) -> BaseException:
    """Return the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
