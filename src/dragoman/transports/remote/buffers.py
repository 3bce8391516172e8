"""The buffers of a socket, as far as a program sees and sets them."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

_BUFFER_BYTES: Final = 128 * 1024
# Data that the other machine does not acknowledge for so long means that it is gone; without this a half-open
# connection lives for a quarter of an hour.
_DEAD_MILLISECONDS: Final = 60_000


def bound_buffers(io: asyncio.BaseTransport) -> None:
    """Keep the kernel from holding megabytes.

    What it holds is delivered before the answer to a cancel, and is lost when the connection breaks.
    """
    sock = io.get_extra_info("socket")
    if sock is not None:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_MILLISECONDS)


def kernel_bytes(io: asyncio.BaseTransport) -> int:
    """Return how much the kernel has taken and the other machine has not acknowledged."""
    sock = io.get_extra_info("socket")
    if sock is None:
        return 0
    try:
        return int(struct.unpack("=i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))[0])
    except (OSError, ValueError):
        return 0


def end_writing(io: asyncio.Transport) -> None:
    """Send nothing more; the other end may still."""
    if io.can_write_eof():
        with suppress(OSError):  # the other end has reset the connection, which is not reported yet
            io.write_eof()
