"""A transport over two file descriptors, one to read from and one to write to.

Owns non-blocking reads and writes on the event loop, the queue of what a pipe did not take yet, and the end of each
direction. Does not know whose descriptors they are: stdio and child processes build on this.

Theory of operation
-------------------
The two directions end independently; a closed one has descriptor -1. The receiver gets `end` at most once (`_is_over`)
and nothing at all after our own `close` (`_is_closed`).

*Reading.* Reading or paused. While paused the reader is removed from the loop, and a timer polls for a hang-up, because
a peer that dies while we are paused has to be noticed. At the end of input everything that has already arrived is fed,
paused or not, then `_at_end` reports the end; a subclass that knows a better reason (an exit code) overrides that.
Regular files cannot be polled; they are read one piece per turn of the loop.

*Writing.* A write goes straight to the descriptor if the queue is empty, and the rest is queued and written when the
loop reports room. `drained` is called when the queue falls to LOW_MARK_BYTES. If the peer has closed its end, the queue
is discarded, and what it wrote is still read for _LINGER_SECONDS, because its last words often explain the failure.

*Closing.* `close` stops reading at once and gives the queue `flush_seconds`. `wait_closed` returns when both
descriptors are closed. An error inside a write is reported in a later turn of the loop, because the receiver may be in
the middle of that write.
"""

from __future__ import annotations

import asyncio
import os
import select
import warnings
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

from dragoman.errors import ConnectionClosed
from dragoman.transports import LOW_MARK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.rpc.transport import Receiver

READ_BYTES: Final = 1 << 16  # what a pipe holds; larger buffers cost more to allocate than they save
FLUSH_SECONDS: Final = 2.0  # at close, for a peer that is slow; one that does not read at all gets nothing anyway
_DRAIN_BYTES: Final = 1 << 20  # the largest pipe; what still comes after that was written after the end
_LINGER_SECONDS: Final = 1.0  # for the last words of a peer that closed its input before its output
_HANGUP_SECONDS: Final = 0.1  # how often a paused transport looks whether its peer is still there
_VECTOR: Final = 64  # pieces per write
NEVER: Final = 1 << 62


class FdTransport:
    """A transport over a descriptor to read from and one to write to; it owns both and makes them non-blocking."""

    def __init__(
        self, read_fd: int, write_fd: int, *, peer: str = "the peer", flush_seconds: float = FLUSH_SECONDS
    ) -> None:
        self.unsent_bytes = 0
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._peer = peer
        self._flush_seconds = flush_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receiver: Receiver | None = None
        self._is_paused = False
        self._full_bytes = NEVER
        self._read_bytes = READ_BYTES
        self._is_pollable = True
        self._file_turn: asyncio.Handle | None = None
        self._is_over = False
        self._is_closed = False
        self._ends_writing = False
        self._queue: deque[bytes | memoryview] = deque()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._waiters: list[asyncio.Future[None]] = []
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)

    def start(self, receiver: Receiver) -> None:
        """Let data flow to `receiver`; needs a running event loop."""
        if self._is_closed:
            return
        self._loop = asyncio.get_running_loop()
        self._receiver = receiver
        if self._is_paused:
            self._watch_for_hangup()
        else:
            self._listen()
        if self._queue and self._write_fd >= 0:
            self._loop.add_writer(self._write_fd, self._write_some)

    # Reading

    def pause_reading(self) -> None:
        """Stop feeding; the end of the peer is still noticed."""
        if not self._is_paused:
            self._is_paused = True
            if self._loop is not None and self._read_fd >= 0:
                self._loop.remove_reader(self._read_fd)
                self._watch_for_hangup()

    def resume_reading(self) -> None:
        """Feed again."""
        if self._is_paused:
            self._is_paused = False
            self._cancel("hangup")
            if self._loop is not None and self._read_fd >= 0:
                self._listen()

    def _listen(self) -> None:
        assert self._loop is not None
        try:
            self._loop.add_reader(self._read_fd, self._read_some)
        except PermissionError:
            # epoll refuses regular files and /dev/null, which never make a reader wait.
            self._is_pollable = False
            if self._file_turn is None:
                self._file_turn = self._loop.call_soon(self._read_file)

    def _read_some(self) -> None:
        # One read for each readiness event, so that everything else on the loop gets a turn in between.
        try:
            data = os.read(self._read_fd, self._read_bytes)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._stop_reading(f"{self._peer} is gone ({error.strerror})")
            return
        if data:
            assert self._receiver is not None
            if len(data) >= self._full_bytes:
                self._on_full(data)
            self._receiver.feed(data)
        else:
            self._stop_reading(f"{self._peer} closed the connection")

    def _on_full(self, data: bytes) -> None:
        """Take note that a read found at least `_full_bytes`; for a transport that wants to know."""

    def _read_file(self) -> None:
        self._file_turn = None
        try:
            if self._read_fd >= 0 and not self._is_paused:
                self._read_some()
        finally:
            if self._read_fd >= 0 and not self._is_paused:
                self._listen()

    def _read_rest(self) -> None:
        """Feed what is there already, paused or not."""
        assert self._receiver is not None
        left = _DRAIN_BYTES
        while self._read_fd >= 0 and left > 0:
            try:
                data = os.read(self._read_fd, READ_BYTES)
            except OSError:
                return
            if not data:
                return
            left -= len(data)
            self._receiver.feed(data)

    def _watch_for_hangup(self) -> None:
        if self._is_pollable:
            self._after("hangup", _HANGUP_SECONDS, self._check_hangup)

    def _check_hangup(self) -> None:
        poll = select.poll()
        poll.register(self._read_fd, getattr(select, "POLLRDHUP", 0))  # POLLHUP is always reported
        if poll.poll(0):
            self._stop_reading(f"{self._peer} closed the connection")
        else:
            self._watch_for_hangup()

    def _stop_reading(self, why: str) -> None:
        """Input has ended: the rest of it is fed, then the end is reported."""
        try:
            self._read_rest()
        finally:  # the end is reported even if the receiver fails on the rest
            self._close_reading()
            self._at_end(why)

    def _close_reading(self) -> None:
        self._cancel("hangup")
        self._cancel("linger")
        if self._read_fd >= 0:
            fd, self._read_fd = self._read_fd, -1
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(fd)
            self._let_go(fd)
            self._wake_waiters()

    def _at_end(self, why: str) -> None:
        """Report the end of input. A subclass that knows the reason, such as an exit code, overrides this."""
        self._end(ConnectionClosed(why))

    def _end(self, reason: ConnectionClosed) -> None:
        if not self._is_over and not self._is_closed and self._receiver is not None:
            self._is_over = True
            self._receiver.end(reason)

    # Writing

    def write(self, data: bytes) -> None:
        """Write what the descriptor takes now and queue the rest. Nothing happens after `close` or a broken pipe."""
        if self._write_fd < 0 or self._is_closed or self._ends_writing or not data:
            return
        rest: bytes | memoryview = data
        if not self._queue and self._loop is not None:
            try:
                sent = os.write(self._write_fd, data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._break_off(error)
                return
            if sent == len(data):
                return
            if sent:
                rest = memoryview(data)[sent:]
            self._loop.add_writer(self._write_fd, self._write_some)
        self._queue.append(rest)
        self.unsent_bytes += len(rest)

    def end_writing(self) -> None:
        """Close the direction to the peer when everything is written; reading goes on."""
        self._ends_writing = True
        if not self._queue:
            self._close_writing()

    def _write_some(self) -> None:
        queue = self._queue
        try:
            if len(queue) == 1:
                sent = os.write(self._write_fd, queue[0])
            else:
                sent = os.writev(self._write_fd, list(islice(queue, _VECTOR)))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._break_off(error)
            return
        self.unsent_bytes -= sent
        while sent:
            # Views, not copies: the rest of a large message is looked at again for each pipeful.
            size = len(queue[0])
            if size > sent:
                queue[0] = memoryview(queue[0])[sent:]
                break
            queue.popleft()
            sent -= size
        if not queue:
            assert self._loop is not None
            self._loop.remove_writer(self._write_fd)
            if self._is_closed or self._ends_writing:
                self._close_writing()
        if self.unsent_bytes <= LOW_MARK_BYTES:
            self._drained()

    def _break_off(self, error: OSError) -> None:
        """Take note that the peer reads no more.

        What it wrote is still worth reading, but not for long: it cannot be answered.
        """
        self._close_writing()
        assert self._loop is not None
        # Not at once: this may be the middle of the receiver's own write.
        self._loop.call_soon(self._drained)
        if self._read_fd >= 0 and not self._is_closed:
            why = f"{self._peer} reads no more ({error.strerror})"
            self._after("linger", _LINGER_SECONDS, lambda: self._stop_reading(why))

    def _drained(self) -> None:
        if self._receiver is not None and not self._is_closed:
            self._receiver.drained()

    def _close_writing(self) -> None:
        self._cancel("flush")
        self._queue.clear()
        self.unsent_bytes = 0
        if self._write_fd >= 0:
            fd, self._write_fd = self._write_fd, -1
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_writer(fd)
            self._let_go(fd)
            self._wake_waiters()

    # Closing

    def close(self) -> None:
        """Release everything and call the receiver no more; what is queued has `flush_seconds` to be written."""
        if self._is_closed:
            return
        self._is_closed = True
        self._abandon_input()
        if self._queue and self._loop is not None and not self._loop.is_closed():
            self._after("flush", self._flush_seconds, self._close_writing)
        else:
            self._close_writing()

    async def wait_closed(self) -> None:
        """Return when both descriptors are closed."""
        if self._read_fd >= 0 or self._write_fd >= 0:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def __del__(self) -> None:
        if getattr(self, "_write_fd", -1) >= 0 or getattr(self, "_read_fd", -1) >= 0:
            self._close_reading()
            self._close_writing()
            warnings.warn(f"unclosed {type(self).__name__}", ResourceWarning, source=self, stacklevel=2)

    def _abandon_input(self) -> None:
        self._close_reading()

    def _let_go(self, fd: int) -> None:
        os.close(fd)

    def _wake_waiters(self) -> None:
        if self._read_fd < 0 and self._write_fd < 0:
            for waiter in self._waiters:
                if not waiter.done():
                    with suppress(RuntimeError):  # its loop is closed
                        waiter.set_result(None)

    def _after(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        assert self._loop is not None
        self._timers[name] = self._loop.call_later(seconds, call)

    def _cancel(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
