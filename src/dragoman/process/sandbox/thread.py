"""The restricted thread: Landlock and seccomp for one command, without a program in front of it.

Owns what the thread gives up before it starts the command: paths by Landlock, capabilities, system calls and sockets by
seccomp. `listener.py` explains the thread. Signals from outside reach the command as usual; inside, only members of the
same domain can be signalled.
"""

from __future__ import annotations

import errno
import os
import platform
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Collection
from typing import Final

from dragoman.process import proctable
from dragoman.process.sandbox import landlock
from dragoman.process.sandbox.filter import Machine, machine, thread_filter
from dragoman.process.sandbox.listener import (
    CallAnswer,
    Listener,
    ReportedCall,
    SocketAttempt,
    install,
    set_no_new_privs,
)
from dragoman.process.sandbox.policy import SandboxPolicy

_GET_ACTION_AVAILABLE: Final = 2
_NOTIFY: Final = 0x7FC00000
_CAPABILITIES_3: Final = 0x20080522
# glibc looks up the name of a user or a group at a cache program (`nscd`) first, by a Unix socket, and reads the files
# if there is none. So `ls -l`, `id`, or `bash` without `HOME` try a socket, and lack nothing when they do not get it.
# Other programs open sockets of that family and type too; this one differs in that the C library itself asks for it.
_LOOKUP_TYPE: Final = socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
_C_LIBRARIES: Final = ("libc.so", "libc-2.", "ld-linux")
# There the address to which a function returns is on top of the stack when it makes a system call.
_RETURNS_BY_STACK: Final = platform.machine() == "x86_64"


def why_not() -> str | None:
    """Return why this backend cannot be used here; None if it can."""
    version = landlock.abi()
    calls = machine()
    if version == 0:
        return "the kernel has no Landlock, or it is switched off"
    if version < landlock.ABI_NEEDED:
        return f"the kernel's Landlock is version {version}; version {landlock.ABI_NEEDED} (Linux 6.2) is needed"
    if calls is None:
        return f"the system calls of {os.uname().machine} are not known here"
    try:
        landlock.call(calls.seccomp, _GET_ACTION_AVAILABLE, 0, struct.pack("=I", _NOTIFY))
    except OSError as error:
        return f"the kernel cannot report system calls to a listener: {error.strerror}"
    return None


class RestrictedThread:
    """The start of commands under one policy; the ruleset is kept between them."""

    def __init__(self, policy: SandboxPolicy) -> None:
        calls = machine()
        assert calls is not None, why_not()  # the caller has asked `why_not`
        self._calls: Machine = calls
        self._ruleset = landlock.Ruleset(policy, landlock.abi())
        self._filter = thread_filter(calls, network=policy.network)
        self._lock = threading.Lock()

    def starter(self) -> ThreadStarter:
        """Return the starter of one command."""
        return ThreadStarter(self._restrict)

    def _restrict(self) -> int:
        set_no_new_privs(self._calls)
        with self._lock:  # another thread could replace the ruleset between the two steps
            landlock.restrict(self._ruleset.descriptor())
        # For root: without this it could load modules, and mount. `no_new_privs` keeps `exec` from giving them back.
        landlock.call(self._calls.capset, struct.pack("=Ii", _CAPABILITIES_3, 0), bytes(24))
        return install(self._calls, self._filter)


class ThreadStarter:
    """The start of one command on a fresh restricted thread, with a note of the sockets it asks for."""

    def __init__(self, restrict: Callable[[], int]) -> None:
        self._listener = Listener(restrict, _refuse)

    @property
    def attempts(self) -> tuple[SocketAttempt, ...]:
        return self._listener.attempts

    def start(self, popen: Callable[[Collection[int]], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        return self._listener.start(popen)

    def terminate(self, group: int) -> None:
        os.killpg(group, signal.SIGTERM)


def _refuse(asked: ReportedCall) -> CallAnswer:
    family = asked.arguments[0] & 0xFFFFFFFF
    kind, protocol = (value & 0xFFFFFFFF for value in asked.arguments[1:3])
    if _is_name_lookup(asked.pid, family, kind, protocol):
        return CallAnswer(None, errno.EPERM)
    names = {int(socket.AF_INET): "inet", int(socket.AF_INET6): "inet6", int(socket.AF_UNIX): "unix"}
    return CallAnswer(names.get(family, str(family)), errno.EPERM)


def _is_name_lookup(pid: int, family: int, kind: int, protocol: int) -> bool:
    """Whether the process, stopped at its call of `socket`, asks on behalf of the C library.

    Where the process cannot be read, the form of the call decides: to report nothing is better than to blame the
    sandbox for the failure of every command that prints a user's name.
    """
    if (family, kind, protocol) != (socket.AF_UNIX, _LOOKUP_TYPE, 0):
        return False
    if not _RETURNS_BY_STACK:
        return True
    try:
        caller = _caller(pid)
        return any(first <= caller < last for first, last in _c_library(pid))
    except (OSError, ValueError, struct.error):
        return True


def _caller(pid: int) -> int:
    """Return the address of the code that called the function which makes the system call."""
    *_, stack, _ = proctable.system_call(pid)
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        (address,) = struct.unpack("=Q", os.pread(memory, 8, stack))
    finally:
        os.close(memory)
    return int(address)


def _c_library(pid: int) -> list[tuple[int, int]]:
    """Return where the code of the C library lies in the process."""
    found = []
    for line in proctable.mappings(pid):
        extent, permissions, *_, path = line.split(None, 5)
        if "x" in permissions and os.path.basename(path).startswith(_C_LIBRARIES):
            first, last = extent.split("-")
            found.append((int(first, 16), int(last, 16)))
    return found
