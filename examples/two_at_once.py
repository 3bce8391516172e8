"""Two agents at once, and two sessions of one agent: each prompt is a task, and each session has its own state.

$ python examples/two_at_once.py
one agent, first session: You said: red
one agent, second session: You said: blue
two agents: You said: left / You said: right
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import dragoman

ECHO = [sys.executable, str(Path(__file__).with_name("echo_agent.py"))]  # or a name: ["gemini"]


async def main() -> None:
    async with dragoman.spawn(*ECHO) as agent:
        first, second = await agent.new_session(cwd="."), await agent.new_session(cwd="/")
        async with asyncio.TaskGroup() as tasks:  # if one fails, the other is cancelled
            for session, prompt in ((first, "red"), (second, "blue")):
                tasks.create_task(show(session, prompt))
        print("one agent, first session:", first.state.text)
        print("one agent, second session:", second.state.text)
    left, right = await asyncio.gather(dragoman.ask(ECHO, "left"), dragoman.ask(ECHO, "right"))
    print("two agents:", left, "/", right)


async def show(session: dragoman.Session, prompt: str) -> None:
    async for _ in session.prompt(prompt):
        pass  # a program shows each update as it comes


if __name__ == "__main__":
    asyncio.run(main())
