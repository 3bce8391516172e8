"""A command on a real terminal, with a user in front of it."""

from __future__ import annotations

import os
import pty
import select
import signal
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.arriving import ArrivingText
from tests.cli.exec_kit import SECONDS, Place


class Terminal:
    """A program on a terminal of its own, which is the controlling one; stdout and stdin may be elsewhere.

    `text` ends with the words that were waited for last: what came behind them is unread.
    """

    def __init__(self, pid: int, master: int) -> None:
        self.pid = pid
        self.master = master
        self.code: int | None = None
        self._written = ArrivingText()

    @property
    def text(self) -> str:
        """What was written up to the words that were waited for; everything after `wait`."""
        return self._written.text

    def until(self, words: str) -> None:
        """Waits for words behind those that were waited for last."""
        deadline = time.monotonic() + SECONDS
        while not self._written.show_until(words):
            assert self._read(deadline), f"it ended without {words!r}: {self._written.whole}"

    def until_so(self, is_so: Callable[[], object]) -> None:
        """Reads until something else is so, which shows nothing of what came."""
        deadline = time.monotonic() + SECONDS
        while not is_so():
            assert self._read(deadline), f"it ended before that: {self._written.whole}"

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def wait(self) -> int:
        deadline = time.monotonic() + SECONDS
        while self._read(deadline):
            pass
        self._written.show_all()
        _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code

    @property
    def is_cooked(self) -> bool:
        local = termios.tcgetattr(self.master)[3]
        return bool(local & termios.ICANON) and bool(local & termios.ECHO)

    def _read(self, deadline: float) -> bool:
        """Takes what comes next; False at the end of everything."""
        ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing came any more: {self._written.whole}"
        try:
            data = os.read(self.master, 65536)
        except OSError:  # no process has the other end open any more
            return False
        self._written.add(data)
        return bool(data)


@contextmanager
def at_terminal(
    place: Place,
    verb: str,
    *words: str,
    odd: str | None = None,
    stdin: Path | None = None,
    stdout: Path | None = None,
    term: str = "xterm",
) -> Iterator[Terminal]:
    arguments = place.words(verb, *words, odd=odd)
    pid, master = pty.fork()
    if pid == 0:
        try:
            os.chdir(place.project)
            if stdin is not None:
                os.dup2(os.open(stdin, os.O_RDONLY), 0)
            if stdout is not None:
                os.dup2(os.open(stdout, os.O_WRONLY | os.O_CREAT), 1)
            os.execve(arguments[0], arguments, {**place.environment, "TERM": term})
        finally:
            os._exit(127)
    terminal = Terminal(pid, master)
    try:
        yield terminal
    finally:
        if terminal.code is None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(master)
