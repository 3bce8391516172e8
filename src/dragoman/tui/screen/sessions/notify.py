"""Notifies a user who looks elsewhere that a session needs them, or is done: bell, notification, window title."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

from dragoman.text.visible import label
from dragoman.tui.terminal import notifications
from dragoman.tui.terminal.terminal_facts import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable

_TOOL_SECONDS: Final = 2.0


class Notifier:
    """Writes what the settings allow to one terminal."""

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
        """The bell, which every terminal and tmux understands."""
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
