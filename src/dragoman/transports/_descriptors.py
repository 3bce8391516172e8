"""Descriptors of this program's standard streams that can be made non-blocking."""

from __future__ import annotations

import os
import stat
from contextlib import suppress


def private_copy(fd: int, mode: int) -> tuple[int, bool]:
    """Return a descriptor for the same stream, and whether other programs would notice that it does not block.

    The non-blocking flag belongs to the open file, which a terminal's shell or a redirection like `2>&1` shares with
    others: their prints would fail. Opening the stream again gives an open file of our own. A regular file is not
    opened again, because its position would be lost, nor is a socket, which cannot be.

    Args:
        fd: The descriptor to copy.
        mode: `os.O_RDONLY` or `os.O_WRONLY`.

    Raises: OSError if the descriptor is closed.
    """
    kind = os.fstat(fd).st_mode
    if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind):
        with suppress(OSError):  # no /proc, or a stream of another user
            return os.open(f"/proc/self/fd/{fd}", mode | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), False
    copy = duplicate(fd)
    return copy, os.get_blocking(copy)


def duplicate(fd: int) -> int:
    """Return another descriptor of the same open file, which child processes do not inherit."""
    import fcntl  # here, so that Windows gets its sentence

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
