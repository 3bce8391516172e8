"""Copying out of the full screen, an image from the clipboard into the prompt, and the mouse for the terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dragoman.text.visible import label
from dragoman.tui.clipboard import LARGEST_BYTES, copy, paste_image
from dragoman.tui.screen.input.input_hint import InputHint, note
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.view.blocks import MessageBlock, TextPiece
from dragoman.view.build import blocks_of

if TYPE_CHECKING:
    from dragoman.state import SessionState
    from dragoman.tui.clipboard import Copied
    from dragoman.tui.screen.app import TerminalApp

_MOUSE_MODES = (1000, 1003, 1015, 1006)


def copy_text(app: TerminalApp, text: str) -> None:
    """Copy a text in every way that there is; a note says where it went."""
    app.start(_copy(app, text))


async def _copy(app: TerminalApp, text: str) -> None:
    note(app, _sentence(await copy(text, os.environ, app.write_terminal), text))


def _sentence(copied: Copied, text: str) -> str:
    lines = text.count("\n") + 1
    what = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
    where = f"copied {what} ({', '.join(copied.ways)})" if copied.ways else f"{what} are only in a file"
    if len(text.encode("utf-8", "replace")) > LARGEST_BYTES:
        where += f", too long for the terminal (over {LARGEST_BYTES >> 10} KB)"
    home = os.path.expanduser("~")
    file = f"~{copied.file[len(home) :]}" if copied.file.startswith(f"{home}/") else copied.file
    return f"{where}; {copied.problem or label(file, 200)}"


def copy_answer(app: TerminalApp, argument: str = "") -> None:
    """Copy the last answer; with `all`, the whole conversation."""
    if argument.strip() == "all":
        copy_conversation(app)
        return
    text = last_answer(app.talk.state)
    if text:
        copy_text(app, text)
    else:
        note(app, "there is no answer to copy")


def copy_conversation(app: TerminalApp, argument: str = "") -> None:
    """Copy the whole conversation as Markdown, without rails and without breaks at the width of the screen."""
    from dragoman.view.markdown import to_markdown

    blocks = blocks_of(app.talk.state)
    if not blocks:
        note(app, "there is nothing to copy")
        return
    copy_text(app, to_markdown(blocks, app.talk.state.title or "Conversation"))


def last_answer(state: SessionState) -> str:
    """The last message of the agent, as it was sent; empty if there is none."""
    for block in reversed(blocks_of(state)):
        if isinstance(block, MessageBlock) and block.role == "agent":
            text = "".join(piece.text for piece in block.content if isinstance(piece, TextPiece)).strip()
            if text:
                return text
    return ""


def paste_clipboard(app: TerminalApp, argument: str = "") -> None:
    """Attach the image in the clipboard of this machine."""
    app.start(_paste(app))


async def _paste(app: TerminalApp) -> None:
    from dragoman.tui.attachments import image_chip

    if not app.talk.accepts.image:
        note(app, "the agent does not take images")
        return
    found = await paste_image(os.environ)
    if isinstance(found, str):
        note(app, found)
        return
    prompt = app.query_one(PromptInput)
    prompt.attach(image_chip(*found, prompt.chips))


def release_mouse(app: TerminalApp, argument: str = "") -> None:
    """Give the mouse to the terminal, so that it selects and copies, or take it back."""
    app.is_mouse_released = not app.is_mouse_released
    set_mouse(app)
    app.query_one(InputHint).released(app.is_mouse_released)


def set_mouse(app: TerminalApp) -> None:
    """Ask the terminal to report the mouse, or not to."""
    letter = "l" if app.is_mouse_released else "h"
    app.write_terminal("".join(f"\x1b[?{mode}{letter}" for mode in _MOUSE_MODES))
