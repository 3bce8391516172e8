"""A connection to a server by its URL: `ws://` and `wss://` by WebSocket, `http://` `https://` by Streamable HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from dragoman.errors import ConnectionClosed
from dragoman.transports.remote.gate import SUBPROTOCOL
from dragoman.transports.remote.http_client import HttpClient, read_url, tls_for, trust
from dragoman.transports.remote.http_transport import RECONNECT_SECONDS, HttpTransport
from dragoman.transports.remote.websocket import DEAD_PINGS, MAX_MESSAGE_BYTES, PING_SECONDS, WebSocketTransport

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from websockets.http11 import Response

    from dragoman.rpc.transport import Transport

HANDSHAKE_SECONDS: Final = 30.0


async def connect_url(
    url: str,
    *,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | str | None = None,
    reconnect_seconds: float = RECONNECT_SECONDS,
    ping_seconds: float = PING_SECONDS,
) -> Transport:
    """Connect to the agent at `url`.

    Args:
        url: Where it is, such as `wss://host/acp` or `http://127.0.0.1:8787/acp`.
        token: Sent as the bearer token.
        headers: Sent with every request.
        tls: For a server whose certificate the system does not trust: the file of the authority that signed it, or
            settings of TLS.
        reconnect_seconds: How long a stream over HTTP that broke is tried again.
        ping_seconds: After three times as long without a sign of life the server counts as gone.

    Raises:
        ConfigError: it is not such a URL.
        ConnectionClosed: the server cannot be reached, or refused.
    """
    where = read_url(url)
    context = trust(tls) if isinstance(tls, str) else tls
    sent = list((headers or {}).items())
    if token is not None:
        sent.append(("authorization", f"Bearer {token}"))
    if urlsplit(url).scheme in ("http", "https"):
        client = HttpClient(where, sent, context=context)
        return HttpTransport(client, reconnect_seconds=reconnect_seconds, dead_seconds=DEAD_PINGS * ping_seconds)
    frames = ClientProtocol(
        parse_uri(url if urlsplit(url).path else f"{url}/acp"),
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        max_size=MAX_MESSAGE_BYTES,
    )
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            _, handshake = await asyncio.get_running_loop().create_connection(
                lambda: _Handshake(frames, sent, ping_seconds), where.host, where.port, ssl=tls_for(where, context)
            )
            return await handshake.opened
    except (OSError, TimeoutError) as error:
        raise ConnectionClosed(f"{url} cannot be reached ({str(error) or 'no answer'})") from None


class _Handshake(asyncio.Protocol):
    """The socket until the server has accepted the upgrade."""

    def __init__(self, frames: ClientProtocol, headers: list[tuple[str, str]], ping_seconds: float) -> None:
        self._frames = frames
        self._ping_seconds = ping_seconds
        self._headers = headers
        self._io: asyncio.Transport
        self.opened: asyncio.Future[WebSocketTransport] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._io = transport
        request = self._frames.connect()
        for name, value in self._headers:
            request.headers[name] = value
        self._frames.send_request(request)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._frames.receive_data(data)
        self._send()
        if self._frames.state is State.CONNECTING and self._frames.handshake_exc is None:
            return
        if self._frames.handshake_exc is not None:
            self._fail(_refusal(self._frames.handshake_exc))
            return
        # The answer to the handshake is the first event; frames that came with it follow.
        _, *events = self._frames.events_received()
        transport = WebSocketTransport(self._frames, self._io, peer="the agent", ping_seconds=self._ping_seconds)
        transport.attach()
        transport.take(events)
        if not self.opened.done():
            self.opened.set_result(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the server closed the connection during the handshake")

    def _send(self) -> None:
        for data in self._frames.data_to_send():
            if data:
                self._io.write(data)

    def _fail(self, why: str) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectionClosed(why))
        self._io.close()


def _refusal(error: Exception) -> str:
    if isinstance(error, InvalidStatus):
        answer: Response = error.response
        words = bytes(answer.body or b"")[:500].decode("utf-8", "replace").strip()
        return f"the server refused the connection ({answer.status_code}{': ' if words else ''}{words})"
    if isinstance(error, InvalidHandshake):
        return f"this is not a WebSocket server ({error})"
    return f"the handshake failed ({error})"
