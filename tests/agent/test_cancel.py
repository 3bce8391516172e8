"""Cancelling a turn: seen at once, answered once, and everything it started goes with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman.agent import Agent, AgentSession, Context, Turn
from dragoman.schema import v1
from tests.agent.fixtures import ClientLine, Link, connected, reached, texts, updated

CANCELLED = {"stopReason": "cancelled"}


def _cancel(line: ClientLine, how: str, session_id: str, request_id: int) -> None:
    if how == "session/cancel":
        line.notify("session/cancel", sessionId=session_id)
    else:
        line.notify("$/cancel_request", requestId=request_id)


both_ways = pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request"])


@both_ways
@pytest.mark.rule(192, 195, 196, 201, 204, 207)
async def test_a_cancelled_turn_ends_its_handler_and_answers_cancelled_once(how: str, link: Link) -> None:
    agent = Agent("test")
    running = asyncio.Event()
    seen: list[bool] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(turn.cancelled)
            raise

    async with connected(agent, link) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        await reached(running)
        _cancel(line, how, session_id, request_id)
        before, answer = await line.answer_to(request_id)
        assert (before, answer["result"]) == ([], CANCELLED)
        assert seen == [True]
        _cancel(line, how, session_id, request_id)
        await line.silence()


@both_ways
@pytest.mark.rule(196)
async def test_a_cancel_that_comes_before_the_handlers_first_step_is_not_lost(how: str, local_link: Link) -> None:
    agent = Agent("test")
    started: list[str] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        started.append(turn.text)

    async with connected(agent, local_link) as line:
        session_id = await line.open()
        prompt = line.request(77, "session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "a"}])
        if how == "session/cancel":
            line.send(prompt, line.note("session/cancel", sessionId=session_id))
        else:
            line.send(prompt, line.note("$/cancel_request", requestId=77))
        assert await line.next() == {"jsonrpc": "2.0", "id": 77, "result": CANCELLED}
        assert started == []
        assert (await line.turn(session_id, "b"))[1]["result"] == {"stopReason": "end_turn"}
        assert started == ["b"]


@both_ways
@pytest.mark.rule(196)
async def test_a_handler_that_swallows_its_cancellation_was_cancelled_all_the_same(how: str) -> None:
    agent = Agent("test")
    running = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> str:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await turn.say("fine, I stop")
        return "end_turn"

    async with connected(agent) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        await reached(running)
        _cancel(line, how, session_id, request_id)
        before, answer = await line.answer_to(request_id)
        assert texts([updated(each) for each in before]) == ["fine, I stop"]
        assert answer["result"] == CANCELLED


@both_ways
@pytest.mark.rule(197)
async def test_an_exception_of_a_cancelled_turn_is_not_answered_as_an_error(how: str) -> None:
    agent = Agent("test")
    running = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("the model's stream was aborted") from None

    async with connected(agent) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        await reached(running)
        _cancel(line, how, session_id, request_id)
        assert (await line.answer_to(request_id))[1]["result"] == CANCELLED


@pytest.mark.rule(198)
async def test_updates_of_the_clean_up_leave_before_the_answer(link: Link) -> None:
    agent = Agent("test")
    running = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            for number in range(100):
                await turn.say(str(number))

    async with connected(agent, link) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        await reached(running)
        for _ in range(2):  # an impatient client does not interrupt the clean-up
            line.notify("session/cancel", sessionId=session_id)
            line.notify("$/cancel_request", requestId=request_id)
        before, answer = await line.answer_to(request_id)
        assert len(before) == 100
        assert answer["result"] == CANCELLED


@pytest.mark.rule(200, 209)
async def test_a_cancel_for_an_idle_or_unknown_session_is_silent_and_keeps_nothing_from_running(link: Link) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    async with connected(agent, link) as line:
        session_id = await line.open()
        line.notify("session/cancel", sessionId=session_id)
        line.notify("session/cancel", sessionId="nobody")
        line.notify("session/cancel", wrong="member")
        line.notify("session/cancel", sessionId=7)
        line.notify("$/cancel_request", requestId=12345)
        assert (await line.turn(session_id))[1]["result"] == {"stopReason": "end_turn"}
        await line.silence()


@pytest.mark.rule(196)
async def test_a_cancel_after_the_handler_finished_keeps_its_result() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> str:
        # Seen by the agent only after this handler returned, because nothing is read in between.
        line.notify("session/cancel", sessionId=turn.session.id)
        return "max_tokens"

    async with connected(agent) as line:
        session_id = await line.open()
        assert (await line.turn(session_id))[1]["result"] == {"stopReason": "max_tokens"}


@pytest.mark.rule(200)
async def test_a_cancel_reaches_only_the_session_it_names(link: Link) -> None:
    agent = Agent("test")
    running = {"a": asyncio.Event(), "b": asyncio.Event()}
    may_end = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        running[turn.text].set()
        await may_end.wait()

    async with connected(agent, link) as line:
        first, second = await line.open(), await line.open()
        cancelled, kept = line.prompt(first, "a"), line.prompt(second, "b")
        await reached(running["a"])
        await reached(running["b"])
        line.notify("session/cancel", sessionId=first)
        assert (await line.answer_to(cancelled))[1]["result"] == CANCELLED
        may_end.set()
        assert (await line.answer_to(kept))[1]["result"] == {"stopReason": "end_turn"}


@pytest.mark.rule(203, 208)
async def test_pending_requests_of_the_turn_are_cancelled_with_it(link: Link) -> None:
    agent = Agent("test")
    outcomes: list[str] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async def ask() -> None:
            try:
                await turn.ask(v1.ToolCallPatch("call"))
            except asyncio.CancelledError:
                outcomes.append("permission")
                raise

        async def read() -> None:
            try:
                await turn.read_file("/etc/hostname")
            except asyncio.CancelledError:
                outcomes.append("file")
                raise

        async with asyncio.TaskGroup() as group:
            group.create_task(ask())
            group.create_task(read())

    async with connected(agent, link, {"fs": {"readTextFile": True}}) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        asked = {(await line.next())["id"] for _ in range(2)}
        line.notify("session/cancel", sessionId=session_id)
        before, answer = await line.answer_to(request_id)
        assert {each["method"] for each in before} == {"$/cancel_request"}
        assert {each["params"]["requestId"] for each in before} == asked
        assert answer["result"] == CANCELLED
        assert sorted(outcomes) == ["file", "permission"]


@pytest.mark.rule(194, 196, 258)
async def test_a_permission_answered_cancelled_by_the_client_does_not_hold_the_turn_up(link: Link) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.ask(v1.ToolCallPatch("call"))

    async with connected(agent, link) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        asked = await line.expect("session/request_permission")
        line.send(
            line.note("session/cancel", sessionId=session_id),
            {"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": {"outcome": "cancelled"}}},
        )
        assert (await line.answer_to(request_id))[1]["result"] == CANCELLED


@pytest.mark.rule(187, 196)
async def test_a_cancel_answers_the_running_prompt_and_every_queued_one(link: Link) -> None:
    agent = Agent("test", overlapping_prompts="queue")
    running = asyncio.Event()
    started: list[str] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        started.append(turn.text)
        if turn.text != "after":
            running.set()
            await asyncio.Event().wait()

    async with connected(agent, link) as line:
        session_id = await line.open()
        requests = {line.prompt(session_id, text) for text in "abc"}
        await reached(running)
        line.notify("session/cancel", sessionId=session_id)
        answers = [await line.next() for _ in range(3)]
        assert {answer["id"] for answer in answers} == requests
        assert all(answer["result"] == CANCELLED for answer in answers)
        assert (await line.turn(session_id, "after"))[1]["result"] == {"stopReason": "end_turn"}
        assert started == ["a", "after"]


async def test_cancelling_one_queued_prompt_does_not_let_the_next_overtake() -> None:
    agent = Agent("test", overlapping_prompts="queue")
    running, may_end = asyncio.Event(), asyncio.Event()
    started: list[str] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        started.append(turn.text)
        running.set()
        await may_end.wait()

    async with connected(agent) as line:
        session_id = await line.open()
        first, second, third = (line.prompt(session_id, text) for text in "abc")
        await reached(running)
        line.notify("$/cancel_request", requestId=second)
        assert (await line.answer_to(second))[1]["result"] == CANCELLED
        await line.silence()
        assert started == ["a"]
        may_end.set()
        assert (await line.answer_to(first))[1]["result"] == {"stopReason": "end_turn"}
        assert (await line.answer_to(third))[1]["result"] == {"stopReason": "end_turn"}
        assert started == ["a", "c"]


@both_ways
async def test_a_generator_is_closed_before_its_cancelled_turn_is_answered(how: str, link: Link) -> None:
    agent = Agent("test")
    running = asyncio.Event()
    events: list[str] = []

    @agent.prompt
    async def reply(turn: Turn) -> AsyncIterator[str]:
        try:
            while True:
                yield "more"
                running.set()
        finally:
            await asyncio.sleep(0)
            events.append("closed")

    async with connected(agent, link) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        await reached(running)
        _cancel(line, how, session_id, request_id)
        _, answer = await line.answer_to(request_id)
        assert answer["result"] == CANCELLED
        assert events == ["closed"]


@pytest.mark.rule(195)
async def test_a_cancel_is_seen_soon_while_a_handler_streams_at_full_speed(link: Link) -> None:
    agent = Agent("test")
    sent = 0

    @agent.prompt
    async def reply(turn: Turn) -> None:
        nonlocal sent
        while True:
            sent += 1
            await turn.say("x")

    async with connected(agent, link) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        await line.expect("session/update")
        line.notify("session/cancel", sessionId=session_id)
        _, answer = await line.answer_to(request_id)
        assert answer["result"] == CANCELLED
        # Pipes hold some hundreds of small updates each way; thousands would mean that the reader was not served.
        assert sent < 5_000


async def test_what_a_cancelled_turn_left_behind_is_cancelled_when_it_speaks() -> None:
    agent = Agent("test")
    running = asyncio.Event()
    turns: list[Turn] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        turns.append(turn)
        running.set()
        await asyncio.Event().wait()

    async with connected(agent) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        await reached(running)
        line.notify("session/cancel", sessionId=session_id)
        await line.answer_to(request_id)
        with pytest.raises(asyncio.CancelledError):
            await turns[0].say("late")
        await line.silence()


@pytest.mark.rule(206)
async def test_an_extension_that_cancels_itself_answers_with_the_code_for_that() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None: ...

    @agent.request("_vendor/give_up")
    async def give_up(params: object, context: Context) -> None:
        raise asyncio.CancelledError

    async with connected(agent) as line:
        assert (await line.error("_vendor/give_up"))["code"] == -32800


@pytest.mark.parametrize("how", ["function", "generator"])
async def test_a_prompt_handler_that_raises_cancelled_although_no_client_cancelled_is_answered_with_an_error(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("test")

    async def reply(turn: Turn) -> None:
        # A future that another part of the program cancelled, as a shared connection does when it breaks.
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        broken.cancel()
        await broken

    async def stream(turn: Turn) -> AsyncIterator[str]:
        yield "a word"
        await reply(turn)

    agent.prompt(reply if how == "function" else stream)

    async with connected(agent) as line:
        for _ in range(2):
            answer = (await line.turn(await line.open()))[1]
            assert answer["error"] == {"code": -32603, "message": "Internal error"}
    assert "without a request to cancel" in caplog.text


async def test_closing_a_session_waits_no_longer_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent("test")
    running, may_end = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr("dragoman.agent.sessions.CLOSE_SECONDS", 0.05)

    @agent.prompt
    async def stubborn(turn: Turn) -> None:
        running.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue

    @agent.close_session
    async def close(params: v1.CloseSessionRequest, session: AgentSession) -> None: ...

    async with connected(agent) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        await reached(running)
        close_id = line.ask("session/close", sessionId=session_id)
        assert (await line.answer_to(close_id))[1]["result"] == {}
        may_end.set()
        assert (await line.answer_to(request_id))[1]["result"] == CANCELLED


async def test_a_hundred_turns_can_be_cancelled_at_once(local_link: Link) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        while True:
            await turn.say("x")

    async with connected(agent, local_link) as line:
        sessions = [await line.open() for _ in range(100)]
        requests: dict[Any, int] = {line.prompt(session_id): 0 for session_id in sessions}
        for session_id in sessions:
            line.notify("session/cancel", sessionId=session_id)
        while not all(requests.values()):
            message = await line.next()
            if "result" in message:
                assert message["result"] == CANCELLED
                requests[message["id"]] += 1
        assert set(requests.values()) == {1}
