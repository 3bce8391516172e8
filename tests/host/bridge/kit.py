"""An editor in front of a bridge, on a raw line that sees every message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from dragoman.host.bridge.bridge import Bridge
from dragoman.transports.memory import memory_pair
from dragoman.transports.remote.connect import connect_url
from tests.host.kit import Client

SECONDS = 30.0


class Editor(Client):
    """The editor's side."""

    def __init__(self, transport: Any, bridge: Bridge, running: asyncio.Task[int], notes: list[str]) -> None:
        super().__init__(transport)
        self.bridge = bridge
        self.running = running
        self.notes = notes

    async def leave(self) -> int:
        """The editor ends; gives the exit code of the bridge."""
        self.transport.close()
        async with asyncio.timeout(SECONDS):
            return await self.running


@asynccontextmanager
async def editor(url: str, token: str | Callable[[], str] | None, **options: Any) -> AsyncIterator[Editor]:
    ours, theirs = memory_pair()
    notes: list[str] = []
    bridge = Bridge(
        theirs,
        lambda: connect_url(url, token=token() if callable(token) else token, reconnect_seconds=5.0),
        url=url,
        note=notes.append,
        **options,
    )
    running = asyncio.create_task(bridge.run())
    line = Editor(ours, bridge, running, notes)
    try:
        yield line
    finally:
        if not running.done():
            await line.leave()
