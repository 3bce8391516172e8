"""Terminals: the agent runs a command in the client's terminal and shows it in a tool call.

$ python examples/terminals.py
exit code 0, output: hello from a terminal
tool call: completed
"""

from __future__ import annotations

import asyncio
import tempfile

from dragoman import Agent, Turn, rules
from dragoman.client import LocalTerminals
from dragoman.testing import linked

agent = Agent("runner", version="1.0")


@agent.prompt
async def reply(turn: Turn) -> None:
    async with (
        turn.tool("Say hello", kind="execute") as call,
        turn.terminal("printf", ["hello from a terminal"]) as terminal,
    ):
        await call.show(terminal)  # live, if the client runs it
        status = await terminal.wait()
        output = await terminal.output()
        await turn.say(f"exit code {status.exit_code}, output: {output.output.strip()}")


async def main() -> None:
    policy = rules("execute:printf *")
    terminals = LocalTerminals(permissions=policy)
    with tempfile.TemporaryDirectory() as folder:
        async with linked(agent, permission=policy, terminals=terminals) as remote:
            session = await remote.new_session(cwd=folder)
            await session.prompt("go")
    await terminals.close()
    print(session.state.text)
    print("tool call:", next(iter(session.state.tool_calls.values())).status)


if __name__ == "__main__":
    asyncio.run(main())
