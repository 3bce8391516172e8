"""A relay of messages between a program and a remote agent, unchanged, for tools that judge or record an agent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.host.bridge.bridge import BROKEN
from dragoman.host.bridge.line import FULL_BYTES
from dragoman.wire import Framer

if TYPE_CHECKING:
    from dragoman.errors import ConnectionClosed
    from dragoman.rpc import Transport


class _Side:
    """One end: what comes in is written to the other."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.other: _Side
        self._framer = Framer()
        self.ended: asyncio.Future[ConnectionClosed] = asyncio.get_running_loop().create_future()

    def feed(self, data: bytes) -> None:
        # Whole lines: to a WebSocket each write is a message.
        lines = [frame for frame in self._framer.feed(data) if isinstance(frame, bytes)]
        if lines:
            self.other.transport.write(b"\n".join(lines) + b"\n")
        if self.other.transport.unsent_bytes > FULL_BYTES:
            self.transport.pause_reading()

    def end(self, reason: ConnectionClosed) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    def drained(self) -> None:
        self.other.transport.resume_reading()


async def relay(client: Transport, agent: Transport) -> tuple[int, str]:
    """Pass everything on until one end is gone; gives the exit code, and why the agent was gone."""
    here, there = _Side(client), _Side(agent)
    here.other, there.other = there, here
    client.start(here)
    agent.start(there)
    try:
        await asyncio.wait([here.ended, there.ended], return_when=asyncio.FIRST_COMPLETED)
        return (BROKEN, str(there.ended.result())) if there.ended.done() else (0, "")
    finally:
        for transport in (agent, client):
            transport.close()
            await transport.wait_closed()
