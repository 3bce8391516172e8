"""Failures on the full screen: a card with what happened and what was kept, and keys to go on.

Loaded with the first failure: the first frame needs neither the places of the host nor programs in the foreground.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from dragoman.errors import DragomanError
from dragoman.host.local.place import find_places
from dragoman.host.local.start import log_path
from dragoman.process.foreground import run_in_foreground
from dragoman.process.own_program import own_command
from dragoman.text.visible import label
from dragoman.tui.external import pager_command
from dragoman.tui.questions.failures import HUNG_SECONDS, hung
from dragoman.tui.reporting.reports import facts_of
from dragoman.tui.screen.outside import handed_over
from dragoman.tui.screen.parts import Choice
from dragoman.tui.screen.questions.cards import CardSheet, SheetKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.tui.questions.failures import Act, Failure
    from dragoman.tui.screen.app import TerminalApp


def failure_sheet(app: TerminalApp) -> CardSheet | None:
    """Return the card of what went wrong; None if nothing did."""
    conversation = app.conversation
    if conversation.trouble is None and conversation.silence_seconds >= HUNG_SECONDS:
        conversation.trouble = hung(label(conversation.agent, 40, "the agent"), conversation.silence_seconds)
    elif (
        conversation.trouble is not None
        and conversation.trouble.kind == "hung"
        and conversation.silence_seconds < HUNG_SECONDS
    ):
        conversation.trouble = None  # it goes on
    trouble = conversation.trouble
    if trouble is None:
        return None
    keys = [SheetKey(choice.key, choice.text, _runner(choice.act, trouble)) for choice in trouble.choices]
    return CardSheet(trouble, lambda width: trouble.lines(), keys, is_bad=True)


def _runner(act: Act, trouble: Failure) -> Callable[[TerminalApp], None]:
    return lambda app: _do(app, act, trouble)


def _do(app: TerminalApp, act: Act, trouble: Failure) -> None:
    conversation = app.conversation
    match act:
        case "restart":
            app.start(conversation.restart())
        case "retry":
            conversation.retry()
        case "new":
            app.start(conversation.begin_again())
        case "stop":
            app.start(conversation.cancel())
        case "dismiss":
            conversation.dismiss_trouble()
        case "agent":
            from dragoman.tui.screen.welcome import show_welcome

            show_welcome(app)
        case "login":
            from dragoman.tui.screen.questions.login import log_in

            log_in(app)
        case "install":
            _confirm_install(app, trouble)
        case "log":
            app.start(_open_log(app))
        case "report":
            _copy(app, trouble.report(facts_of(conversation)))


def _confirm_install(app: TerminalApp, trouble: Failure) -> None:
    command = shlex.join(["dragoman", *trouble.program])

    def run(chosen: int | None) -> None:
        if chosen == 1:
            app.start(_install(app, trouble))

    _ = app.push_screen(Choice(f"run {command}?", ["no", "yes, download and install it"]), run)


async def _install(app: TerminalApp, trouble: Failure) -> None:
    """Raises: DragomanError."""
    with handed_over(app):
        code = await run_in_foreground(own_command(*trouble.program), cwd=app.conversation.folder)
    if code:
        app.note(f"it was not installed: exit code {code}")
    else:
        app.conversation.retry()


async def _open_log(app: TerminalApp) -> None:
    """Show the log of the host in the user's pager."""
    path = log_path(find_places().first)
    try:
        with handed_over(app):
            await run_in_foreground([*pager_command(os.environ), path])
    except DragomanError as error:
        app.note(f"{error}; the log is {path}")


def _copy(app: TerminalApp, text: str) -> None:
    from dragoman.tui.screen.conversation.copy import copy_text

    copy_text(app, text)
