"""How the full screen starts and ends: its settings, the terminal it is drawn on, signals, and what stays in sight.

It is drawn on the terminal behind stdout where stderr goes elsewhere, and no faster than the terminal takes it. Textual
writes to stderr, which users redirect, and keeps up to thirty pieces for a terminal that is slow: on a bad line that
would be half a minute of old pictures before the letter that was typed last.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from textual.drivers.linux_driver import LinuxDriver

from dragoman.settings.file import UiMembers
from dragoman.text.terminal import clip
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.terminal.terminal_facts import TerminalAnswers
from dragoman.view.rails import rail_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.state import SessionState
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.tui.start.preferences import Preferences
    from dragoman.view.rails import RailView

_WAITING: Final = 2  # pieces of output: the one that is written, and the next
_HANGUP_SECONDS: Final = 3.0
_QUESTION_LINES: Final = 12
_ANSWER_LINES: Final = 150
"""As much as one reads in the scrollback, and no more than was on a few screens."""


class ScreenStart(NamedTuple):
    """Everything that is decided before the screen opens."""

    ui: UiMembers = UiMembers()
    overridden: Mapping[str, str] = {}
    """Settings that an option or a variable decides this time: name -> what decided it."""
    preferences: Preferences | None = None
    is_light: bool | None = None
    answers: TerminalAnswers = TerminalAnswers()
    typed: bytes = b""
    """Keys that came while the terminal was asked."""
    chooses: bool = False
    """Open the list of sessions over the new prompt: `--resume` without a session."""
    announces: bool = False
    """Say which sessions run and which need the user."""
    welcomes: bool = False
    """Show what is on this machine first; the first conversation begins with what is chosen there."""
    worktree: str = ""
    notes: tuple[str, ...] = ()


class StdoutDriver(LinuxDriver):
    """Textual's driver, with the terminal behind stdout."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        assert sys.__stdout__ is not None
        # As stderr has it: a letter that the terminal's encoding lacks must not end the thread that writes.
        copy = os.dup(sys.__stdout__.fileno())
        self._file = os.fdopen(copy, "w", encoding=sys.__stdout__.encoding, errors="backslashreplace")


def driver_for_output() -> type[LinuxDriver] | None:
    """Return the driver for this process; None for Textual's own."""
    has_stderr = sys.__stderr__ is not None and sys.__stderr__.isatty()
    has_stdout = sys.__stdout__ is not None and sys.__stdout__.isatty()
    return StdoutDriver if has_stdout and not has_stderr else None


def is_behind(driver: Any) -> bool:
    """Return whether the terminal has not taken what was written before: what is painted meanwhile would only wait."""
    writer = getattr(driver, "_writer_thread", None)
    return writer is not None and writer._queue.qsize() > _WAITING


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
    if app.is_running:  # it may have been left before this was called
        app.app_resume_signal.subscribe(app, lambda _: _draw_again(app))


def _draw_again(app: TerminalApp) -> None:
    if app.is_mouse_released:
        from dragoman.tui.screen.conversation.copy import set_mouse

        set_mouse(app)
    _ = app.refresh(layout=True)


def last_exchange(state: SessionState, view: RailView) -> list[str]:
    """Return the last question and its answer as lines, with the middle of a very long one left out."""
    from dragoman.view.blocks import MessageBlock
    from dragoman.view.build import blocks_of

    blocks = blocks_of(state)
    starts = [place for place, block in enumerate(blocks) if isinstance(block, MessageBlock) and block.role == "user"]
    texts: list[list[str]] = []
    for block in blocks[starts[-1] if starts else 0 :]:
        texts.append([clip("".join(text for text, _ in line).rstrip(), view.width) for line in rail_lines(block, view)])
    if not texts:
        return []
    question = [line for line in texts[0] if line] if starts else []
    answer = [line for lines in (texts[1:] if starts else texts) for line in lines]
    if len(question) > _QUESTION_LINES:
        question = [*question[:_QUESTION_LINES], f"  ({len(question) - _QUESTION_LINES} more lines)"]
    if len(answer) > _ANSWER_LINES:
        answer = [f"  ({len(answer) - _ANSWER_LINES} lines before)", *answer[-_ANSWER_LINES:]]
    return [*question, *answer]
