"""What goes on around the conversation: other sessions, the git branch, the agents and folders of this machine.

Everything that blocks runs in threads. A user who looks elsewhere is notified here that a session needs them, or is
done: by bell, notification and window title.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from dragoman.errors import ConnectionClosed, RequestError
from dragoman.text.visible import label
from dragoman.tui.background import in_turn
from dragoman.tui.terminal import notifications
from dragoman.tui.terminal.terminal_facts import is_remote
from dragoman.tui.values import ListedSession
from dragoman.workspace.git_branch import branch_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.local_host.session_rows import WatchedRows
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.tui.screen.sessions.attached import AttachedSessions

_MOST_SHOWN: Final = 40
_HIDDEN: Final = ("closed", "readOnly")
_TOOL_SECONDS: Final = 2.0


class Surroundings:
    """The other sessions, and this machine, around one app."""

    def __init__(self, app: TerminalApp) -> None:
        self._app = app
        self.listed = ListedSessions(app.attached)
        self.notifier = Notifier(app.ui.notifications, app.write_terminal)
        self.branch = ""
        self.welcome = ""
        """The agents of this machine, for an empty conversation."""

    async def look(self) -> None:
        """Look at what is on this machine, and what does not work."""
        from dragoman.tui.start.machine_facts import agents_here, problems_here

        app = self._app
        await asyncio.to_thread(self.notifier.look_at_tmux)
        for problem in await in_turn(problems_here, app.conversation.folder):
            app.note(problem)
        self.welcome = await in_turn(agents_here)
        app.changed()
        await self.look_at_branch()

    async def look_at_branch(self) -> None:
        """Read the branch of the folder that is shown."""
        branch = await asyncio.to_thread(branch_of, self._app.conversation.folder)
        if branch != self.branch:
            self.branch = branch
            self._app.changed()

    async def look_at_sessions(self) -> None:
        """Look at the sessions of a host that does not report what changes of them."""
        conversation = self._app.conversation
        if conversation.phase == "ready" and not await self.watch_sessions():
            self._came(await self.listed.read(conversation))

    async def watch_sessions(self) -> bool:
        """Let the host report what changes of its sessions; gives whether it does."""
        conversation = self._app.conversation
        is_new = conversation.phase == "ready" and await self.listed.watch(conversation)
        if is_new:
            self._came(self.listed.watched())
        return self.listed.is_watched

    def list_changed(self, params: dict[str, Any]) -> None:
        """Take a report of the host about its sessions."""
        if self.listed.take(params):
            self._came(self.listed.watched())

    def _came(self, rows: list[ListedSession]) -> None:
        """Show the sessions; one that needs the user is reported once."""
        app = self._app
        for row in rows:
            if row.state != "waiting":
                self.notifier.pace.forget(row.session_id)
            elif row.session_id != app.conversation.session_id and app.attached.find(row.session_id) is None:
                self.needs_user(row.session_id, label(row.shown_name, 40))
        app.rows_changed(rows)

    def waiting(self) -> int:
        """Return how many sessions that are not shown need the user."""
        shown = self._app.conversation
        return sum(row.state == "waiting" and row.session_id != shown.session_id for row in self.listed.rows(shown))

    def needs_user(self, session_id: str, name: str) -> None:
        """Ring once for a session that is not shown and needs the user."""
        if self.notifier.pace.is_first(session_id):
            if self._app.app_focus:
                self.notifier.ring()
            self._app.note(f"{name} needs you ({self._app.keymap.shown('sessions')})")
            self.notify(f"{name} needs you")
        self._app.changed()

    def ended(self, name: str, error: str) -> None:
        """Report the end of a turn of a session that is not shown."""
        self._app.note(f"{name}: {error}" if error else f"{name} is done")
        self.notify(f"{name} failed" if error else f"{name} is done")

    def notify(self, text: str) -> None:
        """Notify a user who looks elsewhere."""
        if self.notifier.notify(text, is_focused=self._app.app_focus):
            self._app.start(asyncio.to_thread(desktop_notification, text))


class ListedSessions:
    """Sessions in an order that stays, so that the column does not jump and the next one is the next one."""

    def __init__(self, attached: AttachedSessions) -> None:
        self._attached = attached
        self._listed: dict[str, ListedSession] = {}
        self._watch: WatchedRows | None = None

    @property
    def is_watched(self) -> bool:
        """Whether the host reports what changes; or the list was asked for, and it will."""
        return self._watch is not None and (self._watch.is_current or self._watch.is_starting)

    async def watch(self, conversation: HostedConversation) -> bool:
        """Let the host report what changes, over this connection; gives whether the list has come.

        A connection over which it does so already stays the one, also when another conversation is shown.
        """
        from dragoman.tui.local_host.session_rows import WatchedRows, can_watch

        remote = conversation.remote
        if remote is None or self.is_watched or not can_watch(remote):
            return False
        self._watch = self._watch or WatchedRows()
        with suppress(ConnectionClosed, RequestError):  # the next look tries again, or asks for the list
            await self._watch.start(remote)
            return True
        return False

    def take(self, params: dict[str, Any]) -> bool:
        """Take a report of the host; gives whether the list is another one now."""
        return self._watch is not None and self._watch.take(params)

    def watched(self) -> list[ListedSession]:
        """Return the list as the host has reported it, the last used first."""
        return self._keep([] if self._watch is None else self._watch.rows)

    async def read_before_start(self) -> list[ListedSession]:
        """Return the list of the host, before a conversation is connected."""
        from dragoman.tui.local_host.session_rows import rows_before_start

        return self._keep(await asyncio.to_thread(rows_before_start))

    async def read(self, conversation: HostedConversation) -> list[ListedSession]:
        """Return the list of the host as it is by now, the last used first. Raises: RequestError."""
        if (
            conversation.remote is None
        ):  # it has no connection yet, or none any more; the host has sessions all the same
            return await self.read_before_start()
        if self._watch is not None and self._watch.is_current:
            return self.watched()
        try:
            return self._keep(await conversation.sessions())
        except ConnectionClosed:  # it comes back, or the screen says so
            return list(self._listed.values())

    def _keep(self, rows: list[ListedSession]) -> list[ListedSession]:
        fresh = {row.session_id: row for row in rows}
        kept = {id: fresh[id] for id in self._listed if id in fresh}
        self._listed = {**kept, **fresh}
        return rows

    def rows(self, shown: HostedConversation) -> list[ListedSession]:
        """Return the sessions to show, in an order that stays."""
        rows = []
        live = {
            session.conversation.session_id: session.conversation
            for session in self._attached
            if session.conversation.session_id is not None
        }
        for id, row in self._listed.items():
            conversation = live.pop(id, None)
            row = row if conversation is None else _current(row, conversation)
            if conversation is shown or (row.state not in _HIDDEN and (conversation is not None or not row.is_unused)):
                rows.append(row)
        for id, conversation in live.items():
            made = ListedSession(
                session_id=str(id), name=None, agent=conversation.agent, folder=conversation.folder, state="idle"
            )
            rows.append(_current(made, conversation))
        return rows[:_MOST_SHOWN]


def _current(row: ListedSession, conversation: HostedConversation) -> ListedSession:
    """Return a row with the state that an attached conversation has."""
    if conversation.phase != "ready":
        return row
    state = "waiting" if conversation.questions else "running" if conversation.is_running else row.state
    if (
        state == row.state
        and state in ("waiting", "running")
        and not conversation.questions
        and not conversation.is_running
    ):
        state = "idle"
    return replace(row, state=state, title=conversation.state.title or row.title)


class Notifier:
    """Notifications of one terminal, as far as the settings allow them."""

    def __init__(self, kind: str, write: Callable[[str], None]) -> None:
        """Make one.

        Args:
            kind: `all`, `bell` or `off`.
            write: sends text to the terminal as it is.
        """
        self.kind = kind
        self._write = write
        self.pace = notifications.Pace()
        self._title = ""
        self._passes_tmux: bool | None = None

    def start(self) -> None:
        """Keep the title of the window, to restore it."""
        if self.kind == "all":
            self._write(notifications.PUSH_TITLE)

    def ending(self) -> str:
        """Return what restores the title, to be written when the screen is gone."""
        return notifications.title("") + notifications.POP_TITLE if self._title else ""

    def ring(self) -> None:
        """Ring the bell, which every terminal and tmux understands."""
        if self.kind != "off":
            self._write(notifications.BELL)

    def show_title(self, project: str, state: str) -> None:
        """Show project and state in the title of the window."""
        text = f"* {label(project, 40)}: {state}" if state else label(project, 40)
        if self.kind == "all" and text != self._title:
            self._title = text
            self._write(notifications.title(text))

    def notify(self, text: str, *, is_focused: bool) -> bool:
        """Ring, and show a notification if the user looks elsewhere; True if programs are to be asked as well."""
        if is_focused:
            return False
        self.ring()
        if self.kind != "all" or not self.pace.may_notify(monotonic()):
            return False
        written = notifications.notification(text, os.environ, passes_tmux=bool(self._passes_tmux))
        if written:
            self._write(written)
        return not written and not is_remote(os.environ)

    def look_at_tmux(self) -> None:
        """Find out whether tmux passes notifications on. Blocks."""
        if os.environ.get("TMUX") and self._passes_tmux is None:
            with suppress(OSError, subprocess.SubprocessError):
                done = subprocess.run(
                    ["tmux", "show-options", "-Apv", "allow-passthrough"],
                    capture_output=True,
                    timeout=_TOOL_SECONDS,
                    check=False,
                    stdin=subprocess.DEVNULL,
                )
                self._passes_tmux = done.stdout.strip() in (b"on", b"all")


def desktop_notification(text: str) -> None:
    """Show a notification of the desktop, if this machine has the program for it. Blocks."""
    program = shutil.which("notify-send")
    if program is not None and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                [program, "--app-name=dragoman", "--", "dragoman", label(text, 200)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_TOOL_SECONDS,
                check=False,
            )
