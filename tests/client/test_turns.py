"""A prompt and its updates, as the calling program sees them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from dragoman.errors import ConnectionClosed, LocalProtocolError, RequestError
from dragoman.schema import Unknown, v1
from tests.client.fixtures import client_and_agent, open_session


def _texts(updates: list[v1.SessionUpdate]) -> list[str]:
    return [
        u.content.text for u in updates if isinstance(u, v1.AgentMessageChunk) and isinstance(u.content, v1.TextContent)
    ]


@pytest.mark.rule(31, 178, 230)
async def test_iterating_a_prompt_gives_its_updates_and_ends_exactly_after_the_last() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)

        async def drive() -> list[v1.SessionUpdate]:
            return [update async for update in session.prompt("hi")]

        driving = asyncio.create_task(drive())
        request = await line.expect("session/prompt")
        assert request["params"] == {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]}
        line.send(
            line.chunk("s1", "a"),
            line.chunk("s1", "b"),
            line.result(request["id"], {"stopReason": "end_turn"}),
            line.chunk("s1", "late"),
        )
        assert _texts(await driving) == ["a", "b"]
        assert session.state.stop_reason == "end_turn"


async def test_awaiting_a_prompt_gives_the_result_and_the_state_has_the_text() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        turn = session.prompt("hi")
        driving = asyncio.ensure_future(turn)
        request = await line.expect("session/prompt")
        line.send(
            line.chunk("s1", "Hel"), line.chunk("s1", "lo"), line.result(request["id"], {"stopReason": "refusal"})
        )
        result = await driving
        assert result.stop_reason == "refusal"
        assert session.state.text == "Hello"
        assert turn.result is result


async def test_a_prompt_is_sent_only_when_it_is_used() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        never = session.prompt("never")
        turn = session.prompt("hi")
        with pytest.raises(LocalProtocolError):
            _ = turn.result
        driving = asyncio.ensure_future(turn)
        request = await line.expect("session/prompt")
        assert request["params"]["prompt"][0]["text"] == "hi"
        line.send(line.result(request["id"], {"stopReason": "end_turn"}))
        await driving
        with pytest.raises(LocalProtocolError):
            _ = never.result


@pytest.mark.rule(187)
async def test_a_second_prompt_while_one_runs_is_refused_here() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        first = asyncio.ensure_future(session.prompt("one"))
        request = await line.expect("session/prompt")
        with pytest.raises(LocalProtocolError, match="already runs"):
            await session.prompt("two")
        line.send(line.result(request["id"], {"stopReason": "end_turn"}))
        await first
        second = asyncio.ensure_future(session.prompt("two"))
        request = await line.expect("session/prompt")
        line.send(line.result(request["id"], {"stopReason": "end_turn"}))
        await second


async def test_a_failed_prompt_raises_after_its_updates() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        seen: list[v1.SessionUpdate] = []

        async def drive() -> None:
            async for update in session.prompt("hi"):
                seen.append(update)

        driving = asyncio.create_task(drive())
        request = await line.expect("session/prompt")
        line.send(
            line.chunk("s1", "a"),
            {"jsonrpc": "2.0", "id": request["id"], "error": {"code": 400, "message": "model says no"}},
        )
        with pytest.raises(RequestError) as caught:
            await driving
        assert caught.value.code == 400
        assert _texts(seen) == ["a"]


@pytest.mark.rule(192, 196)
async def test_leaving_the_context_early_cancels_and_waits_for_the_answer() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)

        async def drive() -> None:
            async with session.prompt("hi") as turn:
                async for _ in turn:
                    break

        driving = asyncio.create_task(drive())
        request = await line.expect("session/prompt")
        line.send(line.chunk("s1", "a"))
        cancel = await line.expect("session/cancel")
        assert cancel == line.note("session/cancel", sessionId="s1")
        assert not driving.done()
        line.send(line.chunk("s1", "b"), line.result(request["id"], {"stopReason": "cancelled"}))
        await driving
        assert session.state.stop_reason == "cancelled"
        assert session.state.text == "ab"


async def test_cancelling_the_task_that_awaits_a_prompt_cancels_the_turn() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        driving = asyncio.ensure_future(session.prompt("hi"))
        request = await line.expect("session/prompt")
        driving.cancel()
        await line.expect("session/cancel")
        line.send(line.result(request["id"], {"stopReason": "cancelled"}))
        with pytest.raises(asyncio.CancelledError):
            await driving
        assert session.state.stop_reason == "cancelled"


async def test_an_agent_that_ignores_cancel_holds_its_client_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.client.turn.CANCEL_GRACE_SECONDS", 0.02)
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)

        async def drive() -> None:
            async with session.prompt("hi"):
                pass

        driving = asyncio.create_task(drive())
        await line.expect("session/prompt")
        await line.expect("session/cancel")
        await driving


async def test_a_turn_without_a_reader_only_folds() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)

        async def peek() -> None:
            async for _ in session.prompt("hi"):
                break

        peeking = asyncio.create_task(peek())
        request = await line.expect("session/prompt")
        line.send(line.chunk("s1", "a"))
        await peeking
        gc.collect()
        line.send(line.chunk("s1", "b"), line.result(request["id"], {"stopReason": "end_turn"}))
        updates = session.updates()
        line.send(line.chunk("s1", "!"))
        while session.state.stop_reason is None:
            await anext(updates)
        assert session.state.text.startswith("ab")


@pytest.mark.rule(186, 199, 225)
async def test_updates_outside_a_turn_and_unknown_ones_reach_the_session() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        updates = session.updates()
        line.send(
            line.update("s1", "session_info_update", title="T"),
            line.update("s1", "_sparkle", colour="blue"),
            line.update("s1", "agent_message_chunk", content={"type": "hologram", "beam": 1}),
        )
        first = (await anext(updates)).update
        unknown = (await anext(updates)).update
        strange = (await anext(updates)).update
        assert isinstance(first, v1.SessionInfoUpdate)
        assert isinstance(unknown, Unknown)
        assert unknown.tag == "_sparkle"
        assert isinstance(strange, v1.AgentMessageChunk)
        assert isinstance(strange.content, Unknown)
        assert session.state.title == "T"


async def test_when_the_agent_dies_the_iterator_drains_and_then_raises() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        seen: list[v1.SessionUpdate] = []

        async def drive() -> None:
            async for update in session.prompt("hi"):
                seen.append(update)

        driving = asyncio.create_task(drive())
        await line.expect("session/prompt")
        line.send(line.chunk("s1", "a"), line.chunk("s1", "b"))
        line.transport.close()
        with pytest.raises(ConnectionClosed):
            await driving
        assert _texts(seen) == ["a", "b"]


async def test_two_readers_of_one_session_both_see_everything() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        one, two = session.updates(), session.updates()
        line.send(line.chunk("s1", "a"))
        assert (await anext(one)).update == (await anext(two)).update
        two.close()
        line.send(line.chunk("s1", "b"))
        await anext(one)
        with pytest.raises(StopAsyncIteration):
            await anext(two)


@pytest.mark.rule(177)
async def test_content_the_agent_did_not_ask_for_is_refused_here() -> None:
    async with client_and_agent({}) as (agent, line):
        session = await open_session(agent, line)
        blocks: list[Any] = [
            v1.ImageContent("aGk=", "image/png"),
            v1.AudioContent("aGk=", "audio/wav"),
            v1.EmbeddedResource(v1.TextResourceContents("t", "file:///t")),
        ]
        for block in blocks:
            with pytest.raises(LocalProtocolError, match="promptCapabilities"):
                await session.prompt([v1.TextContent("look"), block])
        assert line.lines.empty()
        prompting = asyncio.ensure_future(session.prompt([v1.ResourceLink("n", "file:///n")]))
        await line.answer("session/prompt", {"stopReason": "end_turn"})
        await prompting
