"""An agent that asks for a real permission (`ask`), and writes what a file holds and goes on working (`fake`)."""

import asyncio
import sys
from pathlib import Path

from dragoman.agent import Agent, Turn
from dragoman.schema import v1

FOLDER = Path(sys.argv[1])
OPTIONS = [v1.PermissionOption("yes", "Allow", "allow_once"), v1.PermissionOption("no", "Reject", "reject_once")]

agent = Agent("cards")


@agent.prompt
async def reply(turn: Turn) -> None:
    if turn.text == "ask":
        async with turn.tool("Delete everything", kind="delete", start=False) as call:
            permission = await call.ask(OPTIONS)
            (FOLDER / "answered").write_text(str(permission.option_id))
    elif turn.text == "fake":
        # In a code block the blanks at the beginning of lines stay.
        await turn.say(f"```\n{(FOLDER / 'fake').read_text()}\n```\n")
        await asyncio.Event().wait()
    else:
        await turn.say(f"got {turn.text}")


agent.run()
