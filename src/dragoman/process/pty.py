"""A pseudo terminal without a keyboard, and how it becomes a child's controlling terminal.

Owns its modes and size, and the few words of shell in front of the child. A session's leader gets the first terminal it
opens as its controlling one, so a shell opens it by name inside the new session and becomes the command by `exec`: 1 ms
and the same pid, where `preexec_fn` would run Python in a forked copy of a program with threads. Reads nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

SHELL: Final = "/bin/sh"

# Opened for reading too: the kernel gives no controlling terminal to who can only write. stdin is empty, so that
# programs which look there (interpreters, installers) see that there is no user to answer.
_SHIM: Final = 'exec </dev/null 1<>"$1" 2>&1; shift; exec "$@"'
_ENV_PROGRAM: Final = "/usr/bin/env"
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def open_pty(columns: int, rows: int) -> tuple[int, str]:
    """Return our end of a new pseudo terminal, not blocking, and the path of the other one, which is not open yet.

    Raises:
        OSError: this system has none, or none left.
    """
    import termios  # not on every platform, and not needed before the first terminal

    ours, theirs = os.openpty()
    try:
        path = os.ttyname(theirs)
        termios.tcsetwinsize(theirs, (rows, columns))
        # A program that reads from /dev/tty (to ask for a password, say) gets end of file at once, each time: without
        # lines to wait for (ICANON) and with a minimum of no bytes a read never waits.
        modes = termios.tcgetattr(theirs)
        modes[3] &= ~(termios.ICANON | termios.ECHO)
        modes[6][termios.VMIN] = modes[6][termios.VTIME] = 0
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        os.set_blocking(ours, False)
    except BaseException as error:
        os.close(ours)
        if isinstance(error, termios.error):
            raise OSError(*error.args) from error
        raise
    finally:
        os.close(theirs)
    return ours, path


def hold_open(path: str) -> int:
    """Open the child's end of a pseudo terminal, without making it this program's; return -1 if it is gone."""
    try:
        return os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1


def behind_pty(
    argv: Sequence[str], program: str, path: str, env: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return arguments and environment that run `argv` with `path` as its controlling terminal, stdout and stderr.

    `program` is the file `argv` was found to name.
    """
    command = list(argv)
    if command[0].startswith("-"):  # `exec` would take it for an option
        command[0] = program
    # A shell passes on only variables it could have itself, and npm, for one, has others.
    foreign = [name for name in env if name and "=" not in name and not _VARIABLE_NAME.fullmatch(name)]
    if foreign:
        command = [_ENV_PROGRAM, *(f"{name}={env[name]}" for name in foreign), *command]
    kept = {name: value for name, value in env.items() if name not in foreign}
    return [SHELL, "-c", _SHIM, "dragoman-pty", path, *command], kept
