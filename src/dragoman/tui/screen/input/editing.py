"""A file in the user's editor, on the normal screen; the client waits behind it."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING, Final

from textual.app import SuspendNotSupported

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp

# Editors that take `+LINE` before the file.
_TAKES_LINE: Final = frozenset(
    ["vi", "vim", "nvim", "view", "nano", "emacs", "emacsclient", "micro", "kak", "joe", "ne"]
)


def editor_command(path: str, line: int) -> list[str]:
    """The command line of the user's editor for a file. Raises: ValueError if `$EDITOR` cannot be read."""
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi") or ["vi"]
    place = [f"+{line}"] if os.path.basename(words[0]) in _TAKES_LINE else []
    return [*words, *place, os.path.abspath(path)]


def edit_file(app: TerminalApp, path: str, line: int = 1) -> str:
    """Let the user edit a file; returns the result as a sentence."""
    if not os.path.isfile(path):
        return f"not done: {path} is not there any more"
    try:
        command = editor_command(path, line)
        with app.suspend():
            code = subprocess.run(command, check=False).returncode
    except SuspendNotSupported:
        return "not done: this terminal cannot show an editor"
    except ValueError as error:
        return f"not done: $EDITOR cannot be read: {error}"
    except OSError as error:
        return f"not done: {command[0]}: {error.strerror or error}; set $EDITOR"
    return "" if code == 0 else f"{command[0]} ended with exit code {code}"
