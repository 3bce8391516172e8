"""The full screen without a host: its sessions, settings and state are given by the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from textual.pilot import Pilot

from dragoman.tui.conversation import HostedConversation
from dragoman.tui.local_host import session_rows
from dragoman.tui.screen import app as app_module
from dragoman.tui.screen.app import TerminalApp
from dragoman.tui.screen.sessions import sessions as sessions_screen
from dragoman.tui.screen.sessions import surroundings
from dragoman.tui.screen.sessions.sessions import shown_age
from dragoman.tui.screen.start import ScreenStart
from dragoman.tui.values import ListedSession
from dragoman.view.rails import UNICODE, Glyphs

FOLDER = "/home/user/project"
NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
"""The moment at which the sessions of a test are looked at."""


class Nowhere:
    cwd = FOLDER
    worktree = ""
    is_temporary = False
    mode = ""

    def choose(self, agent: str, model: str) -> None:
        raise NotImplementedError

    def new(self, agent: str | None) -> dict[str, Any]:
        raise NotImplementedError


def row(id: str, state: str = "idle", *, minutes: float = 2, folder: str = FOLDER, **facts: Any) -> ListedSession:
    """A session of the host, last used some minutes ago."""
    moment = NOW - timedelta(minutes=minutes, seconds=5)
    facts = {"agent": "claude", "name": None, "updated_at": moment.isoformat(), **facts}
    return ListedSession(session_id=id, folder=folder, state=state, **facts)


@asynccontextmanager
async def opened(
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int] = (80, 24),
    *,
    rows: Sequence[ListedSession] = (),
    start: ScreenStart | None = None,
    glyphs: Glyphs = UNICODE,
) -> AsyncIterator[tuple[TerminalApp, Pilot[None]]]:
    """The screen with a host that has these sessions."""

    async def run(self: HostedConversation) -> None:
        self.phase, self.agent = "ready", self.agent or "claude"
        self.session_id = self.session_id or "new"
        await asyncio.Event().wait()

    async def sessions(self: HostedConversation) -> list[ListedSession]:
        return list(rows)

    monkeypatch.setattr(app_module, "_LIST_SECONDS", 1e6)  # a test looks at the sessions itself
    monkeypatch.setattr(HostedConversation, "run", run)
    monkeypatch.setattr(sessions_screen, "shown_age", lambda moment, now=None: shown_age(moment, NOW))
    monkeypatch.setattr(surroundings, "branch_of", lambda folder: "main")
    monkeypatch.setattr(HostedConversation, "sessions", sessions)
    monkeypatch.setattr(session_rows, "rows_before_start", lambda: list(rows))
    app = TerminalApp(Nowhere(), start=start or ScreenStart(), glyphs=glyphs)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


async def painted(app: TerminalApp, pilot: Pilot[None]) -> None:
    """Paint everything as it is by now."""
    app.changed()
    app._paint()
    await pilot.pause()
    await pilot.pause()
