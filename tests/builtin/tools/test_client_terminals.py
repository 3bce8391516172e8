"""Commands of the built-in agent in terminals of its client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.builtin.access import ClientAccess


class Shown:
    """A session whose client is shown things when the test lets it, a turn with one terminal, and what happened."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_asked, self.goes_on = asyncio.Event(), asyncio.Event()
        self._has_started = False
        self.session = SimpleNamespace(client=SimpleNamespace(offers=lambda capability: True))
        self.open_session, self.settings = self, None

    async def settle(self) -> None:
        if self._has_started:
            self.is_asked.set()
            await self.goes_on.wait()
            self.events.append("shown")

    async def started(self, terminal: str) -> None:
        self._has_started = True

    @asynccontextmanager
    async def terminal(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        try:
            yield SimpleNamespace(id="t")
        finally:
            self.events.append("released")


async def test_the_terminal_of_a_cancelled_command_is_shown_before_it_is_released() -> None:
    shown: Any = Shown()
    access = ClientAccess(shown, shown, shown)
    running = asyncio.create_task(access._run_there("true", "/tmp", 60.0, 1000, shown.started))
    await shown.is_asked.wait()
    running.cancel()
    shown.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert shown.events == ["shown", "released"]
