"""A Unix socket as a transport: lines, as over stdio. Both ends use it.

Owns the socket: one descriptor to read from and a copy of it to write to, so that the two directions end independently.
Who may connect is decided by the folder the socket is in, and by the user at the other end, whom the kernel knows.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.errors import ConfigError, ConnectionClosed
from dragoman.transports._acceptor import Acceptor
from dragoman.transports.fd import FLUSH_SECONDS, FdTransport

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PATH_BYTES: Final = 103 if sys.platform == "darwin" else 107
_log = logging.getLogger("dragoman.transports")


class UnixTransport(FdTransport):
    """One end of a connected Unix socket; it owns the socket."""

    def __init__(self, sock: socket.socket, *, peer: str, flush_seconds: float = FLUSH_SECONDS) -> None:
        reading = sock.detach()
        try:
            writing = os.dup(reading)
        except OSError:
            os.close(reading)
            raise
        self._writing = writing
        super().__init__(reading, writing, peer=peer, flush_seconds=flush_seconds)

    def _let_go(self, fd: int) -> None:
        if fd == self._writing:
            # The other descriptor keeps the socket open, so that the peer would not see the end of what we write.
            ending = socket.socket(fileno=fd)
            with suppress(OSError):
                ending.shutdown(socket.SHUT_WR)
            ending.detach()
        super()._let_go(fd)


def check_path(path: str) -> str:
    """Return the path, if a socket can have it.

    Raises:
        ConfigError: it is too long for the system.
    """
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise ConfigError(f"the path of a socket may have {MAX_PATH_BYTES} bytes, this one has more: {path}")
    return path


def peer_user(sock: socket.socket) -> int | None:
    """Return the user of the program at the other end; None where the system does not know."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", data)[1])


async def connect_unix(path: str, *, peer: str = "the agent") -> UnixTransport:
    """Connect to the socket at `path`.

    Raises:
        ConfigError: the path is too long.
        ConnectionClosed: no program listens there.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, check_path(path))
    except OSError as error:
        sock.close()
        raise ConnectionClosed(f"no program listens at {path} ({error.strerror})") from None
    except BaseException:
        sock.close()
        raise
    return UnixTransport(sock, peer=peer)


def bind_unix(path: str) -> socket.socket:
    """Bind a socket at `path`, for this user only. A stale one is replaced, one in use is not.

    Raises:
        ConfigError: the path is too long, in use, or cannot be made.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if os.path.exists(check_path(path)):
            _remove_stale(path)
        before = os.umask(0o177)
        try:
            sock.bind(path)
        finally:
            os.umask(before)
    except OSError as error:
        sock.close()
        raise ConfigError(f"cannot listen at {path} ({error.strerror})") from None
    except BaseException:
        sock.close()
        raise
    return sock


def _remove_stale(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise ConfigError(f"another program listens at {path}")


class UnixServer:
    """A bound socket that accepts connections of allowed users only."""

    def __init__(
        self, sock: socket.socket, opened: Callable[[UnixTransport], None], *, users: frozenset[int] | None = None
    ) -> None:
        """Start to listen.

        Args:
            sock: Bound already; the server owns it.
            opened: Called with each connection.
            users: Who may connect; by default only the user of this program.
        """
        self._opened = opened
        self._users = frozenset((os.geteuid(),)) if users is None else users
        self._acceptor = Acceptor(sock, self._accepted)

    def close(self) -> None:
        """Accept no more; connections that were accepted stay."""
        self._acceptor.close()

    def _accepted(self, sock: socket.socket) -> None:
        user = peer_user(sock)
        if user is not None and user not in self._users:
            _log.warning("refused a connection of the user %d", user)
            sock.close()
        else:
            self._opened(UnixTransport(sock, peer="the client"))
