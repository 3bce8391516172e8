"""What goes on around the conversation: other sessions, the git branch, the agents and folders of this machine.

Everything that blocks runs in threads. The user is notified here, by bell and by the terminal.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.text.visible import label
from dragoman.tui.background import in_turn
from dragoman.tui.screen.sessions.known import KnownSessions
from dragoman.tui.screen.sessions.notify import Notifier, desktop_notification
from dragoman.tui.start.git_branch import branch_of

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.tui.values import ListedSession


class Surroundings:
    """Looks at other sessions and at this machine for one app."""

    def __init__(self, app: TerminalApp) -> None:
        self._app = app
        self.known = KnownSessions(app.attached)
        self.notifier = Notifier(app.ui.notifications, app.write_terminal)
        self.branch = ""
        self.welcome = ""
        """The agents of this machine, for an empty conversation."""

    async def look(self) -> None:
        """What was found on this machine, and what does not work."""
        from dragoman.tui.start.agents_here import agents_here
        from dragoman.tui.start.start_checks import problems_here

        app = self._app
        await asyncio.to_thread(self.notifier.look_at_tmux)
        for problem in await in_turn(problems_here, app.talk.folder):
            app.note(problem)
        self.welcome = await in_turn(agents_here)
        app.changed()
        await self.look_at_branch()

    async def look_at_branch(self) -> None:
        """Read the branch of the folder that is shown."""
        branch = await asyncio.to_thread(branch_of, self._app.talk.folder)
        if branch != self.branch:
            self.branch = branch
            self._app.changed()

    async def look_at_sessions(self) -> None:
        """Ask the host for its sessions; one that needs the user is reported once."""
        app = self._app
        if app.talk.phase != "ready":
            return
        rows = await self.known.read(app.talk)
        for row in rows:
            if row.state != "waiting":
                self.notifier.pace.forget(row.session_id)
            elif row.session_id != app.talk.session_id and app.attached.find(row.session_id) is None:
                self.needs_user(row.session_id, label(row.shown_name, 40))
        app.rows_changed(rows)

    def waiting(self) -> int:
        """Return how many sessions that are not shown need the user."""
        return self.known.waiting(self._app.talk)

    def rows(self) -> list[ListedSession]:
        """Return the sessions that are worth showing, in an order that stays."""
        return self.known.rows(self._app.talk)

    def needs_user(self, session_id: str, name: str) -> None:
        """A session that is not shown needs the user: it rings once."""
        if self.notifier.pace.is_first(session_id):
            if self._app.app_focus:
                self.notifier.ring()
            self._app.note(f"{name} needs you ({self._app.keymap.shown('sessions')})")
            self.notify(f"{name} needs you")
        self._app.changed()

    def ended(self, name: str, error: str) -> None:
        """A turn of a session that is not shown ended."""
        self._app.note(f"{name}: {error}" if error else f"{name} is done")
        self.notify(f"{name} failed" if error else f"{name} is done")

    def notify(self, text: str) -> None:
        """Notify a user who looks elsewhere."""
        if self.notifier.notify(text, is_focused=self._app.app_focus):
            self._app.start(asyncio.to_thread(desktop_notification, text))
