"""A WebSocket client that sends exactly the frames a test gives it, and reads what comes back frame by frame."""

from __future__ import annotations

import asyncio
import json
import struct
from contextlib import suppress
from typing import Any, NamedTuple

from tests.transports.remote_kit import INITIALIZE, Http

SECONDS = 60.0
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK = b"\x01\x02\x03\x04"
HANDSHAKE: dict[str, Any] = {
    "upgrade": "websocket",
    "connection": "Upgrade",
    "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec_websocket_version": "13",
    "content_length": "",
    "content_type": "",
}


class Frame(NamedTuple):
    """A frame of the server."""

    first: int
    """Its first byte: the end mark, the reserved bits and the opcode."""
    data: bytes

    @property
    def opcode(self) -> int:
        return self.first & 15

    @property
    def code(self) -> int | None:
        """The code of a close frame."""
        return int(struct.unpack("!H", self.data[:2])[0]) if len(self.data) >= 2 else None


def frame(opcode: int, data: bytes = b"", *, fin: bool = True, rsv: int = 0, is_masked: bool = True) -> bytes:
    """The bytes of a frame."""
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    size, mark = len(data), 0x80 if is_masked else 0
    if size < 126:
        head = struct.pack("!BB", first, mark | size)
    elif size < 65536:
        head = struct.pack("!BBH", first, mark | 126, size)
    else:
        head = struct.pack("!BBQ", first, mark | 127, size)
    if not is_masked:
        return head + data
    key = int.from_bytes(MASK * (size // 4 + 1)) >> 8 * (4 * (size // 4 + 1) - size)
    return head + MASK + (int.from_bytes(data) ^ key).to_bytes(size)


def close(code: int, reason: bytes = b"") -> bytes:
    return frame(CLOSE, struct.pack("!H", code) + reason)


def echo(text: bytes, id: int = 9) -> bytes:
    """A request that is answered with its own text."""
    return b'{"jsonrpc":"2.0","id":%d,"method":"_test/echo","params":{"text":"%b"}}' % (id, text)


class RawWebSocket:
    """An open WebSocket, after `initialize` unless told otherwise."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        self._reader = reader
        self.writer = writer
        self.head = head.decode("latin-1").lower()

    @classmethod
    async def open(cls, http: Http, *, initialize: bool = True, **headers: str) -> RawWebSocket:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
        writer.write(http.request("GET", **{**HANDSHAKE, **headers}))
        async with asyncio.timeout(SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        line = cls(reader, writer, head)
        if initialize:
            line.send(frame(TEXT, INITIALIZE))
            while (found := await line.next()).opcode == PING:  # on a slow machine the server may ask first
                line.send(frame(PONG, found.data))
            assert json.loads(found.data)["result"]["protocolVersion"] == 1
        return line

    def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))

    async def send_bytewise(self, *frames: bytes) -> None:
        """Send each byte in a packet of its own."""
        for byte in b"".join(frames):
            self.writer.write(bytes((byte,)))
            await self.writer.drain()
            await asyncio.sleep(0)

    async def next(self) -> Frame:
        """The next frame.

        Raises:
            asyncio.IncompleteReadError: the server closed the socket.
        """
        async with asyncio.timeout(SECONDS):
            first, size = await self._reader.readexactly(2)
            assert size < 128, "a server must not mask"
            if size == 126:
                (size,) = struct.unpack("!H", await self._reader.readexactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", await self._reader.readexactly(8))
            return Frame(first, await self._reader.readexactly(size))

    async def next_text(self) -> str:
        """The text that the next frame echoes."""
        found = await self.next()
        assert found.first == 0x81, found
        text: str = json.loads(found.data)["result"]["text"]
        return text

    async def end(self) -> list[Frame]:
        """Everything until the server closes the socket."""
        found: list[Frame] = []
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                found.append(await self.next())
        return found

    async def close(self) -> None:
        self.writer.transport.abort()
        with suppress(OSError):
            await self.writer.wait_closed()
