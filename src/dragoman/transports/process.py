"""The transport of a client: the stdin and stdout of an agent program that it starts.

Owns what the end of the program means for the connection: everything it wrote before is fed, then the connection ends
with its exit code and the last lines of stderr, even while a grandchild still holds the pipe. `dragoman.process` ends
the processes.
"""

from __future__ import annotations

import fcntl
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.errors import AgentExited, ConnectionClosed
from dragoman.process.child import PATIENCE, Child, Patience
from dragoman.transports.fd import FLUSH_SECONDS, NEVER, READ_BYTES, FdTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.process.launch import Starter, StrPath
    from dragoman.process.sweep import Spare
    from dragoman.rpc.transport import Receiver


# What a pipe from an agent holds is delivered before the answer to a cancel, so it should be few messages, however
# long they are: of small updates 64 KiB, the usual size, are three hundred, and half of it streams as fast. Of long
# ones half of it are seven, and both sides would be woken for each handful; once they are seen, there is more room.
SMALL_PIPE_BYTES: Final = 32 * 1024
LARGE_PIPE_BYTES: Final = 256 * 1024
LONG_LINE_BYTES: Final = 1024
# The more sessions stream at once, the fewer updates of each are in one pipeful, and every handful wakes its consumer.
# From this many on there is more room; a cancel then waits for the updates of the others anyway.
MANY_STREAMS: Final = 8
MANY_READ_BYTES: Final = 112 * 1024  # with the rest of a line before it, less than what is checked in one look


class ProcessTransport(FdTransport):
    """The transport of a client: a child process, spoken to through its standard streams."""

    def __init__(self, child: Child, *, flush_seconds: float = FLUSH_SECONDS) -> None:
        stdin, stdout = child.take_pipes()
        super().__init__(stdout, stdin, peer="the agent", flush_seconds=flush_seconds)
        self._child = child
        self._has_long_lines = False
        self._are_many = False
        # An agent that writes at once may have filled it by now: then it is made small when there is room.
        self._is_small = _resize(stdout, SMALL_PIPE_BYTES)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            self._full_bytes = SMALL_PIPE_BYTES - LONG_LINE_BYTES
        child.when_exited(self._on_exit)

    @classmethod
    async def spawn(
        cls,
        argv: Sequence[StrPath],
        *,
        cwd: StrPath | None = None,
        env: Mapping[str, str | None] | None = None,
        inherit_env: bool = True,
        spare: Spare = (),
        patience: Patience = PATIENCE,
        on_stderr: Callable[[bytes], None] | None = None,
        starter: Starter | None = None,
    ) -> ProcessTransport:
        """Start an agent program.

        Args:
            env: Variables added to this program's environment; None as a value removes one.
            inherit_env: False makes `env` the whole environment.
            spare: Daemons of the agent that may outlive it: words of their command line, or a function of the pid.
            patience: How long the agent may take to end by itself.
            on_stderr: Called with what the agent writes to stderr, as it comes.
            starter: Starts the agent and asks it to end in its own way: a sandbox.

        Raises:
            ConfigError: The command or the directory cannot be used.
            DragomanError: The system could not start one more program.
        """
        child = Child.spawn(
            argv,
            cwd=cwd,
            env=env,
            inherit_env=inherit_env,
            spare=spare,
            patience=patience,
            on_stderr=on_stderr,
            starter=starter,
        )
        return cls(child)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def marker(self) -> str:
        """Carried in the environment by everything the agent starts."""
        return self._child.marker

    @property
    def returncode(self) -> int | None:
        """None while the agent runs; negative for a signal."""
        return self._child.returncode

    @property
    def stderr_tail(self) -> str:
        """The agent's last words on stderr, up to 4 KiB."""
        return self._child.stderr_tail()

    async def end_commands(self, since: float) -> None:
        """End what the agent started at or after a moment of `time.monotonic`; the agent itself goes on."""
        await self._child.end_commands(since)

    def start(self, receiver: Receiver) -> None:
        """Let data flow to `receiver`; needs a running event loop."""
        super().start(receiver)
        if not self._child.is_running and self._loop is not None:
            self._loop.call_soon(self._on_exit)

    async def wait_closed(self) -> None:
        """Return when the agent and everything it started are gone and the descriptors are closed."""
        await super().wait_closed()
        await self._child.wait_gone()

    def _on_exit(self) -> None:
        if self._receiver is None:
            return  # `start` calls it again
        try:
            self._read_rest()
        finally:  # the end is reported even if the receiver fails on the rest
            self._close_reading()
            self._close_writing()
            # A code that our own signal made says nothing about the agent.
            returncode = None if self._child.was_signalled else self._child.returncode
            self._end(AgentExited(returncode, self.stderr_tail))

    def _on_full(self, data: bytes) -> None:
        """Fit the pipe, which was full, to what it held: larger for long lines."""
        if data.count(b"\n") * LONG_LINE_BYTES < len(data):
            self._full_bytes = NEVER
            self._has_long_lines = True
            _resize(self._read_fd, LARGE_PIPE_BYTES)
        elif not self._is_small and not self._are_many:
            self._is_small = _resize(self._read_fd, SMALL_PIPE_BYTES)

    def note_streams(self, count: int) -> None:
        """Fit the pipe to how many sessions stream now: with many it is larger, with few it is small again."""
        are_many = count >= (MANY_STREAMS // 2 if self._are_many else MANY_STREAMS)
        if are_many != self._are_many and self._read_fd >= 0:
            self._are_many = are_many
            self._read_bytes = MANY_READ_BYTES if are_many else READ_BYTES
            if not self._has_long_lines:
                # A pipe that holds more than its new size stays as it is, until the next change.
                _resize(self._read_fd, LARGE_PIPE_BYTES if are_many else SMALL_PIPE_BYTES)

    def _at_end(self, why: str) -> None:
        """End the program, which cannot send anything any more; its exit, usually under way, ends the connection."""
        self._close_writing()
        self._child.begin_close()

    def _abandon_input(self) -> None:
        """Read on and discard: an agent that waits for room in its stdout never sees the end of its stdin."""
        if self._receiver is None or not self._child.is_running:
            super()._abandon_input()
        else:
            self._receiver = _DISCARD
            self.resume_reading()

    def _close_writing(self) -> None:
        super()._close_writing()
        if self._is_closed:
            self._child.begin_close()


def _resize(pipe: int, size_bytes: int) -> bool:
    with suppress(OSError, AttributeError):  # not Linux, or more than a user may have; the pipe stays as it is
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size_bytes)
        return True
    return False


class _Discard:
    """A receiver that ignores everything."""

    def feed(self, data: bytes) -> None:
        pass

    def end(self, reason: ConnectionClosed) -> None:
        pass

    def drained(self) -> None:
        pass


_DISCARD: Final = _Discard()
