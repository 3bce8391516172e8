"""Methods beyond the protocol, both ways, and the unstable ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.agent import Agent, AgentSession, ClientError, Context, Turn
from dragoman.errors import CapabilityError, LocalProtocolError, RequestError
from dragoman.schema import v1
from tests.agent.fixtures import Link, connected, raw, reached, updated


def _agent(**options: Any) -> Agent:
    agent = Agent("test", **options)

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    return agent


@pytest.mark.rule(20, 331, 332)
async def test_an_extension_request_gets_builtins_and_answers_with_anything(link: Link) -> None:
    agent = _agent()

    @agent.request("_vendor/echo")
    async def echo(params: Any, context: Context) -> Any:
        return {"params": params, "client": context.client.info}

    @agent.request("_vendor/nothing")
    async def nothing(params: Any, context: Context) -> None: ...

    async with connected(agent, link) as line:
        result = await line.result("_vendor/echo", a=[1, {"b": None}])
        assert result == {"params": {"a": [1, {"b": None}]}, "client": {"name": "test", "version": "1"}}
        line.send({"jsonrpc": "2.0", "id": "x", "method": "_vendor/echo", "params": [1, 2]})
        assert (await line.next())["result"]["params"] == [1, 2]
        line.send({"jsonrpc": "2.0", "id": None, "method": "_vendor/nothing"})
        assert await line.next() == {"jsonrpc": "2.0", "id": None, "result": None}


async def test_an_extension_request_can_be_refused_cancelled_and_fail() -> None:
    agent = _agent()
    running = asyncio.Event()

    @agent.request("_vendor/refuse")
    async def refuse(params: Any, context: Context) -> None:
        raise RequestError(7, "No", {"why": "because"})

    @agent.request("_vendor/fail")
    async def fail(params: Any, context: Context) -> None:
        raise KeyError("secret")

    @agent.request("_vendor/slow")
    async def slow(params: Any, context: Context) -> None:
        running.set()
        await asyncio.Event().wait()

    async with connected(agent) as line:
        assert await line.error("_vendor/refuse") == {"code": 7, "message": "No", "data": {"why": "because"}}
        assert await line.error("_vendor/fail") == {"code": -32603, "message": "Internal error"}
        request_id = line.ask("_vendor/slow")
        await reached(running)
        line.notify("$/cancel_request", requestId=request_id)
        assert (await line.answer_to(request_id))[1]["error"]["code"] == -32800


@pytest.mark.rule(24, 31)
async def test_extension_notifications_start_in_order_and_a_failing_one_does_no_harm(
    link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    agent = _agent()
    seen: list[int] = []
    done = asyncio.Event()

    @agent.notification("_vendor/note")
    async def note(params: Any, context: Context) -> None:
        seen.append(params["n"])
        await asyncio.sleep(0)
        if params["n"] == 1:
            raise RuntimeError("bad note")
        if params["n"] == 4:
            done.set()

    async with connected(agent, link) as line:
        line.send(*[line.note("_vendor/note", n=number) for number in range(5)])
        await reached(done)
        assert seen == [0, 1, 2, 3, 4]
        assert "bad note" in caplog.text
        await line.silence()


async def test_notification_handlers_end_with_the_connection() -> None:
    agent = _agent()
    running = asyncio.Event()
    ended: list[bool] = []

    @agent.notification("_vendor/note")
    async def note(params: Any, context: Context) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async with connected(agent) as line:
        line.notify("_vendor/note")
        await reached(running)
    assert ended == [True]


async def test_a_flood_of_notifications_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.agent.connection.RUNNING_NOTIFICATIONS", 3)
    agent = _agent()
    started: list[int] = []

    @agent.notification("_vendor/note")
    async def note(params: Any, context: Context) -> None:
        started.append(params["n"])
        await asyncio.Event().wait()

    async with connected(agent) as line:
        line.send(*[line.note("_vendor/note", n=number) for number in range(10)])
        await line.silence()
        assert started == [0, 1, 2]


@pytest.mark.rule(331)
async def test_an_agent_sends_extension_requests_and_notifications_to_the_client(link: Link) -> None:
    agent = Agent("test")
    results: list[Any] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        client = turn.session.client
        await client.notify("_vendor/hello", {"from": "agent"})
        results.append(await turn.request("_vendor/ask", {"n": 1}))
        results.append(await client.request("_vendor/ask"))
        try:
            await client.request("_vendor/ask")
        except ClientError as error:
            results.append((error.code, error.message))

    async with connected(agent, link) as line:
        request_id = line.prompt(await line.open())
        assert (await line.expect("_vendor/hello"))["params"] == {"from": "agent"}
        assert await line.answer_next("_vendor/ask", [1, None]) == {"n": 1}
        assert await line.answer_next("_vendor/ask", None) == {}
        await line.refuse("_vendor/ask", -32601, "Method not found")
        await line.answer_to(request_id)
        assert results == [[1, None], None, (-32601, "Method not found")]


async def _refusal(call: Any) -> str:
    with pytest.raises(LocalProtocolError) as caught:
        await call
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.rule(272, 282, 298, 329, 331)
async def test_only_what_a_client_serves_and_offers_is_sent_to_it() -> None:
    agent = Agent("test")
    refusals: dict[str, str] = {}

    @agent.prompt
    async def reply(turn: Turn) -> None:
        client = turn.session.client
        for method in ("vendor/ask", "session/prompt", "session/update", "elicitation/complete", "mcp/message"):
            refusals[method] = await _refusal(client.request(method, {}))
        for method in ("vendor/tell", "session/update", "session/cancel", "auth/status_update"):
            refusals["! " + method] = await _refusal(client.notify(method, {}))
        for method in ("fs/read_text_file", "terminal/create", "elicitation/create"):
            with pytest.raises(CapabilityError):
                await client.request(method, {})

    async with connected(agent) as line:
        updates, answer = await line.turn(await line.open())
        assert updates == []
        assert answer["result"] == {"stopReason": "end_turn"}
    assert len(refusals) == 9
    assert "unstable=True" in refusals["mcp/message"]
    assert "unstable=True" in refusals["! auth/status_update"]


async def test_a_client_method_can_be_called_by_name_with_its_types() -> None:
    agent = Agent("test")
    results: list[object] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        request = v1.ReadTextFileRequest(turn.session.id, "/a")
        results.append(await turn.session.client.request("fs/read_text_file", request))

    async with connected(agent, capabilities={"fs": {"readTextFile": True}}) as line:
        line.prompt(await line.open())
        await line.answer_next("fs/read_text_file", {"content": "x"})
        await line.next()
    assert results == [v1.ReadTextFileResponse("x")]


@pytest.mark.rule(331)
def test_the_name_of_an_extension_begins_with_an_underscore() -> None:
    agent = Agent("test")
    for register in (agent.request, agent.notification):
        for name in ("vendor/x", "session/prompt", ""):
            with pytest.raises(LocalProtocolError, match="underscore"):
                register(name)


def test_a_method_has_one_handler() -> None:
    agent = _agent()

    async def handler(params: Any, context: Any) -> None: ...

    agent.logout(handler)
    agent.request("_x/y")(handler)
    agent.notification("_x/y")(handler)
    with pytest.raises(LocalProtocolError, match="logout has a handler"):
        agent.logout(handler)
    with pytest.raises(LocalProtocolError, match="_x/y"):
        agent.request("_x/y")(handler)
    with pytest.raises(LocalProtocolError, match="_x/y"):
        agent.notification("_x/y")(handler)
    nothing: Any = None
    with pytest.raises(LocalProtocolError, match="not callable"):
        agent.authenticate(nothing)


UNSTABLE = [
    "fork_session",
    "archive_session",
    "unarchive_session",
    "session_status",
    "set_session_title",
    "list_providers",
    "set_provider",
    "disable_provider",
    "auth_status",
]


@pytest.mark.parametrize("name", UNSTABLE)
def test_an_unstable_handler_needs_an_agent_that_opted_in(name: str) -> None:
    async def handler(params: Any, context: Any) -> None: ...

    with pytest.raises(LocalProtocolError, match="unstable=True"):
        getattr(Agent("test"), name)(handler)
    getattr(Agent("test", unstable=True), name)(handler)


def test_single_unstable_methods_can_be_opted_in_by_name() -> None:
    async def handler(*arguments: object) -> None: ...

    agent = Agent("test", unstable=("session/fork",))
    agent.fork_session(handler)
    with pytest.raises(LocalProtocolError, match="unstable=True"):
        agent.archive_session(handler)


def test_unstable_options_need_an_agent_that_opted_in() -> None:
    for options in ({"mcp": ("acp",)}, {"system_prompt": "append"}):
        arguments: Any = options
        with pytest.raises(LocalProtocolError, match="unstable=True"):
            Agent("test").new_session(**arguments)
        Agent("test", unstable=True).new_session(**arguments)
    with pytest.raises(LocalProtocolError, match="unstable=True"):
        Agent("test").notification("mcp/message")


def _unstable_agent(log: list[Any]) -> Agent:
    agent = _agent(unstable=True)

    @agent.new_session(mcp=("acp",), system_prompt="override")
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> None:
        log.append(params.system_prompt)

    @agent.fork_session
    async def fork(params: v1.ForkSessionRequest, session: AgentSession) -> None:
        log.append((params.session_id, session.id))
        await session.say("forked")

    @agent.archive_session
    async def archive(params: v1.ArchiveSessionRequest, context: Context) -> None: ...

    @agent.unarchive_session
    async def unarchive(params: v1.UnarchiveSessionRequest, context: Context) -> None: ...

    @agent.session_status
    async def status(params: v1.SessionStatusRequest, context: Context) -> v1.SessionStatusResponse:
        return v1.SessionStatusResponse("open")

    @agent.set_session_title
    async def title(params: v1.SetSessionTitleRequest, context: Context) -> v1.SetSessionTitleResponse:
        return v1.SetSessionTitleResponse(params.title.upper())

    @agent.list_providers
    async def providers(params: v1.ListProvidersRequest, context: Context) -> v1.ListProvidersResponse:
        return v1.ListProvidersResponse([])

    @agent.set_provider
    async def set_provider(params: v1.SetProviderRequest, context: Context) -> None: ...

    @agent.disable_provider
    async def disable_provider(params: v1.DisableProviderRequest, context: Context) -> None: ...

    @agent.auth_status
    async def auth_status(params: v1.AuthStatusRequest, context: Context) -> v1.AuthStatusResponse:
        return v1.AuthStatusResponse("not_required")

    @agent.notification("mcp/message")
    async def mcp(params: v1.MessageMcpNotification, context: Context) -> None:
        log.append(params)

    return agent


async def test_unstable_methods_are_advertised_and_served_by_an_agent_that_opted_in() -> None:
    async with raw(_unstable_agent([])) as line:
        capabilities = (await line.result("initialize", protocolVersion=1))["agentCapabilities"]
        assert capabilities["providers"] == {}
        assert capabilities["auth"] == {"status": {}}
        assert capabilities["mcpCapabilities"] == {"http": False, "sse": False, "acp": True}
        assert capabilities["sessionCapabilities"] == {
            "fork": {},
            "archive": {},
            "status": {},
            "title": {},
            "systemPrompt": {"mode": {"override": {}}},
        }
        assert await line.result("session/archive", sessionId="s") == {}
        assert await line.result("session/unarchive", sessionId="s") == {}
        assert await line.result("session/status", sessionId="s") == {"status": "open"}
        assert await line.result("session/set_title", sessionId="s", title="t") == {"title": "T"}
        assert await line.result("providers/list") == {"providers": []}
        assert await line.result("providers/set", providerId="p", apiType="openai", baseUrl="u") == {}
        assert await line.result("providers/disable", providerId="p") == {}
        assert await line.result("auth/status") == {"state": "not_required"}


@pytest.mark.rule(119, 342)
async def test_a_session_that_an_unstable_handler_does_not_find_is_named_too() -> None:
    agent = _agent(unstable=True)

    @agent.archive_session
    async def archive(params: v1.ArchiveSessionRequest, context: Context) -> None:
        raise RequestError.not_found("No such session")

    async with connected(agent) as line:
        error = await line.error("session/archive", sessionId="gone")
        assert (error["code"], error["data"]) == (-32002, {"sessionId": "gone"})


@pytest.mark.rule(102)
async def test_a_fork_is_a_session_of_its_own_whose_updates_follow_its_answer(link: Link) -> None:
    log: list[Any] = []
    async with connected(_unstable_agent(log), link) as line:
        session_id = await line.open(systemPrompt={"mode": "append", "content": []})
        forked = (await line.result("session/fork", sessionId=session_id, cwd="/work"))["sessionId"]
        frame = await line.next()
        assert frame["params"]["sessionId"] == forked
        assert updated(frame)["content"]["text"] == "forked"
        assert log == [v1.SystemPrompt("append", []), (session_id, forked)]
        assert forked != session_id
        assert (await line.turn(forked))[1]["result"] == {"stopReason": "end_turn"}


async def test_mcp_messages_of_the_client_reach_their_handler_typed() -> None:
    log: list[Any] = []
    async with connected(_unstable_agent(log)) as line:
        line.notify("mcp/message", serverId="s", requestId="r", method="progress")
        line.notify("mcp/message", serverId=7)
        await line.silence()
        assert log == [v1.MessageMcpNotification("s", "r", "progress")]


@pytest.mark.rule(191)
async def test_an_unstable_member_deep_in_a_result_is_not_sent_by_a_stable_agent() -> None:
    for unstable in (False, True):
        agent = _agent(unstable=unstable)

        @agent.list_sessions
        async def listed(params: v1.ListSessionsRequest, context: Context) -> v1.ListSessionsResponse:
            return v1.ListSessionsResponse([v1.SessionInfo("s", "/work", archived=True)])

        async with connected(agent) as line:
            _, answer = await line.answer_to(line.ask("session/list"))
            assert ("result" in answer) == unstable
