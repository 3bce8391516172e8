"""The parameters of the host's own methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from dragoman.errors import RemoteProtocolError, RequestError
from dragoman.schema import decode

if TYPE_CHECKING:
    from msgspec import Raw

    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession

T = TypeVar("T")


def read_params(params: Raw | None) -> dict[str, Any]:
    """Read the params of a method of the host. Raises: RequestError."""
    found: Any = msgspec.json.decode(params or b"{}")
    if not isinstance(found, dict):
        raise RequestError.invalid_params("the params must be an object")
    return found


def read_typed(kind: type[T], params: Raw | bytes | None) -> T:
    """Read the params of a method as their type. Raises: RequestError, also in a handler that runs already."""
    try:
        return decode(kind, params or b"{}")
    except RemoteProtocolError as error:
        raise RequestError(error.code, error.message, {"path": error.path} if error.path else None) from None


def text_member(params: dict[str, Any], name: str) -> str:
    """Return a member that must be a text. Raises: RequestError."""
    found = params.get(name)
    if not isinstance(found, str) or not found:
        raise RequestError.invalid_params(f"{name} must be a non-empty string", path=f"$.{name}")
    return found


async def find_session(host: Host, client: HostConnection, params: dict[str, Any]) -> HostedSession:
    """Return the session that `sessionId` names; one of another user is answered like one that does not exist.

    Raises:
        RequestError: there is no such session, or the log cannot be read.
    """
    session = await host.find(str(params.get("sessionId", "")), client.visitor)
    if session is None:
        raise RequestError.not_found("there is no such session")
    return session
