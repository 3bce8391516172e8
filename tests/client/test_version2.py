"""An agent of version 2: when prompts begin and end, what readers get, and what the agent may ask."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from dragoman.client import connect
from dragoman.errors import CapabilityError, ConnectionClosed, LocalProtocolError, RequestError
from dragoman.schema import v1, v2
from tests.client.fixtures import AgentLine, by_one_stream, client_and_agent, open_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.client import PromptTurn, RemoteAgent, Session

SECONDS = 30.0
INFO = {"name": "agent", "version": "1"}
ANSWER: dict[str, Any] = {
    "protocolVersion": 2,
    "info": INFO,
    "capabilities": {"session": {"prompt": {"image": {}}, "mcp": {"stdio": {}}, "delete": {}}},
    "authMethods": [{"type": "agent", "methodId": "key", "name": "Key"}],
}
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


@asynccontextmanager
async def talk(**options: Any) -> AsyncIterator[tuple[RemoteAgent, AgentLine, Session]]:
    async with asyncio.timeout(SECONDS), client_and_agent(initialized=ANSWER, protocol=2, **options) as (agent, line):
        yield agent, line, await open_session(agent, line)


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def say(line: AgentLine, value: str, message_id: str = "a1") -> None:
    line.send(line.update("s1", "agent_message_chunk", messageId=message_id, content=text(value)))


def show_prompt(line: AgentLine, message_id: str, value: str) -> None:
    line.send(line.update("s1", "user_message", messageId=message_id, content=[text(value)]))


def state(line: AgentLine, name: str, **members: object) -> None:
    line.send(line.update("s1", "state_update", state=name, **members))


async def sent(turn: PromptTurn) -> asyncio.Task[v1.PromptResponse]:
    task = asyncio.ensure_future(_finish(turn))
    await asyncio.sleep(0)
    return task


async def _finish(turn: PromptTurn) -> v1.PromptResponse:
    return await turn


async def test_a_turn_ends_with_the_idle_after_its_message() -> None:
    async with talk() as (agent, line, session):
        assert agent.protocol_version == 2
        turn = session.prompt("hello")
        answer = await sent(turn)
        request = await line.expect("session/prompt")
        assert request["params"]["prompt"] == [text("hello")]
        state(line, "running")
        show_prompt(line, "u1", "hello")
        line.send(line.result(request["id"], {"messageId": "u1"}))
        say(line, "Hi ")
        say(line, "there")
        state(line, "idle", stopReason="end_turn", usage={"totalTokens": 3, "inputTokens": 1, "outputTokens": 2})
        response = await answer
        assert response.stop_reason == "end_turn"
        assert response.usage
        assert response.usage.total_tokens == 3
        assert session.state.text == "Hi there"
        assert [(one.role, one.message_id) for one in session.state.messages] == [("user", "u1"), ("agent", "a1")]
        assert session.state.activity == "idle"


@pytest.mark.parametrize("has_early_idle", [False, True])
async def test_the_idle_between_two_prompts_does_not_end_the_held_one(has_early_idle: bool) -> None:
    async with talk() as (_, line, session):
        one = await sent(session.prompt("one"))
        first = await line.expect("session/prompt")
        show_prompt(line, "u1", "one")
        if not has_early_idle:
            line.send(line.result(first["id"], {"messageId": "u1"}))
        two = await sent(session.prompt("two"))
        second = await line.expect("session/prompt")
        say(line, "first")
        state(line, "idle", stopReason="max_tokens")
        if has_early_idle:  # the response comes after the idle that ends the prompt
            line.send(line.result(first["id"], {"messageId": "u1"}))
        assert (await one).stop_reason == "max_tokens"
        assert not two.done()
        show_prompt(line, "u2", "two")
        line.send(line.result(second["id"], {"messageId": "u2"}))
        state(line, "running")
        say(line, "second", "a2")
        state(line, "idle", stopReason="end_turn")
        assert (await two).stop_reason == "end_turn"
        assert [turn.text for turn in session.state.turns] == ["first", "second"]


async def test_a_held_prompt_gets_only_its_own_updates_and_can_be_withdrawn() -> None:
    async with talk() as (_, line, session), session.prompt("one"):
        await line.answer("session/prompt", {"messageId": "u1"})
        held = session.prompt("two")
        async with held:
            second = await line.expect("session/prompt")
            show_prompt(line, "u1", "one")
            say(line, "first")
            await held.cancel()
            note = await line.expect("$/cancel_request")
            assert note["params"] == {"requestId": second["id"]}
            error = {"code": -32800, "message": "Request cancelled"}
            line.send({"jsonrpc": "2.0", "id": second["id"], "error": error})
            assert (await held).stop_reason == "cancelled"
            assert held.unread == 0
        assert session.state.is_running  # the other one
        state(line, "idle", stopReason="cancelled")


async def test_a_cancel_ends_the_work_and_what_is_held() -> None:
    async with talk() as (_, line, session):
        one, two = await sent(session.prompt("one")), await sent(session.prompt("two"))
        first, second = await line.expect("session/prompt"), await line.expect("session/prompt")
        show_prompt(line, "u1", "one")
        line.send(line.result(first["id"], {"messageId": "u1"}))
        await session.cancel()
        await line.expect("session/cancel")
        line.send({"jsonrpc": "2.0", "id": second["id"], "error": {"code": -32800, "message": "cancelled"}})
        state(line, "idle", stopReason="cancelled")
        assert {(await one).stop_reason, (await two).stop_reason} == {"cancelled"}


async def test_an_agent_that_never_shows_the_prompt_is_followed_by_its_states() -> None:
    async with talk() as (_, line, session):
        answer = await sent(session.prompt("hello"))
        await line.answer("session/prompt", {"messageId": "u1"})
        state(line, "idle")  # before it has begun
        state(line, "running")
        say(line, "Hi")
        state(line, "idle", stopReason="end_turn")
        assert (await answer).stop_reason == "end_turn"
        assert session.state.text == "Hi"


async def test_a_prompt_that_joins_running_work_ends_with_it() -> None:
    async with talk() as (_, line, session):
        one = await sent(session.prompt("one"))
        first = await line.expect("session/prompt")
        show_prompt(line, "u1", "one")
        line.send(line.result(first["id"], {"messageId": "u1"}))
        two = await sent(session.prompt("also this"))
        second = await line.expect("session/prompt")
        show_prompt(line, "u2", "also this")
        line.send(line.result(second["id"], {"messageId": "u2"}))
        say(line, "both")
        state(line, "idle", stopReason="end_turn")
        assert (await one).stop_reason == (await two).stop_reason == "end_turn"
        assert [one.text for one in session.state.messages] == ["one", "also this", "both"]


async def test_work_without_a_prompt_changes_the_state_and_reaches_subscribers() -> None:
    async with talk() as (_, line, session):
        updates = session.updates()
        state(line, "running", background=[{"type": "terminal", "terminalId": "t"}])
        say(line, "by myself")
        received = [(await anext(updates)).update for _ in range(2)]
        assert isinstance(received[0], v2.SessionStateUpdate)
        assert isinstance(received[1], v1.AgentMessageChunk)
        assert session.state.activity == "running"
        assert [type(work) for work in session.state.background or ()] == [v2.BackgroundTerminal]
        assert not session.state.is_running  # no turn of ours


@pytest.mark.parametrize(
    ("idle", "code", "message"),
    [
        ({"error": {"code": -32001, "message": "quota"}}, -32001, "quota"),
        ({}, -32603, "the agent reported an error"),
    ],
)
async def test_an_idle_with_an_error_fails_the_prompt(idle: dict[str, Any], code: int, message: str) -> None:
    async with talk() as (_, line, session):
        answer = await sent(session.prompt("hello"))
        request = await line.expect("session/prompt")
        show_prompt(line, "u1", "hello")
        line.send(line.result(request["id"], {"messageId": "u1"}))
        state(line, "idle", stopReason="error", **idle)
        with pytest.raises(RequestError, match=message) as raised:
            await answer
        assert raised.value.code == code
        assert not session.state.is_running


async def test_an_unknown_stop_reason_is_kept_in_meta_and_a_missing_one_is_the_end() -> None:
    async with talk() as (_, line, session):
        for count, (members, meta) in enumerate(
            [({"stopReason": "_tired"}, {"dragoman": {"stopReason": "_tired"}}), ({}, None)]
        ):
            answer = await sent(session.prompt("hello"))
            request = await line.expect("session/prompt")
            show_prompt(line, f"u{count}", "hello")
            line.send(line.result(request["id"], {"messageId": f"u{count}"}))
            state(line, "idle", **members)
            response = await answer
            assert (response.stop_reason, response.meta or None) == ("end_turn", meta)


async def test_a_lost_connection_fails_an_accepted_prompt() -> None:
    async with talk() as (_, line, session):
        answer = await sent(session.prompt("hello"))
        await line.answer("session/prompt", {"messageId": "u1"})
        await asyncio.sleep(0)
        line.transport.close()
        with pytest.raises(ConnectionClosed):
            await answer
        assert session.state.turns[-1].is_lost


async def test_readers_get_chunks_for_whole_messages_unless_they_replace_text() -> None:
    async with talk() as (_, line, session):
        turn = session.prompt("hello")
        updates: list[Any] = []

        async def read() -> None:
            updates.extend([update async for update in turn])

        reading = asyncio.ensure_future(read())
        request = await line.expect("session/prompt")
        show_prompt(line, "u1", "hello")
        line.send(line.result(request["id"], {"messageId": "u1"}))
        for words in ("One", "One two", "Other"):
            line.send(line.update("s1", "agent_message", messageId="a1", content=[text(words)]))
        line.send(line.update("s1", "tool_call_update", toolCallId="c1", title="Read", status="pending"))
        line.send(line.update("s1", "tool_call_update", toolCallId="c1", title=None))
        state(line, "idle", stopReason="end_turn")
        await reading
        kinds = [type(update) for update in updates]
        assert kinds == [
            v2.UserMessage, v1.AgentMessageChunk, v1.AgentMessageChunk, v2.AgentMessage, v1.ToolCallUpdate,
            v1.ToolCallUpdate, v2.SessionStateUpdate,
        ]  # fmt: skip
        assert [update.content.text for update in updates[1:3]] == ["One", " two"]
        assert session.state.text == "Other"
        assert session.state.tool_calls["c1"].title == ""


async def test_a_permission_request_reaches_a_service_of_version_1() -> None:
    asked: list[Any] = []

    def permit(request: Any) -> str:
        asked.append(request)
        return "yes"

    async with talk(permission=permit) as (_, line, session):
        line.send(line.update("s1", "tool_call_update", toolCallId="c1", title="rm -r build"))
        subject: dict[str, Any] = {"type": "tool_call", "toolCall": {"toolCallId": "c1", "rawInput": {"command": "rm"}}}
        params = {"sessionId": "s1", "title": "Run command?", "description": "It deletes.", "options": OPTIONS}
        for count, each in enumerate([subject, {"type": "command", "command": "make", "cwd": "/w"}, None]):
            line.send(line.request(f"p{count}", "session/request_permission", **params, subject=each))
            answer = await line.next()
            assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "yes"}
        tool, command, bare = asked
        assert tool.tool_call.title == "rm -r build"
        assert tool.tool_call.raw_input == {"command": "rm"}
        assert tool.tool_call.content[0].content.text == "Run command?\nIt deletes."
        assert (tool.title, tool.description) == ("Run command?", "It deletes.")
        assert command.tool_call.kind == "execute"
        assert command.tool_call.raw_input == {"command": "make", "cwd": "/w"}
        assert bare.tool_call.title == "Run command?"
        assert session.state.tool_calls["c1"].title == "rm -r build"  # the question's title is not the tool's


async def test_an_open_permission_request_is_answered_as_cancelled() -> None:
    is_asked = asyncio.Event()

    async def permit(request: Any) -> str:
        is_asked.set()
        await asyncio.Event().wait()
        return "yes"

    async with talk(permission=permit) as (_, line, session):
        answer = await sent(session.prompt("hello"))
        request = await line.expect("session/prompt")
        show_prompt(line, "u1", "hello")
        line.send(line.result(request["id"], {"messageId": "u1"}))
        line.send(line.request("p", "session/request_permission", sessionId="s1", title="?", options=OPTIONS))
        await is_asked.wait()
        await session.cancel()
        received = [await line.next(), await line.next()]
        assert [each["method"] for each in received if "method" in each] == ["session/cancel"]
        assert {"outcome": {"outcome": "cancelled"}} in [each.get("result") for each in received]
        state(line, "idle", stopReason="cancelled")
        assert (await answer).stop_reason == "cancelled"


async def test_files_and_terminals_are_not_offered() -> None:
    class Files:
        async def read_text_file(self, request: object, session: object) -> str:
            return "secret"

    async with talk(files=Files()) as (_, line, _session):
        line.send(line.request("f", "fs/read_text_file", sessionId="s1", path="/a"))
        assert (await line.next())["error"]["code"] == -32601


async def test_tool_calls_and_terminals_are_cancelled_only_if_the_agent_offers_it() -> None:
    async with talk() as (_, line, session):
        line.send(line.update("s1", "tool_call_update", toolCallId="c1", title="Watch", capabilities={"cancel": {}}))
        line.send(line.update("s1", "terminal_update", terminalId="t1", command="x", capabilities={"cancel": {}}))
        updates = session.updates()
        line.send(line.update("s1", "terminal_output_chunk", terminalId="t1", data="b2s="))
        while session.state.terminals.get("t1") is None or not session.state.terminals["t1"].output:
            await anext(updates)
        cancelling = asyncio.ensure_future(session.cancel_tool("c1"))
        assert (await line.answer("tool_call/cancel", {}))["params"] == {"sessionId": "s1", "toolCallId": "c1"}
        await cancelling
        cancelling = asyncio.ensure_future(session.cancel_terminal("t1"))
        assert (await line.answer("terminal/cancel", {}))["params"] == {"sessionId": "s1", "terminalId": "t1"}
        await cancelling
        with pytest.raises(CapabilityError):
            await session.cancel_tool("no such")
        with pytest.raises(CapabilityError):
            await session.cancel_terminal("no such")


async def test_a_session_is_loaded_by_resume_with_a_replay() -> None:
    async with talk() as (agent, line, _):
        loading = agent.load_session("old", "/tmp")
        opening = asyncio.ensure_future(_load(loading))
        request = await line.expect("session/resume")
        assert request["params"]["replayFrom"] == {"type": "start"}
        line.send(line.update("old", "user_message", messageId="u1", content=[]))
        line.send(line.update("old", "user_message_chunk", messageId="u1", content=text("before")))
        line.send(line.update("old", "state_update", state="idle", stopReason="end_turn"))
        option = {"configId": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "ask"}
        choices = [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]
        commands = [{"type": "command", "name": "test", "description": "Run tests"}]
        result = {"configOptions": [{**option, "options": choices}], "availableCommands": commands}
        line.send(line.result(request["id"], result))
        session, updates = await opening
        assert [type(update) for update in updates] == [v2.UserMessage, v1.UserMessageChunk, v2.SessionStateUpdate]
        assert [message.text for message in session.state.messages] == ["before"]
        assert [command.name for command in session.state.commands] == ["test"]
        assert session.state.mode == "ask"
        switching = asyncio.ensure_future(session.set_mode("code"))
        request = await line.expect("session/set_config_option")
        assert request["params"] == {"sessionId": "old", "configId": "mode", "type": "id", "value": "code"}
        line.send(
            line.result(request["id"], {"configOptions": [{**option, "currentValue": "code", "options": choices}]})
        )
        await switching
        assert session.state.mode == "code"


async def _load(loading: Any) -> tuple[Session, list[Any]]:
    updates = [update async for update in loading]
    return await loading, updates


async def test_login_and_mcp_servers_use_the_names_of_version_2() -> None:
    async with talk() as (agent, line, _):
        for work, method in ((agent.authenticate("key"), "auth/login"), (agent.logout(), "auth/logout")):
            task = asyncio.ensure_future(work)
            await line.answer(method, {})
            await task
        server = v1.McpServerStdio("files", "/bin/files", args=[], env=[])
        opening = asyncio.ensure_future(agent.new_session("/tmp", mcp_servers=[server]))
        request = await line.answer("session/new", {"sessionId": "s2"})
        assert request["params"]["mcpServers"][0]["type"] == "stdio"
        await opening


async def test_an_empty_prompt_is_not_sent() -> None:
    async with talk() as (_, _line, session):
        with pytest.raises(LocalProtocolError, match="at least one"):
            await session.prompt([])


async def test_an_agent_without_sessions_is_refused() -> None:
    async with asyncio.timeout(SECONDS):
        with pytest.raises(Exception, match="offers no sessions"):
            async with client_and_agent(initialized={**ANSWER, "capabilities": {}}, protocol=2):
                raise AssertionError("it was accepted")


async def test_an_unknown_protocol_is_a_mistake_of_the_program() -> None:
    from tests.transports.ends import memory_ends

    async with memory_ends() as (ours, opened):
        with pytest.raises(LocalProtocolError, match="protocol must be"):
            async with connect(ours, protocol=3):  # type: ignore[arg-type]
                raise AssertionError("it was accepted")
        (await opened).close()


@by_one_stream
async def test_a_program_is_called_with_updates_in_the_order_of_the_wire_as_readers_get_them() -> None:
    found: list[tuple[str, str]] = []

    def updated(session_id: str, updates: Any, lines: Any) -> None:
        found.extend((session_id, type(update).__module__.split(".")[2]) for update in updates)
        assert lines

    async with talk(on_updates=updated) as (_, line, session):
        reading = asyncio.ensure_future(anext(aiter(session.updates())))
        await asyncio.sleep(0)
        say(line, "a")
        state(line, "running")
        line.send(line.update("other", "agent_message_chunk", messageId="m", content=text("b")))
        state(line, "idle")
        assert isinstance((await reading).update, v1.AgentMessageChunk)
        line.send(line.request(1, "_none"))
        assert (await line.next())["error"]["code"] == -32601
    assert found == [("s1", "v1"), ("s1", "v2"), ("other", "v1"), ("s1", "v2")]
