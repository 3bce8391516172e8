"""A WebSocket of an ASGI server as a transport: each line of the peer is one text message.

One task reads and one writes. While reading is paused, one message at most was taken from the ASGI server, so that the
client feels the pause.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConnectionClosed
from dragoman.transports import LOW_MARK_BYTES
from dragoman.transports.remote.first_message import answer_again, judge_first
from dragoman.transports.remote.messages import one_line
from dragoman.transports.remote.websocket import (
    FLUSH_SECONDS,
    GOING_AWAY,
    LIMIT,
    MAX_MESSAGE_BYTES,
    NORMAL,
    TOO_LONG,
    WRONG,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from dragoman.rpc.transport import Receiver
    from dragoman.transports.remote.gate import Entered
    from dragoman.transports.remote.server import RemoteServer

_UNREAD_BYTES: Final = 1024 * 1024


class AsgiWebSocket:
    """A client's WebSocket, from its handshake on."""

    def __init__(
        self,
        server: RemoteServer,
        entered: Entered,
        address: str,
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        self.principal = entered.principal
        self.path = entered.path
        self.address = address
        self._server = server
        self._take = receive
        self._hand_over = send
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._receiver: Receiver | None = None
        self._held: deque[bytes] = deque()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._outbox: deque[bytes] = deque()
        self._is_news = asyncio.Event()
        self._is_open = False
        self._closing: tuple[int, str] | None = None
        self._is_closed = False  # by the peer above
        self._writing: asyncio.Task[None] | None = None
        self.unsent_bytes = 0

    # Transport

    def start(self, receiver: Receiver) -> None:
        """Let data flow to `receiver`; needs a running event loop."""
        self._receiver = receiver
        self._loop.call_soon(self._feed_held)

    def write(self, data: bytes) -> None:
        """Send each line as one message."""
        if self._closing is not None or self.gone.done():
            return
        for line in data.split(b"\n"):
            if line:
                self._outbox.append(line)
                self.unsent_bytes += len(line)
        self._is_news.set()

    def pause_reading(self) -> None:
        """Stop feeding."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Feed again."""
        self._may_read.set()
        self._loop.call_soon(self._feed_held)

    def close(self) -> None:
        """Send what was written and close; the receiver is called no more."""
        self._is_closed = True
        self._held.clear()
        self._may_read.set()
        self._end_with(NORMAL, "")

    async def wait_closed(self) -> None:
        """Return when the socket is closed."""
        await asyncio.shield(self.gone)

    # For the server

    def shut_down(self, reason: str) -> None:
        """End with the server; the peer above learns it from the end of the socket."""
        self._end_with(GOING_AWAY, reason)

    async def run(self, accept: MutableMapping[str, Any]) -> None:
        """Move messages until one side ends the connection."""
        deadline = self._loop.call_later(self._server.limits.initialize_seconds, self._too_late)
        accepted = asyncio.Event()
        reading = self._loop.create_task(self._read(accept, accepted))
        writing = self._writing = self._loop.create_task(self._write_all(accepted))
        try:
            await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            deadline.cancel()
            reading.cancel()
            writing.cancel()
            await asyncio.wait((reading, writing))
            self.unsent_bytes = 0
            self.gone.set_result(None)
            self._server.websocket_gone(self)
            self._report_end(self._why(reading))
        for task in (reading, writing):
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, OSError):  # an OSError: the client is gone
                raise error

    def _report_end(self, why: str) -> None:
        self._feed_held()
        if self._receiver is not None and not self._is_closed:
            self._receiver.end(ConnectionClosed(why))

    # Inside

    async def _read(self, accept: MutableMapping[str, Any], accepted: asyncio.Event) -> str:
        """Take messages; gives the reason when the client has ended the connection."""
        await self._hand_over(accept)
        accepted.set()
        while True:
            message = await self._take()
            if message["type"] == "websocket.disconnect":
                code = message.get("code", 1005)
                return f" ({code})" if code not in (1000, 1005) else ""
            text = message.get("text")
            if text is not None and self._closing is None:
                self._on_text(text.encode("utf-8", "replace"))
            await self._may_read.wait()

    def _on_text(self, message: bytes) -> None:
        if len(message) > MAX_MESSAGE_BYTES:
            self._end_with(TOO_LONG, f"a message is longer than {MAX_MESSAGE_BYTES} bytes")
            return
        if not self._is_open:
            first = judge_first(message)
            self._is_open = first.is_initialize
            if first.wrong is not None:
                self._end_with(WRONG, first.wrong)
            elif first.answer is not None:
                self._answer(first.answer)
            if not self._is_open:
                return
            self._server.websocket_opened(self)
        else:
            again = answer_again(message)
            if again is not None:
                self._answer(again)
                return
        self._held.append(one_line(message))
        self._feed_held()

    def _answer(self, answer: bytes) -> None:
        if self.unsent_bytes > _UNREAD_BYTES:
            self._end_with(LIMIT, "the client does not read its answers")
        else:
            self.write(answer)

    def _feed_held(self) -> None:
        receiver = self._receiver
        while receiver is not None and self._held and (self._may_read.is_set() or self.gone.done()):
            receiver.feed(self._held.popleft())

    async def _write_all(self, accepted: asyncio.Event) -> None:
        """Send what is written; ends when the closing handshake was started."""
        await accepted.wait()
        while True:
            self._is_news.clear()
            while self._outbox:
                line = self._outbox.popleft()
                await self._hand_over({"type": "websocket.send", "text": line.decode("utf-8", "replace")})
                self.unsent_bytes -= len(line)
                if self.unsent_bytes <= LOW_MARK_BYTES and self._receiver is not None and not self._is_closed:
                    self._receiver.drained()
            if self._closing is not None:
                code, reason = self._closing
                await self._hand_over({"type": "websocket.close", "code": code, "reason": reason})
                return
            await self._is_news.wait()

    def _end_with(self, code: int, reason: str) -> None:
        if self._closing is None and not self.gone.done():
            self._closing = (code, reason.encode()[:120].decode("utf-8", "ignore"))
            self._is_news.set()
            self._loop.call_later(FLUSH_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """Cut a client that does not read what was written before the close."""
        if self._writing is not None:
            self._writing.cancel()

    def _too_late(self) -> None:
        if not self._is_open:
            self._end_with(LIMIT, "initialize did not come in time")

    def _why(self, reading: asyncio.Task[str]) -> str:
        if not reading.cancelled() and reading.exception() is None:
            return f"the client closed the connection{reading.result()}"
        if self._closing is not None:
            code, reason = self._closing
            return f"the connection was closed ({code}: {reason})"
        return "the client is gone"
