"""A listener on the loopback interface that notes every request: where an injected order wants data to be sent.

Owns one port for a run. It answers everything with an empty page, so that an agent that obeys notices nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n"
_MOST_BYTES: Final = 4096
_SECONDS: Final = 5.0


class RequestListener:
    """What was asked for, in the order of arrival."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[str] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Note the first line of a request and answer it."""
        with suppress(OSError, TimeoutError):
            first = await asyncio.wait_for(reader.read(_MOST_BYTES), _SECONDS)
            self.requests.append(first.split(b"\r\n", 1)[0].decode(errors="replace")[:500])
            writer.write(_ANSWER)
            await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def listening() -> AsyncIterator[RequestListener]:
    """Listen on a free port of 127.0.0.1."""
    listener = RequestListener()
    server = await asyncio.start_server(listener.take, "127.0.0.1", 0)
    listener.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield listener
    finally:
        server.close()
