"""The restricted thread: Landlock and seccomp for one command, without a program in front of it.

Theory of operation
-------------------
Landlock domain, seccomp program, `no_new_privs` and capabilities belong to a thread, and a child inherits them from
the thread that starts it. So every command gets a fresh thread that restricts itself, starts the command and ends;
all other threads stay free. It is never a thread of a pool, because it stays restricted for life, and so does every
thread that it starts: the listener below is started by the caller's thread.

*Listener.* The seccomp program does not refuse a socket by itself: the kernel stops the command and reports the call
at a descriptor that belongs to us. A thread reads it, notes who asked for what, and answers EPERM. The note is made
before the answer, so it is complete when the command has ended. The descriptor hangs up with the last process that
carries the program, which ends the listener. If this program dies, the kernel answers ENOSYS in its place.

*Ending.* Signals from outside reach the command as usual. Inside, only members of the same domain can be signalled.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

import msgspec

from dragoman.process import proctable
from dragoman.process.sandbox import landlock
from dragoman.process.sandbox.filter import Machine, machine, thread_filter
from dragoman.process.sandbox.policy import SandboxPolicy

_PRCTL: Final = {"x86_64": 157, "aarch64": 167}
_SET_NO_NEW_PRIVS: Final = 38
_SET_MODE_FILTER: Final = 1
_GET_ACTION_AVAILABLE: Final = 2
_NEW_LISTENER: Final = 8
_CAPABILITIES_3: Final = 0x20080522

_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_NOTICE_BYTES: Final = 80
_MOST_ATTEMPTS: Final = 100  # kept per command; a program that tries again and again would fill the memory


class SocketAttempt(msgspec.Struct, frozen=True):
    """A socket that a command asked for and did not get."""

    program: str
    """The name of the program, as the kernel has it."""
    family: str
    """`inet`, `inet6`, `unix`, or the number of another family."""

    @property
    def is_network(self) -> bool:
        """False for Unix sockets, which the C library also tries for its own caches."""
        return self.family != "unix"


def why_not() -> str | None:
    """Why this backend cannot be used here; None if it can."""
    version = landlock.abi()
    calls = machine()
    if version == 0:
        return "the kernel has no Landlock, or it is switched off"
    if version < landlock.ABI_NEEDED:
        return f"the kernel's Landlock is version {version}; version {landlock.ABI_NEEDED} (Linux 6.2) is needed"
    if calls is None:
        return f"the system calls of {os.uname().machine} are not known here"
    try:
        landlock.call(calls.seccomp, _GET_ACTION_AVAILABLE, 0, struct.pack("=I", 0x7FC00000))
    except OSError as error:
        return f"the kernel cannot report system calls to a listener: {error.strerror}"
    return None


class RestrictedThread:
    """Starts commands under one policy; the ruleset is kept between them."""

    def __init__(self, policy: SandboxPolicy) -> None:
        calls = machine()
        assert calls is not None, why_not()  # the caller has asked `why_not`
        self._calls: Machine = calls
        self._ruleset = landlock.Ruleset(policy, landlock.abi())
        self._filter = thread_filter(calls, network=policy.network)
        self._lock = threading.Lock()

    def starter(self) -> ThreadStarter:
        """For one command."""
        return ThreadStarter(self._restrict)

    def _restrict(self) -> int:
        """Restrict the calling thread; gives the descriptor of the listener."""
        landlock.call(_PRCTL[os.uname().machine], _SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        with self._lock:  # another thread could replace the ruleset between the two steps
            landlock.restrict(self._ruleset.descriptor())
        # For root: without this it could load modules, and mount. `no_new_privs` keeps `exec` from giving them back.
        landlock.call(self._calls.capset, struct.pack("=Ii", _CAPABILITIES_3, 0), bytes(24))
        codes = ctypes.create_string_buffer(self._filter, len(self._filter))
        program = struct.pack("=HxxxxxxQ", len(self._filter) // 8, ctypes.addressof(codes))
        return landlock.call(self._calls.seccomp, _SET_MODE_FILTER, _NEW_LISTENER, program)


class ThreadStarter:
    """Starts one command on a fresh restricted thread and notes the sockets it asks for."""

    def __init__(self, restrict: Callable[[], int]) -> None:
        self._restrict = restrict
        self._attempts: dict[SocketAttempt, None] = {}

    @property
    def attempts(self) -> tuple[SocketAttempt, ...]:
        return tuple(self._attempts)

    def start(self, popen: Callable[[Collection[int]], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        started: list[subprocess.Popen[bytes]] = []
        failed: list[BaseException] = []
        listener = -1

        def run() -> None:
            nonlocal listener
            try:
                listener = self._restrict()
                started.append(popen(()))
            except BaseException as error:  # raised again on the caller's thread
                failed.append(error)

        thread = threading.Thread(target=run, name="dragoman-restricted")
        thread.start()
        thread.join()
        if listener >= 0:
            os.set_inheritable(listener, False)
            # Also after a failure: it ends by itself, because no process carries the program any more.
            threading.Thread(target=self._listen, args=(listener,), name="dragoman-sockets", daemon=True).start()
        if failed:
            raise failed[0]
        return started[0]

    def terminate(self, group: int) -> None:
        os.killpg(group, 15)

    def _listen(self, listener: int) -> None:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        try:
            while True:
                for _, events in poll.poll():
                    if events & select.POLLIN:
                        self._answer(listener)
                    elif events:
                        return
        finally:
            os.close(listener)

    def _answer(self, listener: int) -> None:
        notice = bytearray(_NOTICE_BYTES)
        try:
            fcntl.ioctl(listener, _RECEIVE, notice)
        except OSError:  # the process was killed while it waited
            return
        number, pid = struct.unpack_from("=QI", notice)
        (family,) = struct.unpack_from("=I", notice, 32)
        if len(self._attempts) < _MOST_ATTEMPTS:
            self._attempts[SocketAttempt(_program(pid), _family(family))] = None
        with suppress(OSError):
            fcntl.ioctl(listener, _SEND, bytearray(struct.pack("=QqiI", number, 0, -errno.EPERM, 0)))


def _program(pid: int) -> str:
    try:
        return proctable.name(pid)
    except OSError:
        return "?"


def _family(number: int) -> str:
    names = {int(socket.AF_INET): "inet", int(socket.AF_INET6): "inet6", int(socket.AF_UNIX): "unix"}
    return names.get(number, str(number))
