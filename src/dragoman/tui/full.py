"""Starts the full screen, and leaves the last exchange in the terminal when it ends.

The host is looked for, and started, while Textual is being imported: both take their time.
"""

from __future__ import annotations

import locale
import os
import shutil
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from dragoman.host.local.place import find_places
from dragoman.host.local.start import NoHost, reach_host

if TYPE_CHECKING:
    from dragoman.tui.conversation import Opening

_LAST_LINES = 12


def run(opening: Opening, session_id: str | None, first: str | None) -> int:
    """Work in this terminal until the user leaves. Returns the exit code."""
    threading.Thread(target=_warm, daemon=True).start()
    from dragoman.text.terminal import clip
    from dragoman.text.visible import label
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.view.layout import text_of
    from dragoman.view.rails import ASCII, UNICODE, RailView

    glyphs = UNICODE if _shows_unicode() else ASCII
    app = TerminalApp(opening, session_id=session_id, first=first, glyphs=glyphs)
    was_running = False
    app.run()
    talk = app.talk
    was_running = talk.is_running
    width = shutil.get_terminal_size().columns
    for line in text_of(talk.state, RailView(width, glyphs), last=_LAST_LINES).splitlines():
        sys.stdout.write(f"{clip(line, width)}\n")
    if talk.session_id is not None:
        state = "still running; " if was_running else ""
        sys.stdout.write(f"{state}dragoman attach {label(talk.session_id, 80)} brings you back\n")
    return 0


def _warm() -> None:
    """Start the host if none runs; what is wrong with it is shown when the conversation connects."""
    with suppress(NoHost, OSError):
        reach_host(find_places()).close()


def _shows_unicode() -> bool:
    if os.environ.get("TERM") == "linux":
        return False
    return "utf" in locale.getpreferredencoding(False).lower()
