"""Landlock by system call: which paths a thread and everything it starts may read and write.

Owns the rights of each version of the kernel's interface (ABI) and the ruleset of a policy. Rules only allow, and
hold for everything below a folder, so "all but the secret folders" becomes a rule for each neighbour of each folder
on the way.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from dragoman.policy.paths import is_below
from dragoman.process.sandbox.policy import SandboxPolicy

ABI_NEEDED: Final = 3  # the first that controls truncation, so the first that keeps a file's content
ABI_SIGNALS: Final = 6  # the first that keeps signals and abstract Unix sockets inside

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on every processor
_PATH_BENEATH: Final = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_DEVICES_MADE: Final = 1 << 6 | 1 << 11  # character and block devices
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_FOR_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
# (files, TCP ports, scopes) that each version controls; later versions control at least the last line.
_HANDLED: Final = {
    3: ((1 << 15) - 1, 0, 0),
    4: ((1 << 15) - 1, 3, 0),
    5: ((1 << 16) - 1, 3, 0),
    6: ((1 << 16) - 1, 3, 3),
}
_DEVICES: Final = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"))
_SHARED_MEMORY: Final = "/dev/shm"  # semaphores and shared memory of multiprocessing; not ours to make

_libc: Final = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: object) -> int:
    """Make a system call on this thread. Raises: OSError."""
    # Every argument is as wide as a register: ctypes would pass a bare int as 32 bits and leave the rest undefined.
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def abi() -> int:
    """Return the version of Landlock that the kernel offers; 0 if it has none, or if it is switched off."""
    try:
        return call(_CREATE, None, 0, 1)
    except OSError:
        return 0


def restrict(ruleset: int) -> None:
    """Restrict the calling thread, forever. It has to have `no_new_privs`."""
    call(_RESTRICT, ruleset, 0)


class Ruleset:
    """The ruleset of a policy, kept as long as the folders it was made from have not changed."""

    def __init__(self, policy: SandboxPolicy, version: int) -> None:
        self._policy = policy
        files, self._ports, self._scopes = _HANDLED[min(version, max(_HANDLED))]
        self._files = files
        self._fd = -1
        self._walked: dict[str, tuple[int, ...]] = {}
        self._written: dict[str, tuple[int, ...]] = {}

    def descriptor(self) -> int:
        """Return the ruleset for the folders as they are now; it stays ours."""
        is_current = all(_state(path) == state for path, state in self._walked.items()) and all(
            _state(path)[:2] == state for path, state in self._written.items()
        )
        if self._fd < 0 or not is_current:
            self.close()
            self._build()
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            self.close()

    def _build(self) -> None:
        self._walked, self._written = {}, {}
        ports = 0 if self._policy.network else self._ports
        # Older kernels accept the longer form as long as the members they do not know are zero.
        self._fd = call(_CREATE, struct.pack("=QQQ", self._files, ports, self._scopes), 24, 0)
        try:
            for path in self._readable("/", self._policy.hidden):
                self._allow(path, _READ)
            if self._policy.hidden:
                self._allow("/", _READ_DIR)  # `ls ~` would fail without; so names can be seen everywhere
            for path in self._policy.written:
                self._written[path] = _state(path)[:2]
                self._allow(path, self._files & ~_DEVICES_MADE)
            for path in _DEVICES:
                self._allow(path, _READ_FILE | _WRITE_FILE | _READ_DIR | _TRUNCATE | _IOCTL_DEVICE)
            self._allow(_SHARED_MEMORY, self._files & ~_DEVICES_MADE)
        except BaseException:
            self.close()
            raise

    def _readable(self, path: str, hidden: Sequence[str]) -> Iterator[str]:
        """Yield the widest paths that together are everything of a path outside the hidden places."""
        if path in hidden:
            return
        inner = [place for place in hidden if is_below(place, path)]
        if not inner:
            yield path
            return
        self._walked[path] = _state(path)
        with suppress(OSError), os.scandir(path) as listing:
            for entry in listing:
                if not entry.is_symlink():
                    yield from self._readable(entry.path, inner)

    def _allow(self, path: str, rights: int) -> None:
        try:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EACCES):
                return  # gone since it was listed, or not there on this system
            raise
        try:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                rights &= _FOR_FILES
            call(_ADD_RULE, self._fd, _PATH_BENEATH, struct.pack("=Qi", rights & self._files, fd), 0)
        finally:
            os.close(fd)


def _state(path: str) -> tuple[int, ...]:
    """Return which folder it is, and when a name in it was last added or removed."""
    try:
        seen = os.stat(path, follow_symlinks=False)
    except OSError:
        return ()
    return seen.st_dev, seen.st_ino, seen.st_mtime_ns
