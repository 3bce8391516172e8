"""What the end of a connection means for everything that runs on it."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.agent import Agent, AgentSession, Turn
from dragoman.errors import ConnectionClosed
from dragoman.transports.memory import memory_pair
from tests.agent.fixtures import ClientLine, Link, connected, reached


async def test_the_end_of_a_connection_cancels_its_turns_and_waits_for_their_clean_up(link: Link) -> None:
    agent = Agent("test")
    running = asyncio.Event()
    events: list[object] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            events.append(turn.cancelled)

    async with connected(agent, link) as line:
        line.prompt(await line.open())
        await reached(running)
    assert events == [True]


async def test_a_turn_that_waits_for_the_client_fails_at_the_end_of_the_connection() -> None:
    agent = Agent("test")
    kept: list[AgentSession] = []
    failures: list[BaseException] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        kept.append(turn.session)
        try:
            await turn.request("_x/never")
        except BaseException as error:
            failures.append(error)
            raise

    async with connected(agent) as line:
        line.prompt(await line.open())
        await line.expect("_x/never")
    assert isinstance(failures[0], (asyncio.CancelledError, ConnectionClosed))
    with pytest.raises(ConnectionClosed):
        await kept[0].client.request("_x/more")


async def test_cancelling_serve_ends_the_connection_and_its_turns() -> None:
    agent = Agent("test")
    running = asyncio.Event()
    ended: list[bool] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    ours, theirs = memory_pair()
    serving = asyncio.create_task(agent.serve(ours))
    line = ClientLine(theirs)
    await line.result("initialize", protocolVersion=1)
    line.prompt(await line.open())
    await reached(running)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert ended == [True]
    async with asyncio.timeout(60):
        await line.ended
    theirs.close()


async def test_serving_ends_within_its_bound_although_a_handler_ignores_its_cancellation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, link: Link
) -> None:
    agent = Agent("test")
    running, may_end = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr("dragoman.agent.connection.CLOSE_SECONDS", 0.05)

    @agent.prompt
    async def stubborn(turn: Turn) -> None:
        running.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue

    async with connected(agent, link) as line:
        line.prompt(await line.open())
        await reached(running)
    assert "ignores its cancellation" in caplog.text
    may_end.set()
