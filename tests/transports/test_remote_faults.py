"""A network that cuts, delays and halves: every update and every message arrives once and in order."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from dragoman.agent import Agent, Turn
from dragoman.client import Session, connect
from dragoman.transports.remote.connect import connect_url
from tests.transports.fault_proxy import FaultProxy
from tests.transports.remote_kit import TOKEN, Serving, remote_server

UPDATES = 200
CUTS = 100


class Counting:
    """An agent that sends numbers, one for each step the test takes, and notes the numbers that the client sends."""

    def __init__(self) -> None:
        self.steps = asyncio.Semaphore(0)
        self.noted: list[int] = []

    def agent(self) -> Agent:
        agent = Agent("test")

        @agent.prompt
        async def reply(turn: Turn) -> None:
            for number in range(UPDATES):
                await self.steps.acquire()
                await turn.say(f"{number} ")

        @agent.notification("_test/note")
        async def note(params: dict[str, Any]) -> None:
            self.noted.append(params["number"])

        @agent.request("_test/same")
        async def same(params: dict[str, Any]) -> dict[str, Any]:
            return params

        return agent


async def whole_turn(session: Session) -> None:
    async for _ in session.prompt("go"):
        pass


async def run_turn(seed: int) -> int:
    """One turn of 200 updates while 100 connections are cut; gives how many were."""
    dice = random.Random(seed)
    counting = Counting()
    serving = Serving(counting.agent())
    async with (
        remote_server(serving) as (server, port),
        FaultProxy(server, port, dice) as network,
    ):
        transport = await connect_url(f"http://127.0.0.1:{network.port}/acp", token=TOKEN)
        async with connect(transport) as remote:
            session = await remote.new_session("/tmp")
            network.hurt(0.02)
            turn = asyncio.ensure_future(whole_turn(session))
            for number in range(UPDATES):
                while number == UPDATES - 1 and network.cuts < CUTS:
                    network.cut()
                    await asyncio.sleep(0.02)
                counting.steps.release()
                if number % 2:
                    await remote.notify("_test/note", {"number": number // 2})
                if number % 10 == 0:
                    assert await remote.request("_test/same", {"n": number}) == {"n": number}
                await asyncio.sleep(dice.uniform(0, 0.004))
                if network.cuts < CUTS * number / UPDATES:
                    network.cut()
            await turn
            assert session.state.text.split() == [str(number) for number in range(UPDATES)]
            network.heal()
            await remote.request("_test/same", {})  # everything before it has arrived
        assert counting.noted == list(range(UPDATES // 2))
    await serving.over()
    return network.cuts


async def test_200_of_200_updates_once_each_over_100_cuts() -> None:
    """And 100 messages in the other direction."""
    assert await run_turn(1) >= CUTS


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
async def test_200_of_200_updates_over_100_cuts_for_many_seeds(seed: int) -> None:
    assert await run_turn(seed) >= CUTS
