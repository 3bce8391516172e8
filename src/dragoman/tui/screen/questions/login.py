"""Logins on the full screen: the methods of the agent in a card, and a program that gets the terminal for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import DragomanError, LoginFailed
from dragoman.host.local.start import NoHost
from dragoman.text.terminal import one_line
from dragoman.tui.questions.logins import log_in_by_terminal, method_lines, methods_of, use
from dragoman.tui.screen.questions.cards import CardSheet, SheetKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.client.login import LoginMethod
    from dragoman.tui.screen.app import TerminalApp


def log_in(app: TerminalApp, argument: str = "") -> None:
    """Show how the user can log in to the agent."""
    app.note("asking the agent for its login methods")
    app.start(_offer(app))


async def _offer(app: TerminalApp) -> None:
    try:
        methods = await methods_of(app.conversation)
    except (NoHost, DragomanError, OSError) as error:
        app.note(f"the login methods are not known: {error}")
        return
    app.cards.put(_sheet(app, methods))


def _sheet(app: TerminalApp, methods: list[LoginMethod]) -> CardSheet:
    lines = ["how do you want to log in?", *method_lines(methods)]
    keys = [SheetKey(str(number), "", _user(method)) for number, method in enumerate(methods[:9], 1)]
    close = SheetKey("x", "close this card", lambda app: app.cards.put(None))
    numbered = SheetKey("1", f"to {len(keys)}: log in", keys[0].run)
    return CardSheet(methods, lambda width: lines, [numbered, *keys[1:], close])


def _user(method: LoginMethod) -> Callable[[TerminalApp], None]:
    return lambda app: app.start(_use(app, method))


async def _use(app: TerminalApp, method: LoginMethod) -> None:
    app.cards.put(None)
    if method.takes_key or method.kind == "environment":
        from dragoman.tui.screen.questions.key_entry import ask_key

        if not await ask_key(app, method):
            await _offer(app)
            return
        _go_on(app)
        return
    app.note(f"logging in: {one_line(method.name)}")
    try:
        if method.kind == "terminal":
            await _in_terminal(app, method)
        else:
            await use(app.conversation, method)
    except (LoginFailed, NoHost, DragomanError, OSError) as error:
        app.note(str(error))
        await _offer(app)
        return
    app.note("logged in")
    _go_on(app)


def _go_on(app: TerminalApp) -> None:
    """Open the session, or take the failure away that asked for the login."""
    if app.conversation.phase == "failed":
        app.conversation.retry()
    elif app.conversation.trouble is not None:
        app.conversation.dismiss_trouble()


async def _in_terminal(app: TerminalApp, method: LoginMethod) -> None:
    """Run the login program while this one does not draw and does not read."""
    from dragoman.tui.screen.outside import handed_over

    with handed_over(app):
        await log_in_by_terminal(app.conversation, method)
