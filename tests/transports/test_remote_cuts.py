"""Connections that break: nothing is lost, nothing is repeated, and what cannot go on ends with a reason."""

from __future__ import annotations

import asyncio
import random

import pytest

from dragoman.agent import Agent, Turn
from dragoman.client import Session, connect
from dragoman.errors import ConnectionClosed
from dragoman.transports.remote.connect import connect_url
from tests.transports.remote_kit import TOKEN, CutProxy, Serving, remote_server

UPDATES = 200


def counting_agent(step: asyncio.Event) -> Agent:
    """An agent that sends numbers, a few for each time the test lets it."""
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        for number in range(UPDATES):
            await turn.say(f"{number} ")
            if number % 5 == 0:
                await step.wait()
                step.clear()

    return agent


async def go(session: Session) -> None:
    async for _ in session.prompt("go"):
        pass


@pytest.mark.parametrize("seed", range(3))
async def test_a_turn_over_http_survives_cuts_without_a_gap_or_a_repetition(seed: int) -> None:
    dice = random.Random(seed)
    step = asyncio.Event()
    serving = Serving(counting_agent(step))
    async with remote_server(serving) as (server, port), CutProxy(server, port) as proxy:
        transport = await connect_url(f"http://127.0.0.1:{proxy.port}/acp", token=TOKEN)
        async with connect(transport) as remote:
            session = await remote.new_session("/tmp")
            turn = asyncio.ensure_future(go(session))
            while not turn.done():
                step.set()
                await asyncio.sleep(dice.uniform(0, 0.02))
                if dice.random() < 0.3 and proxy.cuts < 50:
                    proxy.cut()
            await turn
            assert session.state.text.split() == [str(number) for number in range(UPDATES)]
        assert proxy.cuts > 10
    await serving.over()


async def test_a_websocket_that_is_cut_ends_with_a_reason() -> None:
    serving = Serving(counting_agent(asyncio.Event()))
    async with remote_server(serving) as (server, port), CutProxy(server, port) as proxy:
        transport = await connect_url(f"ws://127.0.0.1:{proxy.port}/acp", token=TOKEN)
        async with connect(transport) as remote:
            session = await remote.new_session("/tmp")
            turn = asyncio.ensure_future(go(session))
            await asyncio.sleep(0)
            proxy.cut()
            with pytest.raises(ConnectionClosed, match="the agent is gone"):
                await turn
    await serving.over()


async def test_a_server_that_is_gone_for_good_is_reported_after_the_time_to_come_back() -> None:
    serving = Serving(counting_agent(asyncio.Event()))
    async with remote_server(serving) as (server, port):
        async with CutProxy(server, port) as proxy:
            transport = await connect_url(f"http://127.0.0.1:{proxy.port}/acp", token=TOKEN, reconnect_seconds=0.3)
            connection = connect(transport)
            remote = await connection.__aenter__()
            session = await remote.new_session("/tmp")
            turn = asyncio.ensure_future(go(session))
        with pytest.raises(ConnectionClosed, match="cannot be reached"):
            async with asyncio.timeout(60):
                await turn
        await connection.__aexit__(None, None, None)
    await serving.over()


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_a_wrong_token_and_no_server_are_reported(scheme: str) -> None:
    serving = Serving(counting_agent(asyncio.Event()))
    async with remote_server(serving) as (_, port):
        url = f"{scheme}://127.0.0.1:{port}/acp"
        with pytest.raises(ConnectionClosed, match="401: A token is needed"):
            async with connect(await connect_url(url, token="wrong")):
                raise AssertionError("it was let in")
    with pytest.raises(ConnectionClosed, match="cannot be reached"):
        async with connect(await connect_url(url, token=TOKEN)):
            raise AssertionError("there is no server")
