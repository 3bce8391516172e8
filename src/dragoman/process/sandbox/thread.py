"""The restricted thread: Landlock and seccomp for one command, without a program in front of it.

Owns what the thread gives up before it starts the command: paths by Landlock, capabilities, system calls and sockets by
seccomp. `listener.py` explains the thread. Signals from outside reach the command as usual; inside, only members of the
same domain can be signalled.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Collection
from typing import Final

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
from dragoman.process.sandbox.name_lookup import is_name_lookup
from dragoman.process.sandbox.policy import SandboxPolicy

_GET_ACTION_AVAILABLE: Final = 2
_NOTIFY: Final = 0x7FC00000
_CAPABILITIES_3: Final = 0x20080522


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
        landlock.call(calls.seccomp, _GET_ACTION_AVAILABLE, 0, struct.pack("=I", _NOTIFY))
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
        set_no_new_privs(self._calls)
        with self._lock:  # another thread could replace the ruleset between the two steps
            landlock.restrict(self._ruleset.descriptor())
        # For root: without this it could load modules, and mount. `no_new_privs` keeps `exec` from giving them back.
        landlock.call(self._calls.capset, struct.pack("=Ii", _CAPABILITIES_3, 0), bytes(24))
        return install(self._calls, self._filter)


class ThreadStarter:
    """Starts one command on a fresh restricted thread and notes the sockets it asks for."""

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
    if is_name_lookup(asked.pid, family, kind, protocol):
        return CallAnswer(None, errno.EPERM)
    names = {int(socket.AF_INET): "inet", int(socket.AF_INET6): "inet6", int(socket.AF_UNIX): "unix"}
    return CallAnswer(names.get(family, str(family)), errno.EPERM)
