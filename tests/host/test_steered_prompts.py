"""Text for the turn that runs: the agent takes it, or it is the next prompt, whatever becomes of the turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.host.kit import OURS, Client, Hosted, OnTheWire, hosted

END = {"stopReason": "end_turn"}
CAN = {"loadSession": True, "_meta": {"dragoman": {"steer": "_vendor/add"}}}


class Steered:
    """A turn that runs, and a text that was sent for it."""

    def __init__(self, host: Hosted, source: OnTheWire, line: Client, session: str) -> None:
        self.host, self.source, self.line, self.session = host, source, line, session

    def send(self, text: str, id: str, **own: object) -> int:
        meta = {"dragoman": {"promptId": id, **own}}
        blocks = [{"type": "text", "text": text}]
        return self.line.ask("session/prompt", sessionId=self.session, prompt=blocks, _meta=meta)

    async def outcome(self, asked: int) -> Any:
        """The result of a prompt; other messages before it are passed over."""
        while (message := await self.line.next()).get("id") != asked or "method" in message:
            pass
        return message["result"]

    def queued(self) -> int:
        return int(self.host.session(self.session).prompts.waiting_count)


@asynccontextmanager
async def steered(text: str = "use tabs", prompt: str = "go") -> AsyncIterator[tuple[Steered, Any, Any, int]]:
    """Gives the prompt, the text as the agent gets it, and the id of its request."""
    source = OnTheWire(capabilities=CAN)
    async with hosted(source) as host:
        line, session = await host.opened({"_meta": {"dragoman": {"activity": True}}})
        at = Steered(host, source, line, session)
        _ = at.send(prompt, "first")
        running = await source.agent.prompted()
        await line.until("_dragoman/turn_started")
        _ = at.send("later", "last")
        asked = at.send(text, "added", steer=True)
        got = await source.agent.next()
        assert (got["method"], got["params"]) == ("_vendor/add", {"sessionId": "their-1", "text": text})
        yield at, running, got, asked


@pytest.mark.parametrize("prompt", ["go", "use tabs"])
async def test_a_text_that_the_agent_shows_is_in_the_turn_and_not_in_the_queue(prompt: str) -> None:
    async with steered(prompt=prompt) as (at, running, got, asked):
        other = await at.host.client({"_meta": {"dragoman": {"activity": True}}})
        await other.resume(at.session)
        agent = at.source.agent
        agent.reply(got, {"accepted": True})
        assert at.queued() == 2, "accepted is not taken"
        agent.update("user_message_chunk", content={"type": "text", "text": "use "}, messageId="m")
        agent.update("user_message_chunk", content={"type": "text", "text": "tabs\n"}, messageId="m")
        assert await at.outcome(asked) == {**END, "_meta": {"dragoman": {"isTaken": True}}}
        assert at.queued() == 1
        agent.reply(running, END)
        assert (await agent.prompted())["params"]["prompt"][0]["text"] == "later"
        ends = [each for each in await other.everything() if each.get("method") == "_dragoman/turn_ended"]
        assert [each["params"]["promptId"] for each in ends] == ["first"], "the turn went on for the others"
        again, _ = await (await at.host.client(OURS)).load(at.session)
        assert "".join(each["content"]["text"] for each in again) == f"{prompt}use tabs\nlater"


@pytest.mark.parametrize("fate", ["cancelled", "ended", "not accepted", "refused", "no answer", "died"])
async def test_a_text_that_was_not_taken_is_the_next_prompt(fate: str) -> None:
    async with steered() as (at, running, got, asked):
        agent = at.source.agent
        if fate == "not accepted":
            agent.reply(got, {"accepted": False})
        elif fate == "refused":
            agent.fail(got, code=-32603, message="not now")
            assert "not now" in (await at.line.until("_dragoman/notice"))["params"]["text"]
        elif fate in ("cancelled", "ended"):
            agent.reply(got, {"accepted": True})
        if fate == "cancelled":
            at.line.send(at.line.note("session/cancel", sessionId=at.session))
            assert (await agent.next())["method"] == "session/cancel"
        if fate == "died":
            at.source.die()
            agent = await at.source.started(2)
        else:
            agent.reply(running, {"stopReason": "cancelled"} if fate == "cancelled" else END)
        mine = await agent.prompted()
        assert mine["params"]["prompt"] == [{"type": "text", "text": "use tabs"}], "before those that wait"
        agent.reply(mine, END)
        assert await at.outcome(asked) == END
        agent.reply(await agent.prompted(), END)


async def test_without_a_turn_or_a_way_to_steer_it_is_a_prompt() -> None:
    for capabilities in (CAN, {"loadSession": True}):
        source = OnTheWire(capabilities=capabilities)
        async with hosted(source) as host:
            line, session = await host.opened(OURS)
            at = Steered(host, source, line, session)
            if capabilities is not CAN:
                first = at.send("one", "p1")
                running = await source.agent.prompted()
            asked = at.send("two", "p2", steer=True)
            if capabilities is not CAN:
                source.agent.reply(running, END)
                assert await at.outcome(first) == END
            running = await source.agent.prompted()
            assert running["params"]["prompt"][0]["text"] == "two"
            await line.silence_of_prompts()
            assert source.agent.lines.empty(), "it is not passed to its own turn"
            source.agent.reply(running, END)
            assert await at.outcome(asked) == END
