"""The handshake: what the client says first, what it waits for, and what it makes of the answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.conformance.case import Fail, Skip, case
from dragoman.conformance.client.probe import BARE, FULL, OPENING
from dragoman.conformance.conversation import Gone, Silence

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
_META = {"protocolVersion": 9999, "protocol_version": 9999, "self": 1, "example.com/x": {"deep": [None]}}


@case(
    "client/initialize/first",
    rules=(2, 3, 33),
    about="the client starts the agent as its child, and initialize is the first thing it says",
    shares="plain",
)
async def first(probe: ClientProbe) -> None:
    """Looks at the first line the client wrote; expects the request initialize."""
    if not probe.incoming:
        raise Fail("the client started the agent and said nothing")
    if probe.incoming[0].method != "initialize" or not probe.incoming[0].is_request:
        raise Fail(f"the first message is {probe.incoming[0]}")


@case(
    "client/initialize/waits",
    rules=(34, 83),
    about="nothing of sessions or logins is sent before initialize was answered",
)
async def waits(probe: ClientProbe) -> None:
    """Keeps initialize waiting for a moment; expects no other request and no notification of the protocol."""
    request = await probe.expect("initialize")
    # Not `settle`: before initialize is answered the agent has nothing to ask.
    await asyncio.sleep(max(probe.settings.quiet_seconds, 0.05))
    early = probe.since(request.index + 1, lambda message: message.is_request or message.is_notification)
    if early:
        raise Fail(f"before the answer to initialize came {early[0]}")


@case(
    "client/initialize/version",
    rules=(36, 37),
    about="protocolVersion is one integer, the latest version the client supports",
    shares="plain",
)
async def version(probe: ClientProbe) -> None:
    """Looks at the params of initialize; expects an integer from 0 to 65535 as protocolVersion."""
    found = probe.first("initialize").params.get("protocolVersion")
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= 65535:
        raise Fail(f"protocolVersion is {found!r}")


@case(
    "client/initialize/other-version",
    rules=(40, 41),
    level="SHOULD",
    about="a client that does not support the answered version closes the connection",
    is_watched=False,
)
async def other_version(probe: ClientProbe) -> None:
    """Answers initialize with version 65000; expects no session, and that the client ends the connection."""
    await probe.initialize(protocolVersion=65000)
    try:
        request = await probe.next_request(*OPENING, "session/list", "authenticate")
    except Silence:
        raise Fail("the client neither closed the connection nor went on after an unsupported version") from None
    except Gone:
        return
    raise Fail(f"after version 65000 was agreed on the client went on with {request}")


@case(
    "client/initialize/capability-types",
    rules=(43, 57, 58),
    about="flags are booleans and markers are objects or null, never the other way round",
    shares="plain",
)
async def capability_types(probe: ClientProbe) -> None:
    """Looks at clientCapabilities; expects every known member to have the type of the schema."""
    found = probe.first("initialize").params.get("clientCapabilities", {})
    if not isinstance(found, dict):
        raise Fail(f"clientCapabilities is {found!r}")
    for path in _FLAGS:
        value = _at(found, path)
        if value is not None and not isinstance(value, bool):
            raise Fail(f"{path} is {value!r}, which is no boolean")
    for path in _MARKERS:
        value = _at(found, path)
        if value is not None and not isinstance(value, dict):
            raise Fail(f"{path} is {value!r}; a supported one is an object, `{{}}`")


@case(
    "client/initialize/states-capabilities",
    rules=(43, 51),
    level="SHOULD",
    about="the client states what it can do",
    shares="plain",
)
async def states_capabilities(probe: ClientProbe) -> None:
    """Looks at the params of initialize; expects clientCapabilities."""
    if "clientCapabilities" not in probe.first("initialize").params:
        raise Fail("initialize has no clientCapabilities, which means that the client can do nothing")


@case(
    "client/initialize/client-info",
    rules=(44,),
    level="SHOULD",
    about="the client says who it is",
    shares="plain",
)
async def client_info(probe: ClientProbe) -> None:
    """Looks at the params of initialize; expects clientInfo."""
    if probe.first("initialize").params.get("clientInfo") is None:
        raise Fail("initialize has no clientInfo")


@case(
    "client/initialize/client-info-complete",
    rules=(46,),
    about="clientInfo has a name and a version",
    shares="plain",
)
async def client_info_complete(probe: ClientProbe) -> None:
    """Looks at clientInfo, if there is one; expects the strings name and version."""
    info = probe.first("initialize").params.get("clientInfo")
    if info is None:
        raise Skip("the client sends no clientInfo")
    if not isinstance(info, dict) or not all(isinstance(info.get(name), str) for name in ("name", "version")):
        raise Fail(f"clientInfo is {info!r}")


@case(
    "client/initialize/least-answer",
    rules=(49, 58),
    about="an agent that answers with its version alone is an agent that can do nothing, not an error",
)
async def least_answer(probe: ClientProbe) -> None:
    """Answers initialize with protocolVersion alone; expects a session and a prompt."""
    unset = msgspec.UNSET
    await probe.initialize(unset, agentInfo=unset, authMethods=unset)
    await probe.require_prompt("an answer to initialize with the version alone")


@case(
    "client/initialize/null-capabilities",
    rules=(57,),
    about="a marker that is null means the same as one that is absent",
)
async def null_capabilities(probe: ClientProbe) -> None:
    """Answers initialize with every optional object null; expects a session, a prompt, and no use of any of them."""
    nothing = {"sessionCapabilities": None, "auth": None, "_meta": None}
    markers = dict.fromkeys(("list", "delete", "resume", "close", "additionalDirectories"))
    await probe.initialize({**nothing, "sessionCapabilities": markers}, agentInfo=None, _meta=None)
    await probe.require_prompt("an answer to initialize with markers that are null")
    _expect_unused(probe, "its marker is null")


@case(
    "client/initialize/malformed-capabilities",
    rules=(59,),
    about="a malformed optional capability counts as absent and is no error",
    is_watched=False,
)
async def malformed_capabilities(probe: ClientProbe) -> None:
    """Answers initialize with capabilities of wrong types; expects a session, a prompt, and no use of any of them."""
    wrong = {"loadSession": "yes", "promptCapabilities": 3, "mcpCapabilities": [], "sessionCapabilities": {"list": "x"}}
    await probe.initialize(wrong)
    await probe.require_prompt("an answer to initialize with malformed capabilities")
    _expect_unused(probe, "its capability is malformed")


@case(
    "client/initialize/malformed-members",
    rules=(227,),
    about="a malformed optional member of the answer to initialize counts as absent and is no error",
    is_watched=False,
)
async def malformed_members(probe: ClientProbe) -> None:
    """Answers initialize with a text in place of agentInfo and of authMethods; expects a session and a prompt."""
    await probe.initialize(FULL, agentInfo="me", authMethods="none")
    await probe.require_prompt("an answer to initialize with malformed members")


@case(
    "client/initialize/works-with-anyone",
    rules=(50,),
    level="SHOULD",
    about="a turn with an agent that can do nothing goes like any other",
)
async def works_with_anyone(probe: ClientProbe) -> None:
    """Plays a whole turn as an agent without capabilities; expects the client to be well."""
    await probe.initialize(BARE)
    turn = await probe.require_prompt("an agent without capabilities")
    turn.say("Hello.")
    await probe.require_well(turn, "a turn with an agent that has no capabilities")


@case(
    "client/initialize/meta-ignored",
    rules=(327, 328),
    about="unknown members of _meta change nothing",
)
async def meta_ignored(probe: ClientProbe) -> None:
    """Answers initialize with _meta everywhere; expects a session and a prompt as ever."""
    capabilities = {**FULL, "_meta": {"loadSession": False, **_META}}
    info = {"name": "dragoman-check", "version": "1", "_meta": {"name": "other", "self": 1}}
    await probe.initialize(capabilities, agentInfo=info, _meta=_META)
    await probe.require_prompt("an answer to initialize with _meta")


def _expect_unused(probe: ClientProbe, why: str) -> None:
    gated = probe.sent("session/load", "session/resume", "session/list", "session/close", "session/delete", "logout")
    if gated:
        raise Fail(f"{gated[0].method} was called although {why}")
    for request in probe.sent("session/prompt"):
        kinds = {str(block.get("type")) for block in request.params.get("prompt") or () if isinstance(block, dict)}
        if kinds & {"image", "audio", "resource"}:
            raise Fail(f"the prompt has blocks of {sorted(kinds)} although {why}")


def _at(found: Any, path: str) -> Any:
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found
