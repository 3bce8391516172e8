"""The streams of an MCP server in the form that the `mcp` package reads and writes.

Owns the conversion between the bytes of a child process and the package's messages, with backpressure in both
directions, and noticing the end of a stream. Does not interpret messages. The package is already loaded when these
classes are used.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.wire import Framer, TooLong
from dragoman.wire.glimpse import Glimpse, glimpse

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.shared.message import SessionMessage

    from dragoman.errors import ConnectionClosed
    from dragoman.transports.process import ProcessTransport
    from dragoman.wire import Truncated

_log = logging.getLogger("dragoman.builtin")

_PAUSE_MESSAGES: Final = 64  # this many messages are read ahead of the package, then the server has to wait
_UNSENT_BYTES: Final = 1 << 16
_TOO_LONG: Final = -32603


class Incoming:
    """The messages that a server on stdio writes, as the package reads them. It is the receiver of the transport."""

    def __init__(self, transport: ProcessTransport, on_end: Callable[[ConnectionClosed], None]) -> None:
        self.transport = transport
        self.is_over = False
        self.can_write = asyncio.Event()
        self.can_write.set()
        self._on_end = on_end
        self._framer = Framer()
        self._messages: deque[SessionMessage | Exception] = deque()
        self._arrived = asyncio.Event()

    # For the transport

    def feed(self, data: bytes) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        for frame in self._framer.feed(data):
            line = frame if isinstance(frame, bytes) else _refusal_of(frame)
            if line is None:
                continue
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                # Many servers print other text to stdout, mostly at their start.
                _log.debug("a line of an MCP server is not a message: %.200r", line)
                continue
            self._messages.append(SessionMessage(message))
        if self._messages:
            self._arrived.set()
        if len(self._messages) >= _PAUSE_MESSAGES:
            self.transport.pause_reading()

    def end(self, reason: ConnectionClosed) -> None:
        self._stop()
        self._on_end(reason)

    def drained(self) -> None:
        self.can_write.set()

    # For the package

    async def receive(self) -> SessionMessage | Exception:
        from anyio import EndOfStream

        while not self._messages:
            if self.is_over:
                raise EndOfStream
            self._arrived.clear()
            await self._arrived.wait()
        message = self._messages.popleft()
        if not self._messages and not self.is_over:
            self.transport.resume_reading()
        return message

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Incoming:
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop reading, as the package wants. The connection that started the process ends it."""
        self._stop()

    def close(self) -> None:
        self._stop()
        self.transport.close()

    def _stop(self) -> None:
        self.is_over = True
        self._arrived.set()
        self.can_write.set()


def _refusal_of(frame: TooLong | Truncated) -> bytes | None:
    """Return an error in place of an answer that is too long, so that its call fails now and not at its time limit."""
    seen = glimpse(frame.head, frame.tail) if isinstance(frame, TooLong) else Glimpse()
    if not isinstance(frame, TooLong) or seen.kind != "response" or not isinstance(seen.id, (int, str)):
        _log.warning("a message of an MCP server is left out: it has %d bytes", frame.size_bytes)
        return None
    why = f"the server's answer has {frame.size_bytes:,} bytes, more than the {frame.limit_bytes:,} that are read"
    return msgspec.json.encode({"jsonrpc": "2.0", "id": seen.id, "error": {"code": _TOO_LONG, "message": why}})


class Outgoing:
    """The messages that the package writes to a server on stdio."""

    def __init__(self, incoming: Incoming) -> None:
        self._incoming = incoming
        self._is_closed = False

    async def send(self, item: SessionMessage, /) -> None:
        if self._is_closed or self._incoming.is_over:
            from anyio import ClosedResourceError

            raise ClosedResourceError
        transport = self._incoming.transport
        transport.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        if transport.unsent_bytes > _UNSENT_BYTES:
            self._incoming.can_write.clear()
            await self._incoming.can_write.wait()

    async def __aenter__(self) -> Outgoing:
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self._is_closed = True


class _Ended(Exception):
    """The stream has ended: a task cannot raise the exception for it."""


async def _next_of(stream: Any) -> tuple[Any]:
    try:
        return (await stream.__anext__(),)
    except StopAsyncIteration:
        raise _Ended from None


class Watched:
    """A stream of the package that calls `on_end` at its end, and can be ended from outside."""

    def __init__(self, stream: Any, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end
        self._ended = asyncio.Event()

    def end(self) -> None:
        """End it, whatever the other side does, so that all that waits for a message fails now."""
        self._ended.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Watched:
        return self

    async def __anext__(self) -> Any:
        ending = asyncio.create_task(self._ended.wait())
        receiving = asyncio.ensure_future(_next_of(self._stream))
        try:
            await asyncio.wait({receiving, ending}, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                return receiving.result()[0]
        except _Ended:
            pass
        finally:
            ending.cancel()
            receiving.cancel()
        self._on_end()
        raise StopAsyncIteration

    async def __aenter__(self) -> Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)
