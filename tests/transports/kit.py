"""Receivers that remember, and a far end that does what it is told, over every transport.

The far end sends back what it gets. A few bytes are orders: STALL stops it from reading for a moment, CLOSE makes it
close after everything before was sent back. It is the same code beside the test and in a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dragoman.errors import ConnectionClosed
from dragoman.rpc.transport import Transport
from dragoman.transports.fd import FdTransport
from dragoman.transports.memory import memory_pair
from dragoman.transports.process import ProcessTransport
from dragoman.transports.stdio import StdioTransport

SECONDS = 30.0
STALL = b"\x13"
CLOSE = b"\x04"
STALL_SECONDS = 0.3


class Inbox:
    """A receiver that keeps everything and can be waited on."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.feeds = 0
        self.ends: list[ConnectionClosed] = []
        self.drains = 0
        self.on_feed: Callable[[], None] | None = None
        self._changed = asyncio.Event()

    def feed(self, data: bytes) -> None:
        assert isinstance(data, bytes)
        assert data, "nothing is not worth a call"
        assert not self.ends, "fed after the end"
        self.data += data
        self.feeds += 1
        self._changed.set()
        if self.on_feed is not None:
            self.on_feed()

    def end(self, reason: ConnectionClosed) -> None:
        self.ends.append(reason)
        self._changed.set()

    def drained(self) -> None:
        self.drains += 1
        self._changed.set()

    async def until(self, is_true: Callable[[Inbox], object], seconds: float = SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while not is_true(self):
                assert not self.ends, f"it ended first: {self.ends[0]}"
                self._changed.clear()
                await self._changed.wait()

    async def holds(self, data: bytes) -> None:
        """Wait until as much as `data` has arrived, and see that it is that."""
        await self.until(lambda inbox: len(inbox.data) >= len(data))
        assert self.data == data

    async def end_reason(self) -> ConnectionClosed:
        await self.until(lambda inbox: inbox.ends)
        assert len(self.ends) == 1
        return self.ends[0]


class Echo:
    """The far end."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self.total = 0
        self.over: asyncio.Future[int] = self._loop.create_future()
        transport.start(self)

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        if STALL in data:
            self._transport.pause_reading()
            self._loop.call_later(STALL_SECONDS, self._transport.resume_reading)
        self._transport.write(data)
        if CLOSE in data:
            self.end(ConnectionClosed("told to"))

    def end(self, reason: ConnectionClosed) -> None:
        self._transport.close()
        if not self.over.done():
            self.over.set_result(self.total)

    def drained(self) -> None:
        pass


async def serve_echo() -> None:
    """What the process at the far end of the stdio link runs."""
    transport = StdioTransport()
    echo = Echo(transport)
    total = await echo.over
    await transport.wait_closed()
    os.write(2, b"%d\n" % total)


FAR_PROGRAM = "import asyncio; from tests.transports.kit import serve_echo; asyncio.run(serve_echo())"


class Near:
    """One kind of link: the near transport with its inbox, and the far total once the far end is over."""

    def __init__(self, transport: Transport, echo: Echo | None) -> None:
        self.transport = transport
        self.inbox = Inbox()
        self._echo = echo

    async def far_total(self) -> int:
        async with asyncio.timeout(SECONDS):
            if self._echo is not None:
                return await self._echo.over
            await self.transport.wait_closed()
            assert isinstance(self.transport, ProcessTransport)
            return int(self.transport.stderr_tail.split()[-1])


async def settle() -> None:
    """Let the loop do what it has to do now, to see that it does not do something else."""
    for _ in range(10):
        await asyncio.sleep(0)


KINDS = ["memory", "pipes", "sockets", "process"]


@asynccontextmanager
async def link(kind: str, *, start: bool = True) -> AsyncIterator[Near]:
    far: Transport | None = None
    near: Transport
    if kind == "memory":
        near, far = memory_pair()
    elif kind == "pipes":
        near, far = pipes()
    elif kind == "sockets":
        near, far = sockets()
    else:
        near = await ProcessTransport.spawn(
            [sys.executable, "-c", FAR_PROGRAM], env={"PYTHONPATH": os.pathsep.join(sys.path)}
        )
    ends = Near(near, None if far is None else Echo(far))
    if start:
        near.start(ends.inbox)
    try:
        yield ends
    finally:
        near.close()
        if far is not None:
            far.close()
            await far.wait_closed()
        await asyncio.wait_for(near.wait_closed(), SECONDS)


def pipes() -> tuple[FdTransport, FdTransport]:
    near_reads, far_writes = os.pipe()
    far_reads, near_writes = os.pipe()
    return FdTransport(near_reads, near_writes), FdTransport(far_reads, far_writes)


def sockets() -> tuple[FdTransport, FdTransport]:
    near, far = socket.socketpair()
    ends = (FdTransport(near.fileno(), os.dup(near.fileno())), FdTransport(far.fileno(), os.dup(far.fileno())))
    near.detach()
    far.detach()
    return ends
