"""The sessions of the host: go to another one, or begin a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.text.visible import label
from dragoman.tui.screen.parts import Choice

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp


def choose_session(app: TerminalApp, argument: str = "") -> None:
    """Choose another session."""
    app.start(_choose_session(app))


async def _choose_session(app: TerminalApp) -> None:
    rows = await app.talk.sessions()
    if not rows:
        app.note("there are no sessions")
        return
    width = max(20, app.size.width - 40)
    shown = [
        f"{row.word:<12} {label(row.title or row.name or row.session_id, width):<{width}} {label(row.agent, 18)}"
        for row in rows
    ]

    def go(chosen: int | None) -> None:
        if chosen is not None:
            app.start(app.talk.switch(rows[chosen]))

    _ = app.push_screen(Choice("sessions", shown), go)


def begin_session(app: TerminalApp, argument: str = "") -> None:
    """Begin a new session."""
    if app.talk.phase == "failed":
        app.talk.retry(agent=argument or None, is_new=True)
    else:
        app.start(app.talk.switch(None, agent=argument or None))
