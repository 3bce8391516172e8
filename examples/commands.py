"""Slash commands: an agent announces them, an editor completes them, and they arrive as text.

$ python examples/commands.py
/greet NAME: Say hello to NAME
/forget: Start again
Hello, world!
"""

from __future__ import annotations

import asyncio

from dragoman import Agent, Turn
from dragoman.agent import AgentSession
from dragoman.schema import v1
from dragoman.testing import linked

agent = Agent("commanded", version="1.0")
GREET = v1.AvailableCommand("greet", "Say hello to NAME", v1.UnstructuredCommandInput("NAME"))


@agent.new_session
async def open_session(session: AgentSession) -> None:
    await session.commands([GREET, ("forget", "Start again")])  # sent right after the answer


@agent.prompt
async def reply(turn: Turn) -> None:
    command, _, rest = turn.text.partition(" ")
    await turn.say(f"Hello, {rest}!" if command == "/greet" else "Use /greet NAME.")


async def main() -> None:
    async with linked(agent) as remote:
        session = await remote.new_session(cwd=".")
        await session.prompt("/greet world")
        for command in session.state.commands:
            hint = f" {command.input.hint}" if isinstance(command.input, v1.UnstructuredCommandInput) else ""
            print(f"/{command.name}{hint}: {command.description}")
        print(session.state.text)


if __name__ == "__main__":
    asyncio.run(main())
