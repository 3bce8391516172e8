"""One run of a program: its prompt goes in, what it writes comes out as it is written.

Owns its pipes. `process/` starts it, and ends everything that it started.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from dragoman.process.child import Child, Patience

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_READ_BYTES: Final = 1 << 16  # what a pipe holds
_PENDING_BYTES: Final = 1 << 20  # of stderr that was not shown yet; the program is never stopped by a slow client
# The program gets no sign but SIGTERM. A cancelled turn waits two seconds for it (`adapters/turn.py`).
_PATIENCE: Final = Patience(stdin_seconds=0.0, term_seconds=1.0)


class Piece(NamedTuple):
    """Some bytes that the program wrote."""

    stream: Literal["stdout", "stderr"]
    data: bytes


class ChildOutput:
    """A running program. Read it with `next_piece` until None, then `exit_code` waits; `close` ends it at any time.

    Args:
        argv: the program and its arguments.
        cwd: the folder that it runs in.
        env: variables added to this program's environment.
        stdin: what it can read.

    Raises:
        ConfigError: it cannot be started.
        DragomanError: the system could not start one more program.
    """

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str], stdin: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._stderr = bytearray()
        self._is_over = False
        self.lost_bytes = 0
        """How much of stderr was not taken in time."""
        self._child = Child.spawn(argv, cwd=cwd, env=env, patience=_PATIENCE, on_stderr=self._keep_stderr)
        write_fd, self._fd = self._child.take_pipes()
        os.set_blocking(write_fd, False)
        os.set_blocking(self._fd, False)
        self._writing = self._loop.create_task(_write(write_fd, stdin))
        self._writing.add_done_callback(lambda _task: os.close(write_fd))  # also if it was cancelled before it began
        self._ending = self._loop.create_task(self._child.wait_gone())
        self._ending.add_done_callback(self._set_over)

    async def next_piece(self) -> Piece | None:
        """Return what the program wrote, as soon as there is something; None when there is nothing more to come."""
        while True:
            if self._stderr:
                data = bytes(self._stderr)
                self._stderr.clear()
                return Piece("stderr", data)
            # Read before looking at the end: what a program wrote last may arrive together with its end.
            is_over = self._is_over
            data_or_none = self._read()
            if data_or_none:
                return Piece("stdout", data_or_none)
            if is_over:
                return None
            await self._wait(is_ended=data_or_none is not None)

    async def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal, when the program and everything it started are gone."""
        await self._child.wait_gone()
        return self._child.returncode

    def stderr_tail(self, size_bytes: int) -> str:
        return self._child.stderr_tail(size_bytes)

    async def close(self) -> None:
        """End the program and everything it started, and close the pipes."""
        self._writing.cancel()
        await asyncio.wait({self._writing})
        try:
            await self._child.close()
        finally:
            self._ending.cancel()
            if self._fd >= 0:
                self._loop.remove_reader(self._fd)
                os.close(self._fd)
                self._fd = -1

    def _read(self) -> bytes | None:
        """Read once: empty at the end of stdout, None if there is nothing yet."""
        try:
            return os.read(self._fd, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return None

    async def _wait(self, *, is_ended: bool) -> None:
        """Wait for stdout, unless it has ended, for stderr, or for the end of the program."""
        self._waiter = self._loop.create_future()
        if not is_ended:
            self._loop.add_reader(self._fd, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if not is_ended:
                self._loop.remove_reader(self._fd)

    def _wake(self) -> None:
        if self._waiter is not None:
            _resolve(self._waiter)

    def _keep_stderr(self, data: bytes) -> None:
        room = _PENDING_BYTES - len(self._stderr)
        self._stderr += data[:room]
        self.lost_bytes += max(0, len(data) - room)
        self._wake()

    def _set_over(self, _task: asyncio.Task[None]) -> None:
        self._is_over = True
        self._wake()


async def _write(fd: int, data: bytes) -> None:
    """Write everything. A program that does not read its input is not an error."""
    loop = asyncio.get_running_loop()
    view = memoryview(data)
    with suppress(OSError):
        while view:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                await _writable(loop, fd)


async def _writable(loop: asyncio.AbstractEventLoop, fd: int) -> None:
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(fd, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_writer(fd)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
