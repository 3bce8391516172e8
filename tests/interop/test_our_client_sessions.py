"""Our client drives agents written on the official SDKs: handshake, sessions, login, settings, errors."""

import pytest

from dragoman import AgentExited, CapabilityError, LocalProtocolError, RequestError
from dragoman.schema import v1
from tests.interop.our_client import DiskFiles, Urls, agent_of
from tests.interop.support import SDKS

both = pytest.mark.parametrize("sdk", SDKS)


@both
@pytest.mark.rule(2, 3, 15, 33, 34, 36, 38, 42, 43, 44, 45, 52, 57, 58, 84, 85, 86, 87, 101, 103, 140, 146, 147, 169)
async def test_both_sides_know_each_other_before_the_first_session(sdk: str) -> None:
    async with agent_of(sdk, files=DiskFiles(), elicitation=Urls()) as (agent, check):
        assert agent.info is not None
        assert (agent.info.name, agent.info.version) == (f"{sdk}-agent", "1.0")
        assert agent.initialized.protocol_version == 1
        capabilities = agent.capabilities
        assert capabilities.load_session is True
        assert capabilities.prompt_capabilities
        assert capabilities.prompt_capabilities.image is True
        assert capabilities.session_capabilities
        assert isinstance(capabilities.session_capabilities.list, v1.SessionListCapabilities)
        assert [getattr(method, "id", None) for method in agent.auth_methods] == ["key"]
        servers: list[v1.McpServer] = [
            v1.McpServerStdio("tools", "/bin/true", [], []),
            v1.McpServerHttp("far", "https://example.com/mcp", []),
        ]
        first = await agent.new_session("/work-a", mcp_servers=servers, additional_directories=["/work-b"])
        second = await agent.new_session("/work-b")
        assert first.id != second.id
        # Both SDKs let the agent send this before the answer that names the session.
        assert [command.name for command in first.state.commands] == ["review"]
        assert first.state.mode == "ask"
        options = first.state.config_options
        assert [type(option) for option in options] == [v1.SessionConfigSelect, v1.SessionConfigBoolean]
    hello = check.outgoing[0]
    assert hello["method"] == "initialize"
    assert hello["params"]["clientInfo"]["name"] == "our-client"
    offered = hello["params"]["clientCapabilities"]
    assert offered["fs"] == {"readTextFile": True, "writeTextFile": True}
    assert offered.get("terminal", False) is False
    assert offered["elicitation"] == {"url": {}}
    asked = [frame["params"] for frame in check.outgoing if frame.get("method") == "session/new"]
    assert asked[0]["additionalDirectories"] == ["/work-b"]
    assert asked[0]["mcpServers"] == [
        {"name": "tools", "command": "/bin/true", "args": [], "env": []},
        {"type": "http", "name": "far", "url": "https://example.com/mcp", "headers": []},
    ]
    assert "additionalDirectories" not in asked[1]


@both
@pytest.mark.rule(104, 105, 106, 107, 108, 110, 111, 119, 122, 123, 124, 126, 127, 128, 129, 130, 342)
async def test_earlier_sessions_are_listed_loaded_with_history_and_resumed_without(sdk: str) -> None:
    async with agent_of(sdk) as (agent, check):
        assert [info.session_id async for info in agent.sessions()] == ["old-1", "old-2", "old-3"]
        pages = [frame["params"] for frame in check.outgoing if frame.get("method") == "session/list"]
        assert pages == [{}, {"cursor": "2"}]
        assert [info.session_id async for info in agent.sessions(cwd="/work-b")] == ["old-3"]
        with pytest.raises(RequestError) as refused:
            await agent.list_sessions(cursor="junk")
        assert (refused.value.code, refused.value.data) == (-32602, {"cursor": "junk"})
        loading = agent.load_session("old-1", "/work-a")
        history = [type(update) async for update in loading]
        assert history == [v1.UserMessageChunk, v1.AgentMessageChunk, v1.ToolCall]
        session = await loading
        said = [(message.role, message.text) for message in session.state.messages]
        assert said == [("user", "earlier question"), ("agent", "earlier answer")]
        assert session.state.tool_calls["old-tool"].status == "completed"
        assert session.state.mode == "ask"
        with pytest.raises(RequestError) as missing:
            await agent.load_session("nobody", "/work-a")
        assert (missing.value.code, missing.value.data) == (-32002, {"sessionId": "nobody"})
        resumed = await agent.resume_session("old-2", "/work-a")
        assert list(resumed.state.messages) == []
        await resumed.prompt("hello again")
        assert resumed.state.text == "You said: hello again"


@both
@pytest.mark.rule(49, 79, 114, 115, 116, 117, 119, 120, 121, 135, 136, 137, 138)
async def test_sessions_are_closed_with_their_turn_and_deleted_where_that_is_offered(sdk: str) -> None:
    async with agent_of(sdk) as (agent, check):
        session = await agent.new_session("/work-a")
        async with session.prompt("wait") as turn:
            await anext(turn)
            await session.close()
            result = await turn
        assert result.stop_reason == "cancelled"
        with pytest.raises(LocalProtocolError):
            await session.prompt("too late")
        # Asked directly, the agent refuses too; and closing twice is no error.
        with pytest.raises(RequestError) as gone:
            await agent.call("session/prompt", v1.PromptRequest(session.id, [v1.TextContent("hello")]))
        assert (gone.value.code, gone.value.data) == (-32002, {"sessionId": session.id})
        await agent.close_session(session.id)
        if sdk == "ts":
            await agent.delete_session("old-3")
            await agent.delete_session("old-3")
            assert [info.session_id async for info in agent.sessions()] == ["old-1", "old-2"]
        else:  # its agents have no such methods: nothing is sent
            with pytest.raises(CapabilityError, match="session/delete"):
                await agent.delete_session("old-3")
            with pytest.raises(CapabilityError, match="logout"):
                await agent.logout()
            assert not {"session/delete", "logout"} & set(check.sent_methods())


@both
@pytest.mark.rule(64, 65, 66, 67, 76, 77, 78, 80)
async def test_login_is_asked_for_by_code_and_opens_the_door(sdk: str) -> None:
    async with agent_of(sdk) as (agent, check):
        with pytest.raises(RequestError) as locked:
            await agent.new_session("/locked")
        assert (locked.value.code, locked.value.data) == (-32000, {"methods": ["key"]})
        with pytest.raises(LocalProtocolError, match="wrong"):
            await agent.authenticate("wrong")
        assert "authenticate" not in check.sent_methods()
        await agent.authenticate("key")
        await agent.new_session("/locked")
        if sdk == "ts":
            await agent.logout()
            with pytest.raises(RequestError) as again:
                await agent.new_session("/locked")
            assert again.value.code == -32000


@both
@pytest.mark.rule(161, 162, 163, 166, 171, 172, 173)
async def test_modes_and_options_are_set_and_junk_is_refused_on_both_sides(sdk: str) -> None:
    async with agent_of(sdk) as (agent, _):
        session = await agent.new_session("/work-a")
        await session.set_mode("code")
        assert session.state.mode == "code"
        await session.set_config_option("model", "large")
        await session.set_config_option("fast", True)
        model, fast = session.state.config_options
        assert isinstance(model, v1.SessionConfigSelect)
        assert isinstance(fast, v1.SessionConfigBoolean)
        assert (model.current_value, fast.current_value) == ("large", True)
        with pytest.raises(LocalProtocolError, match="junk"):
            await session.set_mode("junk")
        with pytest.raises(LocalProtocolError, match="junk"):
            await session.set_config_option("junk", "small")
        with pytest.raises(RequestError) as mode:
            await agent.call("session/set_mode", v1.SetSessionModeRequest(session.id, "junk"))
        assert (mode.value.code, mode.value.data) == (-32602, {"modeId": "junk"})


@both
@pytest.mark.rule(9, 22, 23, 25, 28, 333, 337, 338, 339)
async def test_errors_and_the_death_of_an_agent_reach_the_caller(sdk: str) -> None:
    async with agent_of(sdk) as (agent, _):
        session = await agent.new_session("/work-a")
        for code in (-32050, 1234):
            with pytest.raises(RequestError) as asked:
                await session.prompt(f"error {code}")
            assert (asked.value.code, asked.value.message, asked.value.data) == (code, "asked for", {"asked": code})
        with pytest.raises(RequestError) as crashed:
            await session.prompt("crash")
        assert crashed.value.code == -32603
        with pytest.raises(RequestError) as unknown:
            await agent.request("_interop/none")
        assert unknown.value.code == -32601
        await session.prompt("still here")
        assert session.state.text == "You said: still here"
        with pytest.raises(AgentExited) as dead:
            await session.prompt("die")
        assert dead.value.returncode == 3
        assert "last words" in dead.value.stderr_tail
        assert not agent.is_open
