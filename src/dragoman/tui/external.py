"""The user's own programs on the normal screen: an editor for the draft, a pager for the conversation.

Owns which program that is and the file it gets. The terminal must be free: the full screen steps aside before.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.errors import ConfigError
from dragoman.process.foreground import TERMINAL, run_in_foreground

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_EDITORS: Final = ("editor", "nano", "vim", "vi")
_PAGERS: Final = ("less -R", "more")


def editor_command(env: Mapping[str, str]) -> list[str]:
    """Return the user's editor. Raises: ConfigError if there is none."""
    named = (env.get(name, "") for name in ("VISUAL", "EDITOR"))
    return _first([*named, *_EDITORS], env, "no editor was found: set EDITOR")


def pager_command(env: Mapping[str, str]) -> list[str]:
    """Return the user's pager, else `less`, else the editor. Raises: ConfigError if there is none."""
    named = [env.get("PAGER", ""), *_PAGERS, env.get("VISUAL", ""), env.get("EDITOR", "")]
    found = _first(named, env, "no pager was found: set PAGER")
    return [*found, "-R"] if os.path.basename(found[0]) == "less" and "-R" not in found else found


def _first(commands: Iterable[str], env: Mapping[str, str], missing: str) -> list[str]:
    for command in commands:
        try:
            words = shlex.split(command)
        except ValueError:
            continue
        if words and shutil.which(words[0], path=env.get("PATH")) is not None:
            return words
    raise ConfigError(missing)


async def edit_text(text: str, env: Mapping[str, str], *, terminal: str = TERMINAL) -> str | None:
    """Let the user edit a text; None if the editor failed, and the text is to stay as it is.

    Raises:
        ConfigError: there is no editor.
        DragomanError: there is no terminal to run it on.
        OSError: the file cannot be written or read.
    """
    command = editor_command(env)
    path = _write(text, ".md")
    try:
        if await run_in_foreground([*command, path], terminal=terminal) != 0:
            return None
        # An editor ends the last line; the user did not type that.
        return (await asyncio.to_thread(_read, path)).removesuffix("\n")
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


async def page_text(text: str, env: Mapping[str, str], *, terminal: str = TERMINAL) -> None:
    """Show a text in the user's pager.

    Raises:
        ConfigError: there is no pager.
        DragomanError: there is no terminal to run it on.
        OSError: the file cannot be written.
    """
    command = pager_command(env)
    path = _write(text, ".txt")
    try:
        _ = await run_in_foreground([*command, path], terminal=terminal)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _write(text: str, ending: str) -> str:
    """Return a file for the user's program, which only the user can read."""
    descriptor, path = tempfile.mkstemp(prefix="dragoman-", suffix=ending)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return path


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
