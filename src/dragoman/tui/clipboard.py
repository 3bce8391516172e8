"""Copies text so that it arrives over SSH and in tmux, and reads an image from the clipboard of this machine.

OSC 52 asks the user's own terminal, wherever that is; tmux passes it on only when it is wrapped, and keeps a copy in
its own buffer; a program writes to the clipboard of this machine, which is the user's only without SSH. No terminal
reports whether it did what it was asked to, so the text is always kept in a file, too. Does not know a screen.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
from contextlib import suppress
from time import strftime
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.settings.places import state_dir
from dragoman.tui.attachments import IMAGE_BYTES, image_type
from dragoman.tui.terminal.notifications import wrapped_for_tmux
from dragoman.workspace.private import make_private_folder, open_private

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LARGEST_BYTES: Final = 74 << 10
"""Terminals cut off what is longer than 100,000 characters in base64, without a word."""
_KEPT_FILES: Final = 20
_SECONDS: Final = 5.0


class Copied(NamedTuple):
    """Where a copied text is."""

    ways: tuple[str, ...]
    """In words: `terminal`, `tmux`, `wl-copy`."""
    file: str
    problem: str = ""


def osc52(text: str, env: Mapping[str, str]) -> str | None:
    """Return the sequence that asks the terminal to copy a text; None if the text is too long for it."""
    data = text.encode("utf-8", "replace")
    if len(data) > LARGEST_BYTES:
        return None
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    return wrapped_for_tmux(sequence) if in_tmux(env) else sequence


def in_tmux(env: Mapping[str, str]) -> bool:
    """Return whether this terminal is tmux."""
    return bool(env.get("TMUX"))


def is_local(env: Mapping[str, str]) -> bool:
    """Return whether the clipboard of this machine is the user's."""
    return not any(env.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"))


def copy_commands(env: Mapping[str, str]) -> list[Sequence[str]]:
    """Return the programs that put a text from stdin where the user can paste it: tmux, then one of this machine."""
    commands: list[Sequence[str]] = []
    if in_tmux(env) and _has("tmux", env):
        commands.append(("tmux", "load-buffer", "-w", "-"))
    if is_local(env):
        commands += _local_commands(env)[:1]
    return commands


def _local_commands(env: Mapping[str, str]) -> list[Sequence[str]]:
    commands: list[Sequence[str]] = []
    if env.get("WAYLAND_DISPLAY"):
        commands.append(("wl-copy",))
    if env.get("DISPLAY"):
        commands += [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")]
    commands.append(("pbcopy",))
    return [command for command in commands if _has(command[0], env)]


def _has(program: str, env: Mapping[str, str]) -> bool:
    return shutil.which(program, path=env.get("PATH")) is not None


async def copy(text: str, env: Mapping[str, str], write: Callable[[str], None]) -> Copied:
    """Copy a text in every way that there is. `write` sends a sequence to the terminal."""
    ways: list[str] = []
    problem = ""
    sequence = osc52(text, env)
    if sequence is not None:
        write(sequence)
        ways.append("terminal")
    for command in copy_commands(env):
        if await _feed(command, text, env):
            ways.append(command[0])
    try:
        file = await asyncio.to_thread(_keep, text)
    except OSError as error:
        file, problem = "", f"the text is not kept as a file: {error.strerror}"
    return Copied(tuple(ways), file, problem)


async def _feed(command: Sequence[str], text: str, env: Mapping[str, str]) -> bool:
    return await asyncio.to_thread(_run, command, env, text.encode("utf-8", "replace"), has_output=False) is not None


def _run(command: Sequence[str], env: Mapping[str, str], data: bytes, *, has_output: bool) -> bytes | None:
    """Run a program with a limit in time; gives its output, None if it failed."""
    # Not with `process/`: these programs leave a child behind that serves the clipboard, and it must live. Its output
    # goes nowhere: that child would hold a pipe open.
    try:
        done = subprocess.run(
            command,
            input=data,
            stdout=subprocess.PIPE if has_output else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            timeout=_SECONDS,
            start_new_session=True,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout or b""


def _keep(text: str) -> str:
    """Write the text into a file of its own; the oldest of these files are removed."""
    folder = state_dir() / "copied"
    make_private_folder(folder)
    name = strftime("%H%M%S")  # short: it is shown in one line; the newest files are kept
    path = folder / f"{name}.txt"
    number = 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}.txt"
    with os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(text.encode("utf-8", "replace"))
    for old in sorted(folder.glob("*.txt"), key=lambda path: path.stat().st_mtime_ns)[:-_KEPT_FILES]:
        with suppress(OSError):
            old.unlink()
    return str(path)


async def paste_image(env: Mapping[str, str]) -> tuple[str, int] | str:
    """Return the image in the clipboard, as a file and its size; or a sentence that says why there is none."""
    if not is_local(env):
        return "the clipboard of your own machine cannot be read over SSH; copy the file there and use @path"
    commands = [command for command in _image_commands(env) if _has(command[0], env)]
    if not commands:
        return "no program reads the clipboard: install wl-clipboard, xclip or pngpaste"
    for command in commands:
        content = await asyncio.to_thread(_run, command, env, b"", has_output=True)
        if content and len(content) <= IMAGE_BYTES and image_type(content) is not None:
            try:
                return await asyncio.to_thread(_keep_image, content), len(content)
            except OSError as error:
                return f"the image cannot be kept: {error.strerror}"
    return "there is no image in the clipboard, or it is too large"


def _image_commands(env: Mapping[str, str]) -> list[Sequence[str]]:
    commands: list[Sequence[str]] = []
    if env.get("WAYLAND_DISPLAY"):
        commands.append(("wl-paste", "--no-newline", "--type", "image/png"))
    if env.get("DISPLAY"):
        commands.append(("xclip", "-selection", "clipboard", "-t", "image/png", "-o"))
    return [*commands, ("pngpaste", "-")]


def _keep_image(content: bytes) -> str:
    folder = state_dir() / "pasted"
    make_private_folder(folder)
    for old in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)[: -_KEPT_FILES + 1]:
        with suppress(OSError):
            old.unlink()
    path = folder / f"{os.urandom(8).hex()}.{(image_type(content) or 'image/png').partition('/')[2]}"
    with os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(content)
    return str(path)
