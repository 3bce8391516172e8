"""Rows 34-38 of the fault matrix: what crosses on the way between a client and its agent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import dragoman.client.session_link
from dragoman import LocalProtocolError, spawn
from dragoman.client import Received
from dragoman.schema import v1
from tests.faults.kit import rough_agent

# Tells in its answers how many prompts it has seen; ends a turn when it is told to.
COUNTS = """
seen = 0
while True:
    request = until("session/prompt")
    seen += 1
    say(prompt_text(request))
    if prompt_text(request) == "wait":
        until("session/cancel")
        answer(request, stopReason="cancelled", _meta={"seen": seen})
    else:
        answer(request, stopReason="end_turn", _meta={"seen": seen})
"""


async def test_row_34_a_prompt_cancelled_before_it_is_sent_never_reaches_the_agent() -> None:
    async with spawn(*rough_agent(COUNTS)) as agent:
        session = await agent.new_session("/")
        turn = session.prompt("never")
        await turn.cancel()
        assert (await turn).stop_reason == "cancelled"
        assert [update async for update in turn] == []
        async with session.prompt("never either") as turn:
            await turn.cancel()
        unsent = session.prompt("nor this")
        await unsent.cancel()
        assert [update async for update in unsent] == []
        result = await session.prompt("hello")
        assert isinstance(result.meta, dict)
        assert result.meta["seen"] == 2, "the one that was entered had been sent"


async def test_row_34_a_cancel_right_behind_its_prompt_is_obeyed() -> None:
    async with spawn(*rough_agent(COUNTS)) as agent:
        session = await agent.new_session("/")
        async with session.prompt("wait") as turn:
            await turn.cancel()
            assert (await turn).stop_reason == "cancelled"


async def test_row_35_an_answer_that_crosses_the_cancel_stands() -> None:
    code = """
request = until("session/prompt")
update("tool_call", toolCallId="t", title="Work", status="in_progress")
until("session/cancel")
update("tool_call_update", toolCallId="t", status="completed")
answer(request, stopReason="end_turn")
cancels = 0
while (message := read())["method"] != "session/prompt":
    cancels += 1
answer(message, stopReason="end_turn", _meta={"cancels": cancels})
until("nothing")
"""
    async with spawn(*rough_agent(code)) as agent:
        session = await agent.new_session("/")
        turn = session.prompt("go")
        async for _ in turn:
            await turn.cancel()
            break
        assert (await turn).stop_reason == "end_turn"
        [call] = session.state.tool_calls.values()
        assert (call.status, call.is_cancelled) == ("completed", False)
        await turn.cancel()
        assert turn.result.stop_reason == "end_turn"
        result = await session.prompt("and?")
        assert isinstance(result.meta, dict)
        assert result.meta["cancels"] == 0, "a turn that is over is not cancelled"


ASKS = """
request = until("session/prompt")
send(id=9, method="session/request_permission", params={
    "sessionId": "s", "toolCall": {"toolCallId": "t"},
    "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]})
answers, is_cancelled = [], False
if sys.argv[1] == "prompt first":
    until("session/cancel")
    is_cancelled = True
    answer(request, stopReason="cancelled")
while not (answers and is_cancelled):
    message = read()
    is_cancelled = is_cancelled or message.get("method") == "session/cancel"
    if message.get("id") == 9:
        answers.append(message["result"]["outcome"]["outcome"])
if sys.argv[1] == "withdraws":
    send(method="$/cancel_request", params={"requestId": 9})
if sys.argv[1] != "prompt first":
    answer(request, stopReason="cancelled")
while (message := read()).get("method") != "session/prompt":
    answers.append("another answer")
answer(message, stopReason="end_turn", _meta={"answers": answers})
until("nothing")
"""


@pytest.mark.rule(194, 209)
@pytest.mark.parametrize("order", ["permission first", "prompt first", "withdraws"])
async def test_row_36_a_cancel_answers_the_open_permission_once_and_a_late_click_does_nothing(order: str) -> None:
    asked, clicked = asyncio.Event(), asyncio.Event()

    async def permission(request: v1.RequestPermissionRequest, session: Any) -> str:
        asked.set()
        await clicked.wait()
        return "y"

    async with spawn(*rough_agent(ASKS, order), permission=permission) as agent:
        session = await agent.new_session("/")
        async with session.prompt("go") as turn:
            await asked.wait()
            await turn.cancel()
            clicked.set()
            assert (await turn).stop_reason == "cancelled"
        result = await session.prompt("what did you get?")
        assert isinstance(result.meta, dict)
        assert result.meta["answers"] == ["cancelled"]


async def test_row_36_an_agent_that_ignores_a_cancel_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dragoman.client.turn, "CANCEL_GRACE_SECONDS", 0.2)
    async with spawn(*rough_agent("until('session/prompt'); say('hm'); until('nothing')")) as agent:
        session = await agent.new_session("/")
        async with session.prompt("go") as turn:
            await anext(turn)
        assert session.state.is_running, "the agent has not answered"
        await agent.close()
        assert session.state.turns[0].is_lost


LATE = """
request = until("session/prompt")
say("begun ")
until("session/cancel")
answer(request, stopReason="cancelled")
say("and ")
update("tool_call", toolCallId="late", title="Too late", status="pending")
say("ended")
request = until("session/prompt")
say("new")
answer(request, stopReason="end_turn")
until("nothing")
"""


@pytest.mark.rule(199)
async def test_row_37_what_comes_after_a_cancelled_turn_belongs_to_it_and_is_marked() -> None:
    async with spawn(*rough_agent(LATE)) as agent:
        session = await agent.new_session("/")
        updates = session.updates()
        async with session.prompt("go") as turn:
            await anext(turn)
            await turn.cancel()
            await turn
        received: list[Received] = [await anext(updates) for _ in range(4)]
        assert [each.is_late for each in received] == [False, True, True, True]
        first = session.state.turns[0]
        assert first.text == "begun and ended"
        assert [message.turn for message in session.state.messages if message.role == "agent"] == [0, 0]
        assert session.state.messages[1].text == "begun and ", "the message that was cut off goes on"
        assert session.state.tool_calls["late"].turn == 0
        assert not session.state.tool_calls["late"].is_running
        await session.prompt("again")
        assert session.state.turns[1].text == "new"
        assert (await anext(updates)).is_late is False


SLOW_TO_END = """
request = until("session/prompt")
say("one")
until("session/cancel")
say(", the end of one")
answer(request, stopReason="cancelled")
request = until("session/prompt")
say("two")
answer(request, stopReason="end_turn")
until("nothing")
"""


@pytest.mark.parametrize("way", ["await", "iterate", "enter"])
async def test_row_37_the_next_prompt_waits_for_the_end_of_the_cancelled_one(way: str) -> None:
    async with spawn(*rough_agent(SLOW_TO_END)) as agent:
        session = await agent.new_session("/")
        first = session.prompt("one")
        await anext(first)
        await first.cancel()
        second = session.prompt("two")
        if way == "await":
            await second
        elif way == "iterate":
            assert len([update async for update in second]) == 1
        else:
            async with second:
                assert len([update async for update in second]) == 1
        assert [turn.text for turn in session.state.turns] == ["one, the end of one", "two"]
        assert [turn.stop_reason for turn in session.state.turns] == ["cancelled", "end_turn"]


async def test_row_37_an_agent_that_never_ends_the_cancelled_turn_gets_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dragoman.client.session_link, "CANCEL_GRACE_SECONDS", 0.2)
    async with spawn(*rough_agent("until('session/prompt'); say('hm'); until('nothing')")) as agent:
        session = await agent.new_session("/")
        first = session.prompt("one")
        await anext(first)
        await first.cancel()
        with pytest.raises(LocalProtocolError, match="has not ended the cancelled turn"):
            await session.prompt("two")


@pytest.mark.rule(209)
async def test_row_38_a_cancel_for_an_unknown_request_is_ignored() -> None:
    code = """
request = until("session/prompt")
send(method="$/cancel_request", params={"requestId": 12345})
send(method="$/cancel_request", params={"requestId": "never"})
send(id=1, method="_no/such", params={})
answer(request, stopReason="end_turn", _meta={"next": read()["error"]["code"]})
until("nothing")
"""
    async with spawn(*rough_agent(code)) as agent:
        session = await agent.new_session("/")
        result = await session.prompt("go")
        assert isinstance(result.meta, dict)
        assert result.meta["next"] == -32601, "nothing else came back"


@pytest.mark.rule(187)
async def test_row_38_two_prompts_of_one_session_are_never_mixed() -> None:
    async with spawn(*rough_agent(COUNTS)) as agent:
        session = await agent.new_session("/")
        async with session.prompt("wait") as first:
            with pytest.raises(LocalProtocolError, match="already runs"):
                await session.prompt("me too")
            await first.cancel()
        result = await session.prompt("now")
        assert isinstance(result.meta, dict)
        assert result.meta["seen"] == 2
