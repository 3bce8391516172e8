"""The judged client as a coroutine of this process, over memory: the whole protocol without a program."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dragoman.conformance.case import Skip
from dragoman.conformance.client.target import LEAVE_SECONDS
from dragoman.conformance.in_process import WrappedTransport
from dragoman.transports.memory import memory_pair

if TYPE_CHECKING:
    from dragoman.conformance.client.target import AgentEnding, ClientLink, Output
    from dragoman.errors import ConnectionClosed
    from dragoman.rpc import Transport

ClientFunction: TypeAlias = Callable[["Transport", Path, asyncio.Event], Coroutine[Any, Any, None]]
"""A client as a coroutine function of its end of the connection, an empty folder, and an event in place of Ctrl-C."""


class ClientInProcess:
    """A fresh client for each connection, in this process."""

    def __init__(self, client: ClientFunction) -> None:
        self.command: tuple[str, ...] = ("(in this process)",)
        self._client = client

    async def open(self, folder: Path, on_output: Output, within_seconds: float) -> ClientLink:
        ours, theirs = memory_pair()
        interrupted = asyncio.Event()
        empty = folder / "empty"
        empty.mkdir()
        running = asyncio.create_task(self._client(theirs, empty, interrupted))
        return _MemoryLink(ours, theirs, running, interrupted, on_output)


class _MemoryLink(WrappedTransport):
    """The judge's end of a memory pair, and the client's task."""

    def __init__(
        self,
        inner: Transport,
        theirs: Transport,
        running: asyncio.Task[None],
        interrupted: asyncio.Event,
        on_output: Output,
    ) -> None:
        super().__init__(inner)
        self.ending: AgentEnding | None = None
        self._theirs = theirs
        self._running = running
        self._interrupted = interrupted
        self._on_output = on_output
        running.add_done_callback(self._on_done)

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

    def end(self, reason: ConnectionClosed) -> None:
        self.ending = "closed"
        super().end(reason)

    def _on_done(self, running: asyncio.Task[None]) -> None:
        # A program that ends closes what it had open.
        self._theirs.close()
        if not running.cancelled() and (error := running.exception()) is not None:
            self._on_output(f"{type(error).__name__}: {error}\n".encode())
