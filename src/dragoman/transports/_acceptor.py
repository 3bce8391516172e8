"""A listening socket: what connects to it is accepted in the event loop, with pauses while no descriptor is left.

Owns the listening socket and nothing that was accepted. A server of asyncio forgets a connection that it accepted in
the turn of the loop in which it is closed; here each accepted socket is passed on in the same step.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_BACKLOG: Final = 512  # what a burst of clients may open before the loop comes to `_accept`
_PAUSE_SECONDS: Final = 0.2  # without descriptors, accepting is tried again after this
_log = logging.getLogger("dragoman.transports")


class Acceptor:
    """A bound socket that listens until it is closed.

    Args:
        sock: Bound already; it is owned here.
        accepted: Called with each connection, which it owns. If it raises OSError, accepting pauses.
    """

    def __init__(self, sock: socket.socket, accepted: Callable[[socket.socket], None]) -> None:
        self._sock = sock
        self._accepted = accepted
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        sock.setblocking(False)
        sock.listen(_BACKLOG)
        self._loop.add_reader(sock.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more; connections that were accepted stay."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()

    def _accept(self) -> None:
        for _ in range(_BACKLOG):
            if self._is_closed:  # by what was done with the last connection
                return
            try:
                self._accepted(self._sock.accept()[0])
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # The socket stays readable: without a pause the loop would do nothing else.
                _log.warning("cannot accept a connection (%s); trying again", error.strerror)
                self._loop.remove_reader(self._sock.fileno())
                self._loop.call_later(_PAUSE_SECONDS, self._go_on)
                return

    def _go_on(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._sock.fileno(), self._accept)
