"""What `session/list` says of a session besides the protocol: cost, steps, questions, and how its last turn ended."""

from __future__ import annotations

import asyncio
from typing import Any

from dragoman.agent import Agent, Turn
from dragoman.errors import RequestError
from dragoman.schema import v1
from tests.host.kit import OURS, hosted


def make_agent() -> Agent:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.plan([("read", "completed"), ("write", "in_progress"), ("test", "pending")])
        await turn.session.update(v1.UsageUpdate(size=100, used=40, cost=v1.Cost(amount=0.42, currency="USD")))
        if turn.text == "fail":
            raise RequestError(-32603, "out of memory")
        if turn.text == "ask":
            async with turn.tool("work", kind="execute") as tool:
                await tool.ask()
        await turn.say("done")

    return agent


async def listed(line: Any) -> dict[str, Any]:
    _, answer = await line.answer_to(line.ask("session/list"))
    (row,) = answer["result"]["sessions"]
    found: dict[str, Any] = row["_meta"]["dragoman"]
    return found


async def test_a_list_shows_cost_steps_and_the_end_of_the_last_turn() -> None:
    async with hosted(make_agent) as host:
        line = await host.client()
        session = await line.open("/tmp")
        assert "cost" not in await listed(line)
        await line.turn(session, "hello")
        found = await listed(line)
        assert found["cost"] == {"amount": 0.42, "currency": "USD"}
        assert found["steps"] == {"done": 1, "total": 3}
        assert found["ended"] == {"stopReason": "end_turn"}
        assert found["prompt"] == "hello"
        assert (found["questions"], found["queued"]) == (0, 0)
        await line.turn(session, "fail")
        found = await listed(line)
        assert (found["ended"], found["prompt"]) == ({"error": "out of memory"}, "hello")


async def test_a_list_counts_open_questions_and_prompts_that_wait() -> None:
    async with hosted(make_agent) as host:
        line = await host.client(OURS)
        session = await line.open("/tmp")
        line.prompt(session, "ask")
        line.prompt(session, "second")
        async with asyncio.timeout(60):
            while (found := await listed(line)).get("questions") != 1:
                pass  # each list is an exchange with the host
        assert (found["state"], found["queued"]) == ("waiting", 1)
