"""This library, agent side, with the public API and nothing else."""

from collections.abc import Awaitable, Callable

from dragoman import Agent, Turn
from dragoman.schema import v1

LINE = "the quick brown fox jumps over the lazy dog and runs on; again" + " \n"
PATH = "/tmp/file.py"

agent = Agent("dragoman-bench", version="1")


async def stream(turn: Turn, count: int, size: int) -> None:
    text = (LINE * (size // len(LINE) + 1))[:size]
    for _ in range(count):
        await turn.say(text)


async def tools(turn: Turn, count: int, per_call: int) -> None:
    old = LINE * 32
    new = LINE * 32
    for number in range(count // per_call):
        async with turn.tool("Edit file", kind="edit", id=f"call-{number}") as call:
            for _ in range(per_call):
                # Replaces what the call shows, as a growing diff does; `diff()` would add a second one next to it.
                await call.update(content=[v1.Diff(PATH, new, old)])


async def read(turn: Turn, count: int) -> None:
    total = 0
    for _ in range(count):
        total += len(await turn.read_file(PATH))


async def write(turn: Turn, size: int) -> None:
    await turn.write_file(PATH, LINE * (size // len(LINE)))


async def forever(turn: Turn, size: int) -> None:
    text = (LINE * (size // len(LINE) + 1))[:size]
    while True:
        await turn.say(text)


BEHAVIOURS: dict[str, Callable[..., Awaitable[None]]] = {
    "stream": stream,
    "tools": tools,
    "read": read,
    "write": write,
    "forever": forever,
}


@agent.prompt
async def behave(turn: Turn) -> None:
    word, *numbers = turn.text.split()
    if word in BEHAVIOURS:
        await BEHAVIOURS[word](turn, *map(int, numbers))


if __name__ == "__main__":
    agent.run()
