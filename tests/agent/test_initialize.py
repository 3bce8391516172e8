"""The handshake: what an agent says of itself, and what may happen before and after."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.agent import Agent, AgentSession, Context, Turn
from dragoman.schema import v1
from tests.agent.fixtures import Link, connected, raw


def _agent(**options: Any) -> Agent:
    agent = Agent("test", version="1.2", **options)

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say("hi")

    return agent


@pytest.mark.rule(38, 42, 45, 46)
async def test_initialize_echoes_version_one_and_says_who_the_agent_is(link: Link) -> None:
    async with raw(_agent(title="A test"), link) as line:
        answer = await line.result("initialize", protocolVersion=1)
        assert answer["protocolVersion"] == 1
        assert answer["agentInfo"] == {"name": "test", "version": "1.2", "title": "A test"}


@pytest.mark.rule(39, 40)
@pytest.mark.parametrize("requested", [0, 2, 99, 65535])
async def test_a_version_we_do_not_speak_is_answered_with_our_latest_and_no_error(requested: int) -> None:
    async with raw(_agent()) as line:
        assert (await line.result("initialize", protocolVersion=requested))["protocolVersion"] == 1
        await line.open()


@pytest.mark.rule(37)
@pytest.mark.parametrize("version", ["1", "2025.1", -1, 65536, 1.5, None, {}])
async def test_a_version_that_is_not_a_small_integer_is_refused_naming_the_member(version: object) -> None:
    async with raw(_agent()) as line:
        error = await line.error("initialize", protocolVersion=version)
        assert error["code"] == -32602
        assert error["data"]["path"] == "$.protocolVersion"
        assert (await line.error("session/new", cwd="/work", mcpServers=[]))["code"] == -32600


@pytest.mark.rule(35, 337)
async def test_every_other_request_before_initialize_is_an_invalid_request(local_link: Link) -> None:
    async with raw(_agent(), local_link) as line:
        for method in ("session/new", "session/prompt", "authenticate", "session/list", "_x/y", "no/such"):
            assert (await line.error(method, cwd="/work", mcpServers=[]))["code"] == -32600
        await line.result("initialize", protocolVersion=1)
        await line.open()


@pytest.mark.rule(24, 29)
async def test_notifications_before_initialize_are_ignored() -> None:
    agent = _agent()
    seen: list[object] = []

    @agent.notification("_x/note")
    async def note(params: Any, context: Context) -> None:
        seen.append(params)

    async with raw(agent) as line:
        line.notify("_x/note", early=True)
        line.notify("session/cancel", sessionId="nobody")
        await line.result("initialize", protocolVersion=1)
        line.notify("_x/note", early=False)
        await line.silence()
        assert seen == [{"early": False}]


@pytest.mark.rule(48)
async def test_a_repeated_initialize_is_answered_and_its_capabilities_hold_from_then_on() -> None:
    agent = Agent("test")
    sent: list[bool] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        sent.append(await turn.notice("info", "hello"))

    async with connected(agent) as line:
        session_id = await line.open()
        await line.turn(session_id)
        await line.result("initialize", protocolVersion=1, clientCapabilities={"session": {"notices": {}}})
        await line.turn(session_id)
        assert sent == [False, True]


async def test_a_request_right_behind_initialize_is_served(link: Link) -> None:
    async with raw(_agent(), link) as line:
        line.send(
            line.request(1, "initialize", protocolVersion=1),
            line.request(2, "session/new", cwd="/work", mcpServers=[]),
        )
        assert (await line.next())["id"] == 1
        assert "sessionId" in (await line.next())["result"]


@pytest.mark.rule(49, 52, 57, 58)
async def test_a_bare_agent_advertises_nothing_beyond_the_baseline() -> None:
    async with raw(_agent()) as line:
        assert (await line.result("initialize", protocolVersion=1))["agentCapabilities"] == {
            "loadSession": False,
            "promptCapabilities": {"image": False, "audio": False, "embeddedContext": False},
            "mcpCapabilities": {"http": False, "sse": False},
            "sessionCapabilities": {},
            "auth": {},
        }


@pytest.mark.rule(52, 55, 56, 57, 95)
async def test_capabilities_are_derived_from_what_is_registered() -> None:
    agent = Agent("test", meta={"example.org": {"tricks": True}})

    @agent.prompt(accepts=("image", "audio", "embedded_context"))
    async def reply(turn: Turn) -> None: ...

    @agent.new_session(mcp=("http", "sse"), additional_directories=True)
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> None: ...

    @agent.load_session
    async def load(params: v1.LoadSessionRequest, session: AgentSession) -> None: ...

    @agent.resume_session
    async def resume(params: v1.ResumeSessionRequest, session: AgentSession) -> None: ...

    @agent.close_session
    async def close(params: v1.CloseSessionRequest, session: AgentSession) -> None: ...

    @agent.list_sessions
    async def listed(params: v1.ListSessionsRequest, context: Context) -> v1.ListSessionsResponse:
        return v1.ListSessionsResponse([])

    @agent.delete_session
    async def delete(params: v1.DeleteSessionRequest, context: Context) -> None: ...

    @agent.logout
    async def logout(params: v1.LogoutRequest, context: Context) -> None: ...

    async with raw(agent) as line:
        assert (await line.result("initialize", protocolVersion=1))["agentCapabilities"] == {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {"list": {}, "delete": {}, "additionalDirectories": {}, "resume": {}, "close": {}},
            "auth": {"logout": {}},
            "_meta": {"example.org": {"tricks": True}},
        }


@pytest.mark.rule(28, 61, 333, 341)
@pytest.mark.parametrize(
    "method",
    [
        "session/load",
        "session/resume",
        "session/list",
        "session/close",
        "session/delete",
        "session/set_mode",
        "session/set_config_option",
        "authenticate",
        "logout",
        "session/fork",
        "session/set_model",
        "session/cancel",
        "session/update",
        "fs/read_text_file",
        "_vendor/unknown",
        "",
    ],
)
async def test_what_is_not_registered_is_not_found(method: str) -> None:
    async with connected(_agent()) as line:
        session_id = await line.open()
        error = await line.error(method, sessionId=session_id, cwd="/work", mcpServers=[], modeId="x", methodId="y")
        assert error == {"code": -32601, "message": "Method not found", "data": {"method": method}}


@pytest.mark.rule(24, 29, 334)
async def test_unknown_notifications_are_ignored(link: Link) -> None:
    async with connected(_agent(), link) as line:
        for method in ("no/such", "_no/such", "session/prompt", "initialize", "elicitation/complete"):
            line.notify(method, sessionId="x")
        await line.silence()


@pytest.mark.rule(59, 227)
async def test_a_malformed_capability_reads_as_absent() -> None:
    agent = Agent("test")
    seen: list[bool] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        client = turn.session.client
        seen.extend(client.offers(gate) for gate in ("terminal", "fs.readTextFile", "fs.writeTextFile", "elicitation"))

    capabilities = {"terminal": "yes", "fs": {"readTextFile": 1, "writeTextFile": True}, "elicitation": None}
    async with connected(agent, capabilities=capabilities) as line:
        await line.turn(await line.open())
        assert seen == [False, False, True, False]


@pytest.mark.rule(44, 47)
async def test_handlers_see_who_the_client_is() -> None:
    agent = Agent("test")
    seen: list[v1.Implementation | None] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        seen.append(turn.session.client.info)

    async with connected(agent) as line:
        await line.turn(await line.open())
    async with raw(agent) as line:
        await line.result("initialize", protocolVersion=1)
        await line.turn(await line.open())
    assert seen == [v1.Implementation("test", "1"), None]


@pytest.mark.rule(27, 50)
async def test_one_agent_serves_many_connections_each_with_its_own_sessions(link: Link) -> None:
    agent = _agent()
    async with connected(agent, link) as one, connected(agent, link) as two:
        first, second = await one.open(), await two.open()
        assert first != second
        assert (await two.error("session/prompt", sessionId=first, prompt=[]))["code"] == -32002
        assert (await two.turn(second))[1]["result"] == {"stopReason": "end_turn"}
