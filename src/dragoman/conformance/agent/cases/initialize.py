"""The handshake: versions, what the agent states about itself, and what it accepts from a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.conformance.agent.probe import CLIENT, FULL
from dragoman.conformance.case import ALONE, Fail, Skip, case
from dragoman.conformance.expect import expect_capability_types, expect_code, expect_success

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe


@case("agent/initialize/answers", rules=(2, 42), shares=ALONE)
async def answers(probe: AgentProbe) -> None:
    """initialize is answered with the chosen version.

    Sends initialize with version 1 and every capability; expects a result with protocolVersion.
    """
    answer = await probe.initialize()
    expect_success(answer, "initialize")
    if "protocolVersion" not in answer.fields:
        raise Fail("the result of initialize has no protocolVersion")


@case("agent/initialize/version-type", rules=(37, 42))
async def version_type(probe: AgentProbe) -> None:
    """The answered protocolVersion is one whole number from 0 to 65535.

    Sends initialize with version 1; expects an integer in the result, not a string.
    """
    version = probe.answered.get("protocolVersion")
    if type(version) is not int or not 0 <= version <= 65535:
        raise Fail(f"protocolVersion is {version!r}")


@case("agent/initialize/version-echo", rules=(38, 40))
async def version_echo(probe: AgentProbe) -> None:
    """A requested version that the agent supports is the answered one.

    Sends initialize with version 1; expects 1.
    """
    version = probe.answered.get("protocolVersion")
    if version != 1:
        raise Fail(f"version 1 was requested, {version!r} answered; everything below judges version 1")


@case("agent/initialize/version-unknown", rules=(39,), shares=ALONE)
async def version_unknown(probe: AgentProbe) -> None:
    """A version the agent does not know is answered with its own latest one, not with an error.

    Sends initialize with version 9999; expects a result with a version the agent speaks.
    """
    answer = await probe.initialize(protocolVersion=9999)
    expect_success(answer, "version 9999")
    version = answer.fields.get("protocolVersion")
    if type(version) is not int or version == 9999:
        raise Fail(f"version 9999 was requested, {version!r} answered")


@case("agent/initialize/agent-info", rules=(45,), level="SHOULD")
async def agent_info(probe: AgentProbe) -> None:
    """The agent states its name and version.

    Looks at the result of initialize; expects agentInfo.
    """
    if not isinstance(probe.answered.get("agentInfo"), dict):
        raise Fail("the result of initialize has no agentInfo")


@case("agent/initialize/agent-info-complete", rules=(46,))
async def agent_info_complete(probe: AgentProbe) -> None:
    """agentInfo, if sent, has a name and a version.

    Looks at agentInfo; expects the strings name and version.
    """
    info = probe.answered.get("agentInfo")
    if info is None:
        raise Skip("the agent sends no agentInfo")
    for member in ("name", "version"):
        if not isinstance(info, dict) or not isinstance(info.get(member), str):
            raise Fail(f"agentInfo has no {member}: {info!r}")


@case("agent/initialize/capabilities", rules=(42, 52), level="SHOULD")
async def capabilities(probe: AgentProbe) -> None:
    """The agent states its capabilities.

    Looks at the result of initialize; expects agentCapabilities.
    """
    if not isinstance(probe.answered.get("agentCapabilities"), dict):
        raise Fail("the result of initialize has no agentCapabilities")


@case("agent/initialize/capability-types", rules=(57, 58))
async def capability_types(probe: AgentProbe) -> None:
    """Flags are booleans and markers are objects or null, never the other way round.

    Looks at agentCapabilities; expects every known member to have the type of the schema.
    """
    found = probe.answered.get("agentCapabilities")
    if not isinstance(found, dict):
        raise Skip("the agent states no capabilities")
    expect_capability_types(found, _FLAGS, _MARKERS)


@case("agent/initialize/first", rules=(35, 337), level="SHOULD", shares=ALONE, provokes=True)
async def first(probe: AgentProbe) -> None:
    """A request before initialize is answered with -32600.

    Sends session/new as the first message; expects an error -32600.
    """
    answer = await probe.call("session/new", probe.session_params())
    expect_code(answer, -32600, "session/new before initialize")


@case("agent/initialize/after-early-request", rules=(35, 42), level="SHOULD", is_watched=False, shares=ALONE)
async def after_early_request(probe: AgentProbe) -> None:
    """A request that came too early does no lasting harm.

    Sends a request before initialize and then initialize; expects it to be answered as ever.
    """
    probe.request("_dragoman.check/early", {})
    expect_success(await probe.initialize(), "initialize after an early request")


@case("agent/initialize/repeated", rules=(48,), level="SHOULD", shares=ALONE)
async def repeated(probe: AgentProbe) -> None:
    """A repeated initialize is tolerated.

    Sends initialize twice; expects two results.
    """
    await probe.initialize()
    expect_success(await probe.initialize(), "a second initialize")


@case("agent/initialize/without-capabilities", rules=(49, 58), shares=ALONE)
async def without_capabilities(probe: AgentProbe) -> None:
    """A client that states no capabilities and no name is a client that can do nothing, not an error.

    Sends initialize with the version alone; expects a result.
    """
    expect_success(await probe.call("initialize", {"protocolVersion": 1}), "initialize without capabilities")


@case("agent/initialize/null-capabilities", rules=(57,), shares=ALONE)
async def null_capabilities(probe: AgentProbe) -> None:
    """A marker that is null means the same as one that is absent.

    Sends initialize with `session` and `elicitation` null; expects a result.
    """
    answer = await probe.initialize({"session": None, "elicitation": None})
    expect_success(answer, "initialize with capabilities that are null")


@case("agent/initialize/malformed-capabilities", rules=(59,), level="SHOULD", shares=ALONE, provokes=True)
async def malformed_capabilities(probe: AgentProbe) -> None:
    """A malformed optional capability counts as absent and is not an error.

    Sends initialize with `terminal: "yes"` and `fs: 3`; expects a result.
    """
    answer = await probe.initialize({"terminal": "yes", "fs": 3, "elicitation": []})
    expect_success(answer, "initialize with malformed capabilities")


@case("agent/initialize/meta-ignored", rules=(327, 328), shares=ALONE)
async def meta_ignored(probe: AgentProbe) -> None:
    """Unknown members of _meta change nothing.

    Sends initialize with _meta everywhere; expects the version asked for.
    """
    meta = {"protocolVersion": 9999, "protocol_version": 9999, "example.com/x": {"deep": [None]}}
    answer = await probe.initialize(
        {**FULL, "_meta": meta}, clientInfo={**CLIENT, "_meta": {"name": "other", "self": 1}}, _meta=meta
    )
    expect_success(answer, "initialize with _meta")
    if answer.fields.get("protocolVersion") != 1:
        raise Fail(f"a member of _meta changed the version to {answer.fields.get('protocolVersion')!r}")


_FLAGS = (
    "loadSession",
    "promptCapabilities.image",
    "promptCapabilities.audio",
    "promptCapabilities.embeddedContext",
    "mcpCapabilities.http",
    "mcpCapabilities.sse",
)
_MARKERS = (
    "promptCapabilities",
    "mcpCapabilities",
    "sessionCapabilities",
    "sessionCapabilities.list",
    "sessionCapabilities.delete",
    "sessionCapabilities.resume",
    "sessionCapabilities.close",
    "sessionCapabilities.additionalDirectories",
    "auth",
    "auth.logout",
)
