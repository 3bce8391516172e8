"""Where a session works and with which tools: folders and MCP servers, checked before any handler sees them."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.agent import Agent, AgentSession, Turn
from dragoman.schema import v1
from tests.agent.fixtures import connected

STDIO = {"name": "tools", "command": "/bin/tools", "args": [], "env": []}
HTTP = {"type": "http", "name": "web", "url": "https://example.org", "headers": []}
SSE = {"type": "sse", "name": "old", "url": "https://example.org", "headers": []}


def _agent() -> Agent:
    """An agent that takes every folder, and MCP servers over HTTP."""
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.new_session(mcp=("http",), additional_directories=True)
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> None: ...

    @agent.load_session
    async def load(params: v1.LoadSessionRequest, session: AgentSession) -> None: ...

    @agent.resume_session
    async def resume(params: v1.ResumeSessionRequest, session: AgentSession) -> None: ...

    return agent


@pytest.mark.rule(84)
@pytest.mark.parametrize(
    ("params", "path"),
    [({"mcpServers": []}, "$.cwd"), ({"cwd": "/work"}, "$.mcpServers"), ({"cwd": 1, "mcpServers": []}, "$.cwd")],
)
async def test_missing_and_wrong_members_of_a_new_session_are_named(params: dict[str, Any], path: str) -> None:
    async with connected(_agent()) as line:
        error = await line.error("session/new", **params)
        assert (error["code"], error["data"]) == (-32602, {"path": path})


@pytest.mark.rule(87)
@pytest.mark.parametrize("cwd", [".", "work", "", "~/work"])
async def test_a_relative_cwd_is_refused_naming_the_member(cwd: str) -> None:
    agent = _agent()
    async with connected(agent) as line:
        session_id = await line.open()
        for method in ("session/new", "session/load", "session/resume"):
            error = await line.error(method, cwd=cwd, mcpServers=[], sessionId=session_id)
            assert error["code"] == -32602
            assert error["data"] == {"path": "$.cwd"}


@pytest.mark.rule(94, 96, 98, 99)
async def test_mcp_servers_of_an_advertised_kind_reach_the_session() -> None:
    agent = Agent("test")
    seen: list[object] = []

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.new_session(mcp=("http", "sse"))
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> None:
        seen.extend(session.mcp_servers)

    async with connected(agent) as line:
        tagged = {"type": "stdio", **STDIO}
        await line.result("session/new", cwd="/work", mcpServers=[STDIO, HTTP, SSE, tagged])
        stdio = v1.McpServerStdio("tools", "/bin/tools", [], [])
        assert [type(each) for each in seen] == [
            v1.McpServerStdio,
            v1.McpServerHttp,
            v1.McpServerSse,
            v1.McpServerStdio,
        ]
        assert seen[0] == seen[3] == stdio


@pytest.mark.rule(96, 100)
@pytest.mark.parametrize(
    "server",
    [
        SSE,
        {"type": "carrier-pigeon", "name": "x"},
        {"type": "acp", "name": "x", "serverId": "s"},
        {"name": "no command"},
        {**STDIO, "env": {"A": "b"}},
        {**STDIO, "args": "all"},
        7,
    ],
)
async def test_an_mcp_server_that_cannot_be_used_is_refused_and_never_dropped(server: object) -> None:
    async with connected(_agent()) as line:
        error = await line.error("session/new", cwd="/work", mcpServers=[STDIO, HTTP, server])
        assert error["code"] == -32602
        assert error["data"]["path"].startswith("$.mcpServers[2]")


@pytest.mark.rule(100, 142)
async def test_null_lists_read_as_empty() -> None:
    async with connected(_agent()) as line:
        await line.result("session/new", cwd="/work", mcpServers=None, additionalDirectories=None)


@pytest.mark.rule(88, 90, 140, 141, 142, 145)
async def test_additional_directories_follow_cwd_in_the_roots() -> None:
    agent = Agent("test")
    seen: list[tuple[str, ...]] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        seen.append(turn.session.roots)

    @agent.new_session(additional_directories=True)
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> None: ...

    async with connected(agent) as line:
        await line.turn(await line.open("/work", additionalDirectories=["/lib", "/data"]))
        await line.turn(await line.open("/work"))
        error = await line.error("session/new", cwd="/work", mcpServers=[], additionalDirectories=["/ok", "no"])
        assert error["data"] == {"path": "$.additionalDirectories[1]"}
        assert seen == [("/work", "/lib", "/data"), ("/work",)]


@pytest.mark.rule(140)
async def test_additional_directories_are_refused_by_an_agent_that_did_not_ask_for_them() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    async with connected(agent) as line:
        error = await line.error("session/new", cwd="/work", mcpServers=[], additionalDirectories=["/lib"])
        assert error["code"] == -32602
        assert error["data"] == {"path": "$.additionalDirectories"}
        await line.open(additionalDirectories=[])
