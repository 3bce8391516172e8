"""Opening sessions: what the client passes, what it knows beforehand, and which answers it understands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.conformance.agent.services import NOT_FOUND, Refusal
from dragoman.conformance.case import Fail, Skip, case
from dragoman.conformance.client.probe import FULL, OPENING
from dragoman.conformance.expect import is_absolute

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe
    from dragoman.conformance.conversation import WireMessage

_EARLIER = "sess-dragoman-check-earlier"


@case("client/session/new-members", rules=(84,), shares="plain")
async def new_members(probe: ClientProbe) -> None:
    """session/new has cwd and mcpServers, even if there are none.

    Looks at the params of session/new; expects a string and an array.
    """
    params = probe.first("session/new").params
    if not isinstance(params.get("cwd"), str):
        raise Fail(f"cwd is {params.get('cwd')!r}")
    if not isinstance(params.get("mcpServers"), list):
        raise Fail(f"mcpServers is {params.get('mcpServers')!r}; no servers are written []")


@case("client/session/absolute-cwd", rules=(87,), shares="plain")
async def absolute_cwd(probe: ClientProbe) -> None:
    """cwd is an absolute path.

    Looks at the params of session/new; expects cwd to be absolute, on POSIX or on Windows.
    """
    for request in [probe.first(*OPENING), *probe.sent(*OPENING)]:
        if not is_absolute(request.params.get("cwd")):
            raise Fail(f"the cwd of {request.method} is {request.params.get('cwd')!r}")


@case("client/session/stdio-servers", rules=(98,), shares="plain")
async def stdio_servers(probe: ClientProbe) -> None:
    """A stdio MCP server has a name, an absolute command, args, env as a list of pairs, and no type.

    Looks at the servers in session/new.
    """
    servers = [server for server in _servers(probe) if server.get("type") in (None, "stdio")]
    if not servers:
        raise Skip("the client passes no stdio MCP servers")
    for server in servers:
        if "type" in server:
            raise Fail(f"a stdio server has a type: {server}")
        _expect_members(server, name=str, command=str, args=list, env=list)
        _expect_pairs(server, "env")
        if not is_absolute(server["command"]):
            raise Fail(f"the command of an MCP server is not absolute: {server['command']!r}")


@case("client/session/http-servers", rules=(99,), shares="plain")
async def http_servers(probe: ClientProbe) -> None:
    """An http or sse MCP server has a type, a name, a url, and headers as a list of pairs.

    Looks at the servers in session/new, for an agent that takes all kinds.
    """
    servers = [server for server in _servers(probe) if server.get("type") in ("http", "sse")]
    if not servers:
        raise Skip("the client passes no http or sse MCP servers")
    for server in servers:
        _expect_members(server, type=str, name=str, url=str, headers=list)
        _expect_pairs(server, "headers")


@case("client/session/absolute-directories", rules=(141,), shares="plain")
async def absolute_directories(probe: ClientProbe) -> None:
    """Every one of additionalDirectories is an absolute path.

    Looks at the directories in session/new, for an agent that takes them.
    """
    found = probe.first("session/new").params.get("additionalDirectories")
    if not found:
        raise Skip("the client passes no additional directories")
    for path in found if isinstance(found, list) else [found]:
        if not is_absolute(path):
            raise Fail(f"one of additionalDirectories is {path!r}")


@case("client/session/known-ids", rules=(86, 115, 176), shares="plain")
async def known_ids(probe: ClientProbe) -> None:
    """Whatever is about a session names one the agent gave, and comes after that.

    Looks at every message of a plain turn; expects the session's id in all that needs one.
    """
    probe.first("session/prompt")
    for message in probe.sent("session/prompt", "session/cancel", "session/set_mode", "session/close"):
        if message.params.get("sessionId") not in probe.sessions:
            raise Fail(f"{message.method} names the session {message.params.get('sessionId')!r}, which was not opened")


@case("client/session/early-updates", rules=(103,), level="SHOULD")
async def early_updates(probe: ClientProbe) -> None:
    """Updates for a session whose id the client does not know yet are kept or dropped, and do no harm.

    Sends commands and a message before the answer to session/new; expects the prompt all the same.
    """
    await probe.initialize()
    opening = await probe.expect(*OPENING)
    result = probe.opened(opening)
    probe.update("available_commands_update", availableCommands=[{"name": "plan", "description": "Makes a plan"}])
    probe.update("agent_message_chunk", content={"type": "text", "text": "Welcome."})
    await probe.settle()
    probe.hold.difference_update(OPENING)
    probe.reply(opening, result)
    turn = await probe.require_prompt_only("updates before the answer to session/new")
    await probe.require_well(turn, "updates before the answer to session/new")


@case("client/session/idle-updates", rules=(186,), level="SHOULD")
async def idle_updates(probe: ClientProbe) -> None:
    """Updates outside of a turn are accepted.

    Sends updates right after the answer to session/new, and after that to the prompt; expects no harm.
    """
    await probe.initialize()
    opening = await probe.expect(*OPENING)
    probe.hold.difference_update(OPENING)
    probe.reply(opening, probe.opened(opening))
    probe.update("available_commands_update", availableCommands=[])
    probe.update("session_info_update", title="A title")
    turn = await probe.require_prompt_only("updates outside of a turn")
    await probe.require_alive("updates outside of a turn")
    turn.end()
    probe.update("agent_message_chunk", content={"type": "text", "text": "One thing more."})
    probe.update("tool_call", toolCallId="call-late", title="Tidy up", status="completed")
    await probe.require_usual_exit("updates after the answer to its prompt")


@case("client/session/more-members", rules=(328,))
async def more_members(probe: ClientProbe) -> None:
    """Members of a result that the client does not know are ignored.

    Answers session/new with _meta and unknown members; expects the prompt.
    """
    await probe.initialize()
    more = {"_meta": {"sessionId": "EVIL", "session_id": "EVIL", "self": 1}, "futureMember": {"a": [1, None]}}
    turn = await probe.require_prompt("an answer to session/new with unknown members", **more)
    if turn.request.params.get("sessionId") != probe.session_id:
        raise Fail(f"a member of _meta changed the session to {turn.request.params.get('sessionId')!r}")


async def _continue(probe: ClientProbe, capabilities: dict[str, Any], method: str) -> WireMessage:
    """Wait for the request that continues an earlier session. Raises: Skip when the client does not."""
    earlier = {"sessionId": _EARLIER, "title": "Earlier", "updatedAt": "2026-01-01T00:00:00Z"}
    probe.answers["session/list"] = lambda request: {
        "sessions": [{**earlier, "cwd": request.params.get("cwd") or str(probe.folder)}]
    }
    await probe.initialize(capabilities)
    request = await probe.expect(*OPENING)
    if request.method != method:
        raise Skip(f"the client does not call {method} by itself")
    return request


_RESUME: dict[str, Any] = {"sessionCapabilities": {"list": {}, "resume": {}}}


@case("client/session/load-members", rules=(105,))
async def load_members(probe: ClientProbe) -> None:
    """session/load has sessionId, cwd and mcpServers.

    Lists one earlier session; expects that session/load, if it comes, has all three.
    """
    params = (await _continue(probe, FULL, "session/load")).params
    if params.get("sessionId") != _EARLIER:
        raise Fail(f"session/load names the session {params.get('sessionId')!r}")
    if not is_absolute(params.get("cwd")) or not isinstance(params.get("mcpServers"), list):
        raise Fail(f"session/load has cwd {params.get('cwd')!r} and mcpServers {params.get('mcpServers')!r}")


@case("client/session/load-answer-null", rules=(109,), level="SHOULD")
async def load_answer_null(probe: ClientProbe) -> None:
    """session/load may be answered with null, as the documentation shows, and its history comes before.

    Replays a message and answers session/load with null; expects the prompt.
    """
    request = await _continue(probe, FULL, "session/load")
    probe.opened(request)
    probe.update("user_message_chunk", content={"type": "text", "text": "Hello?"})
    probe.update("agent_message_chunk", content={"type": "text", "text": "Hello."})
    probe.reply(request, None)
    turn = await probe.require_prompt_only("an answer null to session/load")
    await probe.require_well(turn, "an answer null to session/load")


@case("client/session/load-directories", rules=(143,), level="SHOULD")
async def load_directories(probe: ClientProbe) -> None:
    """The full list of additional directories is sent again when a session is loaded.

    Lists one earlier session with a directory; expects session/load to pass directories again.
    """
    if not probe.baseline.passes_directories:
        raise Skip("the client passes no additional directories to session/new either")
    params = (await _continue(probe, FULL, "session/load")).params
    if not params.get("additionalDirectories"):
        raise Fail("session/load passes no additionalDirectories; session/new does")


@case("client/session/resume-members", rules=(111,))
async def resume_members(probe: ClientProbe) -> None:
    """session/resume has sessionId and cwd.

    Lists one earlier session as an agent that cannot load; expects that session/resume, if it comes, has both.
    """
    params = (await _continue(probe, _RESUME, "session/resume")).params
    if params.get("sessionId") != _EARLIER or not is_absolute(params.get("cwd")):
        raise Fail(f"session/resume has sessionId {params.get('sessionId')!r} and cwd {params.get('cwd')!r}")


@case("client/session/close-unknown", rules=(121,), level="SHOULD")
async def close_unknown(probe: ClientProbe) -> None:
    """-32002 in answer to session/close or session/delete means that the session is gone, which was wanted.

    Answers session/close and session/delete with -32002; expects the client to leave as usual.
    """

    def gone(request: WireMessage) -> object:
        raise Refusal(NOT_FOUND, "Resource not found")

    probe.answers |= {"session/close": gone, "session/delete": gone}
    turn = await probe.prompted()
    turn.end()
    if not probe.baseline.leaves:
        raise Skip("the client stays after its prompt, so that nothing can be seen")
    code = await probe.exit_code()
    if not probe.sent("session/close", "session/delete"):
        raise Skip("the client calls neither session/close nor session/delete by itself")
    if code != probe.baseline.exit_code:
        raise Fail(f"after -32002 the client exited with {code}; it usually does with {probe.baseline.exit_code}")


def _servers(probe: ClientProbe) -> list[dict[str, Any]]:
    servers = probe.first("session/new").params.get("mcpServers")
    found = servers if isinstance(servers, list) else []
    for server in found:
        if not isinstance(server, dict):
            raise Fail(f"one of mcpServers is {server!r}")
    return found


def _expect_members(server: dict[str, Any], **members: type) -> None:
    for name, kind in members.items():
        if not isinstance(server.get(name), kind):
            raise Fail(f"the {name} of an MCP server is {server.get(name)!r}")


def _expect_pairs(server: dict[str, Any], name: str) -> None:
    for pair in server[name]:
        if not isinstance(pair, dict) or not all(isinstance(pair.get(key), str) for key in ("name", "value")):
            raise Fail(f"{name} of an MCP server holds {pair!r}; it is a list of {{name, value}}")
