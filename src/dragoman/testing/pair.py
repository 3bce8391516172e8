"""An agent and a client in one process, with a real connection between them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dragoman.client import connect
from dragoman.transports.memory import memory_pair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Unpack

    from dragoman.agent import Agent
    from dragoman.client import ClientOptions, RemoteAgent


@asynccontextmanager
async def linked(agent: Agent, **options: Unpack[ClientOptions]) -> AsyncIterator[RemoteAgent]:
    """Connect a client to an agent in this process: initialized, over a transport in memory.

    Both sides are closed at the end of the `async with` block.

    Args:
        agent: The agent to serve.
        options: Those of `dragoman.connect`.
    """
    ours, theirs = memory_pair()
    serving = asyncio.create_task(agent.serve(theirs))
    try:
        async with connect(ours, **options) as remote:
            yield remote
    finally:
        await serving
