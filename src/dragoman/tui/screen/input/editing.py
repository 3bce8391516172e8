"""A file in the user's editor, on the normal screen; the connection is served meanwhile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from dragoman.errors import DragomanError
from dragoman.process.foreground import run_in_foreground
from dragoman.tui.external import editor_command
from dragoman.tui.screen.outside import handed_over

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp

# Editors that take `+LINE` before the file.
_TAKES_LINE: Final = frozenset(
    ["vi", "vim", "nvim", "view", "nano", "emacs", "emacsclient", "micro", "kak", "joe", "ne"]
)


async def edit_file(app: TerminalApp, path: str, line: int = 1) -> str:
    """Let the user edit a file; returns the result as a sentence."""
    try:
        command = _command(path, line)
        with handed_over(app):
            code = await run_in_foreground(command)
    except DragomanError as error:
        return f"not done: {error}"
    return "" if code == 0 else f"{command[0]} ended with exit code {code}"


def _command(path: str, line: int) -> list[str]:
    """Raises: DragomanError, if there is no such file or no editor."""
    if not os.path.isfile(path):
        raise DragomanError(f"{path} is not there any more")
    words = editor_command(os.environ)
    place = [f"+{line}"] if os.path.basename(words[0]) in _TAKES_LINE else []
    return [*words, *place, os.path.abspath(path)]
