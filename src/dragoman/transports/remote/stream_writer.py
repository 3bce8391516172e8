"""Responses that are written chunk by chunk, each on a socket of its own: a stream of events, or pieces of a page."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from dragoman.transports import LOW_MARK_BYTES
from dragoman.transports.remote.buffers import bound_buffers, kernel_bytes
from dragoman.transports.remote.sse import KEEP_ALIVE, RETRY

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from dragoman.transports.remote.http_connection import HttpConnection

_log = logging.getLogger("dragoman.transports")


class StreamWriter:
    """The response that carries one stream of events."""

    def __init__(self, io: asyncio.Transport, keep_alive_seconds: float, stall_seconds: float) -> None:
        self._io = io
        self._seconds = keep_alive_seconds
        self._stall_seconds = stall_seconds
        self._stalled: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._connection: HttpConnection | None = None
        self._session: str | None = None
        self._early: list[bytes] | None = []
        self._is_finished = False
        self.is_full = False

    def prepare(self, connection: HttpConnection, session: str | None) -> None:
        self._connection, self._session = connection, session

    def open(self) -> None:
        """Begin to write: the head of the response was sent."""
        early, self._early = self._early or [], None
        # At the mark where senders go on: a buffer that empties without a word would leave them waiting forever.
        self._io.set_write_buffer_limits(high=LOW_MARK_BYTES, low=LOW_MARK_BYTES)
        bound_buffers(self._io)  # so that what a broken response loses is less than what its stream keeps
        self._write(RETRY + b"".join(early))
        if self._is_finished:
            self._end()
            return
        self._timer = self._loop.call_later(self._seconds, self._keep_alive)
        if not self.is_full and self._connection is not None:  # the socket took it all; senders may wait for that
            self._connection.flush_stream(self._session)

    @property
    def unsent_bytes(self) -> int:
        if self._early is not None:
            return sum(map(len, self._early))
        return self._io.get_write_buffer_size()

    @property
    def is_delivered(self) -> bool:
        return self.unsent_bytes == 0 and kernel_bytes(self._io) == 0

    def send(self, events: bytes) -> None:
        if self._early is not None:
            self._early.append(events)
        else:
            self._write(events)

    def finish(self) -> None:
        self._is_finished = True
        if self._early is None:
            self._end()

    def no_room(self) -> None:
        """Take note that the socket is full: the client does not read, or reads slowly."""
        self.is_full = True
        if self._stalled is None:
            self._stalled = self._loop.call_later(self._stall_seconds, self._io.abort)

    def has_room(self) -> None:
        self.is_full = False
        self._stop_stalled()
        if self._connection is not None:
            self._connection.flush_stream(self._session)

    def lost(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._stop_stalled()
        if self._connection is not None:
            self._connection.close_stream(self._session, self)

    def _stop_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _write(self, events: bytes) -> None:
        if not self._io.is_closing():
            self._io.write(b"%x\r\n%b\r\n" % (len(events), events))

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._io.is_closing():
            self._io.write(b"0\r\n\r\n")
            self._io.close()

    def _keep_alive(self) -> None:
        if not self.is_full:
            self._write(KEEP_ALIVE)
        self._timer = self._loop.call_later(self._seconds, self._keep_alive)


class PageWriter:
    """The response that carries what a page makes piece by piece, no faster than the client reads."""

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
        except Exception:
            _log.exception("a page failed in the middle of its answer")
            self._io.abort()  # without the last chunk, so that the client sees that something is missing
        finally:
            self.lost()
            await pieces.aclose()

    def no_room(self) -> None:
        """Take note that the socket is full: the client does not read, or reads slowly."""
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
