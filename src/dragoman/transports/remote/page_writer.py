"""The response that carries what a page of the application makes piece by piece, on a socket of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.transports import LOW_MARK_BYTES
from dragoman.transports.remote.sse import KEEP_ALIVE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class PageWriter:
    """Writes pieces as they are made, and no faster than the client reads them."""

    def __init__(self, io: asyncio.Transport, keep_alive_seconds: float, stall_seconds: float) -> None:
        self._io = io
        self._seconds = keep_alive_seconds
        self._stall_seconds = stall_seconds
        self._loop = asyncio.get_running_loop()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, pieces: AsyncGenerator[bytes, None]) -> None:
        """Write everything and close the socket; `pieces` is closed in any case."""
        self._io.set_write_buffer_limits(high=LOW_MARK_BYTES)
        self._timer = self._loop.call_later(self._seconds, self._keep_alive)
        try:
            async for piece in pieces:
                self._write(piece)
                if not self._has_room.is_set():
                    async with asyncio.timeout(self._stall_seconds):
                        await self._has_room.wait()
            if not self._io.is_closing():
                self._io.write(b"0\r\n\r\n")
                self._io.close()
        except TimeoutError:
            self._io.abort()  # the client does not read
        finally:
            self.lost()
            await pieces.aclose()

    def no_room(self) -> None:
        """The socket is full: the client does not read, or reads slowly."""
        self._has_room.clear()

    def has_room(self) -> None:
        self._has_room.set()

    def lost(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write(self, piece: bytes) -> None:
        if piece and not self._io.is_closing():
            self._io.write(b"%x\r\n%b\r\n" % (len(piece), piece))

    def _keep_alive(self) -> None:
        if self._has_room.is_set():
            self._write(KEEP_ALIVE)
        self._timer = self._loop.call_later(self._seconds, self._keep_alive)
