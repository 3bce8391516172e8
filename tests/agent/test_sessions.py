"""How sessions begin, are found again, and end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.agent import Agent, AgentSession, Context, Turn
from dragoman.errors import ConnectionClosed, LocalProtocolError, RequestError
from dragoman.schema import v1
from tests.agent.fixtures import Link, connected, reached, texts, updated


def _agent(**options: Any) -> Agent:
    """An agent that keeps its sessions and can do everything with them."""
    agent = Agent("test", **options)
    saved: dict[str, str] = {}
    agent_log: list[str] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say(turn.text)

    @agent.new_session(mcp=("http",), additional_directories=True)
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> None:
        saved[session.id] = session.cwd

    @agent.load_session
    async def load(params: v1.LoadSessionRequest, session: AgentSession) -> None:
        if params.session_id not in saved:
            raise RequestError.not_found("No such session")
        await session.update(v1.UserMessageChunk(v1.TextContent("before")))
        await session.say("history")

    @agent.resume_session
    async def resume(params: v1.ResumeSessionRequest, session: AgentSession) -> None:
        if params.session_id not in saved:
            raise RequestError.not_found("No such session")
        await session.commands([("help", "Shows help")])

    @agent.close_session
    async def close(params: v1.CloseSessionRequest, session: AgentSession) -> None:
        agent_log.append(f"closed {session.id}")

    @agent.delete_session
    async def delete(params: v1.DeleteSessionRequest, context: Context) -> None:
        saved.pop(params.session_id, None)

    @agent.list_sessions
    async def listed(params: v1.ListSessionsRequest, context: Context) -> v1.ListSessionsResponse:
        if params.cursor:
            raise RequestError.invalid_params("Unknown cursor", path="$.cursor")
        return v1.ListSessionsResponse([v1.SessionInfo(key, cwd) for key, cwd in saved.items()])

    return agent


@pytest.mark.rule(53, 84, 85)
async def test_every_new_session_has_an_id_of_its_own_even_without_a_handler(link: Link) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    async with connected(agent, link) as line:
        assert len({await line.open() for _ in range(20)}) == 20


@pytest.mark.rule(102)
async def test_updates_of_a_new_session_leave_after_the_answer_that_names_it_in_order(link: Link) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.new_session
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> None:
        await session.commands([("help", "Shows help")])
        await asyncio.sleep(0)
        await session.title("Fresh")
        await session.say("one")

    async with connected(agent, link) as line:
        session_id = await line.open()
        frames = [await line.next() for _ in range(3)]
        assert {frame["params"]["sessionId"] for frame in frames} == {session_id}
        assert [updated(frame)["sessionUpdate"] for frame in frames] == [
            "available_commands_update",
            "session_info_update",
            "agent_message_chunk",
        ]


@pytest.mark.rule(85, 102)
async def test_a_handler_may_name_the_session_itself_and_held_updates_follow_the_name() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say(turn.session.id)

    @agent.new_session
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> v1.NewSessionResponse:
        await session.say("early")
        await session.title("early too")
        return v1.NewSessionResponse("mine")

    async with connected(agent) as line:
        assert await line.open() == "mine"
        for _ in range(2):
            assert (await line.next())["params"]["sessionId"] == "mine"
        assert texts((await line.turn("mine"))[0]) == ["mine"]
        assert (await line.error("session/new", cwd="/work", mcpServers=[]))["code"] == -32603
        assert texts((await line.turn("mine"))[0]) == ["mine"]


async def test_a_failed_new_session_sends_none_of_its_updates_and_cannot_be_used() -> None:
    agent = Agent("test")
    kept: list[AgentSession] = []

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.new_session
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> None:
        kept.append(session)
        await session.say("lost")
        raise RequestError(1000, "Not today")

    async with connected(agent) as line:
        assert (await line.error("session/new", cwd="/work", mcpServers=[]))["code"] == 1000
        with pytest.raises(LocalProtocolError, match="never opened"):
            await kept[0].say("still here")
        assert (await line.error("session/prompt", sessionId=kept[0].id, prompt=[]))["code"] == -32002
        await line.silence()


async def test_a_new_session_that_sends_without_end_before_its_answer_is_stopped() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.new_session
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> None:
        while True:
            await session.say("x" * 1_000_000)

    async with connected(agent) as line:
        assert (await line.error("session/new", cwd="/work", mcpServers=[]))["code"] == -32603


@pytest.mark.rule(105, 106, 107, 108, 109)
async def test_load_streams_the_whole_history_before_its_answer(link: Link) -> None:
    async with connected(_agent(), link) as line:
        session_id = await line.open()
        before, answer = await line.answer_to(
            line.ask("session/load", sessionId=session_id, cwd="/work", mcpServers=[])
        )
        assert [updated(each)["sessionUpdate"] for each in before] == ["user_message_chunk", "agent_message_chunk"]
        assert answer["result"] == {}
        assert texts((await line.turn(session_id, "on"))[0]) == ["on"]


@pytest.mark.rule(111, 112, 113)
async def test_resume_sends_nothing_before_its_answer(link: Link) -> None:
    async with connected(_agent(), link) as line:
        session_id = await line.open()
        assert await line.result("session/resume", sessionId=session_id, cwd="/work") == {}
        assert updated(await line.next())["sessionUpdate"] == "available_commands_update"
        assert texts((await line.turn(session_id, "on"))[0]) == ["on"]


@pytest.mark.rule(119, 342)
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_that_cannot_be_found_again_is_named_in_the_error(method: str) -> None:
    async with connected(_agent()) as line:
        error = await line.error(method, sessionId="gone", cwd="/work", mcpServers=[])
        assert error == {"code": -32002, "message": "No such session", "data": {"sessionId": "gone"}}


@pytest.mark.rule(119, 120, 342)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/prompt", {"prompt": []}),
        ("session/close", {}),
        ("session/set_mode", {"modeId": "x"}),
        ("session/set_config_option", {"configId": "x", "value": "y"}),
    ],
)
async def test_requests_for_an_unknown_or_closed_session_are_not_found(method: str, params: dict[str, Any]) -> None:
    agent = _agent()

    @agent.set_mode
    async def set_mode(params: v1.SetSessionModeRequest, session: AgentSession) -> None: ...

    @agent.set_config_option
    async def set_option(params: v1.SetSessionConfigOptionRequest, session: AgentSession) -> None: ...

    async with connected(agent) as line:
        error = await line.error(method, sessionId="nobody", **params)
        assert (error["code"], error["data"]) == (-32002, {"sessionId": "nobody"})
        session_id = await line.open()
        await line.result("session/close", sessionId=session_id)
        assert (await line.error(method, sessionId=session_id, **params))["code"] == -32002


@pytest.mark.rule(116, 117, 196)
async def test_close_cancels_the_running_turn_which_answers_first(link: Link) -> None:
    agent = Agent("test")
    running = asyncio.Event()
    events: list[str] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            events.append("cleaned up")

    @agent.close_session
    async def close(params: v1.CloseSessionRequest, session: AgentSession) -> None:
        events.append("closed")

    async with connected(agent, link) as line:
        session_id = await line.open()
        prompt_id = line.prompt(session_id)
        await reached(running)
        close_id = line.ask("session/close", sessionId=session_id)
        assert (await line.answer_to(prompt_id))[1]["result"] == {"stopReason": "cancelled"}
        assert (await line.answer_to(close_id))[1]["result"] == {}
        assert events == ["cleaned up", "closed"]


@pytest.mark.rule(120)
async def test_a_closed_session_refuses_prompts_and_updates_from_the_moment_of_the_request() -> None:
    agent = Agent("test")
    kept: list[AgentSession] = []
    closing, may_end = asyncio.Event(), asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        kept.append(turn.session)

    @agent.close_session
    async def close(params: v1.CloseSessionRequest, session: AgentSession) -> None:
        closing.set()
        await may_end.wait()

    async with connected(agent) as line:
        session_id = await line.open()
        await line.turn(session_id)
        close_id = line.ask("session/close", sessionId=session_id)
        await reached(closing)
        assert (await line.error("session/prompt", sessionId=session_id, prompt=[]))["code"] == -32002
        may_end.set()
        await line.answer_to(close_id)
        with pytest.raises(LocalProtocolError, match="closed"):
            await kept[0].say("ghost")
        await line.silence()


@pytest.mark.rule(116, 120, 204)
async def test_a_close_that_is_cancelled_at_once_has_closed_the_session_all_the_same() -> None:
    agent = Agent("test")
    running = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        running.set()
        await asyncio.Event().wait()

    @agent.close_session
    async def close(params: v1.CloseSessionRequest, session: AgentSession) -> None: ...

    async with connected(agent) as line:
        session_id = await line.open()
        prompt_id = line.prompt(session_id)
        await reached(running)
        line.send(line.request(99, "session/close", sessionId=session_id), line.note("$/cancel_request", requestId=99))
        answers = {message["id"]: message for message in (await line.next(), await line.next())}
        assert answers[99]["error"]["code"] == -32800
        assert answers[prompt_id]["result"] == {"stopReason": "cancelled"}
        assert (await line.error("session/prompt", sessionId=session_id, prompt=[]))["code"] == -32002


@pytest.mark.rule(136, 137, 138, 139)
async def test_deleting_is_silent_for_what_is_gone_and_ends_what_is_open(link: Link) -> None:
    async with connected(_agent(), link) as line:
        session_id = await line.open()
        assert await line.result("session/delete", sessionId="never was") == {}
        assert await line.result("session/delete", sessionId=session_id) == {}
        assert await line.result("session/delete", sessionId=session_id) == {}
        assert await line.result("session/list") == {"sessions": []}
        assert (await line.error("session/prompt", sessionId=session_id, prompt=[]))["code"] == -32002


async def test_a_refused_deletion_leaves_the_session_running() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.delete_session
    async def delete(params: v1.DeleteSessionRequest, context: Context) -> None:
        raise RequestError(1001, "In use")

    async with connected(agent) as line:
        session_id = await line.open()
        assert (await line.error("session/delete", sessionId=session_id))["code"] == 1001
        assert (await line.turn(session_id))[1]["result"] == {"stopReason": "end_turn"}


@pytest.mark.rule(123, 126, 127, 130)
async def test_list_gives_a_page_and_passes_a_refused_cursor_on(link: Link) -> None:
    async with connected(_agent(), link) as line:
        assert await line.result("session/list") == {"sessions": []}
        session_id = await line.open()
        assert await line.result("session/list", cwd="/work") == {
            "sessions": [{"sessionId": session_id, "cwd": "/work"}]
        }
        error = await line.error("session/list", cursor="junk")
        assert (error["code"], error["data"]) == (-32602, {"path": "$.cursor"})


@pytest.mark.rule(124)
async def test_the_folder_of_a_list_must_be_absolute() -> None:
    async with connected(_agent()) as line:
        error = await line.error("session/list", cwd="work")
        assert (error["code"], error["data"]) == (-32602, {"path": "$.cwd"})
        await line.result("session/list", cwd=None)


async def test_a_session_is_not_opened_again_while_its_prompt_runs() -> None:
    agent = Agent("test")
    running = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        running.set()
        await asyncio.Event().wait()

    @agent.load_session
    async def load(params: v1.LoadSessionRequest, session: AgentSession) -> None: ...

    async with connected(agent) as line:
        session_id = await line.open()
        line.prompt(session_id)
        await reached(running)
        error = await line.error("session/load", sessionId=session_id, cwd="/work", mcpServers=[])
        assert (error["code"], error["data"]) == (-32600, {"sessionId": session_id})


async def test_a_session_that_is_loaded_again_replaces_the_old_one() -> None:
    agent = Agent("test")
    seen: list[AgentSession] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        seen.append(turn.session)

    @agent.load_session
    async def load(params: v1.LoadSessionRequest, session: AgentSession) -> None: ...

    async with connected(agent) as line:
        session_id = await line.open("/old")
        await line.turn(session_id)
        await line.result("session/load", sessionId=session_id, cwd="/new", mcpServers=[])
        await line.turn(session_id)
        assert [each.cwd for each in seen] == ["/old", "/new"]
        with pytest.raises(LocalProtocolError, match="again"):
            await seen[0].say("ghost")


async def test_a_session_outlives_its_connection_only_as_an_object_that_says_so() -> None:
    agent = Agent("test")
    kept: list[AgentSession] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        kept.append(turn.session)

    async with connected(agent) as line:
        await line.turn(await line.open())
    with pytest.raises(ConnectionClosed):
        await kept[0].say("anybody?")


@pytest.mark.rule(186)
async def test_updates_can_be_sent_between_turns(link: Link) -> None:
    agent = Agent("test")
    kept: list[AgentSession] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        turn.session.extra["seen"] = turn.session.extra.get("seen", 0) + 1
        kept.append(turn.session)

    async with connected(agent, link) as line:
        session_id = await line.open()
        await line.turn(session_id)
        await line.turn(session_id)
        await kept[0].say("by the way")
        assert texts([updated(await line.next())]) == ["by the way"]
        assert kept[0] is kept[1]
        assert kept[0].extra == {"seen": 2}


@pytest.mark.rule(204)
async def test_a_cancelled_new_session_is_answered_once_and_not_opened() -> None:
    agent = Agent("test")
    running = asyncio.Event()
    kept: list[AgentSession] = []

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.new_session
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> None:
        kept.append(session)
        running.set()
        await asyncio.Event().wait()

    async with connected(agent) as line:
        request_id = line.ask("session/new", cwd="/work", mcpServers=[])
        await reached(running)
        line.notify("$/cancel_request", requestId=request_id)
        assert (await line.answer_to(request_id))[1]["error"]["code"] == -32800
        assert (await line.error("session/prompt", sessionId=kept[0].id, prompt=[]))["code"] == -32002


@pytest.mark.rule(302)
async def test_a_question_while_a_session_opens_belongs_to_the_request() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.new_session
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> None:
        await session.elicit("Name?", v1.ElicitationSchema(properties={"name": v1.StringPropertySchema()}))

    async with connected(agent, capabilities={"elicitation": {"form": {}}}) as line:
        request_id = line.ask("session/new", cwd="/work", mcpServers=[])
        params = await line.answer_next("elicitation/create", {"action": "decline"})
        assert params["requestId"] == request_id
        assert "sessionId" not in params
        assert "result" in (await line.answer_to(request_id))[1]


async def test_a_handler_that_returns_the_wrong_type_is_an_internal_error() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.new_session  # type: ignore[type-var]  # what a program without a type checker might do
    async def new(params: v1.NewSessionRequest, session: AgentSession) -> object:
        return {"sessionId": "x"}

    async with connected(agent) as line:
        assert (await line.error("session/new", cwd="/work", mcpServers=[]))["code"] == -32603


async def test_a_turn_that_began_while_its_session_was_loaded_again_is_cancelled() -> None:
    agent = Agent("test")
    running, loading, may_load = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        running.set()
        await asyncio.Event().wait()

    @agent.load_session
    async def load(params: v1.LoadSessionRequest, session: AgentSession) -> None:
        loading.set()
        await may_load.wait()

    async with connected(agent) as line:
        session_id = await line.open()
        load_id = line.ask("session/load", sessionId=session_id, cwd="/work", mcpServers=[])
        await reached(loading)
        prompt_id = line.prompt(session_id)
        await reached(running)
        may_load.set()
        answers = {message["id"]: message["result"] for message in (await line.next(), await line.next())}
        assert answers == {load_id: {}, prompt_id: {"stopReason": "cancelled"}}
