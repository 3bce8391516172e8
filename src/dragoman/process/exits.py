"""Notices at once that one child has ended, and collects its status.

Owns the wait for a single pid: a pidfd on the event loop, or a thread where the system has none. Never waits for "any
child", installs no signal handler and leaves asyncio's child watchers alone, so a program's own children stay its own.
Not `asyncio`'s `Process.wait`: it does not return while a grandchild holds a pipe.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress


class ExitWatch:
    """Calls `ended` once on the loop, with the return code, or None if other code collected the status."""

    def __init__(self, pid: int, loop: asyncio.AbstractEventLoop, ended: Callable[[int | None], None]) -> None:
        self.cpu_seconds: float | None = None
        """The processor time of the child and of the children that it waited for; known when it has ended."""
        self._pid = pid
        self._loop = loop
        self._ended = ended
        self._fd = _open_pidfd(pid)
        if self._fd >= 0:
            loop.add_reader(self._fd, self._collect)
        else:
            threading.Thread(target=self._wait, name=f"dragoman-wait-{pid}", daemon=True).start()

    def stop(self) -> None:
        """Watch no more; `ended` is not called."""
        self._ended = _ignore
        if self._fd >= 0:
            with suppress(RuntimeError):  # the loop may be closed
                self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _collect(self) -> None:
        try:
            pid, status, used = os.wait4(self._pid, os.WNOHANG)
            if pid == 0:
                return
            self.cpu_seconds = used.ru_utime + used.ru_stime
        except ChildProcessError:
            # The program ignores SIGCHLD or waits for every child it has: then the status is lost, the end is not.
            self._finish(None)
        else:
            self._finish(os.waitstatus_to_exitcode(status))

    def _finish(self, returncode: int | None) -> None:
        ended = self._ended
        self.stop()
        ended(returncode)

    def _wait(self) -> None:
        # Collected on this thread: macOS before 3.13 has no way to wait and leave the status for the loop.
        returncode: int | None = None
        with suppress(ChildProcessError):
            _, status, used = os.wait4(self._pid, 0)
            self.cpu_seconds = used.ru_utime + used.ru_stime
            returncode = os.waitstatus_to_exitcode(status)
        with suppress(RuntimeError):  # the loop is closed, so no task waits any more
            self._loop.call_soon_threadsafe(self._finish, returncode)


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, an old or restricted kernel, or no descriptor left
        return -1


def _ignore(returncode: int | None) -> None:
    pass
