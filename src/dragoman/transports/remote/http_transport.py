"""Streamable HTTP as the transport of a client: every message is posted, every answer comes as an event of a stream.

Theory of operation
-------------------
One task posts what was written, message by message, so that the order stays. The first message is `initialize`; its
answer is the answer of its post and brings the id of the connection. After that one task reads the stream of the
connection, and one for each session reads the session's. A session's stream is opened before the first message about
it is posted: otherwise what the agent sends at once would be lost.

A stream that breaks is opened again with the number of the last event, with growing pauses. A server that numbers no
events cannot go on where it was, so the connection ends then; the peer above learns why. A post is repeated only where
the server recognises repetitions by its number, or where it was certainly not seen. A server of ours is never silent
for long, so a silent connection counts as broken: if the other end lost its network, there is no other sign.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.errors import ConnectionClosed, RemoteProtocolError
from dragoman.transports import LOW_MARK_BYTES
from dragoman.transports.remote.http_client import HttpAnswer, HttpClient
from dragoman.transports.remote.messages import POST_NUMBER, Seen, look, one_line, session_made
from dragoman.transports.remote.sse import EventReader
from dragoman.transports.remote.websocket import FLUSH_SECONDS, MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from dragoman.rpc.transport import Receiver
    from dragoman.transports.remote.http_client import StreamedAnswer

_log = logging.getLogger("dragoman.transports")
RECONNECT_SECONDS: Final = 60.0
DEAD_SECONDS: Final = 45.0
DEAD_TICKS: Final = 3
_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 10.0
_ERROR_BYTES: Final = 8192
_FATAL: Final = frozenset((401, 403, 404, 410))
_POSTED: Final = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")]
SERVER_MARK: Final = "dragoman-server"
_UNKNOWN_SESSION: Final = b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32002,"message":"there is no such session"}}'


class _Fatal(Exception):
    """The connection cannot go on."""


class _UnknownSession(Exception):
    """The server has no such session; the connection goes on."""


class HttpTransport:
    """A client's end of a connection over Streamable HTTP."""

    def __init__(
        self, client: HttpClient, *, reconnect_seconds: float = RECONNECT_SECONDS, dead_seconds: float = DEAD_SECONDS
    ) -> None:
        """Prepare a connection.

        Args:
            client: Leads to the server.
            reconnect_seconds: How long a broken stream is tried again.
            dead_seconds: A server of ours that was silent for so long is gone, or the way to it.
        """
        self._dead_seconds = dead_seconds
        self._posts = 0
        self._client = client
        self._reconnect_seconds = reconnect_seconds
        self._receiver: Receiver | None = None
        self._loop = asyncio.get_running_loop()
        self._outbox: deque[bytes] = deque()
        self._written = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._poster: asyncio.Task[None] | None = None
        self._connection = ""
        self._is_ours = False
        self._streams: dict[str | None, asyncio.Future[bool]] = {}
        self._questions: dict[bytes, str | None] = {}
        self._is_closed = False
        self._is_over = False
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self.unsent_bytes = 0

    # Transport

    def start(self, receiver: Receiver) -> None:
        """Let data flow to `receiver`; needs a running event loop."""
        self._receiver = receiver
        self._poster = self._run(self._post_all())

    def write(self, data: bytes) -> None:
        """Post each line."""
        if self._is_closed or self._is_over:
            return
        for line in data.split(b"\n"):
            if line:
                self._outbox.append(line)
                self.unsent_bytes += len(line)
        self._written.set()

    def pause_reading(self) -> None:
        """Stop reading the streams."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Read them again."""
        self._may_read.set()

    def close(self) -> None:
        """Post what was written and end the connection on the server, within a bound."""
        if self._is_closed:
            return
        self._is_closed = True
        self._may_read.set()
        self._closing = self._loop.create_task(self._close())

    async def wait_closed(self) -> None:
        """Return when every socket is closed."""
        await asyncio.shield(self._gone)

    # Posting

    async def _post_all(self) -> None:
        while True:
            while self._outbox:
                line = self._outbox[0]
                await self._post(line)
                self._outbox.popleft()
                self.unsent_bytes -= len(line)
                if self.unsent_bytes <= LOW_MARK_BYTES and self._receiver is not None and not self._is_closed:
                    self._receiver.drained()
            self._written.clear()
            if self._is_closed:
                return
            await self._written.wait()

    async def _post(self, line: bytes) -> None:
        seen = look(line)
        if seen is None:
            return
        if not self._connection:
            await self._initialize(line)
            return
        session = self._session_of(seen)
        try:
            is_open = session is not None and await self._open(session)
        except _UnknownSession:
            if seen.kind == "request" and seen.id is not None:
                self._feed(_UNKNOWN_SESSION % seen.id)
            return
        headers = [*_POSTED, ("acp-connection-id", self._connection)]
        if session is not None and is_open:
            headers.append(("acp-session-id", session))
        if self._is_ours:
            self._posts += 1
            headers.append((POST_NUMBER.decode(), str(self._posts)))
        answer = await self._ask("POST", headers, line)
        if answer.status in _FATAL:
            raise _Fatal(f"the server ended the connection ({answer.status}: {_words(answer)})")
        if session is not None and not is_open and answer.status < 300:
            _ = self._run(self._open_late(session))
        elif answer.status >= 300 and seen.kind == "request" and seen.id is not None:
            self._feed(_refused(seen.id, answer))
        elif answer.status >= 300:  # a notification or an answer, for which there is no one to report to
            _log.warning("the server did not take a message (%d: %s)", answer.status, _words(answer))

    async def _initialize(self, line: bytes) -> None:
        answer = await self._ask("POST", _POSTED, line)
        if answer.status != 200:
            seen = look(answer.body)
            if seen is not None and seen.kind == "response":  # it is the error of `initialize` itself
                self._feed(answer.body)
                return
            raise _Fatal(f"the server refused the connection ({answer.status}: {_words(answer)})")
        self._connection = answer.headers.get("acp-connection-id", "")
        if not self._connection:
            raise _Fatal("the server's answer to initialize has no header Acp-Connection-Id; is this an ACP server?")
        self._is_ours = SERVER_MARK in answer.headers
        await self._open(None)
        self._feed(answer.body)

    async def _ask(self, method: str, headers: list[tuple[str, str]], body: bytes) -> HttpAnswer:
        """Send a request, again and again while the server cannot be reached."""
        pauses = _Pauses(self._reconnect_seconds)
        while True:
            try:
                async with asyncio.timeout(self._dead_seconds if self._is_ours else None):
                    return await self._client.request(
                        method, headers, body, limit_bytes=MAX_MESSAGE_BYTES, may_repeat=self._is_ours
                    )
            except (ConnectionRefusedError, TimeoutError, OSError) as error:
                is_unseen = isinstance(error, ConnectionRefusedError)
                may_repeat = self._connection and (is_unseen or self._is_ours) and not self._is_closed
                if not may_repeat or not await pauses.wait():
                    raise _Fatal(f"the server cannot be reached ({_reason(error)})") from None

    def _session_of(self, seen: Seen) -> str | None:
        if seen.kind == "response" and seen.id is not None:
            return self._questions.pop(seen.id, None)
        return seen.session

    # Streams

    async def _open(self, session: str | None) -> bool:
        """Open the stream of a session, if it is not open; False if the server does not know the session.

        The Python SDK 0.12.1 has no stream for a session before it is loaded on this connection.
        """
        opened = self._streams.get(session)
        if opened is None:
            opened = self._streams[session] = self._loop.create_future()
            _ = self._run(self._read(session, opened))
        return await asyncio.shield(opened)

    async def _open_late(self, session: str) -> None:
        pauses = _Pauses(self._reconnect_seconds)
        while not await self._open(session):
            if not await pauses.wait():
                return  # the agent refused to load it, and the request has its error

    async def _read(self, session: str | None, opened: asyncio.Future[bool]) -> None:
        reader = EventReader(MAX_MESSAGE_BYTES)
        pauses = _Pauses(self._reconnect_seconds)
        while True:
            try:
                async with asyncio.timeout(self._dead_seconds if self._is_ours else None):
                    answer = await self._client.stream(self._stream_headers(session, reader.last_id))
                if answer.status == 404 and session is not None and not opened.done() and not self._is_ours:
                    answer.close()
                    del self._streams[session]
                    opened.set_result(False)
                    return
                if answer.status != 200:
                    try:
                        await self._not_opened(answer, session)
                    except _UnknownSession as unknown:
                        self._streams.pop(session, None)
                        if not opened.done():
                            opened.set_exception(unknown)
                        return
                if not opened.done():
                    opened.set_result(True)
                pauses.reset()
                await self._read_events(answer, reader, session)
                error: Exception = ConnectionResetError("the server ended the stream")
            except (OSError, TimeoutError) as found:
                error = found
            if opened.done() and reader.last_id is None and not self._is_ours:
                raise _Fatal(f"a stream of the server broke, and it cannot go on where it was ({_reason(error)})")
            if not await pauses.wait():
                raise _Fatal(f"the server cannot be reached ({_reason(error)})")
            reader = EventReader(MAX_MESSAGE_BYTES, reader.last_id)

    async def _read_events(self, answer: StreamedAnswer, reader: EventReader, session: str | None) -> None:
        silence = _Silence(self._dead_seconds / DEAD_TICKS, answer.close, self._may_read) if self._is_ours else None
        try:
            async for piece in answer.pieces():
                if silence is not None:
                    silence.ticks = 0
                for event in reader.feed(piece):
                    await self._may_read.wait()
                    self._event(event.data, session)
        finally:
            if silence is not None:
                silence.stop()
            answer.close()

    async def _not_opened(self, answer: StreamedAnswer, session: str | None) -> None:
        body = (await answer.read(_ERROR_BYTES)).decode("utf-8", "replace").strip()
        answer.close()
        if answer.status == 503:
            raise ConnectionRefusedError(body)
        what = "of the connection" if session is None else "of the session"
        if answer.status == 410:
            raise _Fatal("the server no longer has what was missed while the connection was broken; load the session")
        if answer.status == 404 and session is not None and "Acp-Session-Id" in body:
            raise _UnknownSession
        raise _Fatal(f"the server did not open the stream {what} ({answer.status}: {body})")

    def _stream_headers(self, session: str | None, last_id: str | None) -> list[tuple[str, str]]:
        headers = [("accept", "text/event-stream"), ("acp-connection-id", self._connection), ("dragoman-client", "1")]
        if session is not None:
            headers.append(("acp-session-id", session))
        if last_id is not None:
            headers.append(("last-event-id", last_id))
        elif self._is_ours:  # also at first: an attempt whose answer was lost may have opened the stream
            headers.append(("last-event-id", "0"))
        return headers

    def _event(self, data: bytes, session: str | None) -> None:
        seen = look(data)
        if seen is not None and seen.kind == "request" and seen.id is not None:
            self._questions[seen.id] = seen.session if seen.session is not None else session
        self._feed(data)
        made = session_made(data) if seen is not None and seen.kind == "response" else None
        if made is not None and made not in self._streams:
            _ = self._run(self._open_late(made))  # the agent may send to it before we do

    # Inside

    def _feed(self, data: bytes) -> None:
        if self._receiver is not None and not self._is_closed and not self._is_over:
            self._receiver.feed(one_line(data))

    def _run(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except (_Fatal, RemoteProtocolError) as error:
            self._end(str(error))
        except _UnknownSession:
            pass  # it was deleted before its stream was opened

    def _end(self, why: str) -> None:
        if self._is_over or self._is_closed:
            return
        self._is_over = True
        for opened in self._streams.values():
            opened.cancel()
        self._loop.call_soon(self._report_end, why)

    def _report_end(self, why: str) -> None:
        if self._receiver is not None and not self._is_closed:
            self._receiver.end(ConnectionClosed(why))

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                if not self._is_over and self._poster is not None:
                    self._written.set()
                    await asyncio.wait([self._poster])
                if self._connection:
                    await self._client.request("DELETE", [("acp-connection-id", self._connection)], limit_bytes=0)
        except (OSError, TimeoutError, RemoteProtocolError):
            pass  # the server ends it when it sees no more of us
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._client.close()
            self._gone.set_result(None)


class _Silence:
    """The watch over a stream on which nothing comes.

    It counts ticks, not seconds: a loop that stood still ends nothing.
    """

    def __init__(self, tick_seconds: float, end: Callable[[], None], may_read: asyncio.Event) -> None:
        self._tick_seconds = tick_seconds
        self._end = end
        self._may_read = may_read
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(tick_seconds, self._tick)
        self.ticks = 0

    def stop(self) -> None:
        self._timer.cancel()

    def _tick(self) -> None:
        if self._may_read.is_set():  # else nothing is read, whether or not it comes
            self.ticks += 1
        if self.ticks > DEAD_TICKS:
            self._end()
        else:
            self._timer = self._loop.call_later(self._tick_seconds, self._tick)


class _Pauses:
    """Growing pauses between attempts, until the time is over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reset()

    def reset(self) -> None:
        self._pause = _FIRST_PAUSE_SECONDS
        self._since: float | None = None

    async def wait(self) -> bool:
        """Wait before the next attempt; False if the time is over."""
        now = monotonic()
        if self._since is None:
            self._since = now
        if now - self._since >= self._seconds:
            return False
        await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)
        return True


def _refused(id: bytes, answer: HttpAnswer) -> bytes:
    error = {
        "code": -32603,
        "message": f"the server did not take the request ({answer.status})",
        "data": {"status": answer.status, "body": answer.body[:_ERROR_BYTES].decode("utf-8", "replace")},
    }
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id, msgspec.json.encode(error))


def _words(answer: HttpAnswer) -> str:
    return answer.body[:500].decode("utf-8", "replace").strip() or "no reason given"


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
