"""The opening of a file by a root's descriptor and a relative path, without leaving the root.

There are two implementations with the same promises: the kernel's `openat2`, and our own walk, one component at a time,
for systems without it. Both raise OSError: EXDEV for a path that leads out, ELOOP for a link that is not followed.
Neither compares strings: what is opened is what was checked. Does not know the names of roots, sizes or text.
"""

from __future__ import annotations

import errno
import os
import sys
from struct import pack
from typing import Any, Final, Literal, Protocol, TypeAlias

from dragoman.errors import ConfigError

Way: TypeAlias = Literal["auto", "openat2", "walk"]

# O_NONBLOCK: opening a FIFO must not wait for its other end. O_NOCTTY: nor may a terminal become ours.
READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# O_PATH needs no permission to list a folder, which one only passes through; macOS has no such thing.
FOLDER: Final = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC

# The numbers of linux/openat2.h; the system call has the same number on every architecture but alpha.
_OPENAT2: Final = 437
_NO_MAGICLINKS: Final = 0x02
_NO_SYMLINKS: Final = 0x04
_BENEATH: Final = 0x08
# The kernel gives EAGAIN while another process renames folders on a path with `..` in a link. Ten times in a row is an
# attack or an accident; it costs 50 µs.
_TRIES: Final = 10
# As many as Linux follows.
_MOST_LINKS: Final = 40


class Resolver(Protocol):
    """A way to open what lies beneath a folder. `relative` holds no `..`, no `.` and no empty component."""

    @property
    def name(self) -> str: ...

    def open_file(self, root: int, relative: str) -> int:
        """Open for reading; follow relative links that stay beneath `root`."""

    def open_folder(self, root: int, relative: str) -> int:
        """Open a folder to work in; follow no link at all. An empty path is the root itself."""


class KernelResolver:
    """`openat2(RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)`: one system call, atomic against renames."""

    name: Final = "openat2"

    def __init__(self) -> None:
        import ctypes  # 2 ms that a program without files need not pay

        libc: Any = ctypes.CDLL(None, use_errno=True)
        self._syscall = libc.syscall
        self._syscall.restype = ctypes.c_long
        self._syscall.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
        self._get_errno = ctypes.get_errno
        self._read = _how(READ, _BENEATH | _NO_MAGICLINKS)
        self._folder = _how(FOLDER, _BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS)

    def open_file(self, root: int, relative: str) -> int:
        return self._open(root, relative, self._read)

    def open_folder(self, root: int, relative: str) -> int:
        return self._open(root, relative or ".", self._folder)

    def _open(self, root: int, relative: str, how: bytes) -> int:
        name = os.fsencode(relative)
        for _ in range(_TRIES):
            fd: int = self._syscall(_OPENAT2, root, name, how, len(how))
            if fd >= 0:
                return fd
            number = self._get_errno()
            if number not in (errno.EAGAIN, errno.EINTR):
                break
        raise OSError(number, os.strerror(number), relative)


class WalkResolver:
    """One component at a time with `O_NOFOLLOW`; links are read and walked by us, so none is followed unseen."""

    name: Final = "walk"

    def open_file(self, root: int, relative: str) -> int:
        pending = relative.split("/")[::-1]
        links = 0
        with _Trail(root) as trail:
            while True:
                name = pending.pop()
                if name in (".", ".."):
                    if name == "..":
                        trail.leave()
                    if not pending:
                        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), relative)
                    continue
                try:
                    if not pending:
                        return os.open(name, READ | os.O_NOFOLLOW, dir_fd=trail.fd)
                    trail.enter(name)
                except OSError as error:
                    target = _link_target(name, trail.fd, error)
                    links += 1
                    if target.startswith("/"):  # also what every magic link of /proc reads as, or else as no file
                        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), relative) from None
                    if links > _MOST_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), relative) from None
                    if target.endswith(("/", "/.")):
                        pending.append(".")  # what stands before it has to be a folder
                    pending.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
                    if not pending:
                        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), relative) from None

    def open_folder(self, root: int, relative: str) -> int:
        with _Trail(root) as trail:
            for name in relative.split("/") if relative else ():
                try:
                    trail.enter(name)
                except OSError as error:
                    _link_target(name, trail.fd, error)
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), relative) from None
            return os.dup(trail.fd)


class _Trail:
    """The folders walked through, root first. Going up is going back to one that was beneath the root already."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._fds: list[int] = []

    @property
    def fd(self) -> int:
        return self._fds[-1] if self._fds else self._root

    def enter(self, name: str) -> None:
        self._fds.append(open_child(self.fd, name))

    def leave(self) -> None:
        if not self._fds:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        os.close(self._fds.pop())

    def __enter__(self) -> _Trail:
        return self

    def __exit__(self, *exc: object) -> None:
        for fd in self._fds:
            os.close(fd)


def open_child(folder: int, name: str) -> int:
    """Open the folder `name` directly in `folder`; a link does not count as one (ENOTDIR)."""
    return os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=folder)


def _link_target(name: str, folder: int, error: OSError) -> str:
    """Return the target of the link that stopped an open; raise `error` again if it was not a link.

    Between the open and this the name may have changed. That is harmless: the target is only a path to walk.
    """
    if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
        raise error
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        raise error from None


def _how(flags: int, resolve: int) -> bytes:
    """Return `struct open_how`: flags, mode, resolve."""
    return pack("QQQ", flags, 0, resolve)


def find_resolver(way: Way = "auto") -> Resolver:
    """Return the resolver asked for; `auto` takes the kernel's where there is one.

    Raises:
        ConfigError: `openat2` was asked for by name, and this system does not have it.
    """
    if way != "walk" and sys.platform == "linux":
        resolver = KernelResolver()
        try:
            root = os.open("/", FOLDER)
            try:
                os.close(resolver.open_folder(root, ""))
            finally:
                os.close(root)
        except OSError:  # ENOSYS before Linux 5.6, EPERM where a sandbox does not know the call
            pass
        else:
            return resolver
    if way == "openat2":
        raise ConfigError("this system has no openat2 (Linux 5.6 or later); use the resolver 'auto' or 'walk'")
    return WalkResolver()
