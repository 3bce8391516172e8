"""A terminal with a program on it, and a test in front."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.arriving import ArrivingText
from tests.process.kit import SECONDS


class Screen:
    """The user's side of the terminal; what is seen ends with the words that were waited for last."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._written = ArrivingText()

    @property
    def seen(self) -> str:
        return self._written.text

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def wait_for(self, text: str) -> None:
        """Waits for a text behind the one that was waited for last."""
        deadline = time.monotonic() + SECONDS
        while not self._written.show_until(text):
            ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {text!r} in {self._written.whole!r}"
            try:
                self._written.add(os.read(self.fd, 4096))
            except OSError:  # the last process of the terminal ended
                pytest.fail(f"no {text!r} in {self._written.whole!r}")


@contextmanager
def screen(host: str, *command: str) -> Iterator[Screen]:
    """A new session on a new terminal, as a shell without job control would start it."""
    ours, theirs = pty.openpty()
    takes_it = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", takes_it + host, *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Screen(ours)
    finally:
        process.kill()
        os.close(ours)  # hangs up: whatever still is on this terminal ends
        process.wait()
