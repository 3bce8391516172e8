"""A command's start on a fresh thread that restricts itself, and the calls that its seccomp program reports.

Theory of operation
-------------------
Landlock domain, seccomp program, `no_new_privs` and capabilities belong to a thread, and a child inherits them from
the thread that starts it. So every command gets a fresh thread that restricts itself, starts the command and ends;
all other threads stay free. It is never a thread of a pool, because it stays restricted for life, and so does every
thread that it starts: the listener is started by the caller's thread.

The kernel stops a command at a reported call and passes the call to a descriptor that belongs to us. A thread reads
it, notes which program asked for what, and answers. The note is made before the answer, so it is complete when the
command has ended. The descriptor hangs up with the last process that carries the program, which ends the listener. If
this program dies, the kernel answers ENOSYS in its place.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import os
import select
import struct
import subprocess
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from dragoman.process import proctable
from dragoman.process.sandbox.filter import Machine
from dragoman.process.sandbox.landlock import call

_log = logging.getLogger("dragoman.process")

_SET_NO_NEW_PRIVS: Final = 38
_SET_MODE_FILTER: Final = 1
_NEW_LISTENER: Final = 8
_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_NOTICE_BYTES: Final = 80
_CONTINUE: Final = 1
_MOST_ATTEMPTS: Final = 100  # kept per command; a program that tries again and again would fill the memory


class SocketAttempt(msgspec.Struct, frozen=True):
    """A socket or an address that a command asked for and did not get."""

    program: str
    """The name of the program, as the kernel has it."""
    wanted: str
    """`inet`, `inet6`, `unix`, the number of another family, or an address with its port."""

    @property
    def is_network(self) -> bool:
        """Whether it may leave this machine; false for Unix sockets, which stay on it."""
        return self.wanted != "unix"


class ReportedCall(NamedTuple):
    """A system call that waits for our answer."""

    pid: int
    number: int
    arguments: tuple[int, ...]


class CallAnswer(NamedTuple):
    """What to note, and the error for the command; 0 lets the call happen."""

    wanted: str | None
    error: int


def set_no_new_privs(calls: Machine) -> None:
    call(calls.prctl, _SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def install(calls: Machine, codes: bytes) -> int:
    """Give the calling thread a seccomp program; gives the descriptor at which it reports."""
    buffer = ctypes.create_string_buffer(codes, len(codes))
    program = struct.pack("=HxxxxxxQ", len(codes) // 8, ctypes.addressof(buffer))
    return call(calls.seccomp, _SET_MODE_FILTER, _NEW_LISTENER, program)


class Listener:
    """The start of one command, and the answers to the calls it reports."""

    def __init__(
        self, restrict: Callable[[], int], judge: Callable[[ReportedCall], CallAnswer], *, outlives: bool = False
    ) -> None:
        """Prepare the start of one command.

        Args:
            restrict: Runs on the fresh thread; gives the descriptor that reports, or -1.
            judge: Answers a call.
            outlives: Keep the thread until the command has ended. For a command that is killed when its parent dies:
                to the kernel the parent is the thread.
        """
        self._restrict = restrict
        self._judge = judge
        self._outlives = outlives
        self._attempts: dict[SocketAttempt, None] = {}

    @property
    def attempts(self) -> tuple[SocketAttempt, ...]:
        return tuple(self._attempts)

    def start(
        self, popen: Callable[[Collection[int]], subprocess.Popen[bytes]], kept: Collection[int] = ()
    ) -> subprocess.Popen[bytes]:
        started: list[subprocess.Popen[bytes]] = []
        failed: list[BaseException] = []
        descriptor = -1

        is_started = threading.Event()

        def run() -> None:
            nonlocal descriptor
            try:
                descriptor = self._restrict()
                started.append(popen(kept))
            except BaseException as error:  # raised again on the caller's thread
                failed.append(error)
            finally:
                is_started.set()
            if started and self._outlives:
                _wait_for(started[0].pid)

        # A daemon: one that waits for its command must not keep this program from ending.
        thread = threading.Thread(target=run, name="dragoman-restricted", daemon=True)
        thread.start()
        is_started.wait()
        if not self._outlives:
            thread.join()
        if descriptor >= 0:
            # Also after a failure: it ends by itself, because no process carries the program any more.
            threading.Thread(target=self._listen, args=(descriptor,), name="dragoman-sockets", daemon=True).start()
        if failed:
            raise failed[0]
        return started[0]

    def _listen(self, descriptor: int) -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        try:
            while True:
                for _, events in poll.poll():
                    if events & select.POLLIN:
                        self._answer(descriptor)
                    elif events:
                        return
        finally:
            os.close(descriptor)

    def _answer(self, descriptor: int) -> None:
        notice = bytearray(_NOTICE_BYTES)
        try:
            fcntl.ioctl(descriptor, _RECEIVE, notice)
        except OSError:  # the process was killed while it waited
            return
        identity, pid, _, number, _, _, *arguments = struct.unpack("=QIIiIQ6Q", notice)
        try:
            wanted, error = self._judge(ReportedCall(pid, number, tuple(arguments)))
        except Exception:  # what it looks at is the command's; without an answer all of its calls would wait
            _log.exception("a call of a command could not be read")
            wanted, error = None, errno.EPERM
        if wanted is not None and len(self._attempts) < _MOST_ATTEMPTS:
            self._attempts[SocketAttempt(_program(pid), wanted)] = None
        answer = struct.pack("=QqiI", identity, 0, -error, 0 if error else _CONTINUE)
        with suppress(OSError):
            fcntl.ioctl(descriptor, _SEND, bytearray(answer))


def _wait_for(pid: int) -> None:
    """Return when a child has ended; its status is left for others."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:  # it has ended, and its status was collected
        return
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll()
    finally:
        os.close(fd)


def _program(pid: int) -> str:
    try:
        return proctable.name(pid)
    except OSError:
        return "?"
