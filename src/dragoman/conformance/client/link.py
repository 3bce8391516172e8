"""Where clients to be judged come from, and what a judge needs of a connection beside its bytes.

Owns the seam that `client_target.py` fills with programs, and clients that run as coroutines in this process. Does
not know what is said on a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from dragoman.conformance.case import Skip
from dragoman.errors import ConnectionClosed, DragomanError
from dragoman.transports.memory import memory_pair

if TYPE_CHECKING:
    from dragoman.rpc import Receiver, Transport

Output: TypeAlias = Callable[[bytes], None]
AgentEnding: TypeAlias = Literal["closed", "signalled", "killed"]
"""How the client ended its agent: it closed the agent's stdin; it only sent SIGTERM; or the agent just disappeared."""

# How long a client may take to leave once its agent is gone: a case is over when it is over.
LEAVE_SECONDS: Final = 1.0


class NoAgent(DragomanError):
    """The client did not start the agent it was given."""


class ClientLink(Protocol):
    """The agent's end of a connection, and what else a judge has to know about the client at the other end."""

    ending: AgentEnding | None
    """How the client ended its agent; None while it runs, or if the judge was first."""

    def start(self, receiver: Receiver) -> None: ...
    def write(self, data: bytes) -> None: ...
    @property
    def unsent_bytes(self) -> int: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...
    async def wait_closed(self) -> None: ...

    def end_output(self) -> None:
        """The client reads the end of the agent's stdout, after everything that was written."""

    async def log(self, data: bytes) -> None:
        """Writes to the agent's stderr; returns when the client's end of it took everything. Raises: Skip."""

    def interrupt(self) -> None:
        """Does to the client what Ctrl-C at its terminal would do."""

    async def wait_exit(self) -> int | None:
        """How the client itself ended; negative for a signal."""


class ClientTarget(Protocol):
    """Where clients come from."""

    command: tuple[str, ...]

    async def open(self, folder: Path, on_output: Output, within_seconds: float) -> ClientLink:
        """A connection from a fresh client. `on_output` sees what it prints.

        Raises: NoAgent when the client does not start its agent; ConfigError when the client cannot be started.
        """


Client: TypeAlias = Callable[["Transport", Path, asyncio.Event], Coroutine[Any, Any, None]]
"""A client as a coroutine function of its end of the connection, an empty folder, and an event in place of Ctrl-C."""


class ClientInProcess:
    """Runs a fresh client of this process for each case, over memory: the whole protocol without a program."""

    def __init__(self, client: Client) -> None:
        self.command: tuple[str, ...] = ("(in this process)",)
        self._client = client

    async def open(self, folder: Path, on_output: Output, within_seconds: float) -> ClientLink:
        ours, theirs = memory_pair()
        interrupted = asyncio.Event()
        empty = folder / "empty"
        empty.mkdir()
        running = asyncio.create_task(self._client(theirs, empty, interrupted))
        return _MemoryLink(ours, theirs, running, interrupted, on_output)


class _MemoryLink:
    """A client as a task."""

    def __init__(
        self,
        inner: Transport,
        theirs: Transport,
        running: asyncio.Task[None],
        interrupted: asyncio.Event,
        on_output: Output,
    ) -> None:
        self.ending: AgentEnding | None = None
        self._inner = inner
        self._theirs = theirs
        self._running = running
        self._interrupted = interrupted
        self._on_output = on_output
        self._receiver: Receiver | None = None
        self.write = inner.write
        self.pause_reading = inner.pause_reading
        self.resume_reading = inner.resume_reading
        self.close = inner.close
        running.add_done_callback(self._on_done)

    @property
    def unsent_bytes(self) -> int:
        return self._inner.unsent_bytes

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._inner.start(self)

    def end_output(self) -> None:
        self._inner.close()

    async def log(self, data: bytes) -> None:
        raise Skip("an agent in the same process has no stderr of its own")

    def interrupt(self) -> None:
        self._interrupted.set()

    async def wait_exit(self) -> int | None:
        await asyncio.wait({self._running})
        return 1 if self._running.cancelled() or self._running.exception() is not None else 0

    async def wait_closed(self) -> None:
        _, left = await asyncio.wait({self._running}, timeout=LEAVE_SECONDS)
        for running in left:
            running.cancel()
            await asyncio.wait({running})

    def feed(self, data: bytes) -> None:
        assert self._receiver is not None
        self._receiver.feed(data)

    def end(self, reason: ConnectionClosed) -> None:
        self.ending = "closed"
        assert self._receiver is not None
        self._receiver.end(reason)

    def drained(self) -> None:
        pass

    def _on_done(self, running: asyncio.Task[None]) -> None:
        # A program that ends closes what it had open.
        self._theirs.close()
        if not running.cancelled() and (error := running.exception()) is not None:
            self._on_output(f"{type(error).__name__}: {error}\n".encode())
