"""A small HTTP/1.1 client on asyncio streams and h11: one request at a time, or one response that streams.

Owns sockets, TLS and reading answers within a limit. Does not depend on ACP. A general client such as httpx costs more
to import than everything else in this package.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

import h11

from dragoman.errors import ConfigError, RemoteProtocolError
from dragoman.transports.remote.buffers import bound_buffers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

_READ_BYTES: Final = 1 << 16
_CONNECT_SECONDS: Final = 30.0
_KEPT_SECONDS: Final = 3.0  # Node closes a socket after five seconds without a request


class Url(NamedTuple):
    """An address of a server, taken apart."""

    is_secure: bool
    host: str
    port: int
    target: str

    @property
    def host_header(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.is_secure else 80) else f"{name}:{self.port}"


def read_url(text: str) -> Url:
    """Take an `http`, `https`, `ws` or `wss` URL apart.

    Raises:
        ConfigError: it is not one, or it holds a user name, which would be shown in logs.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
        raise ConfigError(f"{text!r} is not the URL of an agent; it looks like https://host:8787/acp or wss://host/acp")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("a URL must not hold a user name or a password; give the token on its own")
    is_secure = parts.scheme in ("https", "wss")
    target = parts.path or "/acp"
    if parts.query:
        target += f"?{parts.query}"
    return Url(is_secure, parts.hostname, port or (443 if is_secure else 80), target)


def tls_for(url: Url, context: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """Return the TLS settings of a connection; None without TLS."""
    return (context or ssl.create_default_context()) if url.is_secure else None


def trust(file: str) -> ssl.SSLContext:
    """Return settings of TLS that trust the authority whose certificate is in `file`, in addition to those of the
    system.

    Raises:
        ConfigError: the file cannot be read, or holds no certificate.
    """
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{file} does not hold the certificate of an authority ({error})") from None
    return context


class HttpAnswer(NamedTuple):
    """A complete answer."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpClient:
    """The requests to one server, over a socket that is kept open between them."""

    def __init__(self, url: Url, headers: Sequence[tuple[str, str]], *, context: ssl.SSLContext | None = None) -> None:
        self._url = url
        self._headers = list(headers)
        self._tls = tls_for(url, context)
        self._cookies: dict[str, str] = {}
        self._kept: _Exchange | None = None

    async def request(
        self,
        method: str,
        headers: Sequence[tuple[str, str]],
        body: bytes = b"",
        *,
        limit_bytes: int,
        may_repeat: bool = False,
    ) -> HttpAnswer:
        """Send one request and read its answer.

        Args:
            limit_bytes: As much of the body is read; the rest is dropped.
            may_repeat: Send it again if the server closed the kept socket just then; it may have seen the request.

        Raises:
            OSError: the server cannot be reached, or the connection broke.
            RemoteProtocolError: the answer is not HTTP.
        """
        kept, self._kept = self._kept, None
        if kept is not None and kept.is_usable:
            try:
                return await self._ask(kept, method, headers, body, limit_bytes)
            except _NoAnswer as error:
                if not may_repeat:
                    raise ConnectionResetError("the server closed the connection") from error
        elif kept is not None:
            kept.abort()
        return await self._ask(await self._open(), method, headers, body, limit_bytes)

    async def stream(self, headers: Sequence[tuple[str, str]]) -> StreamedAnswer:
        """Send a GET and give its answer as it comes, on a socket of its own."""
        exchange = await self._open()
        try:
            answer = await exchange.send("GET", self._head(headers), b"")
        except BaseException:
            exchange.abort()
            raise
        self._keep_cookies(answer)
        exchange.bound_buffers()
        return StreamedAnswer(answer.status_code, _headers(answer), exchange)

    async def close(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.abort()

    async def _ask(
        self, exchange: _Exchange, method: str, headers: Sequence[tuple[str, str]], body: bytes, limit_bytes: int
    ) -> HttpAnswer:
        try:
            answer = await exchange.send(method, self._head(headers), body)
            self._keep_cookies(answer)
            found = bytearray()
            async for piece in exchange.body():
                found += piece[: limit_bytes - len(found)]
        except BaseException:
            exchange.abort()
            raise
        if exchange.finish() and self._kept is None:
            self._kept = exchange
        else:
            exchange.abort()
        return HttpAnswer(answer.status_code, _headers(answer), bytes(found))

    async def _open(self) -> _Exchange:
        async with asyncio.timeout(_CONNECT_SECONDS):
            # Not a StreamWriter: over TLS, one that was aborted is still reported as unclosed when it is collected.
            reader = asyncio.StreamReader(limit=4 * _READ_BYTES)
            io, _ = await asyncio.get_running_loop().create_connection(
                lambda: asyncio.StreamReaderProtocol(reader), self._url.host, self._url.port, ssl=self._tls
            )
        return _Exchange(self._url, reader, io)

    def _head(self, headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        return [*self._headers, *headers, *([("cookie", cookies)] if cookies else [])]

    def _keep_cookies(self, answer: h11.Response) -> None:
        """Keep what a load balancer needs to find the same server again."""
        for name, value in answer.headers:
            if name == b"set-cookie":
                key, separator, text = value.decode("latin-1").partition(";")[0].partition("=")
                if separator and len(self._cookies) < 50:
                    self._cookies[key.strip()] = text.strip()


class StreamedAnswer:
    """The head of an answer whose body is still coming."""

    def __init__(self, status: int, headers: dict[str, str], exchange: _Exchange) -> None:
        self.status = status
        self.headers = headers
        self._exchange = exchange

    def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes; end with it, or with an OSError when the connection breaks."""
        return self._exchange.body()

    async def read(self, limit_bytes: int) -> bytes:
        found = bytearray()
        with suppress(OSError, RemoteProtocolError):
            async for piece in self._exchange.body():
                found += piece[: limit_bytes - len(found)]
        return bytes(found)

    def close(self) -> None:
        self._exchange.abort()


class _NoAnswer(Exception):
    """The server closed a kept socket without an answer, probably before it saw the request."""


class _Exchange:
    """One socket of the client."""

    def __init__(self, url: Url, reader: asyncio.StreamReader, io: asyncio.Transport) -> None:
        self._url = url
        self._reader = reader
        self._io = io
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_READ_BYTES)
        self._is_used = False
        self._used = monotonic()

    @property
    def is_usable(self) -> bool:
        is_fresh = monotonic() - self._used < _KEPT_SECONDS
        return is_fresh and not self._io.is_closing() and not self._reader.at_eof()

    async def send(self, method: str, headers: list[tuple[str, str]], body: bytes) -> h11.Response:
        """Send a request; gives the head of the answer."""
        head = [("host", self._url.host_header), *headers]
        if body or method == "POST":
            head.append(("content-length", str(len(body))))
        request = h11.Request(method=method, target=self._url.target, headers=head)
        data = self._http.send(request) + (self._http.send(h11.Data(data=body)) if body else b"")
        self._io.write(data + self._http.send(h11.EndOfMessage()))
        was_used, self._is_used = self._is_used, True
        try:
            while True:
                event = await self._next()
                if isinstance(event, h11.Response):
                    return event
        except OSError as error:
            # A server may close a socket that is not in use at any time; on a fresh one this is an error.
            if was_used and self._http.their_state is h11.SEND_RESPONSE and not self._http.trailing_data[0]:
                raise _NoAnswer from error
            raise

    async def body(self) -> AsyncIterator[bytes]:
        while True:
            event = await self._next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return

    def finish(self) -> bool:
        """Whether the socket can be used for another request."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._used = monotonic()
            return True
        return False

    def bound_buffers(self) -> None:
        bound_buffers(self._io)

    def abort(self) -> None:
        self._io.abort()

    async def _next(self) -> h11.Event:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                if self._reader.at_eof():
                    raise ConnectionResetError("the server closed the connection") from None
                raise RemoteProtocolError(f"the answer is not HTTP: {error}") from None
            if event is h11.NEED_DATA:
                data = await self._reader.read(_READ_BYTES)
                self._http.receive_data(data)
            elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("the server closed the connection")
            else:
                assert isinstance(event, h11.Event)
                return event


def _headers(answer: h11.Response) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
