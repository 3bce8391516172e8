"""Lines from the terminal, read without a thread; a read can be cancelled at any moment.

Owns a separate descriptor of the terminal (so that making it non-blocking does not affect stdin), and the terminal's
mode: lines, echo and Ctrl-C as in a shell, restored afterwards.
"""

from __future__ import annotations

import asyncio
import errno
import os
import termios
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from dragoman.text.secrets import known_keys
from dragoman.text.terminal import printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

TERMINAL: Final = "/dev/tty"
_PIECE: Final = 64 * 1024
_LFLAG: Final = 3  # its place in what tcgetattr returns
_IFLAG: Final = 0


def can_read(path: str = TERMINAL) -> bool:
    """Return whether there is a terminal and this process may read from it; changes nothing."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        _require_foreground(fd)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


class Keyboard:
    """The terminal while a question is open. Use it as a context manager."""

    def __init__(self, path: str = TERMINAL) -> None:
        self._path = path
        self._fd = -1
        self._mode: list[Any] | None = None
        self._typed = b""

    def __enter__(self) -> Keyboard:
        """Open the terminal. Earlier input is dropped: it must not answer a question that was not visible yet.

        Raises: OSError or termios.error if there is none, or if this process is in its background.
        """
        # O_NOCTTY: a terminal that is merely named must not become the one that sends us its Ctrl-C.
        self._fd = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _require_foreground(self._fd)
            self._prepare()
        except BaseException:
            os.close(self._fd)
            raise
        return self

    def _prepare(self) -> None:
        mode = termios.tcgetattr(self._fd)
        wanted = [*mode]
        wanted[_LFLAG] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ISIG
        wanted[_IFLAG] |= termios.ICRNL
        if wanted != mode:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, wanted)
            self._mode = mode
        termios.tcflush(self._fd, termios.TCIFLUSH)

    def __exit__(self, *_: object) -> None:
        """Restore the terminal. An unfinished line is dropped: the shell would run it."""
        with suppress(termios.error):  # the terminal is gone
            termios.tcflush(self._fd, termios.TCIFLUSH)
            if self._mode is not None:
                termios.tcsetattr(self._fd, termios.TCSANOW, self._mode)
        os.close(self._fd)

    @property
    def size(self) -> tuple[int, int]:
        """The columns and rows of the terminal."""
        try:
            found = os.get_terminal_size(self._fd)
        except OSError:
            return 80, 24
        return found.columns or 80, found.lines or 24

    async def write(self, text: str) -> None:
        """Write all of the text, waiting for the terminal."""
        left = memoryview(_shown(text))
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                await self._ready(asyncio.get_running_loop().add_writer, asyncio.get_running_loop().remove_writer)
            except OSError:
                return  # hung up; the next read reports it

    def write_now(self, text: str) -> None:
        """Write what the terminal accepts at once, for a last line when there is no time to wait."""
        with suppress(OSError):
            os.write(self._fd, _shown(text))

    async def line(self) -> str | None:
        """Return the next line without its end; None if the user ended the input (Ctrl-D) or hung up."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._typed:
            try:
                piece = os.read(self._fd, _PIECE)
            except BlockingIOError:
                await self._ready(loop.add_reader, loop.remove_reader)
                continue
            except OSError:
                return None
            if not piece:
                return None
            self._typed += piece
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Show nothing of what is typed until this is left: it must be off before the prompt for a secret is seen."""
        mode = termios.tcgetattr(self._fd)
        hidden = [*mode]
        hidden[_LFLAG] &= ~termios.ECHO
        termios.tcsetattr(self._fd, termios.TCSANOW, hidden)
        try:
            yield
        finally:
            with suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._fd, termios.TCSANOW, mode)

    def forget(self) -> None:
        """Drop what was typed: it must not answer a question that was not visible yet."""
        self._typed = b""
        with suppress(termios.error):  # the terminal is gone
            termios.tcflush(self._fd, termios.TCIFLUSH)

    async def _ready(self, watch: Callable[..., Any], unwatch: Callable[[int], Any]) -> None:
        ready = asyncio.Event()
        watch(self._fd, ready.set)
        try:
            await ready.wait()
        finally:
            unwatch(self._fd)


def _require_foreground(fd: int) -> None:
    """Raise if this process is in the background: the kernel would stop it when it uses the terminal."""
    try:
        group = os.tcgetpgrp(fd)
    except OSError as error:
        if error.errno != errno.ENOTTY or not os.isatty(fd):
            raise
        return  # not our controlling terminal: it has no background
    if group != os.getpgrp():
        raise BlockingIOError(errno.EAGAIN, "this process is in the background of the terminal")


def _shown(text: str) -> bytes:
    """Return text as it may be shown: without known keys, and with no control but our own colours."""
    return printed(known_keys.mask(text), has_colour=True, can_redraw=True).encode(errors="replace")
