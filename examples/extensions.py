"""Extensions: requests and notifications of your own, whose names begin with an underscore, in both directions.

$ python examples/extensions.py
the agent answered: {'sum': 7}
the client was asked: {'colour': '?'}
the agent got: red
"""

from __future__ import annotations

import asyncio
from typing import Any

from dragoman import Agent, Turn
from dragoman.testing import linked

agent = Agent("extended", version="1.0", meta={"example.org": {"add": True}})  # announced in the capabilities
noted = asyncio.Event()


@agent.request("_example.org/add")
async def add(params: dict[str, int]) -> dict[str, int]:
    return {"sum": sum(params.values())}


@agent.notification("_example.org/note")
async def note(params: dict[str, str]) -> None:
    noted.set()


@agent.prompt
async def reply(turn: Turn) -> None:
    await noted.wait()
    answer = await turn.request("_example.org/choose", {"colour": "?"})
    await turn.say(answer["colour"])


async def choose(params: Any) -> dict[str, str]:
    print("the client was asked:", params)
    return {"colour": "red"}


async def main() -> None:
    async with linked(agent, extensions={"_example.org/choose": choose}) as remote:
        print("the agent answered:", await remote.request("_example.org/add", {"a": 3, "b": 4}))
        await remote.notify("_example.org/note", {"text": "hello"})
        session = await remote.new_session(cwd=".")
        await session.prompt("go")
        print("the agent got:", session.state.text)


if __name__ == "__main__":
    asyncio.run(main())
