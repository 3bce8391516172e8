"""The sweep: finds and ends processes that left the process group of a child, or that were started for one command.

Every child carries a random marker in its environment, and everything it starts inherits that. After the group is gone,
a process that still carries the marker has escaped (`setsid`, a double fork, a daemon) and is ended here. A command
that an agent leaves running after a cancelled turn is found by the marker and the moment of its start. Does nothing on
systems without `/proc`. Runs on a thread, because with thousands of processes it takes tens of milliseconds.
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
from functools import partial
from typing import Final, NamedTuple

from dragoman.process import proctable

_log = logging.getLogger("dragoman.process")

Spare = Callable[[int], bool] | Collection[str]
"""Which escaped processes are left alone: words of their command line, or a function of the pid.

Some agents start a daemon that other programs share; killing it would hurt those.
"""

SWEEP_SECONDS: Final = 3.0  # for everything together; a tree that still forks after that is reported, not waited for
_TERM_SECONDS: Final = 0.5  # a daemon gets a moment to remove its socket and lock files
_PATIENT_SECONDS: Final = 0.02  # between two looks at a command that its agent may be ending
_MOMENT_SECONDS: Final = 0.002  # between two looks; on an idle machine an `exec` takes half of that
_LOOKS: Final = 5  # at most, if nothing is found but something was unclear; on a busy machine something always is


class _Look(NamedTuple):
    """What one look at all processes showed."""

    found: dict[int, bytes]
    """The processes that carry a marker, and which."""
    unclear: set[int]
    """Those that could not be judged, because they ended or were replaced in that moment."""
    in_exec: set[int]
    """The part of them that goes on as another program and shows its environment then."""


class _Looks:
    """A series of looks at all processes, up to one that proves that there is nothing left to end."""

    def __init__(self, markers: Collection[bytes]) -> None:
        self._markers = markers
        self._last = _Look({}, set(), set())
        self._unclear_before: set[int] = set()
        self._awaited: set[int] = set()
        self._left = _LOOKS

    def again(self) -> dict[int, bytes]:
        """Look once more and return which processes carry which marker."""
        self._unclear_before = self._last.unclear
        self._last = _scan(self._markers)
        return self._last.found

    def is_proof(self) -> bool:
        """Whether the last look, which showed nothing to end, is enough; each one that is not counts."""
        # On a loaded machine an `exec` takes as long as the others let it: its process is waited for until it shows
        # what it is. One that begins it after so many looks comes from a tree that was looked at and is not ours.
        self._awaited = self._last.in_exec & self._awaited if self._left == 0 else self._last.in_exec
        if not self._awaited and (self._left == 0 or self._last.unclear <= self._unclear_before):
            return True
        self._left = max(0, self._left - 1)
        return False


def sweep(
    orders: Mapping[str, Spare],
    seconds: float = SWEEP_SECONDS,
    *,
    choose: Callable[[Collection[int]], Collection[int]] = frozenset,
) -> None:
    """End every process that carries one of these markers and is not spared; return when they are gone.

    Args:
        orders: For each marker, what is left alone.
        seconds: For everything together.
        choose: Which of the processes that carry one of the markers are meant; all, if it is left out.
    """
    if not proctable.is_readable():
        return
    deadline = time.monotonic() + seconds
    spares = {marker.encode(): spare for marker, spare in orders.items()}
    looks = _Looks(spares)
    while True:
        try:
            found = looks.again()
        except OSError as error:
            _log.warning("cannot look for processes that an agent left behind: %s", error)
            return
        chosen = choose(found)
        doomed = {
            pid: marker for pid, marker in found.items() if pid in chosen and not _is_spared(pid, spares[marker], found)
        }
        if doomed:
            _end(doomed, deadline)
        elif looks.is_proof():
            return
        if time.monotonic() > deadline:
            _log.warning("processes of an agent could not be ended: %s", sorted(doomed))
            return
        time.sleep(_MOMENT_SECONDS)


def end_commands(marker: str, group: int, spare: Spare, moment: float) -> None:
    """End what a running program started at or after a moment of `time.monotonic`; return when it is gone.

    The program may be about to end it, or may tidy up: both get a moment before the first signal.

    Args:
        marker: Of the program.
        group: Its process group.
        spare: What is left alone.
        moment: Older processes are left alone, and what older ones start in their own groups: a server that a command
            started before may start workers at any time.
    """
    if not proctable.is_readable():
        return
    # The kernel rounds the start of a process down to its tick.
    since = time.clock_gettime(time.CLOCK_BOOTTIME) - (time.monotonic() - moment) - proctable.TICK_SECONDS
    choose = partial(_started_since, group=group, since=since)
    patient_until = time.monotonic() + _TERM_SECONDS
    looks = _Looks([marker.encode()])
    deadline = time.monotonic() + SWEEP_SECONDS
    while True:
        if not choose(looks.again()):
            # One that was just started shows no environment in the middle of its `exec`: it is looked at again.
            if looks.is_proof() or time.monotonic() > deadline:
                return
            time.sleep(_MOMENT_SECONDS)
        elif time.monotonic() > patient_until:
            sweep({marker: spare}, choose=choose)
            return
        else:
            time.sleep(_PATIENT_SECONDS)


def _started_since(pids: Collection[int], group: int, since: float) -> set[int]:
    found: dict[int, proctable.Status] = {}
    for pid in pids:
        with suppress(OSError):  # it has ended meanwhile
            found[pid] = proctable.status(pid)
    old_groups = {status.group for status in found.values() if status.started < since} - {group}
    return {
        pid
        for pid, status in found.items()
        if status.is_alive and status.started >= since and status.group not in old_groups and pid != group
    }


def marked(marker: str) -> list[int]:
    """Return the pids of this user that carry `marker` now; waits for those that do not show it inside an `exec`."""
    looks = _Looks([marker.encode()])
    deadline = time.monotonic() + SWEEP_SECONDS
    while True:
        found = looks.again()
        if looks.is_proof() or time.monotonic() > deadline:
            return sorted(found)
        time.sleep(_MOMENT_SECONDS)


def _scan(markers: Collection[bytes]) -> _Look:
    """Look at every process of this user.

    A process is replaced (`exec`) or ends while we look, and one that ends may have started another that is not on our
    list: then one clean look proves nothing. The newest come first, because they are the quickest to go.
    """
    found: dict[int, bytes] = {}
    unclear: set[int] = set()
    in_exec: set[int] = set()
    own_uid, own_pid = os.getuid(), os.getpid()
    for pid in sorted(proctable.pids(), reverse=True):
        try:
            if pid == own_pid or proctable.owner(pid) != own_uid:
                continue
            environment = proctable.environment(pid)
            status = None if environment else proctable.status(pid)
            if status and not status.is_kernel_thread:
                unclear.add(pid)
                in_exec |= {pid} if status.is_in_exec else set()
        except PermissionError:  # it changed its user and is not ours to read
            continue
        except OSError:
            unclear.add(pid)
            continue
        for marker in markers:
            if marker in environment:
                found[pid] = marker
    return _Look(found, unclear, in_exec)


def _is_spared(pid: int, spare: Spare, found: Collection[int]) -> bool:
    """Whether it is spared.

    A spared daemon keeps its own children too, so the question goes up the tree, among marked processes only.
    """
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
    """Send TERM, wait a moment, send KILL."""
    waiting: list[int] = []
    try:
        # The oldest first: a script whose command is ended before it would go on with its next one.
        for pid in sorted(doomed):
            with suppress(OSError):
                _hold(pid, doomed[pid], waiting)
        _signal_and_wait(waiting, signal.SIGTERM, min(deadline, time.monotonic() + _TERM_SECONDS))
        _signal_and_wait(waiting, signal.SIGKILL, deadline)
    finally:
        for fd in waiting:
            os.close(fd)


def _hold(pid: int, marker: bytes, waiting: list[int]) -> None:
    """Take hold of a process by pidfd and look again, so that a number reused meanwhile is never hit."""
    try:
        fd = os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM, errno.EMFILE, errno.ENFILE):
            os.kill(pid, signal.SIGKILL)  # no pidfd to be had; the marker was seen a moment ago
        return
    waiting.append(fd)
    if marker not in proctable.environment(pid):
        waiting.remove(fd)
        os.close(fd)


def _signal_and_wait(waiting: list[int], number: signal.Signals, deadline: float) -> None:
    """Signal all of `waiting`, in this order, and drop those that ended."""
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
    """Sweeps on one thread that exists only while there is work; requests that wait together share a scan."""

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
