"""An agent for hosts that hand over: "count N" sends N numbers, "hold FILE" waits for a file. It can load sessions."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dragoman.agent import Agent, AgentSession, Turn
from dragoman.schema import v1

agent = Agent("counting")


@agent.prompt
async def reply(turn: Turn) -> None:
    word, value = turn.text.split()
    if word == "hold":
        await turn.say("held ")
        while not Path(value).exists():  # noqa: ASYNC110, ASYNC240 - the test makes it, in another process
            await asyncio.sleep(0.01)
        await turn.say("released ")
        return
    for number in range(int(value)):
        await turn.say(f"{number} ")
        await asyncio.sleep(0.001)


@agent.load_session
async def load(params: v1.LoadSessionRequest, session: AgentSession) -> None:
    pass


if __name__ == "__main__":
    agent.run()
