"""Ways to reach the agent that is judged: a program on stdio, or an agent of this library in the same process.

Owns starting one connection after the other and the half-closed end of input, which a judge needs and a client does
not. Does not know what is said on a connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from dragoman.errors import AgentExited, ConnectionClosed
from dragoman.process import Child, Patience
from dragoman.transports.memory import memory_pair
from dragoman.transports.process import ProcessTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.agent import Agent
    from dragoman.rpc import Receiver, Transport

# A case is over when it is over: whoever does not go by itself is ended soon. How long an agent needs after the end of
# its input is measured by a case of its own, before this begins.
_PATIENCE = Patience(stdin_seconds=1.0, term_seconds=1.0)


class AgentLink(Protocol):
    """A transport whose input can be ended while its output is still read."""

    def start(self, receiver: Receiver) -> None: ...
    def write(self, data: bytes) -> None: ...
    @property
    def unsent_bytes(self) -> int: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...
    async def wait_closed(self) -> None: ...
    def end_input(self) -> None:
        """The agent reads the end of its input, after everything that was written."""

    @property
    def returncode(self) -> int | None:
        """How the program ended; None while it runs, or if there is no program."""


class AgentTarget(Protocol):
    """Where agents come from."""

    command: tuple[str, ...]

    async def open(self, on_stderr: Callable[[bytes], None]) -> AgentLink:
        """A connection to a fresh agent.

        Raises: ConfigError, DragomanError when there is no agent to connect to.
        """


class AgentProgram:
    """Starts the command for each connection."""

    def __init__(self, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> None:
        self.command = tuple(command)
        self._cwd = cwd
        self._env = env

    async def open(self, on_stderr: Callable[[bytes], None]) -> AgentLink:
        return _ProgramLink(
            Child.spawn(self.command, cwd=self._cwd, env=self._env, patience=_PATIENCE, on_stderr=on_stderr)
        )


class _ProgramLink(ProcessTransport):
    _ends_input = False

    def end_input(self) -> None:
        self._ends_input = True
        if not self.unsent_bytes:
            self._close_writing()

    def _drained(self) -> None:
        if self._ends_input and not self.unsent_bytes:
            self._close_writing()
        super()._drained()


class AgentInProcess:
    """Serves a fresh agent of this library over memory: the whole protocol without a process."""

    def __init__(self, make: Callable[[], Agent], *, around: Callable[[Transport], Transport] | None = None) -> None:
        """`around` may stand between the agent and its transport, to misbehave in its name."""
        self.command: tuple[str, ...] = ("(in this process)",)
        self._make = make
        self._around = around

    async def open(self, on_stderr: Callable[[bytes], None]) -> AgentLink:
        ours, theirs = memory_pair()
        far = _FarEnd(theirs)
        transport = far if self._around is None else self._around(far)
        serving = asyncio.create_task(self._make().serve(transport))
        return _MemoryLink(ours, far, serving)


class _FarEnd:
    """The agent's end of a memory pair, which can be told that its input is over."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._receiver: Receiver | None = None
        self._is_over = False
        self.write = inner.write
        self.pause_reading = inner.pause_reading
        self.resume_reading = inner.resume_reading
        self.close = inner.close
        self.wait_closed = inner.wait_closed

    @property
    def unsent_bytes(self) -> int:
        return self._inner.unsent_bytes

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._inner.start(self)

    def feed(self, data: bytes) -> None:
        if self._receiver is not None and not self._is_over:
            self._receiver.feed(data)

    def end(self, reason: ConnectionClosed) -> None:
        if self._receiver is not None and not self._is_over:
            self._is_over = True
            self._receiver.end(reason)

    def drained(self) -> None:
        if self._receiver is not None:
            self._receiver.drained()


class _MemoryLink:
    def __init__(self, inner: Transport, far: _FarEnd, serving: asyncio.Task[None]) -> None:
        self._inner = inner
        self._far = far
        self._serving = serving
        self._receiver: Receiver | None = None
        self.write = inner.write
        self.pause_reading = inner.pause_reading
        self.resume_reading = inner.resume_reading
        self.close = inner.close

    returncode = None

    @property
    def unsent_bytes(self) -> int:
        return self._inner.unsent_bytes

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._inner.start(self)

    def end_input(self) -> None:
        loop = asyncio.get_running_loop()
        if self.unsent_bytes:
            loop.call_soon(self.end_input)
        else:
            self._far.end(ConnectionClosed("the judge closed the input"))

    async def wait_closed(self) -> None:
        await self._inner.wait_closed()
        _, left = await asyncio.wait({self._serving}, timeout=_PATIENCE.stdin_seconds)
        for serving in left:
            serving.cancel()
            await asyncio.wait({serving})
        if not self._serving.cancelled() and self._serving.exception() is not None:
            raise RuntimeError("the agent in this process failed") from self._serving.exception()

    def feed(self, data: bytes) -> None:
        assert self._receiver is not None
        self._receiver.feed(data)

    def end(self, reason: ConnectionClosed) -> None:
        assert self._receiver is not None
        self._receiver.end(AgentExited(0, ""))

    def drained(self) -> None:
        assert self._receiver is not None
        self._receiver.drained()
