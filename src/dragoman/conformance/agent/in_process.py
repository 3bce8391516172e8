"""The judged agent as an object of this library, served over memory: the whole protocol without a process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.conformance.agent.target import PATIENCE
from dragoman.conformance.in_process import WrappedTransport
from dragoman.errors import AgentExited, ConnectionClosed
from dragoman.transports.memory import memory_pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.agent import Agent
    from dragoman.conformance.agent.target import AgentLink
    from dragoman.rpc import Transport


class AgentInProcess:
    """A fresh agent for each connection, in this process."""

    def __init__(self, make: Callable[[], Agent], *, around: Callable[[Transport], Transport] | None = None) -> None:
        """Remember how to make an agent.

        Args:
            around: Wraps the agent's end of each connection, so that tests can change what the agent sends.
        """
        self.command: tuple[str, ...] = ("(in this process)",)
        self._make = make
        self._around = around

    async def open(self, on_stderr: Callable[[bytes], None]) -> AgentLink:
        ours, theirs = memory_pair()
        far = _FarEnd(theirs)
        transport = far if self._around is None else self._around(far)
        serving = asyncio.create_task(self._make().serve(transport))
        return _MemoryLink(ours, far, serving)


class _FarEnd(WrappedTransport):
    """The agent's end of a memory pair, whose input can be ended while the pair stays open."""

    _is_over = False

    def feed(self, data: bytes) -> None:
        if not self._is_over:
            super().feed(data)

    def end(self, reason: ConnectionClosed) -> None:
        if self._receiver is not None and not self._is_over:
            self._is_over = True
            super().end(reason)


class _MemoryLink(WrappedTransport):
    """The judge's end of a memory pair."""

    returncode = None

    def __init__(self, inner: Transport, far: _FarEnd, serving: asyncio.Task[None]) -> None:
        super().__init__(inner)
        self._far = far
        self._serving = serving

    def end_input(self) -> None:
        if self.unsent_bytes:
            asyncio.get_running_loop().call_soon(self.end_input)
        else:
            self._far.end(ConnectionClosed("the judge closed the input"))

    async def wait_closed(self) -> None:
        await super().wait_closed()
        _, left = await asyncio.wait({self._serving}, timeout=PATIENCE.stdin_seconds)
        for serving in left:
            serving.cancel()
            await asyncio.wait({serving})
        if not self._serving.cancelled() and self._serving.exception() is not None:
            raise RuntimeError("the agent in this process failed") from self._serving.exception()

    def end(self, reason: ConnectionClosed) -> None:
        super().end(AgentExited(0, ""))
