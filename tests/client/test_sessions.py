"""Opening, listing and changing sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.errors import CapabilityError, ConnectionClosed, LocalProtocolError, RequestError
from dragoman.schema import v1
from tests.client.fixtures import by_one_stream, client_and_agent, open_session

MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
OPTIONS: list[dict[str, Any]] = [
    {
        "id": "model",
        "name": "Model",
        "type": "select",
        "currentValue": "a",
        "options": [{"value": "a", "name": "A"}, {"value": "b", "name": "B"}],
    },
    {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": False},
    {"id": "volume", "name": "Volume", "type": "slider", "currentValue": 3},
]


@pytest.mark.rule(84, 87, 93, 98)
async def test_a_new_session_names_an_absolute_folder_and_its_servers() -> None:
    async with client_and_agent() as (agent, line):
        server = v1.McpServerStdio("fs", "/bin/true", ["-x"], [v1.EnvVariable("A", "1")])
        opening = asyncio.ensure_future(agent.new_session(".", mcp_servers=[server], additional_directories=["sub"]))
        request = await line.answer("session/new", {"sessionId": "s1"})
        session = await opening
        params = request["params"]
        assert params["cwd"].startswith("/")
        assert params["mcpServers"] == [
            {"name": "fs", "command": "/bin/true", "args": ["-x"], "env": [{"name": "A", "value": "1"}]}
        ]
        assert params["additionalDirectories"] == [params["cwd"] + "/sub"]
        assert session.id == "s1"


@pytest.mark.rule(103)
@by_one_stream
async def test_updates_that_come_before_the_answer_reach_the_new_session() -> None:
    async with client_and_agent() as (agent, line):
        opening = asyncio.ensure_future(agent.new_session("/tmp"))
        request = await line.expect("session/new")
        line.send(
            line.update("s1", "available_commands_update", availableCommands=[{"name": "go", "description": "Go"}]),
            line.result(request["id"], {"sessionId": "s1", "modes": MODES}),
            line.update("s1", "current_mode_update", currentModeId="code"),
        )
        session = await opening
        assert [command.name for command in session.state.commands] == ["go"]
        assert session.state.mode == "code"


@pytest.mark.rule(104, 110, 114, 122, 135, 140, 79, 96)
async def test_what_the_agent_does_not_offer_is_refused_here() -> None:
    async with client_and_agent({}) as (agent, line):
        session = await open_session(agent, line)
        http = v1.McpServerHttp("web", "http://127.0.0.1", [])
        calls: list[Any] = [
            lambda: agent.load_session("x", "/tmp"),
            lambda: agent.resume_session("x", "/tmp"),
            agent.list_sessions,
            lambda: agent.delete_session("x"),
            session.close,
            agent.logout,
            lambda: agent.new_session("/tmp", additional_directories=["/x"]),
            lambda: agent.new_session("/tmp", mcp_servers=[http]),
        ]
        for call in calls:
            with pytest.raises(CapabilityError, match="agentCapabilities"):
                await call()
        assert line.lines.empty()


@pytest.mark.rule(105, 106, 107, 109)
async def test_loading_gives_the_history_and_marks_it_as_replayed() -> None:
    async with client_and_agent() as (agent, line):
        loading = agent.load_session("old", "/tmp")
        updates = loading.session.updates()

        async def collect() -> list[v1.SessionUpdate]:
            return [update async for update in loading]

        collecting = asyncio.create_task(collect())
        request = await line.expect("session/load")
        assert request["params"] == {"sessionId": "old", "cwd": "/tmp", "mcpServers": []}
        line.send(
            line.update("old", "user_message_chunk", content={"type": "text", "text": "q"}),
            line.chunk("old", "a"),
            line.result(request["id"], None),
            line.chunk("old", "late"),
        )
        assert len(await collecting) == 2
        session = await loading
        marks = [(await anext(updates)).replayed for _ in range(3)]
        assert marks == ["yes", "yes", "maybe"]
        prompting = asyncio.ensure_future(session.prompt("next"))
        prompt = await line.expect("session/prompt")
        line.send(line.chunk("old", "new"), line.result(prompt["id"], {"stopReason": "end_turn"}))
        await prompting
        assert (await anext(updates)).replayed == "no"
        assert session.state.text == "new"


async def test_awaiting_a_load_gives_the_session_with_its_history_folded() -> None:
    async with client_and_agent() as (agent, line):
        opening = asyncio.ensure_future(agent.load_session("old", "/tmp"))
        request = await line.expect("session/load")
        line.send(line.chunk("old", "once"), line.result(request["id"], {"modes": MODES}))
        session = await opening
        assert session.state.messages[0].text == "once"
        assert session.state.mode == "ask"


async def test_a_load_that_fails_leaves_no_session_behind() -> None:
    async with client_and_agent() as (agent, line):
        opening = asyncio.ensure_future(agent.load_session("old", "/tmp"))
        await line.refuse("session/load", -32002)
        with pytest.raises(RequestError):
            await opening
        again = asyncio.ensure_future(agent.load_session("old", "/tmp"))
        await line.answer("session/load", {})
        await again


async def test_a_session_cannot_be_opened_twice_on_one_connection() -> None:
    async with client_and_agent() as (agent, line):
        await open_session(agent, line, "s1")
        with pytest.raises(LocalProtocolError, match="already open"):
            await agent.load_session("s1", "/tmp")


@pytest.mark.rule(111, 112)
async def test_resuming_opens_a_session_without_its_history() -> None:
    async with client_and_agent() as (agent, line):
        opening = asyncio.ensure_future(agent.resume_session("old", "/tmp"))
        request = await line.answer("session/resume", {})
        session = await opening
        assert request["params"]["sessionId"] == "old"
        assert not session.state.messages


@pytest.mark.rule(123, 124, 128, 129)
async def test_listing_follows_the_cursor_to_its_end() -> None:
    async with client_and_agent() as (agent, line):

        async def collect() -> list[str]:
            return [info.session_id async for info in agent.sessions(cwd="/tmp")]

        collecting = asyncio.create_task(collect())
        first = await line.answer(
            "session/list", {"sessions": [{"sessionId": "a", "cwd": "/tmp"}], "nextCursor": "c/1="}
        )
        second = await line.answer("session/list", {"sessions": [{"sessionId": "b", "cwd": "/tmp"}]})
        assert await collecting == ["a", "b"]
        assert first["params"] == {"cwd": "/tmp"}
        assert second["params"] == {"cwd": "/tmp", "cursor": "c/1="}


@pytest.mark.rule(115, 121)
async def test_closing_ends_the_session_even_if_the_agent_forgot_it() -> None:
    async with client_and_agent() as (agent, line):
        one, two = await open_session(agent, line, "one"), await open_session(agent, line, "two")
        updates = one.updates()
        closing = asyncio.ensure_future(one.close())
        request = await line.answer("session/close", {})
        await closing
        assert request["params"] == {"sessionId": "one"}
        with pytest.raises(StopAsyncIteration):
            await anext(updates)
        with pytest.raises(LocalProtocolError, match="closed"):
            await one.prompt("hi")
        closing = asyncio.ensure_future(two.close())
        await line.refuse("session/close", -32002)
        await closing
        deleting = asyncio.ensure_future(agent.delete_session("two"))
        await line.refuse("session/delete", -32002)
        await deleting


@pytest.mark.rule(171, 173)
async def test_the_answer_to_set_mode_is_the_confirmation() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line, modes=MODES)
        with pytest.raises(LocalProtocolError, match="ask, code"):
            await session.set_mode("yolo")
        setting = asyncio.ensure_future(session.set_mode("code"))
        request = await line.answer("session/set_mode", {})
        await setting
        assert request["params"] == {"sessionId": "s1", "modeId": "code"}
        assert session.state.mode == "code"


@pytest.mark.rule(154, 162, 163)
async def test_setting_an_option_takes_over_the_complete_list() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line, configOptions=OPTIONS)
        with pytest.raises(LocalProtocolError, match="model, fast"):
            await session.set_config_option("tempo", "x")
        with pytest.raises(LocalProtocolError, match="fast"):
            await session.set_config_option("fast", "yes")
        setting = asyncio.ensure_future(session.set_config_option("model", "b"))
        changed = [{**OPTIONS[0], "currentValue": "b"}]
        request = await line.answer("session/set_config_option", {"configOptions": changed})
        await setting
        assert request["params"] == {"sessionId": "s1", "configId": "model", "value": "b"}
        assert len(session.state.config_options) == 1


@pytest.mark.rule(162)
async def test_a_boolean_option_is_sent_with_its_type() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line, configOptions=OPTIONS)
        setting = asyncio.ensure_future(session.set_config_option("fast", True))
        request = await line.answer("session/set_config_option", {"configOptions": OPTIONS})
        await setting
        assert request["params"] == {"sessionId": "s1", "configId": "fast", "type": "boolean", "value": True}


@pytest.mark.rule(66, 67, 68, 76, 79)
async def test_login_uses_advertised_methods_only_and_never_a_terminal_one() -> None:
    async with client_and_agent() as (agent, line):
        agent.initialized = v1.InitializeResponse(
            1, auth_methods=[v1.AuthMethodAgent("web", "Web"), v1.AuthMethodTerminal("tty", "Terminal")]
        )
        with pytest.raises(LocalProtocolError, match="web, tty"):
            await agent.authenticate("other")
        with pytest.raises(LocalProtocolError, match="terminal"):
            await agent.authenticate("tty")
        login = asyncio.ensure_future(agent.authenticate("web"))
        request = await line.answer("authenticate", {})
        await login
        assert request["params"] == {"methodId": "web"}
        logout = asyncio.ensure_future(agent.logout())
        await line.answer("logout", {})
        await logout


async def test_unstable_methods_need_to_be_asked_for() -> None:
    capabilities: dict[str, Any] = {"sessionCapabilities": {"fork": {}}}
    async with client_and_agent(capabilities) as (agent, _):
        with pytest.raises(LocalProtocolError, match="unstable=True"):
            await agent.fork_session("s", "/tmp")
        with pytest.raises(LocalProtocolError, match="not a method"):
            await agent.call("session/teleport", {})
    async with client_and_agent(capabilities, unstable=True) as (agent, line):
        forking = asyncio.ensure_future(agent.fork_session("s", "/tmp"))
        await line.answer("session/fork", {"sessionId": "t"})
        assert (await forking).id == "t"


@pytest.mark.rule(331, 332)
async def test_extension_methods_pass_plain_values_both_ways() -> None:
    async def double(params: Any) -> Any:
        return params["n"] * 2

    async with client_and_agent(extensions={"_double": double}) as (agent, line):
        asking = asyncio.ensure_future(agent.request("_weather", {"city": "Ulm"}))
        request = await line.answer("_weather", [1, None])
        assert request["params"] == {"city": "Ulm"}
        assert await asking == [1, None]
        await agent.notify("_ping", {"a": 1})
        assert await line.next() == line.note("_ping", a=1)
        line.send(line.request("x", "_double", n=21))
        assert await line.next() == line.result("x", 42)
        with pytest.raises(LocalProtocolError, match="'_'"):
            await agent.request("weather")


async def test_everything_pending_fails_when_the_agent_ends() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        waiting = [
            asyncio.ensure_future(agent.list_sessions()),
            asyncio.ensure_future(session.prompt("hi")),
            asyncio.ensure_future(agent.load_session("other", "/tmp")),
            asyncio.ensure_future(anext(session.updates())),
        ]
        for _ in range(3):
            await line.next()
        line.transport.close()
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(outcome, ConnectionClosed)
