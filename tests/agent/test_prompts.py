"""A prompt from its arrival to its one answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman.agent import Agent, Turn
from dragoman.errors import LocalProtocolError, RequestError
from dragoman.schema import Unknown, v1
from tests.agent.fixtures import Link, connected, reached, texts, updated

TEXT = {"type": "text", "text": "look at "}
LINK = {"type": "resource_link", "name": "a.py", "uri": "file:///a.py"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
RESOURCE = {"type": "resource", "resource": {"uri": "file:///a.py", "text": "x = 1"}}


@pytest.mark.rule(53, 54, 178, 180, 184, 185, 210, 211)
async def test_updates_of_a_turn_come_in_order_before_its_answer(link: Link) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        for number in range(500):
            await turn.say(str(number))

    async with connected(agent, link) as line:
        session_id = await line.open()
        before, answer = await line.answer_to(line.prompt(session_id))
        assert texts([updated(each) for each in before]) == [str(number) for number in range(500)]
        assert {each["params"]["sessionId"] for each in before} == {session_id}
        assert answer["result"] == {"stopReason": "end_turn"}


@pytest.mark.rule(54, 179, 271)
async def test_text_and_links_are_always_accepted() -> None:
    agent = Agent("test")
    seen: list[Turn] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        seen.append(turn)

    async with connected(agent) as line:
        session_id = await line.open()
        prompt = [TEXT, LINK, {"type": "text", "text": "please"}]
        await line.result("session/prompt", sessionId=session_id, prompt=prompt)
        assert seen[0].text == "look at please"
        assert [type(block) for block in seen[0].prompt] == [v1.TextContent, v1.ResourceLink, v1.TextContent]


@pytest.mark.rule(55, 177)
@pytest.mark.parametrize(("block", "accepts"), [(IMAGE, "image"), (AUDIO, "audio"), (RESOURCE, "embedded_context")])
async def test_other_blocks_are_accepted_exactly_when_advertised(block: dict[str, Any], accepts: Any) -> None:
    for accepted in ((), (accepts,)):
        agent = Agent("test")
        seen: list[int] = []

        @agent.prompt(accepts=accepted)
        async def reply(turn: Turn) -> None:
            seen.append(len(turn.prompt))  # noqa: B023  # called within the same round

        async with connected(agent) as line:
            session_id = await line.open()
            request_id = line.ask("session/prompt", sessionId=session_id, prompt=[TEXT, block])
            _, answer = await line.answer_to(request_id)
            if accepted:
                assert answer["result"] == {"stopReason": "end_turn"}
                assert seen == [2]
            else:
                assert answer["error"]["code"] == -32602
                assert answer["error"]["data"] == {"path": "$.prompt[1]"}
                assert seen == []


@pytest.mark.rule(225)
async def test_a_block_of_unknown_type_is_delivered_and_does_not_cost_the_prompt() -> None:
    agent = Agent("test")
    seen: list[v1.ContentBlock] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        seen.extend(turn.prompt)

    async with connected(agent) as line:
        session_id = await line.open()
        strange = {"type": "hologram", "depth": 3}
        await line.result("session/prompt", sessionId=session_id, prompt=[TEXT, strange])
        assert seen == [v1.TextContent("look at "), Unknown("hologram", strange)]


@pytest.mark.rule(178)
@pytest.mark.parametrize("prompt", ["hi", None, {"type": "text"}, [{"type": "text"}], [7]])
async def test_a_prompt_that_is_not_a_list_of_blocks_is_refused_with_its_path(prompt: object) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    async with connected(agent) as line:
        error = await line.error("session/prompt", sessionId=await line.open(), prompt=prompt)
        assert error["code"] == -32602
        assert error["data"]["path"].startswith("$.prompt")


@pytest.mark.rule(180, 181, 182)
@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"])
async def test_a_handler_chooses_the_stop_reason_by_name_or_as_a_response(reason: str) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> str | v1.PromptResponse:
        return reason if turn.text == "name" else v1.PromptResponse(reason, meta={"a": 1})

    async with connected(agent) as line:
        session_id = await line.open()
        assert (await line.turn(session_id, "name"))[1]["result"] == {"stopReason": reason}
        assert (await line.turn(session_id, "object"))[1]["result"] == {"stopReason": reason, "_meta": {"a": 1}}


@pytest.mark.rule(181)
@pytest.mark.parametrize("result", ["done", "", 7, {"stopReason": "end_turn"}, v1.PromptResponse("bored")])
async def test_a_result_that_is_not_a_stop_reason_is_an_internal_error(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> Any:
        return result

    async with connected(agent) as line:
        _, answer = await line.turn(await line.open())
        assert answer["error"] == {"code": -32603, "message": "Internal error"}
        assert "a prompt handler returns" in caplog.text


async def test_an_exception_is_logged_here_and_not_sent_to_the_client(
    caplog: pytest.LogCaptureFixture, link: Link
) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say("about to fail")
        raise RuntimeError("the secret password")

    async with connected(agent, link) as line:
        session_id = await line.open()
        with caplog.at_level(logging.ERROR):
            updates, answer = await line.turn(session_id)
        assert texts(updates) == ["about to fail"]
        assert answer["error"] == {"code": -32603, "message": "Internal error"}
        assert "the secret password" in caplog.text
        assert (await line.turn(session_id))[1]["error"]["code"] == -32603


@pytest.mark.rule(77, 340)
async def test_a_request_error_is_answered_as_it_is() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        raise RequestError(4711, "Out of coffee", {"cups": 0})

    async with connected(agent) as line:
        _, answer = await line.turn(await line.open())
        assert answer["error"] == {"code": 4711, "message": "Out of coffee", "data": {"cups": 0}}


@pytest.mark.rule(187)
async def test_a_second_prompt_is_refused_and_leaves_the_first_alone(link: Link) -> None:
    agent = Agent("test")
    running, may_end = asyncio.Event(), asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        running.set()
        await may_end.wait()

    async with connected(agent, link) as line:
        session_id, other = await line.open(), await line.open()
        first = line.prompt(session_id)
        await reached(running)
        error = await line.error("session/prompt", sessionId=session_id, prompt=[])
        assert error == {
            "code": -32600,
            "message": "A prompt is already running in this session",
            "data": {"sessionId": session_id},
        }
        may_end.set()
        assert (await line.answer_to(first))[1]["result"] == {"stopReason": "end_turn"}
        assert (await line.turn(other))[1]["result"] == {"stopReason": "end_turn"}
        assert (await line.turn(session_id))[1]["result"] == {"stopReason": "end_turn"}


@pytest.mark.rule(32)
async def test_turns_of_different_sessions_run_at_the_same_time() -> None:
    agent = Agent("test")
    meeting = asyncio.Barrier(2)

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await meeting.wait()

    async with connected(agent) as line:
        first, second = line.prompt(await line.open()), line.prompt(await line.open())
        assert {(await line.next())["id"] for _ in range(2)} == {first, second}


@pytest.mark.rule(187)
async def test_queued_prompts_run_one_after_the_other_each_answered_before_the_next(link: Link) -> None:
    agent = Agent("test", overlapping_prompts="queue")
    running = 0

    @agent.prompt
    async def reply(turn: Turn) -> None:
        nonlocal running
        running += 1
        assert running == 1
        for _ in range(3):
            await turn.say(turn.text)
            await asyncio.sleep(0)
        running -= 1

    async with connected(agent, link) as line:
        session_id = await line.open()
        requests = [line.prompt(session_id, text) for text in "abc"]
        for request_id, text in zip(requests, "abc", strict=True):
            before, answer = await line.answer_to(request_id)
            assert texts([updated(each) for each in before]) == [text] * 3
            assert answer["result"] == {"stopReason": "end_turn"}


@pytest.mark.rule(184, 185)
async def test_a_generator_streams_text_blocks_and_updates(link: Link) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> AsyncIterator[str | v1.ContentBlock | v1.SessionUpdate]:
        yield "text"
        yield v1.ResourceLink("a.py", "file:///a.py")
        yield v1.AgentThoughtChunk(v1.TextContent("hm"))
        yield Unknown("hologram", {"type": "hologram"})
        yield Unknown("applause", {"sessionUpdate": "applause"})

    async with connected(agent, link) as line:
        updates, answer = await line.turn(await line.open())
        assert answer["result"] == {"stopReason": "end_turn"}
        assert updates == [
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "text"}},
            {"sessionUpdate": "agent_message_chunk", "content": LINK},
            {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}},
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram"}},
            {"sessionUpdate": "applause"},
        ]


async def test_a_generator_that_yields_anything_else_fails_its_turn_and_is_closed() -> None:
    agent = Agent("test")
    closed: list[bool] = []

    @agent.prompt
    async def reply(turn: Turn) -> AsyncIterator[Any]:
        try:
            yield 42
        finally:
            closed.append(True)

    async with connected(agent) as line:
        assert (await line.turn(await line.open()))[1]["error"]["code"] == -32603
        assert closed == [True]


async def test_a_finished_turn_says_nothing_more_while_its_session_may(link: Link) -> None:
    agent = Agent("test")
    turns: list[Turn] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        turns.append(turn)

    async with connected(agent, link) as line:
        session_id = await line.open()
        await line.turn(session_id)
        for leftover in (
            turns[0].say("late"),
            turns[0].think("late"),
            turns[0].update(v1.Plan([])),
            turns[0].ask("May I?"),
            turns[0].read_file("/etc/hostname"),
            turns[0].write_file("/tmp/never", ""),
            turns[0].elicit("?", url="https://example.org"),
            turns[0].request("_x/y"),
        ):
            with pytest.raises(LocalProtocolError, match="turn is over"):
                await leftover
        for start in (lambda: turns[0].tool("late"), lambda: turns[0].terminal("true")):
            with pytest.raises(LocalProtocolError, match="turn is over"):
                start()
        await turns[0].session.say("fine")
        assert texts([updated(await line.next())]) == ["fine"]


@pytest.mark.rule(186)
async def test_work_can_go_on_after_the_turn_was_answered(link: Link) -> None:
    agent = Agent("test")
    tasks: list[asyncio.Task[None]] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async def afterwards() -> None:
            await turn.wait()
            await turn.session.say("one more thing")

        tasks.append(asyncio.create_task(afterwards()))

    async with connected(agent, link) as line:
        updates, _ = await line.turn(await line.open())
        assert updates == []
        assert texts([updated(await line.next())]) == ["one more thing"]
        await tasks[0]


async def test_a_client_error_that_a_handler_lets_pass_is_its_own_fault(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.read_file("/missing")

    async with connected(agent, capabilities={"fs": {"readTextFile": True}}) as line:
        request_id = line.prompt(await line.open())
        await line.refuse("fs/read_text_file", -32002)
        assert (await line.answer_to(request_id))[1]["error"] == {"code": -32603, "message": "Internal error"}
        assert "did not catch an error of the client" in caplog.text


@pytest.mark.rule(191)
async def test_usage_in_the_answer_needs_an_agent_that_takes_the_unstable() -> None:
    for unstable in (False, True):
        agent = Agent("test", unstable=unstable)

        @agent.prompt
        async def reply(turn: Turn) -> v1.PromptResponse:
            return v1.PromptResponse("end_turn", usage=v1.Usage(3, 2, 1))

        async with connected(agent) as line:
            _, answer = await line.turn(await line.open())
            if unstable:
                assert answer["result"]["usage"] == {"totalTokens": 3, "inputTokens": 2, "outputTokens": 1}
            else:
                assert answer["error"]["code"] == -32603


async def test_an_agent_without_a_prompt_handler_does_not_serve() -> None:
    transport: Any = None
    with pytest.raises(LocalProtocolError, match=r"@agent\.prompt"):
        await Agent("test").serve(transport)
    with pytest.raises(LocalProtocolError, match=r"@agent\.prompt"):
        Agent("test").run()


async def test_an_agent_can_repeat_the_message_of_every_error_in_its_details() -> None:
    async def refuse(turn: Turn) -> None:
        if turn.text == "break":
            raise ValueError("not for the wire")
        raise RequestError(4711, "Out of coffee", {"cups": 0} if turn.text == "cups" else None)

    agent = Agent("test", error_details=True)
    agent.prompt(refuse)
    async with connected(agent) as line:
        session_id = await line.open()
        details = "Out of coffee"
        for text, data in (
            ("none", {"details": details}),
            ("cups", {"cups": 0, "details": details}),
            ("break", {"details": "Internal error"}),
        ):
            _, answer = await line.turn(session_id, text)
            assert answer["error"]["data"] == data
        assert (await line.error("no/such"))["data"] == {"method": "no/such", "details": "Method not found"}
