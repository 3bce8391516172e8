"""The handshake: what the client sends first, what it waits for, and how it takes the answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from dragoman.conformance.case import Fail, Skip, add_cases, case
from dragoman.conformance.client.probe import BARE, FULL, OPENING
from dragoman.conformance.client.rows import HandshakeCase
from dragoman.conformance.conversation import Gone, Silence
from dragoman.conformance.expect import expect_capability_types

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe

_FLAGS = ("fs.readTextFile", "fs.writeTextFile", "terminal", "auth.terminal")
_MARKERS = (
    "fs",
    "auth",
    "elicitation",
    "elicitation.form",
    "elicitation.url",
    "session",
    "session.configOptions",
    "session.configOptions.boolean",
    "session.notices",
    "session.compaction",
)
_SESSION_MARKERS = ("list", "delete", "resume", "close", "additionalDirectories")
_META = {"protocolVersion": 9999, "protocol_version": 9999, "self": 1, "example.com/x": {"deep": [None]}}


@case("client/initialize/first", rules=(2, 3, 33), shares="plain")
async def first(probe: ClientProbe) -> None:
    """The client starts the agent as its child, and initialize is the first thing it sends.

    Looks at the first line the client wrote; expects the request initialize.
    """
    if not probe.incoming:
        raise Fail("the client started the agent and sent nothing")
    if probe.incoming[0].method != "initialize" or not probe.incoming[0].is_request:
        raise Fail(f"the first message is {probe.incoming[0]}")


@case("client/initialize/waits", rules=(34, 83))
async def waits(probe: ClientProbe) -> None:
    """Nothing of sessions or logins is sent before initialize was answered.

    Keeps initialize waiting for a moment; expects no other request and no notification of the protocol.
    """
    request = await probe.expect("initialize")
    # Not `settle`: before initialize is answered the agent has nothing to ask.
    await asyncio.sleep(max(probe.settings.quiet_seconds, 0.05))
    early = probe.since(request.index + 1, lambda message: message.is_request or message.is_notification)
    if early:
        raise Fail(f"before the answer to initialize came {early[0]}")


@case("client/initialize/version", rules=(36, 37), shares="plain")
async def version(probe: ClientProbe) -> None:
    """protocolVersion is one integer, the latest version the client supports.

    Looks at the params of initialize; expects an integer from 0 to 65535 as protocolVersion.
    """
    found = probe.first("initialize").params.get("protocolVersion")
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= 65535:
        raise Fail(f"protocolVersion is {found!r}")


@case("client/initialize/other-version", rules=(40, 41), level="SHOULD", is_watched=False)
async def other_version(probe: ClientProbe) -> None:
    """A client that does not support the answered version closes the connection.

    Answers initialize with version 65000; expects no session, and that the client ends the connection.
    """
    await probe.initialize(protocolVersion=65000)
    try:
        request = await probe.next_request(*OPENING, "session/list", "authenticate")
    except Silence:
        raise Fail("the client neither closed the connection nor went on after an unsupported version") from None
    except Gone:
        return
    raise Fail(f"after version 65000 was agreed on the client went on with {request}")


@case("client/initialize/capability-types", rules=(43, 57, 58), shares="plain")
async def capability_types(probe: ClientProbe) -> None:
    """Flags are booleans and markers are objects or null, never the other way round.

    Looks at clientCapabilities; expects every known member to have the type of the schema.
    """
    found = probe.first("initialize").params.get("clientCapabilities", {})
    if not isinstance(found, dict):
        raise Fail(f"clientCapabilities is {found!r}")
    expect_capability_types(found, _FLAGS, _MARKERS)


@case("client/initialize/states-capabilities", rules=(43, 51), level="SHOULD", shares="plain")
async def states_capabilities(probe: ClientProbe) -> None:
    """The client states what it can do.

    Looks at the params of initialize; expects clientCapabilities.
    """
    if "clientCapabilities" not in probe.first("initialize").params:
        raise Fail("initialize has no clientCapabilities, which means that the client can do nothing")


@case("client/initialize/client-info", rules=(44,), level="SHOULD", shares="plain")
async def client_info(probe: ClientProbe) -> None:
    """The client states its name.

    Looks at the params of initialize; expects clientInfo.
    """
    if probe.first("initialize").params.get("clientInfo") is None:
        raise Fail("initialize has no clientInfo")


@case("client/initialize/client-info-complete", rules=(46,), shares="plain")
async def client_info_complete(probe: ClientProbe) -> None:
    """clientInfo has a name and a version.

    Looks at clientInfo, if there is one; expects the strings name and version.
    """
    info = probe.first("initialize").params.get("clientInfo")
    if info is None:
        raise Skip("the client sends no clientInfo")
    if not isinstance(info, dict) or not all(isinstance(info.get(name), str) for name in ("name", "version")):
        raise Fail(f"clientInfo is {info!r}")


@case("client/initialize/works-with-anyone", rules=(50,), level="SHOULD")
async def works_with_anyone(probe: ClientProbe) -> None:
    """A turn with an agent that can do nothing goes like any other.

    Plays a whole turn as an agent without capabilities; expects the client to be well.
    """
    await probe.initialize(BARE)
    turn = await probe.require_prompt("an agent without capabilities")
    turn.send_text("Hello.")
    await probe.require_well(turn, "a turn with an agent that has no capabilities")


add_cases(
    HandshakeCase(
        "client/initialize/least-answer",
        rules=(49, 58),
        about="an agent that answers with its version alone is an agent that can do nothing, not an error",
        capabilities=msgspec.UNSET,
        members={"agentInfo": msgspec.UNSET, "authMethods": msgspec.UNSET},
        what="an answer to initialize with the version alone",
    ),
    HandshakeCase(
        "client/initialize/null-capabilities",
        rules=(57,),
        about="a marker that is null means the same as one that is absent",
        capabilities={"sessionCapabilities": dict.fromkeys(_SESSION_MARKERS), "auth": None, "_meta": None},
        members={"agentInfo": None, "_meta": None},
        what="an answer to initialize with markers that are null",
        unused="its marker is null",
    ),
    HandshakeCase(
        "client/initialize/malformed-capabilities",
        rules=(59,),
        about="a malformed optional capability counts as absent and is not an error",
        is_watched=False,
        capabilities={
            "loadSession": "yes",
            "promptCapabilities": 3,
            "mcpCapabilities": [],
            "sessionCapabilities": {"list": "x"},
        },
        what="an answer to initialize with malformed capabilities",
        unused="its capability is malformed",
    ),
    HandshakeCase(
        "client/initialize/malformed-members",
        rules=(227,),
        about="a malformed optional member of the answer to initialize counts as absent and is not an error",
        is_watched=False,
        members={"agentInfo": "me", "authMethods": "none"},
        what="an answer to initialize with malformed members",
    ),
    HandshakeCase(
        "client/initialize/meta-ignored",
        rules=(327, 328),
        about="unknown members of _meta change nothing",
        capabilities={**FULL, "_meta": {"loadSession": False, **_META}},
        members={
            "agentInfo": {"name": "dragoman-check", "version": "1", "_meta": {"name": "other", "self": 1}},
            "_meta": _META,
        },
        what="an answer to initialize with _meta",
    ),
)
