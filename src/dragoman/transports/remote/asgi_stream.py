"""The response of an ASGI server that carries one stream of events."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from dragoman.transports.remote.sse import KEEP_ALIVE, RETRY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from dragoman.transports.remote.http_connection import HttpConnection

_FULL_BYTES: Final = 64 * 1024
# The ASGI server does not say when its buffers are empty; this long after it took the last event they mostly are.
_SETTLE_SECONDS: Final = 0.05


class AsgiStreamWriter:
    """Gives events to the ASGI server, which does not return while the client does not read."""

    def __init__(
        self,
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
        keep_alive_seconds: float,
        stall_seconds: float,
    ) -> None:
        self._send_body = send
        self._keep_alive_seconds = keep_alive_seconds
        self._stall_seconds = stall_seconds
        self._waiting: list[bytes] = []
        self._is_news = asyncio.Event()
        self._is_finished = False
        self._is_lost = False
        self._sent_at = 0.0
        self._connection: HttpConnection | None = None
        self._session: str | None = None
        self.unsent_bytes = 0

    def prepare(self, connection: HttpConnection, session: str | None) -> None:
        self._connection, self._session = connection, session

    @property
    def is_full(self) -> bool:
        return self.unsent_bytes >= _FULL_BYTES

    @property
    def is_delivered(self) -> bool:
        return self.unsent_bytes == 0 and monotonic() - self._sent_at >= _SETTLE_SECONDS

    def send(self, events: bytes) -> None:
        self._waiting.append(events)
        self.unsent_bytes += len(events)
        self._is_news.set()

    def finish(self) -> None:
        self._is_finished = True
        self._is_news.set()

    def lost(self) -> None:
        """The response has ended."""
        if not self._is_lost and self._connection is not None:
            self._is_lost = True
            self.unsent_bytes = 0
            self._connection.close_stream(self._session, self)

    async def run(self) -> None:
        """Send events until the stream ends, or the client does not take them for too long."""
        await self._hand_over(RETRY)
        while True:
            self._is_news.clear()
            if self._waiting:
                waiting, self._waiting = b"".join(self._waiting), []
                await self._hand_over(waiting)
                self.unsent_bytes -= len(waiting)
                if self._connection is not None and not self.is_full:
                    self._connection.flush_stream(self._session)
            elif self._is_finished:
                await self._send_body({"type": "http.response.body", "body": b""})
                return
            else:
                await self._wait()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._keep_alive_seconds):
                await self._is_news.wait()
        except TimeoutError:
            await self._hand_over(KEEP_ALIVE)

    async def _hand_over(self, events: bytes) -> None:
        async with asyncio.timeout(self._stall_seconds):
            await self._send_body({"type": "http.response.body", "body": events, "more_body": True})
        self._sent_at = monotonic()
