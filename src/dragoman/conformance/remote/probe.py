"""Requests to a served agent exactly as a case writes them, also wrong ones."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.conformance.case import Fail, Inconclusive
from dragoman.errors import ConfigError, ConnectionClosed

if TYPE_CHECKING:
    from collections.abc import Mapping

INITIALIZE: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,'
    b'"clientInfo":{"name":"dragoman-check","version":"1"}}}'
)
_BODY_BYTES: Final = 1 << 20


class Answered(NamedTuple):
    """The head of an answer and the beginning of its body."""

    status: int
    headers: dict[str, str]
    body: bytes


class RemoteProbe:
    """One served agent."""

    def __init__(
        self, url: str, *, token: str | None, headers: Mapping[str, str], tls: ssl.SSLContext | None, seconds: float
    ) -> None:
        from dragoman.transports.remote.http_client import read_url, tls_for

        if url.startswith("unix:"):
            raise ConfigError("a Unix socket has no requests to judge; the cases about messages still apply")
        self.url = url
        self.token = token
        self.where = read_url(url)
        self._headers = dict(headers)
        self._tls = tls_for(self.where, tls)
        self._given_tls = tls
        self._seconds = seconds

    async def send(self, data: bytes, *, has_body: bool = True) -> Answered:
        """Send bytes on a socket of their own; gives the first answer.

        Raises:
            Inconclusive: there is none.
        """
        try:
            async with asyncio.timeout(self._seconds):
                reader, writer = await asyncio.open_connection(self.where.host, self.where.port, ssl=self._tls)
                try:
                    writer.write(data)
                    return await _read(reader, has_body=has_body)
                finally:
                    writer.transport.abort()
                    with suppress(OSError, ssl.SSLError):
                        await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Inconclusive(f"no answer to the request ({str(error) or type(error).__name__})") from None

    def request(self, method: str, body: bytes = b"", **headers: str | None) -> bytes:
        """Make a request that is right unless a header says otherwise; None leaves one out."""
        sent: dict[str, str | None] = {
            "host": self.where.host_header,
            "connection": "close",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json" if method == "POST" else None,
            "content-length": str(len(body)) if body or method == "POST" else None,
            "authorization": None if self.token is None else f"Bearer {self.token}",
            **{name.lower(): value for name, value in self._headers.items()},
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value is not None)
        return f"{method} {self.where.target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body

    async def ask(self, method: str, body: bytes = b"", **headers: str | None) -> Answered:
        return await self.send(self.request(method, body, **headers))

    async def initialize(self) -> str:
        """Open a connection and return its id.

        Raises:
            Inconclusive: there is none.
        """
        answer = await self.ask("POST", INITIALIZE)
        id = answer.headers.get("acp-connection-id", "")
        if answer.status != 200 or not id:
            raise Inconclusive(f"initialize was answered with {answer.status}")
        return id

    async def end(self, id: str) -> None:
        await self.ask("DELETE", acp_connection_id=id)

    def upgrade(self, **headers: str | None) -> bytes:
        """Make a handshake of WebSocket."""
        sent: dict[str, str | None] = {
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec_websocket_version": "13",
            "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
            **headers,
        }
        return self.request("GET", b"", **sent)

    async def first_message(self, message: bytes) -> str:
        """Open a WebSocket, send one message, and give why the server ended it.

        Raises:
            Fail: the server leaves it open.
        """
        from dragoman.transports.remote.connect import connect_url

        scheme = "wss" if self.where.is_secure else "ws"
        url = f"{scheme}://{self.where.host_header}{self.where.target}"
        try:
            transport = await connect_url(url, token=self.token, headers=self._headers, tls=self._given_tls)
        except ConnectionClosed as error:
            raise Inconclusive(f"no WebSocket: {error}") from None
        inbox = _Inbox()
        transport.start(inbox)
        transport.write(message + b"\n")
        try:
            async with asyncio.timeout(self._seconds):
                return str(await inbox.ended)
        except TimeoutError:
            raise Fail(f"the connection is still open after {self._seconds:g} s") from None
        finally:
            transport.close()
            await transport.wait_closed()


class _Inbox:
    """The wait for the end of a connection."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[ConnectionClosed] = asyncio.get_running_loop().create_future()

    def feed(self, data: bytes) -> None:
        pass

    def end(self, reason: ConnectionClosed) -> None:
        self.ended.set_result(reason)

    def drained(self) -> None:
        pass


async def _read(reader: asyncio.StreamReader, *, has_body: bool) -> Answered:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    words = first.split()
    if len(words) < 2 or not words[1].isdigit():
        raise Fail(f"the answer is not HTTP: {first[:80]!r}")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = headers.get("content-length", "")
    body = b""
    if has_body and length.isdigit():
        body = await reader.readexactly(min(int(length), _BODY_BYTES))
    elif has_body and "event-stream" not in headers.get("content-type", ""):
        body = await reader.read(_BODY_BYTES)  # chunks and all: a case only looks for words in it
    return Answered(int(words[1]), headers, body)
