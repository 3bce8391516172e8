"""Copies bytes from one descriptor to another as they come.

Owns one direction of a relay: it keeps at most one read in memory, so a slow reader slows down its writer as without
the relay, and the end of either descriptor ends the other. Does not know what the bytes mean.
"""

from __future__ import annotations

import asyncio
import os
import select
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.transports._descriptors import duplicate, private_copy

if TYPE_CHECKING:
    from collections.abc import Callable

_READ_BYTES: Final = 1 << 16  # what a pipe holds
_HANGUP: Final = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
_HANGUP_SECONDS: Final = 0.1


class Pump:
    """Copies from `source` to `sink`; owns both and makes them non-blocking.

    Args:
        source: The descriptor to read.
        sink: The descriptor to write.
        on_data: Called with each piece after it was passed on.
        on_end: Called when the source has ended by itself.
        on_over: Called when both are closed. That may be much later than `on_end`, if the sink is slow, and without
            `on_end`, if the sink failed.
    """

    def __init__(
        self,
        source: int,
        sink: int,
        on_data: Callable[[bytes], None],
        *,
        on_end: Callable[[], None] | None = None,
        on_over: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._source, self._sink = source, sink
        self._on_data, self._on_end, self._on_over = on_data, on_end, on_over
        self._rest = memoryview(b"")
        self._is_waiting = False
        self._is_ending = False
        self._is_over = False
        self._turn: asyncio.Handle | None = None
        os.set_blocking(source, False)
        os.set_blocking(sink, False)
        self._listen()

    def end_when_dry(self) -> None:
        """Read what is there now and then end: the writer is gone, but another process has its descriptor open."""
        self._is_ending = True
        if self._source >= 0 and not self._rest:
            self._take_turn()

    def stop(self) -> None:
        """Close both at once; what was not written yet is lost."""
        self._rest = memoryview(b"")
        self._close_source()
        self._close_sink()

    def _listen(self) -> None:
        try:
            self._loop.add_reader(self._source, self._read)
        except PermissionError:  # epoll refuses regular files and /dev/null, which never block a reader
            self._take_turn()

    def _take_turn(self) -> None:
        if self._turn is None:
            self._turn = self._loop.call_soon(self._read_in_turn)

    def _read_in_turn(self) -> None:
        self._turn = None
        if self._source >= 0 and not self._rest:
            self._read()
        if self._source >= 0 and not self._rest:
            self._take_turn() if self._is_ending else self._listen()

    def _read(self) -> None:
        try:
            data = os.read(self._source, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            if not self._is_ending:
                return
            data = b""
        except OSError:  # a terminal or a socket whose other end is gone
            data = b""
        if not data:
            self._close_source()
            self._report_end()
            if not self._rest:
                self._close_sink()
            return
        self._rest = memoryview(data)
        self._write()
        self._on_data(data)

    def _write(self) -> None:
        """Write as much as the sink takes; while there is a rest, nothing is read."""
        had_waited = self._is_waiting
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._sink, self._rest) :]
        except (BlockingIOError, InterruptedError):
            if not had_waited:
                self._is_waiting = True
                if self._source >= 0:
                    self._loop.remove_reader(self._source)
                    self._watch_for_hangup()
                self._loop.add_writer(self._sink, self._write)
            return
        except OSError:
            self.stop()  # the writer must get an error, because its reader is gone
            return
        if had_waited:
            self._is_waiting = False
            self._loop.remove_writer(self._sink)
            if self._source < 0:
                self._close_sink()
            elif self._is_ending:
                self._take_turn()
            else:
                self._listen()

    def _watch_for_hangup(self) -> None:
        """Poll for the end of the source: while the sink is full, nothing is read, so the end would not be seen."""
        if not self._is_waiting or self._source < 0 or self._on_end is None:
            return
        poll = select.poll()
        poll.register(self._source, _HANGUP)
        if poll.poll(0):
            self._report_end()
        else:
            self._loop.call_later(_HANGUP_SECONDS, self._watch_for_hangup)

    def _report_end(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    def _close_source(self) -> None:
        if self._source >= 0:
            self._loop.remove_reader(self._source)
            os.close(self._source)
            self._source = -1

    def _close_sink(self) -> None:
        if self._sink >= 0:
            self._loop.remove_writer(self._sink)
            os.close(self._sink)
            self._sink = -1
        if not self._is_over:
            self._is_over = True
            self._on_over()


class OwnStreams:
    """Private descriptors of this program's standard streams, which can be made non-blocking and closed.

    0 and 1 then lead to /dev/null, so that the other side sees the end when the copies are closed.
    """

    def __init__(self) -> None:
        self._made_unblocking: list[int] = []
        self.stdin = self._private(0, os.O_RDONLY)
        self.stdout = self._private(1, os.O_WRONLY)
        self.stderr = self._private(2, os.O_WRONLY)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)

    def restore(self) -> None:
        """Make shared streams blocking again, as the other programs that share them expect."""
        for copy in self._made_unblocking:
            with suppress(OSError):
                os.set_blocking(copy, True)
            os.close(copy)
        self._made_unblocking.clear()

    def _private(self, fd: int, mode: int) -> int:
        try:
            copy, is_shared = private_copy(fd, mode)
        except OSError:  # closed when the program started: nothing can be read from it or written to it
            return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        if is_shared:
            self._made_unblocking.append(duplicate(fd))
        return copy
