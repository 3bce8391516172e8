"""The start of the full screen, and its end, which leaves the last exchange in the terminal.

The host is looked for, and started, while Textual is being imported, and the terminal is asked for its background
meanwhile: all take their time.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from dragoman.host.local.place import find_places
from dragoman.host.local.start import NoHost, reach_host
from dragoman.tui.terminal.graphics import asks_graphics
from dragoman.tui.terminal.terminal_facts import TerminalAnswers, ask_background, is_light_by_variable, shows_unicode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.settings.file import UiMembers
    from dragoman.tui.interface import Opening


def run(
    opening: Opening,
    session_id: str | None,
    first: str | None,
    *,
    ui: UiMembers | None = None,
    overridden: Mapping[str, str] | None = None,
    chooses: bool = False,
    welcomes: bool = False,
    notes: tuple[str, ...] = (),
) -> int:
    """Work in this terminal until the user leaves. Returns the exit code.

    Args:
        opening: how sessions are opened.
        session_id: the session to attach to; None for a new one.
        first: the first prompt.
        ui: the user's settings.
        overridden: settings that an option decides this time, and which one.
        chooses: open the list of sessions, if there are some.
        welcomes: show what is on this machine first, and begin with what is chosen there.
        notes: what the user should know.
    """
    gc.disable()  # what is loaded stays: collections find nothing, and are a twelfth of the time to the first frame
    threading.Thread(target=_warm, daemon=True).start()
    asks = asks_graphics("auto" if ui is None else ui.pictures, os.environ)
    question = ask_background(asks_graphics=asks)
    try:
        from dragoman.settings.file import UiMembers
        from dragoman.settings.places import data_dir
        from dragoman.tui.screen.app import TerminalApp
        from dragoman.tui.screen.start import ScreenStart
        from dragoman.tui.start import preferences
        from dragoman.view.rails import ASCII, UNICODE
    finally:
        if question is not None:
            question.read()  # restores the terminal
    members = ui or UiMembers()
    is_light = is_light_by_variable(os.environ) if question is None or question.is_light is None else question.is_light
    is_ascii = members.ascii if members.ascii is not None else not shows_unicode(os.environ)
    glyphs = ASCII if is_ascii else UNICODE
    start = ScreenStart(
        ui=members,
        overridden=overridden or {},
        preferences=preferences.Preferences(data_dir() / preferences.FILE_NAME),
        is_light=is_light,
        answers=TerminalAnswers() if question is None else question.answers,
        typed=b"" if question is None else question.typed,
        chooses=chooses,
        welcomes=welcomes,
        announces=not chooses and not welcomes,
        worktree=opening.worktree,
        notes=notes,
    )
    app = TerminalApp(opening, session_id=session_id, first=first, glyphs=glyphs, start=start)
    try:
        app.run(mouse=members.mouse)
    finally:
        gc.enable()
    with suppress(OSError):  # past the filter of stdout, which removes what acts on a terminal
        os.write(sys.stdout.fileno(), app.around.notifier.ending().encode())
    for line in app.last_exchange:
        sys.stdout.write(f"{line}\n")
    if app.farewell:
        sys.stdout.write(f"{app.farewell}\n")
    return app.return_code or 0  # of a defect, which Textual has printed


def _warm() -> None:
    """Start the host if none runs; what is wrong with it is shown when the conversation connects."""
    with suppress(NoHost, OSError):
        reach_host(find_places()).close()
