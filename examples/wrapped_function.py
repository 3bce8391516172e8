"""Wrap a function: ten lines make an agent for every editor.

    dragoman exec 'delete notes.txt' -- python examples/wrapped_function.py

Prompts: `delete FILE` asks for permission first, `count NUMBER` streams, anything else is repeated.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from dragoman.adapters import AskedCall, PromptContext, choice, wrap


async def assistant(ctx: PromptContext) -> AsyncIterator[str]:
    word, _, rest = ctx.text.strip().partition(" ")
    if word == "delete":
        answer = await ctx.ask(AskedCall("delete_file", {"path": rest}))
        if answer:
            await asyncio.to_thread(Path(ctx.cwd, rest).unlink, missing_ok=True)
        yield f"Deleted {rest}." if answer else f"Kept {rest}."
    elif word == "count" and rest.isdigit():
        for number in range(int(rest)):
            yield f"{number + 1} "
    else:
        loud = ctx.session.current("mode") == "loud"
        yield ctx.text.upper() if loud else f"You wrote: {ctx.text}"


SETTINGS = [choice("mode", "Mode", ["quiet", "loud"], category="mode")]
agent = wrap(assistant, settings=SETTINGS)

if __name__ == "__main__":
    agent.run()
