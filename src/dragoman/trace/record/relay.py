"""A relay between an editor and its agent that records both directions.

Owns the behaviour of the relay: messages go through unchanged and at once, the end of each side is passed on to the
other, signals reach the agent, and the recording never delays any of this. Lines are split without losing a byte:
blank lines, `\\r\\n` and a byte order mark are kept, which `wire.Framer` drops. In the agent's log, keys are masked.
Does not know JSON or the protocol; `dragoman.process` ends the agent.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING, Final

from dragoman.process import Child, Patience
from dragoman.text.secrets import SplitMask
from dragoman.trace.record.pump import OwnStreams, Pump
from dragoman.transports._outlet import Outlet
from dragoman.wire import LIMIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.trace.entry import Direction
    from dragoman.trace.writer import TraceWriter

GRACE_SECONDS: Final = 10.0
"""How long an agent may take to end after its client closed the connection, counted from its last output.

The slowest known one takes 1.4 s. An agent that still writes is not ended, however long it takes.
"""
_TERM_SECONDS: Final = 2.0
_LOG_LINE_BYTES: Final = 1 << 20
_PASSED_ON: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


async def run_relay(
    command: Sequence[str],
    writer: TraceWriter,
    *,
    grace_seconds: float = GRACE_SECONDS,
    show: Callable[[Callable[[bytes], None]], None] | None = None,
) -> int:
    """Run `command` behind this program's stdin, stdout and stderr until it ends; return its exit code.

    The code is 128 + n for signal n, as in a shell. The standard streams and the signals of this program are taken
    over, so call it from the main thread and end the program afterwards.

    Args:
        command: The agent's command.
        writer: The recording; it is closed at the end.
        grace_seconds: How long a silent agent may take to end after its client is gone.
        show: Called with a function that writes to stderr and never waits. With it, stderr belongs to the caller, and
            the agent's log goes to `writer` alone.

    Raises:
        ConfigError: the command cannot be used.
        DragomanError: the system could not start one more program.
    """
    try:
        relay = _Relay(command, writer, grace_seconds, show)
    except BaseException:
        writer.close()
        raise
    return await relay.run()


class _Relay:
    def __init__(
        self,
        command: Sequence[str],
        writer: TraceWriter,
        grace_seconds: float,
        show: Callable[[Callable[[bytes], None]], None] | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._writer = writer
        self._grace_seconds = grace_seconds
        self._active_at = self._loop.time()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._log_lines = ExactLines(_LOG_LINE_BYTES)
        self._log_mask = SplitMask(writer.secrets)
        self._lines: dict[Direction, ExactLines] = {"c2a": ExactLines(), "a2c": ExactLines()}
        # The agent comes first: if it cannot be started, the streams of this program are unchanged.
        # A process that left the agent's process group did so on purpose; without the relay it would live on as well.
        self._child = Child.spawn(
            command, spare=_everyone, patience=Patience(0.0, _TERM_SECONDS), on_stderr=self._on_stderr
        )
        self._streams = OwnStreams()
        self._log = Outlet(self._streams.stderr)
        self._passes_log = show is None
        if show is not None:
            show(self._log.write)
        writer.on_failure = self._warn
        stdin, stdout = self._child.take_pipes()
        self._to_agent = Pump(
            self._streams.stdin,
            stdin,
            self._on_client_data,
            on_end=self._on_client_end,
            on_over=lambda: self._close_direction("c2a"),
        )
        self._to_client = Pump(stdout, self._streams.stdout, self._on_agent_data, on_over=self._on_agent_over)

    async def run(self) -> int:
        is_main = threading.current_thread() is threading.main_thread()
        for number in _PASSED_ON if is_main else ():
            self._loop.add_signal_handler(number, self._pass_on, number)
        try:
            # Its process group is ended with it: a process left by a launcher would keep the pipe open forever.
            await self._child.wait_gone()
            self._to_client.end_when_dry()
            await self._over
        finally:
            self._child.begin_close()
            self._finish()
        return _exit_code(self._child.returncode)

    def _warn(self, sentence: str) -> None:
        self._log.write(f"dragoman: warning: {sentence}; the conversation goes on\n".encode(errors="replace"))

    # From the client

    def _on_client_data(self, data: bytes) -> None:
        self._record("c2a", data)

    def _on_client_end(self) -> None:
        self._active_at = self._loop.time()
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        """End the agent if it was silent for the grace period after its client closed the connection."""
        silent_seconds = self._loop.time() - self._active_at
        if silent_seconds >= self._grace_seconds:
            self._child.begin_close()
        elif self._child.is_running:
            self._loop.call_later(self._grace_seconds - silent_seconds, self._wait_for_end)

    # From the agent

    def _on_agent_data(self, data: bytes) -> None:
        self._active_at = self._loop.time()
        self._record("a2c", data)

    def _on_agent_over(self) -> None:
        self._close_direction("a2c")
        if not self._over.done():
            self._over.set_result(None)

    def _on_stderr(self, data: bytes) -> None:
        self._active_at = self._loop.time()
        self._write_log(self._log_mask.feed(data))

    def _write_log(self, data: bytes) -> None:
        if self._passes_log and data:
            self._log.write(data)
        for line, _ in self._log_lines.feed(data):
            self._writer.stderr(line.decode(errors="replace"))

    # The recording

    def _record(self, direction: Direction, data: bytes) -> None:
        self._writer.cork()
        for line, eol in self._lines[direction].feed(data):
            self._writer.frame(direction, line, eol)
        self._writer.uncork()

    def _close_direction(self, direction: Direction) -> None:
        for line, eol in self._lines[direction].end():
            self._writer.frame(direction, line, eol)
        self._writer.end(direction)

    # Ends

    def _pass_on(self, number: int) -> None:
        if self._child.is_running:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._child.pid, number)
        elif not self._over.done():
            self._over.set_result(None)  # the agent ended, and the client does not read its last output

    def _finish(self) -> None:
        self._write_log(self._log_mask.finish())
        for line, _ in self._log_lines.end():
            self._writer.stderr(line.decode(errors="replace"))
        for direction, lines in self._lines.items():
            for line, eol in lines.end():
                self._writer.frame(direction, line, eol)
        returncode = self._child.returncode
        if returncode is not None and returncode < 0:
            self._writer.exit(signal=_signal_name(-returncode))
        else:
            self._writer.exit(returncode)
        self._writer.close()
        self._to_client.stop()
        self._to_agent.stop()
        self._log.close()
        self._streams.restore()


def _everyone(pid: int) -> bool:
    return True


def _exit_code(returncode: int | None) -> int:
    if returncode is None:  # another part of the program collected the status
        return 1
    return returncode if returncode >= 0 else 128 - returncode


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return str(number)


_NEWLINE: Final = b"\n"

Line = tuple[bytes, bytes]
"""A line and its end: `\\n`, `\\r\\n`, or nothing."""


class ExactLines:
    """Bytes cut into lines. A line longer than the limit is returned in pieces."""

    __slots__ = ("_buffer", "_held_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._buffer = BytesIO()
        self._held_bytes = 0

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that `data` completes, and pieces of one that is too long."""
        lines = data.split(_NEWLINE)
        rest = lines.pop()
        if lines and self._held_bytes:
            self._buffer.write(lines[0])
            lines[0] = self._take()
        whole = [_with_end(line) for line in lines]
        if rest:
            self._held_bytes += self._buffer.write(rest)
            if self._held_bytes >= self.limit_bytes:
                whole.append((self._take(), b""))
        return whole

    def end(self) -> list[Line]:
        """Return the bytes after the last newline."""
        return [(self._take(), b"")] if self._held_bytes else []

    def _take(self) -> bytes:
        taken = self._buffer.getvalue()
        self._buffer = BytesIO()
        self._held_bytes = 0
        return taken


def _with_end(line: bytes) -> Line:
    return (line[:-1], b"\r\n") if line.endswith(b"\r") else (line, _NEWLINE)
