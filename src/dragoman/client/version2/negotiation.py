"""How client and agent agree on a version when version 2 is offered.

The request has the members of both versions, so that an agent of version 1 can read it. An agent that answers with
version 1 has not seen what this client offers (a router may have rewritten it), and one that refuses (-32602, -32600,
or -32022 with version 1 in its list) can be asked again: both get a second `initialize` with version 1, once, on the
same connection and before any other request, which every measured agent accepts. -32000 asks for a login and is passed
on. Loaded only if version 2 is offered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    UNSUPPORTED_VERSION,
    RemoteProtocolError,
    RequestError,
)
from dragoman.schema import decode, encode, v1
from dragoman.versions.losses import Losses
from dragoman.versions.version2 import to_v1, to_v2

if TYPE_CHECKING:
    from dragoman.client.connection import ClientConnection

_RETRIED: Final = (INVALID_PARAMS, INVALID_REQUEST)


async def negotiate(
    connection: ClientConnection, request: v1.InitializeRequest, *, may_fall_back: bool
) -> v1.InitializeResponse:
    """Initialize the connection in version 2 if the agent speaks it, and return its answer in the form of version 1.

    Args:
        request: What version 1 would be initialized with.
        may_fall_back: Whether version 1 will do as well.

    Raises:
        RequestError: The agent refused for another reason.
        RemoteProtocolError: There is no version that both speak.
    """
    asked = msgspec.json.decode(encode(request))
    offer = {
        "protocolVersion": 2,
        "info": to_v2.program(asked.get("clientInfo")),
        "capabilities": to_v2.client_capabilities(asked.get("clientCapabilities"), Losses()),
    }
    if may_fall_back:
        offer = {**asked, **offer}
    try:
        answer: Any = await connection.peer.request(
            "initialize", offer, Any, on_result=lambda found: _agree(connection, found)
        )
    except RequestError as error:
        if not _speaks_version1(error):
            raise
        if not may_fall_back:
            raise RemoteProtocolError(
                f"the agent refused version 2 of the protocol ({error.message}); connect with protocol 1 or auto"
            ) from None
        return await _in_version1(connection, request)
    version = answer.get("protocolVersion") if isinstance(answer, dict) else None
    if version == 2 and isinstance(answer, dict):
        return _read(answer)
    if version == 1 and may_fall_back:
        return await _in_version1(connection, request)
    remedy = "connect with protocol 1 or auto" if version == 1 else "use a release that speaks version 1 or 2"
    raise RemoteProtocolError(f"the agent speaks version {version} of the protocol, not 2; {remedy}")


def _agree(connection: ClientConnection, answer: Any) -> None:
    """Read what follows as version 2; called before any later frame is read."""
    if isinstance(answer, dict) and answer.get("protocolVersion") == 2:
        connection.speak_version2()


def _speaks_version1(error: RequestError) -> bool:
    if error.code in _RETRIED:
        return True
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    return error.code == UNSUPPORTED_VERSION and isinstance(supported, list) and 1 in supported


async def _in_version1(connection: ClientConnection, request: v1.InitializeRequest) -> v1.InitializeResponse:
    response = await connection.peer.request("initialize", request, v1.InitializeResponse)
    if response.protocol_version != 1:
        raise RemoteProtocolError(
            f"the agent answered version 1 of the protocol with version {response.protocol_version}; "
            "use a release of the agent that speaks version 1 or 2"
        )
    return response


def _read(answer: dict[str, Any]) -> v1.InitializeResponse:
    """Return the answer of version 2 as one of version 1: capabilities have the same names for the program above."""
    capabilities = answer.get("capabilities")
    if not isinstance(capabilities, dict) or not isinstance(capabilities.get("session"), dict):
        raise RemoteProtocolError("the agent offers no sessions (capabilities.session), so there is nothing to use")
    methods = to_v1.auth_methods(answer.get("authMethods"), Losses())
    made = {
        "protocolVersion": 2,
        "agentInfo": to_v2.program(answer.get("info")),
        "agentCapabilities": to_v1.agent_capabilities(capabilities, can_log_out=bool(methods)),
        "authMethods": methods,
    }
    if isinstance(answer.get("_meta"), dict):
        made["_meta"] = answer["_meta"]
    return decode(v1.InitializeResponse, encode(made))
