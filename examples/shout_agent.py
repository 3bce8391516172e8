"""An agent with tools: `shout FILE` writes a file in capitals, after a look and a permission.

It works on the files of the client where those are offered (unsaved changes included), on the disk otherwise.

    python examples/client.py "shout notes.txt" -- python examples/shout_agent.py
"""

from __future__ import annotations

from dragoman import Agent, Turn
from dragoman.agent import ClientError

agent = Agent("shout", version="1.0", title="Shout")


@agent.prompt
async def reply(turn: Turn) -> None:
    verb, _, path = turn.text.partition(" ")
    if verb != "shout" or not path:
        await turn.say("Say `shout FILE`.")
        return
    await turn.plan([("read", "in_progress"), ("write", "pending")])
    try:
        async with turn.tool(f"Read {path}", kind="read"):
            before = await turn.read_file(path)
        await turn.plan([("read", "completed"), ("write", "in_progress")])
        await write(turn, path, before, before.upper())
    except ClientError as error:
        await turn.say(f"That did not work: {error.message}")
    await turn.plan([("read", "completed"), ("write", "completed")])


async def write(turn: Turn, path: str, before: str, after: str) -> None:
    async with turn.tool(f"Write {path}", kind="edit") as call:
        await call.diff(path, before, after)
        if not await turn.ask(call):
            await turn.say("I leave it as it is.")
            return
        await turn.write_file(path, after)
    await turn.say(f"{path} is loud now.")


if __name__ == "__main__":
    agent.run()
