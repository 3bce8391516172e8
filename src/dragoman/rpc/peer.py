"""One end of a JSON-RPC connection: order, correlation, cancellation, close.

Owns the promises every role relies on (docs/architecture.md). Does not know the protocol's methods. How it works:

The transport calls `feed`, which handles every complete line before it returns, in arrival order, without awaiting: a
notification goes to the role, a response resolves its `Pending`, a request becomes a `Call`, whose work alone runs in a
task. So when a response wakes a waiting task, everything that arrived before it has been handled.

The task of a call takes its first step at the end of `feed`, so that an answer which is at hand leaves in the same turn
of the loop. By then all of the batch was handled: a cancellation that follows its request directly still comes first.
In the same way a task that waits for the response or the updates goes on there, if only it has something to do. After
a notification or a response, the next calls of the batch begin in the next turn: what these woke goes first then.

Everything that is sent passes through one `Outbox`, so order is the order of calls. While `feed` runs it is corked: the
answers to one batch leave in one write.

States: open, then closed by exactly one reason (`closed_by`), set by `_finish`. It is reached from `close` (this side),
from `end` (the transport ended; lines that had arrived are handled first) and from `_give_up` (the peer does not read,
or does not speak the protocol). `_finish` cancels calls, flushes and closes the transport, fails every waiting request
with the reason, then calls the role's `on_close`.

Races: of a cancellation and the result of a call the first wins, and one response is sent; a response whose request
was abandoned is dropped; an id that is used twice at once is refused; of two reasons to close the first is kept.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import UNSET, Raw, Struct

from dragoman.errors import ConnectionClosed, ProtocolError, RemoteProtocolError, RequestError
from dragoman.rpc.call import Call
from dragoman.rpc.flow import Flow
from dragoman.rpc.limits import DEFAULT_LIMITS, Limits
from dragoman.rpc.loop_queue import Woken
from dragoman.rpc.observer import Observer, Observers
from dragoman.rpc.outbox import Outbox
from dragoman.rpc.pending import Pending
from dragoman.schema import decode, encode
from dragoman.wire import (
    Framer,
    Malformed,
    Notification,
    Request,
    Response,
    decode_run,
    read_message,
    refuse,
    write_error,
    write_notification,
    write_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from msgspec.json import Decoder

    from dragoman.rpc.transport import Transport
    from dragoman.schema import Loss
    from dragoman.wire import ErrorObject, Frame

_log = logging.getLogger("dragoman.rpc")
T = TypeVar("T")

CANCEL_REQUEST = "$/cancel_request"

# The method stands in the first bytes of a line, or in the last ones where a writer puts the params first. If it is
# somewhere else, nothing is lost but speed.
_HEAD_BYTES = 128
_TAIL_BYTES = 64

_COMPLAINT_SECONDS = 1.0  # between answers to lines that match no request
_NOISE_BYTES = 200  # shown of a line that is not a message, enough to recognise it by


class _CancelRequest(Struct, rename="camel"):
    request_id: int | str | None


class Role(Protocol):
    """What a peer asks of the role above it. All of it is synchronous and runs in arrival order."""

    # A notification so frequent that whole lines of it are decoded in one pass: the bytes that mark such a line,
    # and the decoder of the line. The mark is a hint; the decoder decides.
    hot_mark: bytes
    hot_decoder: Decoder[Any] | None

    def on_hot(self, frames: list[Any], lines: list[bytes]) -> None:
        """Hot notifications that arrived directly one after another, and the line of each."""

    def on_request(self, call: Call) -> Coroutine[Any, Any, object]:
        """Return the work that answers a request. Raise RequestError or RemoteProtocolError to refuse it at once."""

    def on_notification(self, method: str, params: Raw | None, line: bytes) -> None:
        """Handle a notification, and its line. If that fails, it is logged; the peer gets no answer."""

    def on_close(self, reason: ConnectionClosed) -> None:
        """Handle the end of the connection: once, after the last frame."""


class Peer:
    """One end of a JSON-RPC connection: a transport below, a role above."""

    def __init__(
        self,
        transport: Transport,
        role: Role,
        *,
        limits: Limits = DEFAULT_LIMITS,
        observers: Sequence[Observer] = (),
        noise_limit: int | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.limits = limits
        self.noise_lines = 0
        self.lost_messages = 0  # that could be recognised as messages, and not read
        self._noise_limit = noise_limit
        self._noise_run = 0
        self.observers = Observers(observers)
        self._is_observed = bool(observers)
        self.flow = Flow(limits, transport)
        self.outbox = Outbox(transport, limits, self.observers, self._give_up)
        self.post = self.outbox.post
        self.breathe = self.outbox.breathe
        self.closed_by: ConnectionClosed | None = None
        self.is_closed_here = False
        self._transport = transport
        self._role = role
        self._framer = Framer(limits.message_bytes)
        self._hot_mark = role.hot_mark
        self._hot_decode = None if role.hot_decoder is None else role.hot_decoder.decode
        self._pending: dict[int, Pending] = {}
        self._next_id = 0
        self._calls: dict[int | str | None, Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Calls of this batch that take their first step at its end, and whether the next one may be among them.
        self._fresh: list[tuple[Call, Coroutine[Any, Any, object]]] = []
        self._may_step = False
        self._woken = Woken(self._loop)
        self._complained_at = -1.0
        self._over: asyncio.Future[None] = self._loop.create_future()

    def start(self) -> None:
        """Begin to read."""
        self._transport.start(self)

    def reroute(self, transport: Transport) -> None:
        """Write through `transport`, which leads to the same place, from here on."""
        self._transport = transport
        self.outbox.reroute(transport)

    @property
    def is_open(self) -> bool:
        return self.closed_by is None

    async def wait_closed(self) -> None:
        """Return when the connection is over, its handlers have ended and its transport is released."""
        await asyncio.shield(self._over)  # one caller that is cancelled must not cancel it for the others
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._transport.wait_closed()

    async def close(self, reason: str = "this side closed the connection") -> None:
        """End the connection: what was sent is flushed, running handlers are cancelled, waiting requests fail."""
        self.is_closed_here = self.is_closed_here or self.closed_by is None
        self._finish(ConnectionClosed(reason))
        await self.wait_closed()

    # Asking

    async def request(
        self,
        method: str,
        params: object,
        result_type: type[T],
        *,
        lane: object = None,
        on_result: Callable[[T], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> T:
        """Send a request and return its result. Cancelling the calling task sends a cancellation to the peer.

        Args:
            lane: The session whose updates may delay the answer, None when none may (see `dragoman.rpc.flow`).
            on_result, on_error: Called with the result or the error before any later frame is handled.

        Raises:
            RequestError: The peer answered with an error.
            RemoteProtocolError: Its result cannot be read as `result_type`.
            ConnectionClosed: The connection ended first.
        """
        if self.outbox.is_full:
            await self.outbox.room()
        answer: asyncio.Future[T] = self._loop.create_future()

        def settle(result: T | None, error: Exception | None) -> None:
            if on_result is not None and error is None:
                on_result(result)  # type: ignore[arg-type]  # without an error there is a result
            elif on_error is not None and error is not None:
                on_error(error)
            if not answer.done():  # the caller may have been cancelled
                answer.set_result(result) if error is None else answer.set_exception(error)  # type: ignore[arg-type]

        pending = self.ask(method, params, result_type, settle, lane=lane)
        try:
            return await answer
        except asyncio.CancelledError:
            self.abandon(pending)
            raise

    def ask(
        self,
        method: str,
        params: object,
        result_type: type[T],
        settle: Callable[[T | None, Exception | None], None],
        *,
        lane: object = None,
    ) -> Pending:
        """Send a request; `settle` is called once, in arrival order with everything else, before the next frame.

        Raises: ConnectionClosed when the connection is over already.
        """
        if self.closed_by is not None:
            raise self.closed_by
        request_id = self._next_id
        frame = write_request(request_id, method, encode(params))  # it may fail; then nothing waits and no id is used
        self._next_id = request_id + 1
        # Before it is sent, so that whatever the write leads to finds the request waiting.
        self._pending[request_id] = pending = Pending(request_id, method, result_type, settle, lane)
        self.flow.note_asked(lane)
        self.outbox.send(frame)
        return pending

    def read_hot(self, decoder: Decoder[Any]) -> None:
        """Decode hot notifications by this decoder from now on: the peers have agreed on another version."""
        self._hot_decode = decoder.decode

    def withdraw(self, pending: Pending) -> None:
        """Ask the peer to cancel a request (rule 201); its answer, which may be an error, still settles it."""
        if pending.id in self._pending and not pending.is_abandoned and self.closed_by is None:
            self.outbox.send(write_notification(CANCEL_REQUEST, encode(_CancelRequest(pending.id))))

    def abandon(self, pending: Pending) -> None:
        """Drop the late answer to a request whose caller stopped waiting, and ask the peer to cancel it (rule 201)."""
        if pending.id in self._pending and not pending.is_abandoned:
            self.withdraw(pending)
            pending.is_abandoned = True
            self.flow.note_answered(pending.lane)

    async def notify(self, method: str, params: object) -> None:
        """Send a notification in order with everything else.

        Raises: ConnectionClosed when the connection is over already.
        """
        if self.closed_by is not None:
            raise self.closed_by
        self.outbox.send(write_notification(method, encode(params)))
        if self.outbox.is_full:
            await self.outbox.room()

    # Receiver: what the transport calls

    def feed(self, data: bytes) -> None:
        """Handle every complete line of `data`, in order, before returning."""
        frames = self._framer.feed(data)
        if not frames or self.closed_by is not None:  # a task that an earlier batch woke may have closed it
            return
        self._woken.begin()
        self.outbox.cork()
        self._may_step = True
        try:
            at = 0
            # A frame may close the connection; those behind it had arrived before, and are handled.
            while at < len(frames):
                at += self._handle_run(frames, at) or self._handle(frames[at])
        finally:
            try:
                if self._fresh:
                    self._start_fresh()
                    self._may_step = True
            finally:
                self.outbox.uncork()
        if not self._may_step:
            self._woken.step()

    def drained(self) -> None:
        self.outbox.drained()

    def end(self, reason: ConnectionClosed) -> None:
        """End with the transport: what arrived is handled first, then the connection is closed with `reason`."""
        if self.closed_by is not None:
            return
        frames = self._framer.end()
        self._may_step = False
        for frame in frames:
            self._handle(frame)
        if frames:
            # A request in the last line is worth its answer if the handler has it at hand: its first step comes first.
            self._loop.call_soon(self._finish, reason)
        else:
            self._finish(reason)

    # The in-order step

    def _handle_run(self, frames: list[Frame], start: int) -> int:
        """Pass the hot notifications from here on, one directly after another, to the role; return how many."""
        first = frames[start]
        if self._hot_decode is None or not isinstance(first, bytes):
            return 0
        if self._hot_mark not in first[:_HEAD_BYTES] and self._hot_mark not in first[-_TAIL_BYTES:]:
            return 0
        run = decode_run(frames, self._hot_decode, start)
        if run:
            lines: list[Any] = frames[start : start + len(run)]
            if self._is_observed:
                for line in lines:
                    self.observers.received(line)
            self._noise_run = 0
            self._may_step = False
            self._role.on_hot(run, lines)
        return len(run)

    def _handle(self, frame: Frame) -> int:
        """Handle one frame of any kind."""
        line = frame if isinstance(frame, bytes) else frame.head
        message = read_message(frame) if isinstance(frame, bytes) else refuse(frame)
        if self._is_observed:
            self.observers.received(line)
        if isinstance(message, Malformed):
            self._complain(message, is_whole=isinstance(frame, bytes))
            return 1
        self._noise_run = 0
        if isinstance(message, Response):
            self._settle(message)
        elif isinstance(message, Request):
            self._serve(message)
        else:
            self._notified(message, line)
        return 1

    def _settle(self, message: Response) -> None:
        pending = self._pending.pop(message.id, None) if type(message.id) is int else None
        if pending is None:
            _log.warning("dropped a response to an unknown request, id %r", message.id)
            return
        if pending.is_abandoned:
            return
        self._may_step = False
        self.flow.note_answered(pending.lane)
        if message.error is not None:
            pending.settle(None, _request_error(message.error))
            return
        try:
            result = decode(pending.result_type, message.result or b"null", self._reporter(pending.method))
        except ProtocolError as error:
            pending.settle(None, error)
        else:
            pending.settle(result, None)

    def _serve(self, message: Request) -> None:
        call = Call(message.id, message.method, message.params)
        try:
            if message.id in self._calls:
                raise RequestError.invalid_request("A request with this id is still running")
            if len(self._calls) >= self.limits.running_requests:
                raise RequestError.internal_error("Too many requests are running")
            work = self._role.on_request(call)
        except RequestError as error:
            self.outbox.send(call.refused(error))
        except RemoteProtocolError as error:
            refusal = RequestError(error.code, error.message, {"path": error.path} if error.path else None)
            self.outbox.send(call.refused(refusal))
        except Exception:
            _log.exception("%s could not be dispatched", call.method)
            self.outbox.send(call.refused(RequestError.internal_error()))
        else:
            self._calls[call.id] = call
            if self._may_step:
                self._fresh.append((call, work))
            else:
                self._keep(call.start(work, self._respond, self._loop))

    def _start_fresh(self) -> None:
        """Take the first steps of the batch's calls, in order of arrival."""
        fresh, self._fresh = self._fresh, []
        last = len(fresh) - 1
        for number, (call, work) in enumerate(fresh):
            if number == last:
                self.outbox.loosen()
            self._keep(call.start(work, self._respond, self._loop, is_eager=True))

    def _keep(self, task: asyncio.Task[None]) -> None:
        if not task.done():
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _respond(self, call: Call, frame: bytes | None) -> None:
        self._calls.pop(call.id, None)
        if frame is not None and self.closed_by is None:
            self.outbox.send(frame)

    def _notified(self, message: Notification, line: bytes) -> None:
        try:
            if message.method == CANCEL_REQUEST:
                self._cancel_call(message.params)
            else:
                self._may_step = False
                self._role.on_notification(message.method, message.params, line)
        except ProtocolError as error:
            _log.warning("ignored an unreadable %s: %s", message.method, error)
        except Exception:
            _log.exception("the notification %s could not be handled", message.method)

    def _cancel_call(self, params: Raw | None) -> None:
        if params is None:
            return
        request_id = decode(_CancelRequest, params).request_id
        call = self._calls.get(request_id)
        # An unknown or finished id is ignored (rule 209), and a repetition must not interrupt a handler's clean-up.
        if call is not None and not call.is_cancelled:
            call.cancel()

    def _complain(self, malformed: Malformed, *, is_whole: bool) -> None:
        """Answer a line that cannot be read, if the peer can use the answer; the connection stays open."""
        if is_whole and malformed.kind == "unknown":
            self._count_noise(malformed)
        else:
            self.lost_messages += 1
            _log.warning("skipped a malformed line: %s", malformed.why)
        if malformed.kind == "response":
            pending = self._pending.pop(malformed.id, None) if type(malformed.id) is int else None
            if pending is not None and not pending.is_abandoned:
                self.flow.note_answered(pending.lane)
                pending.settle(None, RemoteProtocolError(malformed.why, code=malformed.code))
        elif malformed.id is not UNSET and malformed.id is not None:
            self.outbox.send(write_error(malformed.id, malformed.code, malformed.why))
        else:
            # An answer without an id cannot be matched, and a noisy peer would get one for each line of its noise.
            now = monotonic()
            if now - self._complained_at >= _COMPLAINT_SECONDS and not self.outbox.is_full:
                self._complained_at = now
                self.outbox.send(write_error(None, malformed.code, malformed.why))

    def _count_noise(self, malformed: Malformed) -> None:
        """Count banners and warnings on stdout: worth one line in the log, and no more than a few of them in a row."""
        self.noise_lines += 1
        self._noise_run += 1
        text = repr(malformed.raw[:_NOISE_BYTES].decode(errors="backslashreplace"))[1:-1][:_NOISE_BYTES]
        _log.log(
            logging.WARNING if self.noise_lines == 1 else logging.DEBUG,
            "skipped a line that is not a message, further ones are only counted (%s): %s",
            malformed.why,
            text,
        )
        if self._noise_limit is not None and self._noise_run == self._noise_limit + 1:
            self._give_up(
                f"the peer does not speak the protocol: {self._noise_run} lines in a row are not messages, "
                f"the last one is: {text}"
            )

    def _reporter(self, method: str) -> Callable[[Loss], None]:
        return lambda loss: self.observers.lost(method, loss)

    # The end

    def _give_up(self, why: str) -> None:
        """End the connection in a turn of its own: this is called in the middle of a write."""
        self._loop.call_soon(self._finish, ConnectionClosed(why))

    def _finish(self, reason: ConnectionClosed) -> None:
        if self.closed_by is not None:
            return
        # First, so that nothing that is called below can send, ask, or finish a second time.
        self.closed_by = reason
        for call in list(self._calls.values()):
            call.cancel()
        # What was sent is flushed to a transport that is still open.
        self.outbox.close()
        self._transport.close()
        # Requests fail before the role closes, so that it finds none of its waiters still waiting.
        pending, self._pending = self._pending, {}
        for waiting in pending.values():
            if not waiting.is_abandoned:
                waiting.settle(None, reason)
        try:
            self._role.on_close(reason)
        except Exception:
            _log.exception("the role failed to close")  # those who wait for the end are woken all the same
        if self._is_observed:
            self.observers.ended(reason.reason)
        if not self._over.done():
            self._over.set_result(None)


def _request_error(error: ErrorObject) -> RequestError:
    data = None
    if error.data is not UNSET:
        try:
            data = decode(Any, error.data)
        except ProtocolError:
            _log.warning("the data of an error could not be read")
    return RequestError(error.code, error.message, data)
