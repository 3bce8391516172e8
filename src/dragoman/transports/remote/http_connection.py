"""One ACP connection over Streamable HTTP, seen by the server: posts in, streams of events out.

Owns which stream a message goes to. To the peer above it is a transport like any other. Does not know sockets and
requests; `server.py` has them.

Clients of the Python SDK 0.12.1 attach to a session without naming it in the header, and open its stream when they see
its id in a message. What belongs to such a session goes to the stream of the connection until the session is attached
and its own stream is open. They answer questions without the header, too. An error for a session that has no stream
also goes to the connection's, because a client does not open one for a session that does not exist.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict, deque
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.errors import ConnectionClosed
from dragoman.transports import LOW_MARK_BYTES
from dragoman.transports.remote.event_stream import EventStream, Expired, Writer
from dragoman.transports.remote.messages import (
    ATTACHING_METHODS,
    SESSION_METHODS,
    Seen,
    look,
    one_line,
    request_cancelled,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.rpc.transport import Receiver
    from dragoman.transports.remote.gate import Principal

MAX_ID_LENGTH: Final = 1024
MAX_STREAMS: Final = 1024
BACKLOG_BYTES: Final = 64 * 1024 * 1024
INBOX_BYTES: Final = 16 * 1024 * 1024
_REMEMBERED_POSTS: Final = 1024
_LOOK_AGAIN_SECONDS: Final = 0.003


class NotServed(Exception):
    """A post or a stream that is answered with an HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Route(NamedTuple):
    session: str | None
    is_load: bool = False


class HttpConnection:
    """A transport between a peer and the posts and streams of one client."""

    def __init__(self, principal: Principal, on_close: Callable[[HttpConnection], None]) -> None:
        self.id = secrets.token_urlsafe(24)
        self.principal = principal
        self.last_used = monotonic()
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._receiver: Receiver | None = None
        self._inbox: deque[bytes] = deque()
        self._inbox_bytes = 0
        self._turn: asyncio.Handle | None = None
        self._is_paused = False
        self._is_closed = False
        self._waiting_bytes = 0
        self._streams: dict[str | None, EventStream] = {}
        self._answers: dict[bytes, _Route] = {}
        self._questions: dict[bytes, str | None] = {}
        self._posts: OrderedDict[tuple[bytes, bytes], None] = OrderedDict()
        self._unheard: dict[str, bytes] = {}  # sessions that are attached without their stream, by the request
        self._last_post = 0
        self._initial: asyncio.Future[bytes] | None = None
        self._rooms: list[asyncio.Future[None]] = []
        self._gone: asyncio.Future[None] = self._loop.create_future()

    # Transport

    def start(self, receiver: Receiver) -> None:
        """Let data flow to `receiver`; needs a running event loop."""
        self._receiver = receiver
        self._schedule()

    def write(self, data: bytes) -> None:
        """Send each line on the stream it belongs to."""
        if self._is_closed:
            return
        touched: dict[int, EventStream] = {}
        for line in data.split(b"\n"):
            if line:
                stream = self._push(line)
                if stream is not None:
                    touched[id(stream)] = stream
        for stream in touched.values():
            stream.flush()

    @property
    def unsent_bytes(self) -> int:
        """What waits for a stream, and what the sockets have not taken."""
        writers = (stream.writer for stream in self._streams.values())
        return self._waiting_bytes + sum(writer.unsent_bytes for writer in writers if writer is not None)

    def pause_reading(self) -> None:
        """Keep posts until reading is resumed."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Feed again."""
        self._is_paused = False
        self._schedule()

    def close(self) -> None:
        """End every stream; posts get 404 from now on."""
        if self._is_closed:
            return
        self._is_closed = True
        self._inbox.clear()
        for stream in self._streams.values():
            stream.finish()
            if stream.writer is None:
                stream.drop()  # no response carries it, so nothing will take what waits
        self._wake()  # posts that wait for room look at `_is_closed` and get 404
        if self._initial is not None and not self._initial.done():
            self._initial.set_exception(NotServed(500, "the agent ended the connection"))
        if not self._gone.done():
            self._gone.set_result(None)
        self._on_close(self)

    async def wait_closed(self) -> None:
        """Return after `close`; streams still deliver what waits."""
        await asyncio.shield(self._gone)

    # For the server

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def has_stream(self) -> bool:
        return any(stream.writer is not None for stream in self._streams.values())

    async def initialize(self, body: bytes, seen: Seen, seconds: float) -> bytes:
        """Feed the first request and give its answer."""
        assert seen.id is not None
        self._initial = self._loop.create_future()
        self._answers[seen.id] = _Route(None)  # before it is fed: the answer may come in the same turn
        self._feed(body)
        async with asyncio.timeout(seconds):
            return await self._initial

    async def post(self, body: bytes, seen: Seen, header: str | None, number: int | None = None) -> None:
        """Take a message of the client.

        Args:
            number: Counts the posts of a client that sends one again if it got no answer.

        Raises:
            NotServed: it does not fit its headers, or the connection has ended.
        """
        self.last_used = monotonic()
        if seen.kind == "response":
            self._check_answer(seen, header)
        else:
            self._check_request(seen, header)
        is_request = seen.kind == "request" and seen.id is not None
        key = (seen.id or b"", hashlib.sha256(body).digest()) if is_request else None
        # Before the waiting, because there is nothing to wait for; and again after it, because the same message may
        # have come by another socket. One whose socket breaks while it waits was not taken, and will come again.
        if self._is_taken(key, number):
            return
        while not self._is_closed and is_request and self.unsent_bytes >= BACKLOG_BYTES:
            await self._room()
        while not self._is_closed and self._is_paused and self._inbox_bytes >= INBOX_BYTES:
            await self._room()
        if self._is_closed:
            raise NotServed(404, "Unknown Acp-Connection-Id")
        if self._is_taken(key, number):
            return
        # From the last look to `_feed` nothing waits, so of two posts of one message only one is fed.
        if number is not None:
            self._last_post = number
        if key is not None:
            self._remember(key)
            self._answers[key[0]] = _Route(header or seen.session, seen.method == "session/load")
            if header is None and seen.session is not None:
                self._unheard[seen.session] = key[0]
        self._feed(body)

    def open_stream(self, session: str | None, writer: Writer, after: int | None, *, is_ours: bool) -> Expired | None:
        """Send the messages of a session, or those of the connection, to `writer`.

        Raises:
            NotServed: another response carries this stream and the client does not take it over, or there are too many.
        """
        self.last_used = monotonic()
        if session is not None and len(session) > MAX_ID_LENGTH:
            raise NotServed(400, f"Session ID exceeds maxIdLength ({MAX_ID_LENGTH})")
        stream = self._stream(session)
        if stream.writer is not None and after is None:
            raise NotServed(409, "Outbound stream already has an active receiver")
        stream.is_ours = is_ours
        if session is not None and self._unheard.get(session, b"") not in self._answers:
            self._unheard.pop(session, None)
        return stream.attach(writer, after)

    def close_stream(self, session: str | None, writer: Writer) -> None:
        """Forget the response that carried a stream and has ended."""
        stream = self._streams.get(session)
        if stream is not None:
            stream.detach(writer)

    def flush_stream(self, session: str | None) -> None:
        """Send what waits for a stream whose socket has room again."""
        stream = self._streams.get(session)
        if stream is not None:
            stream.flush()
            self._progress(0)

    def end(self, why: str) -> None:
        """End the connection: the client ended it, or is gone."""
        if self._is_closed:
            return
        receiver = self._receiver
        if receiver is None:
            self.close()
            return
        # Even if reading is paused: the client has got 202 for these posts.
        while self._inbox:
            receiver.feed(self._inbox.popleft())
        receiver.end(ConnectionClosed(why))

    # Inside

    def _check_request(self, seen: Seen, header: str | None) -> None:
        is_attaching = seen.method in ATTACHING_METHODS and seen.session is not None
        if (seen.method in SESSION_METHODS or seen.session is not None) and header is None and not is_attaching:
            raise NotServed(400, "Missing Acp-Session-Id")
        if header is not None and seen.session is not None and header != seen.session:
            raise NotServed(400, "Mismatched Acp-Session-Id")
        if header is not None and len(header) > MAX_ID_LENGTH:
            raise NotServed(400, f"Session ID exceeds maxIdLength ({MAX_ID_LENGTH})")
        if seen.id is not None and len(seen.id) > MAX_ID_LENGTH + 2:
            raise NotServed(400, f"Request ID exceeds maxIdLength ({MAX_ID_LENGTH})")

    def _check_answer(self, seen: Seen, header: str | None) -> None:
        if seen.id is None or seen.id not in self._questions:
            return  # the peer counts and drops it
        session = self._questions[seen.id]
        if session is not None and header is not None and header != session:
            raise NotServed(400, "Mismatched Acp-Session-Id")
        del self._questions[seen.id]

    def _push(self, line: bytes) -> EventStream | None:
        seen = look(line)
        if seen is None:  # not ours to judge; a peer does not write it
            return None
        if seen.kind in ("request", "notification"):
            session = seen.session
            if seen.kind == "request" and seen.id is not None:
                self._questions[seen.id] = session
            elif seen.method == "$/cancel_request":
                # Behind the question it withdraws: on the other stream it could overtake it.
                session = self._questions.get(request_cancelled(line) or b"")
            return self._pushed(session, line)
        route = self._answers.pop(seen.id, _Route(None)) if seen.id is not None else _Route(None)
        if self._initial is not None and not self._initial.done():
            self._initial.set_result(line)
            return None
        if route.session in self._unheard and self._unheard[route.session] == seen.id:
            stream = self._pushed(None, line)
            if self._has_writer(route.session):
                del self._unheard[route.session]
            return stream
        if not route.is_load:
            is_unknown = route.session not in self._streams and b',"error":{' in line[: MAX_ID_LENGTH + 64]
            return self._pushed(None if is_unknown else route.session, line)
        replay = self._streams.get(route.session)
        if replay is not None and replay.is_ours and replay.writer is not None:
            return self._pushed(route.session, line)
        self._when_delivered(replay, line)
        return None

    def _has_writer(self, session: str | None) -> bool:
        stream = self._streams.get(session)
        return stream is not None and stream.writer is not None

    def _pushed(self, session: str | None, line: bytes) -> EventStream | None:
        try:
            stream = self._stream(None if session in self._unheard else session)
        except NotServed as refused:
            self._loop.call_soon(self.end, str(refused))  # not now: this is inside of the peer's own write
            return None
        stream.push(line)
        return stream

    def _when_delivered(self, replay: EventStream | None, line: bytes) -> None:
        """Send the answer to `session/load` when the client's machine has got the replay before it.

        The two travel on two sockets, which have no order between them.
        """
        if replay is not None and not replay.is_delivered and not self._is_closed:
            self._loop.call_later(_LOOK_AGAIN_SECONDS, self._when_delivered, replay, line)
            return
        stream = self._pushed(None, line)
        if stream is not None:
            stream.flush()

    def _stream(self, session: str | None) -> EventStream:
        stream = self._streams.get(session)
        if stream is None:
            if len(self._streams) > MAX_STREAMS:
                self._forget_streams()
            if len(self._streams) > MAX_STREAMS:
                raise NotServed(400, f"the connection has more than {MAX_STREAMS} session streams without a receiver")
            stream = self._streams[session] = EventStream(self._progress)
        return stream

    def _forget_streams(self) -> None:
        for session, stream in list(self._streams.items()):
            if session is not None and stream.writer is None and stream.is_empty:
                del self._streams[session]

    def _is_taken(self, key: tuple[bytes, bytes] | None, number: int | None) -> bool:
        """Whether it came before: it was sent again because its answer was lost."""
        return (key is not None and key in self._posts) or (number is not None and number <= self._last_post)

    def _remember(self, key: tuple[bytes, bytes]) -> None:
        self._posts[key] = None
        if len(self._posts) > _REMEMBERED_POSTS:
            self._posts.popitem(last=False)

    def _feed(self, body: bytes) -> None:
        self._inbox.append(one_line(body))
        self._inbox_bytes += len(body) + 1
        self._schedule()

    def _schedule(self) -> None:
        if self._inbox and self._turn is None and self._receiver is not None and not self._is_paused:
            self._turn = self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._turn = None
        assert self._receiver is not None
        try:
            while self._inbox and not self._is_paused and not self._is_closed:
                line = self._inbox.popleft()
                self._inbox_bytes -= len(line)
                self._receiver.feed(line)
        finally:  # a receiver that fails gets the rest all the same
            self._wake()
            self._schedule()

    def _progress(self, change: int) -> None:
        self._waiting_bytes += change
        if change <= 0 and self._receiver is not None and not self._is_closed:
            unsent = self.unsent_bytes
            if unsent <= LOW_MARK_BYTES:
                self._receiver.drained()
            if unsent < BACKLOG_BYTES:
                self._wake()

    async def _room(self) -> None:
        room: asyncio.Future[None] = self._loop.create_future()
        self._rooms.append(room)
        await room

    def _wake(self) -> None:
        rooms, self._rooms = self._rooms, []
        for room in rooms:
            if not room.done():
                room.set_result(None)
