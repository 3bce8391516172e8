"""Small programs to start, and ways to see what became of them."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from dragoman.process import Child, proctable
from dragoman.process.sweep import marked

SECONDS = 60.0  # the bound of every wait here; two loaded cores need a part of it

# Ends on stdin EOF, like a good agent.
FRIENDLY = ("sh", "-c", "cat")
# Has to be killed; says so when the trap is set.
STUBBORN = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done")


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-IS", "-c", code, *arguments]


# A daemon as the books describe it: two forks and a session of its own. It tells its pid and keeps every descriptor.
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(1, b"%d\\n" % os.getpid())
        while True:
            time.sleep(1000)
    os._exit(0)
os.wait()
os.read(0, 1)
"""


async def until(is_true: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait for what no event tells."""
    async with asyncio.timeout(seconds):
        while not is_true():  # noqa: ASYNC110 - what is waited for here happens outside of any loop
            await asyncio.sleep(0.005)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not collected yet does not."""
    try:
        return proctable.status(pid).is_alive
    except OSError:
        return False


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def settled_fds() -> int:
    """The open descriptors at the beginning of a test, without those that earlier ones have left to the collector."""
    gc.collect()
    return open_fds()


def survivors(markers: Iterable[str]) -> list[int]:
    return [pid for marker in markers for pid in marked(marker)]


def zombie_children() -> list[int]:
    zombies = []
    for listing in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread ends while we look
            for pid in map(int, listing.read_text().split()):
                if not proctable.status(pid).is_alive:
                    zombies.append(pid)
    return zombies


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("dragoman")]


class Deaths:
    """Holds processes that are not our children by pidfd, to see them end."""

    def __init__(self, *pids: int) -> None:
        self._fds: dict[int, int] = {}
        for pid in pids:
            with suppress(ProcessLookupError):  # it was quicker
                self._fds[os.pidfd_open(pid)] = pid

    def wait(self, seconds: float = SECONDS) -> list[int]:
        """The pids that did not end in time; they are killed, so that a failing test leaves nothing either."""
        poll = select.poll()
        left = dict(self._fds)
        for fd in left:
            poll.register(fd, select.POLLIN)
        deadline = time.monotonic() + seconds
        while left and time.monotonic() < deadline:
            for fd, _ in poll.poll(100):
                poll.unregister(fd)
                del left[fd]
        for fd in left:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        for fd in self._fds:
            os.close(fd)
        return list(left.values())


async def first_line(child: Child) -> bytes:
    """What a child says first. Call it right after the spawn: once the child is gone its pipes are closed."""
    fd = os.dup(child._stdout)
    try:
        return await asyncio.to_thread(_read_line, fd)
    finally:
        os.close(fd)


def _read_line(fd: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(fd, 1)
        if not piece:
            break
        line += piece
    return line
