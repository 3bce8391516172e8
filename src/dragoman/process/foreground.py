"""One program that runs on the user's terminal while this one waits: a login, an editor.

Owns the hand-over of the terminal: the program's own group becomes the foreground one, so that Ctrl-C and Ctrl-Z are
its own, and whatever way it ends, the terminal comes back to us with the settings it had. Its descendants are left
alone: a login opens a browser, which is the user's from then on. Does not know pipes or the protocol.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import termios
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import DragomanError
from dragoman.process.launch import StrPath, explain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TERMINAL: Final = "/dev/tty"
_TERM_SECONDS: Final = 2.0  # for a program that has to end because no task waits for it any more
_MOMENT_SECONDS: Final = 0.05  # between two attempts to let a stopped program go on


async def run_in_foreground(
    argv: Sequence[StrPath],
    *,
    cwd: StrPath | None = None,
    env: Mapping[str, str] | None = None,
    terminal: str = TERMINAL,
) -> int:
    """Run `argv` on the terminal and give its return code, negative for a signal. `env` adds to our environment.

    The terminal is its stdin, stdout and stderr, wherever ours lead. Cancelling ends the program.

    Raises:
        ConfigError: the command or the directory cannot be used.
        DragomanError: there is no terminal, or it is not ours to hand over.
    """
    with _open_terminal(terminal) as fd:
        settings = termios.tcgetattr(fd)
        process = _start(argv, fd, cwd, env)
        try:
            # At once, and not on the thread: a Ctrl-C before this would reach us instead of the program.
            _give(fd, process.pid)
            waiting = asyncio.ensure_future(asyncio.to_thread(_attend, process.pid, fd, settings))
            try:
                process.returncode = await asyncio.shield(waiting)
            except asyncio.CancelledError:
                process.returncode = await _end(process.pid, waiting)
                raise
        finally:
            _take_back(fd, settings)
    return process.returncode


def has_terminal(terminal: str = TERMINAL) -> bool:
    """Return whether a program can be run on the terminal now."""
    try:
        with _open_terminal(terminal):
            return True
    except DragomanError:
        return False


@contextmanager
def _open_terminal(path: str) -> Iterator[int]:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        raise DragomanError(f"there is no terminal to run this on ({path}: {error.strerror})") from error
    try:
        try:
            owner = os.tcgetpgrp(fd)
        except OSError as error:
            raise DragomanError(f"{path} is not the terminal of this program ({error.strerror})") from error
        if owner != os.getpgrp():
            raise DragomanError("this program runs in the background; bring it to the foreground (fg) and try again")
        yield fd
    finally:
        os.close(fd)


def _start(
    argv: Sequence[StrPath], fd: int, cwd: StrPath | None, env: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    command = [os.fspath(part) for part in argv]
    try:
        return subprocess.Popen(
            command, stdin=fd, stdout=fd, stderr=fd, cwd=cwd, env={**os.environ, **(env or {})}, process_group=0
        )
    except (OSError, ValueError) as error:
        raise explain(error, command[0], cwd) from error


def _attend(pid: int, fd: int, settings: list[Any]) -> int:
    """Wait for the end of the program, which has the terminal; runs on a thread: a stop makes no pidfd ready."""
    while True:
        try:
            _, status = os.waitpid(pid, os.WUNTRACED)
        except ChildProcessError:
            return -1  # another part of this program collected it: how it ended is unknown, so it did not succeed
        if not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status)
        if os.WSTOPSIG(status) == signal.SIGTSTP:
            # Ctrl-Z: we are one job with it, as far as the user's shell knows, so we stop too, and the shell takes
            # over. Without job control nothing happens here, and the program just goes on.
            _take_back(fd, settings)
            os.killpg(os.getpgrp(), signal.SIGTSTP)
        # It may also have read before the terminal was its own. If it is stopped over and over, the wait keeps this
        # from becoming a busy loop.
        time.sleep(_MOMENT_SECONDS)
        _give(fd, pid)


def _give(fd: int, group: int) -> None:
    with suppress(OSError):  # it has ended already
        _set_foreground(fd, group)
        os.killpg(group, signal.SIGCONT)


def _take_back(fd: int, settings: list[Any]) -> None:
    with suppress(OSError, termios.error):  # the terminal hung up
        _set_foreground(fd, os.getpgrp())
        termios.tcsetattr(fd, termios.TCSADRAIN, settings)


def _set_foreground(fd: int, group: int) -> None:
    # A process that does this from the background is stopped by SIGTTOU, unless the signal is blocked on that thread.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        os.tcsetpgrp(fd, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def _end(pid: int, waiting: asyncio.Future[int]) -> int:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
            os.killpg(pid, signal.SIGCONT)  # a stopped program would not see it
        done, _ = await asyncio.wait({waiting}, timeout=_TERM_SECONDS)
        if done:
            break
    return await waiting
