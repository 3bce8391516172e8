"""The screens of review, rewind and inspector with Textual's pilot: the app without a host, and waiting for threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, TypeVar

import pytest
from textual.pilot import Pilot

from dragoman.snapshots.session_turns import SessionTurns, find_session_turns
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.screen.app import TerminalApp
from dragoman.tui.screen.painted import PaintedScreen
from tests.snapshots.kit import Folder
from tests.tui.grids import grid

S = TypeVar("S", bound=PaintedScreen)
SECONDS = 30.0


class Nowhere:
    cwd = "/home/user/project"
    worktree = ""
    is_temporary = False
    mode = ""

    def choose(self, agent: str, model: str) -> None:
        raise NotImplementedError

    def new(self, agent: str | None) -> dict[str, Any]:
        raise NotImplementedError


@asynccontextmanager
async def shown(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[TerminalApp, Pilot[None]]]:
    """The app as if its host were there and idle."""

    async def run(self: HostedConversation) -> None:
        self.phase, self.agent = "ready", "claude"
        await asyncio.Event().wait()

    monkeypatch.setattr(HostedConversation, "run", run)
    app = TerminalApp(Nowhere())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


async def opened(app: TerminalApp, pilot: Pilot[None], screen: S) -> S:
    """Push a screen, and wait until it has read what it shows."""
    _ = app.push_screen(screen)
    await settled(app, pilot)
    return screen


async def settled(app: TerminalApp, pilot: Pilot[None]) -> list[str]:
    """Wait until no work runs in a thread; what is on the screen then."""
    end = monotonic() + SECONDS
    await pilot.pause()
    while isinstance(app.screen, PaintedScreen) and app.screen.is_busy:
        assert monotonic() < end, "the screen is busy all the time"
        await pilot.pause()
    await pilot.pause()
    return grid(app)


async def press(app: TerminalApp, pilot: Pilot[None], *keys: str) -> list[str]:
    """Press keys one after another, as a person who looks at the screen would."""
    lines: list[str] = []
    for key in keys:
        await pilot.press(key)
        lines = await settled(app, pilot)
    return lines


async def type_in(app: TerminalApp, pilot: Pilot[None], key: str, text: str) -> list[str]:
    """Press a key that asks for a text, and type it in place of what is there."""
    await pilot.press(key, "ctrl+u", *text, "enter")
    return await settled(app, pilot)


def turns_of(folder: Folder) -> SessionTurns:
    """The turns that were followed in a folder."""
    found = find_session_turns(folder.base, "s1", "an-agent")
    assert found is not None
    return found


def sentence(lines: list[str]) -> str:
    """The sentence above the keys."""
    return " ".join(" ".join(lines[-6:]).split())
