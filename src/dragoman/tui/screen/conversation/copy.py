"""Copying out of the full screen, an image from the clipboard into the prompt, and the mouse for the terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dragoman.tui.clipboard import copy, paste_image
from dragoman.tui.copied_answer import copied_sentence, last_answer
from dragoman.tui.screen.input.input_hint import InputHint, note
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.view.build import blocks_of

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp

_MOUSE_MODES = (1000, 1003, 1015, 1006)


def copy_text(app: TerminalApp, text: str) -> None:
    """Copy a text in every way that there is; a note says where it went."""
    app.start(_copy(app, text))


async def _copy(app: TerminalApp, text: str) -> None:
    note(app, copied_sentence(await copy(text, os.environ, app.write_terminal), text))


def copy_answer(app: TerminalApp, argument: str = "") -> None:
    """Copy the last answer; with `all`, the whole conversation."""
    if argument.strip() == "all":
        copy_conversation(app)
        return
    text = last_answer(app.conversation.state)
    if text:
        copy_text(app, text)
    else:
        note(app, "there is no answer to copy")


def copy_conversation(app: TerminalApp, argument: str = "") -> None:
    """Copy the whole conversation as Markdown, without rails and without breaks at the width of the screen."""
    from dragoman.view.markdown import to_markdown

    blocks = blocks_of(app.conversation.state)
    if not blocks:
        note(app, "there is nothing to copy")
        return
    copy_text(app, to_markdown(blocks, app.conversation.state.title or "Conversation"))


def paste_clipboard(app: TerminalApp, argument: str = "") -> None:
    """Attach the image in the clipboard of this machine."""
    app.start(_paste(app))


async def _paste(app: TerminalApp) -> None:
    from dragoman.tui.attachments import image_chip

    if not app.conversation.accepts.image:
        note(app, "the agent does not take images")
        return
    image = await paste_image(os.environ)
    if isinstance(image, str):
        note(app, image)
        return
    prompt = app.query_one(PromptInput)
    prompt.attach(image_chip(*image, prompt.chips))


def release_mouse(app: TerminalApp, argument: str = "") -> None:
    """Give the mouse to the terminal, so that it selects and copies, or take it back."""
    app.is_mouse_released = not app.is_mouse_released
    set_mouse(app)
    app.query_one(InputHint).released(app.is_mouse_released)


def set_mouse(app: TerminalApp) -> None:
    """Ask the terminal to report the mouse, or not to."""
    letter = "l" if app.is_mouse_released else "h"
    app.write_terminal("".join(f"\x1b[?{mode}{letter}" for mode in _MOUSE_MODES))
