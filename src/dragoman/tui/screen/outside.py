"""Leaving the full screen for a moment: an editor, a pager, a login, the shell behind Ctrl+Z.

While another program has the terminal nothing is drawn or written, and the connection is served as always: a host does
not wait for an editor.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from textual.app import SuspendNotSupported

from dragoman.errors import DragomanError
from dragoman.tui.external import edit_text, page_text
from dragoman.tui.screen.conversation.copy import set_mouse
from dragoman.tui.screen.input.input_hint import note
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.view.rails import RailView

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from dragoman.tui.screen.app import TerminalApp


@contextmanager
def handed_over(app: TerminalApp) -> Iterator[None]:
    """Give the terminal to another program while this is entered.

    Raises: DragomanError, if this terminal cannot be handed over.
    """
    app.query_one(PromptInput).save_draft()
    failure: BaseException | None = None
    try:
        with app.batch_update(), app.suspend():
            app.is_outside = True
            try:
                yield
            except BaseException as error:
                failure = error  # raised below: Textual takes the terminal back only if nothing is raised in there
    except SuspendNotSupported:
        raise DragomanError("this terminal cannot be handed over to another program") from None
    finally:
        app.is_outside = False
    if app.is_mouse_released:
        set_mouse(app)
    if failure is not None:
        raise failure


def edit_draft(app: TerminalApp, argument: str = "") -> None:
    """Edit the draft in the user's editor."""
    prompt = app.query_one(PromptInput)

    async def edit() -> None:
        edited = await _outside(app, lambda: edit_text(prompt.text, os.environ))
        if isinstance(edited, str):
            prompt.put(edited)
        elif edited is None:
            note(app, "the editor failed; the draft is as it was")

    app.start(edit())


def page_conversation(app: TerminalApp, argument: str = "") -> None:
    """Show the whole conversation in the user's pager, on the normal screen: its search and its selection work."""

    async def page() -> None:
        from dragoman.view.layout import text_of  # (the first frame needs none of it)

        text = text_of(app.conversation.state, RailView(max(20, app.size.width - 1), is_open=True))
        _ = await _outside(app, lambda: page_text(f"{text}\n", os.environ))

    app.start(page())


async def _outside(app: TerminalApp, work: Callable[[], Awaitable[Any]]) -> Any:
    """Run a program of the user's on the terminal; False if that was not possible, with a note."""
    try:
        with handed_over(app):
            return await work()
    except (DragomanError, OSError) as error:
        note(app, str(error))
    return False


def suspend_client(app: TerminalApp, argument: str = "") -> None:
    """Stop this program, as Ctrl+Z does with others; `fg` brings it back."""
    app.query_one(PromptInput).save_draft()
    app.action_suspend_process()
