"""Accepts connections on a bound socket, and loses none of them at the end.

The server of asyncio forgets a connection that it accepted in the turn of the loop in which it is closed: its socket
stays open until it is collected. Here every accepted socket belongs to a task until a protocol has it, and `finish`
waits for these tasks.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

_BACKLOG: Final = 512
_PAUSE_SECONDS: Final = 0.2  # without descriptors, accepting is tried again after this
_log = logging.getLogger("dragoman.transports")


class PortListener:
    """A listening socket."""

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[], asyncio.Protocol],
        *,
        ssl: ssl.SSLContext | None = None,
        handshake_seconds: float | None = None,
    ) -> None:
        """Start to listen.

        Args:
            sock: Bound already; it is owned here.
            make: Makes the protocol of a connection.
            ssl: For connections with TLS.
            handshake_seconds: How long a handshake of TLS may take.
        """
        self._sock = sock
        self._make = make
        self._ssl = ssl
        self._handshake_seconds = None if ssl is None else handshake_seconds
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._is_closed = False
        sock.setblocking(False)
        sock.listen(_BACKLOG)
        self._loop.add_reader(sock.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more; what was accepted is opened."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()

    async def finish(self) -> None:
        """Return when each connection that was accepted has a protocol, or is closed; handshakes are given up."""
        self.close()
        if self._ssl is not None:
            for task in self._opening:
                task.cancel()
        while self._opening:
            await asyncio.wait(self._opening)

    def _accept(self) -> None:
        for _ in range(_BACKLOG):
            try:
                sock, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.warning("cannot accept a connection (%s); trying again", error.strerror)
                self._loop.remove_reader(self._sock.fileno())
                self._loop.call_later(_PAUSE_SECONDS, self._go_on)
                return
            sock.setblocking(False)
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                # asyncio does this only for sockets whose protocol number is known, which it is not after `accept`: a
                # small answer behind another one then waits 40 ms for the client's acknowledgement.
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._open(sock))
            self._opening.add(task)
            # A task that is cancelled before its first step has not come to its own `finally`.
            task.add_done_callback(lambda done, sock=sock: self._opened(done, sock))  # type: ignore[misc]

    def _go_on(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._sock.fileno(), self._accept)

    async def _open(self, sock: socket.socket) -> None:
        await self._loop.connect_accepted_socket(
            self._make, sock, ssl=self._ssl, ssl_handshake_timeout=self._handshake_seconds
        )

    def _opened(self, task: asyncio.Task[None], sock: socket.socket) -> None:
        self._opening.discard(task)
        if task.cancelled():
            sock.close()
        elif (error := task.exception()) is not None:
            _log.debug("a connection was not opened: %s", error)
            sock.close()
