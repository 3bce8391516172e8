"""The sweep: finds and ends processes that left the process group of a child.

Every child carries a random marker in its environment, and everything it starts inherits that. After the group is gone,
a process that still carries the marker has escaped (`setsid`, a double fork, a daemon) and is ended here. Does nothing
on systems without `/proc`. Runs on a thread, because with thousands of processes it takes tens of milliseconds.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

from dragoman.process import proctable

_log = logging.getLogger("dragoman.process")

Spare = Callable[[int], bool] | Collection[str]
"""Which escaped processes are left alone: words of their command line, or a function of the pid.

Some agents start a daemon that other programs share; killing it would hurt those.
"""

SWEEP_SECONDS: Final = 3.0  # for everything together; a tree that still forks after that is reported, not waited for
_TERM_SECONDS: Final = 0.5  # a daemon gets a moment to remove its socket and lock files
_MOMENT_SECONDS: Final = 0.002  # between two looks; an `exec` takes half of that
_LOOKS: Final = 5  # at most, if nothing is found but something was unclear; on a busy machine something always is


def sweep(orders: Mapping[str, Spare], seconds: float = SWEEP_SECONDS) -> None:
    """End every process that carries one of these markers and is not spared; return when they are gone."""
    if not proctable.is_readable():
        return
    deadline = time.monotonic() + seconds
    spares = {marker.encode(): spare for marker, spare in orders.items()}
    unclear: set[int] = set()
    looks_left = _LOOKS
    while True:
        unclear_before = unclear
        try:
            found, unclear = _scan(spares)
        except OSError as error:
            _log.warning("cannot look for processes that an ended agent left behind: %s", error)
            return
        doomed = {pid: marker for pid, marker in found.items() if not _is_spared(pid, spares[marker], found)}
        if doomed:
            _end(doomed, deadline)
        elif unclear <= unclear_before or looks_left == 0:
            return
        else:
            looks_left -= 1
        if time.monotonic() > deadline:
            _log.warning("processes of an ended agent are still there: %s", sorted(doomed))
            return
        time.sleep(_MOMENT_SECONDS)


def marked(marker: str) -> list[int]:
    """The pids of this user that carry `marker` now."""
    return sorted(_scan([marker.encode()])[0])


def _scan(markers: Collection[bytes]) -> tuple[dict[int, bytes], set[int]]:
    """Which processes carry which marker, and which could not be judged.

    A process is replaced (`exec`) or ends while we look, and one that ends may have started another that is not on our
    list: then one clean look proves nothing. The newest come first, because they are the quickest to go.
    """
    found: dict[int, bytes] = {}
    unclear: set[int] = set()
    own_uid, own_pid = os.getuid(), os.getpid()
    for pid in sorted(proctable.pids(), reverse=True):
        try:
            if pid == own_pid or proctable.owner(pid) != own_uid:
                continue
            environment = proctable.environment(pid)
            if not environment and not proctable.status(pid).is_kernel_thread:
                unclear.add(pid)
        except PermissionError:  # it changed its user and is not ours to read
            continue
        except OSError:
            unclear.add(pid)
            continue
        for marker in markers:
            if marker in environment:
                found[pid] = marker
    return found, unclear


def _is_spared(pid: int, spare: Spare, found: Collection[int]) -> bool:
    """A spared daemon keeps its own children too, so the question goes up the tree, among marked processes only."""
    while pid in found:
        try:
            if spare(pid) if callable(spare) else _names_one_of(pid, spare):
                return True
            pid = proctable.status(pid).parent
        except OSError:
            return False
    return False


def _names_one_of(pid: int, words: Collection[str]) -> bool:
    line = proctable.command_line(pid) if words else ""
    return any(word in line for word in words)


def _end(doomed: Mapping[int, bytes], deadline: float) -> None:
    """TERM, a moment, KILL."""
    waiting: set[int] = set()
    try:
        for pid, marker in doomed.items():
            with suppress(OSError):
                _hold(pid, marker, waiting)
        _signal_and_wait(waiting, signal.SIGTERM, min(deadline, time.monotonic() + _TERM_SECONDS))
        _signal_and_wait(waiting, signal.SIGKILL, deadline)
    finally:
        for fd in waiting:
            os.close(fd)


def _hold(pid: int, marker: bytes, waiting: set[int]) -> None:
    """Take hold of a process by pidfd and look again, so that a number reused meanwhile is never hit."""
    try:
        fd = os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM, errno.EMFILE, errno.ENFILE):
            os.kill(pid, signal.SIGKILL)  # no pidfd to be had; the marker was seen a moment ago
        return
    waiting.add(fd)
    if marker not in proctable.environment(pid):
        waiting.remove(fd)
        os.close(fd)


def _signal_and_wait(waiting: set[int], number: signal.Signals, deadline: float) -> None:
    """Signal all of `waiting` and drop those that ended."""
    poll = select.poll()
    for fd in waiting:
        with suppress(OSError):
            signal.pidfd_send_signal(fd, number)
        poll.register(fd, select.POLLIN)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for fd, _ in poll.poll(left * 1000):
            poll.unregister(fd)
            waiting.remove(fd)
            os.close(fd)


class Sweeper:
    """Runs sweeps on one thread that exists only while there is work; requests that wait together share a scan."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[str, Spare, Callable[[], None]]] = []
        self._is_running = False

    def submit(self, marker: str, spare: Spare, done: Callable[[], None]) -> None:
        """Sweep for `marker`, then call `done` on the sweeper's thread."""
        with self._lock:
            self._waiting.append((marker, spare, done))
            if self._is_running:
                return
            self._is_running = True
        try:
            threading.Thread(target=self._run, name="dragoman-sweeper").start()
        except RuntimeError:  # the interpreter is ending, or there are no more threads to be had
            self._run()

    def _run(self) -> None:
        while True:
            with self._lock:
                batch, self._waiting = self._waiting, []
                if not batch:
                    self._is_running = False
                    return
            try:
                sweep({marker: spare for marker, spare, _ in batch})
            except Exception:  # `spare` is the caller's code; its failure must not keep tasks waiting
                _log.exception("the search for escaped processes failed")
            for _, _, done in batch:
                done()


sweeper: Final = Sweeper()
