"""Signals of the system: the end of the client when its terminal is gone, and its picture when `fg` brings it back."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.tui.screen.input.prompt_input import PromptInput

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp

_HANGUP_SECONDS: Final = 3.0


def follow_signals(app: TerminalApp) -> None:
    """End this client when its terminal is gone, or the system ends it; the host and its sessions go on.

    Restoring a terminal that is not there can wait forever, so there is a limit. After a stop everything is drawn
    again: the terminal has cleared its screen, and Textual would draw only what changes.
    """

    def hang_up() -> None:
        with suppress(Exception):  # a draft that cannot be saved must not keep the client alive
            app.query_one(PromptInput).save_draft()
        limit = threading.Timer(_HANGUP_SECONDS, os._exit, (0,))
        limit.daemon = True
        limit.start()
        app.exit()

    loop = asyncio.get_running_loop()
    with suppress(RuntimeError, ValueError):  # not the main thread, as in a test
        for number in (signal.SIGHUP, signal.SIGTERM):
            loop.add_signal_handler(number, hang_up)
    app.app_resume_signal.subscribe(app, lambda _: _draw_again(app))


def _draw_again(app: TerminalApp) -> None:
    if app.is_mouse_released:
        from dragoman.tui.screen.conversation.copy import set_mouse

        set_mouse(app)
    _ = app.refresh(layout=True)
