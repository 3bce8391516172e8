"""The server's end of a WebSocket: the handshake, and what is asked of a connection before it reaches the application.

Owns the first message, which must be `initialize` and has a deadline, and the refusal of a second one. The application
learns of a connection only then, so that an open socket alone costs it nothing.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Final

from websockets.datastructures import Headers
from websockets.http11 import Request
from websockets.protocol import SERVER, Protocol
from websockets.server import ServerProtocol

from dragoman.transports.remote.first_message import answer_again, judge_first
from dragoman.transports.remote.gate import Entered, GateRefusal
from dragoman.transports.remote.in_flight import SENTENCE, HeldBytes
from dragoman.transports.remote.websocket import (
    GOING_AWAY,
    LIMIT,
    MAX_MESSAGE_BYTES,
    WRONG,
    WebSocketTransport,
)

if TYPE_CHECKING:
    from websockets.typing import Subprotocol

    from dragoman.transports.remote.server import RemoteServer

_UNREAD_BYTES: Final = 1024 * 1024


class ServerWebSocket(WebSocketTransport):
    """A WebSocket of a client, from its handshake on."""

    def __init__(
        self, server: RemoteServer, frames: Protocol, io: asyncio.Transport, entered: Entered, address: str
    ) -> None:
        super().__init__(
            frames, io, peer="the client", intercept=self._before_initialize, ping_seconds=server.limits.ping_seconds
        )
        self.principal = entered.principal
        self.path = entered.path
        self.address = address
        self._server = server
        self._incomplete = HeldBytes(server.in_flight, entered.principal.name)
        self._deadline = self._loop.call_later(server.limits.initialize_seconds, self._too_late)

    @property
    def gone(self) -> asyncio.Future[None]:
        return self._gone

    def shut_down(self, reason: str) -> None:
        """The server ends; the peer above learns it from the end of the socket."""
        if self._receiver is None:
            self.close_with(GOING_AWAY, reason)
        else:
            self._fail(GOING_AWAY, reason)
            self._loop.call_later(self._flush_seconds, self._io.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._incomplete.set(self.incomplete_bytes):
            self._fail(LIMIT, SENTENCE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self._incomplete.set(0)
        super().connection_lost(exc)
        self._server.websocket_gone(self)

    def _before_initialize(self, message: bytes) -> bool:
        first = judge_first(message)
        if first.is_initialize:
            self._deadline.cancel()
            self._intercept = self._after_initialize
            self._server.websocket_opened(self)
            return False
        if first.answer is not None:
            self._answer(first.answer)
        elif first.wrong is not None:
            self.close_with(WRONG, first.wrong)
        return True

    def _after_initialize(self, message: bytes) -> bool:
        answer = answer_again(message)
        if answer is None:
            return False
        self._answer(answer)
        return True

    def _answer(self, answer: bytes) -> None:
        """Answer in place of the application, which would have slowed down a client that does not read."""
        if self.unsent_bytes > _UNREAD_BYTES:
            self.close_with(LIMIT, "the client does not read its answers")
        else:
            self.write(answer)

    def _too_late(self) -> None:
        self.close_with(LIMIT, "initialize did not come in time")


def accept_upgrade(
    server: RemoteServer, io: asyncio.Transport, entered: Entered, address: str, already: bytes
) -> GateRefusal | None:
    """HttpReply the handshake and take the socket over; the refusal if the handshake is wrong.

    Args:
        already: What the client sent behind its request.
    """

    def choose(frames: ServerProtocol, offered: object) -> Subprotocol | None:
        return entered.subprotocol  # type: ignore[return-value]  # a NewType of str, which is not imported at run time

    handshake = ServerProtocol(select_subprotocol=choose)
    headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in entered.headers.items()])
    response = handshake.accept(Request(entered.path, headers))
    if response.status_code != 101:
        return GateRefusal(response.status_code, "This is not a handshake of WebSocket version 13.")
    response.headers["Acp-Connection-Id"] = secrets.token_urlsafe(24)
    handshake.send_response(response)
    for data in handshake.data_to_send():
        io.write(data)
    # The state after the handshake: `handshake` itself would wait for a request, which h11 has read.
    websocket = ServerWebSocket(server, Protocol(SERVER, max_size=MAX_MESSAGE_BYTES), io, entered, address)
    server.upgraded(websocket)
    websocket.attach(already)
    return None
