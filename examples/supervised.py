"""Supervise: an agent that crashes is started again, and its session goes on.

$ python examples/supervised.py
the turn was lost: the agent exited with code 1
lost, reopened, restarted
after the restart: I remember you.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from dragoman import Agent, ConnectionClosed, Turn
from dragoman.agent import AgentSession
from dragoman.client import RestartNote, RestartPolicy, supervise

agent = Agent("fragile", version="1.0")


@agent.resume_session
async def resume(session: AgentSession) -> None:
    session.extra["is_known"] = True


@agent.prompt
async def reply(turn: Turn) -> None:
    if turn.text == "crash":
        os._exit(1)
    await turn.say("I remember you." if turn.session.extra.get("is_known") else "Who are you?")


async def main() -> None:
    logging.getLogger("dragoman").setLevel(logging.ERROR)  # the notes say the same as the log
    policy, notes = RestartPolicy(first_seconds=0.0), list[RestartNote]()
    async with supervise(sys.executable, __file__, "agent", policy=policy, on_note=notes.append) as supervised:
        session = await (await supervised.agent()).new_session(cwd=".")
        try:
            await session.prompt("crash")
        except ConnectionClosed as error:
            print("the turn was lost:", error)
        await supervised.agent()  # waits until it runs again, with its sessions open
        print(", ".join(note.kind for note in notes))  # each has a text to show to the user
        await session.prompt("hello")
        print("after the restart:", session.state.text)


if __name__ == "__main__":
    if sys.argv[1:] == ["agent"]:
        agent.run()
    else:
        asyncio.run(main())
