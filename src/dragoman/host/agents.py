"""The agents that a host can run."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from dragoman.errors import ConnectionClosed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from dragoman.rpc import Transport

_START_SECONDS: Final = 120.0


class AgentSource(Protocol):
    """An agent that can be started."""

    name: str

    async def start(self, cwd: str, env: Mapping[str, str] | None) -> Transport:
        """Start it for a session in this folder.

        Args:
            env: The environment of the client that opened the session; None for that of the host.

        Raises:
            DragomanError: it cannot be started.
        """


@runtime_checkable
class DescribedSource(Protocol):
    """An agent whose program is known: what it answers to `initialize` is kept by these."""

    name: str

    @property
    def command(self) -> tuple[str, ...]: ...

    @property
    def version(self) -> str | None: ...


@runtime_checkable
class EndsCommands(Protocol):
    """The connection to an agent whose processes run on this machine."""

    async def end_commands(self, since: float) -> None: ...


def command_of(source: object) -> tuple[str, ...]:
    """Return the command line of an agent; empty if it is not known."""
    return source.command if isinstance(source, DescribedSource) else ()


_limit: ContextVar[asyncio.Timeout | None] = ContextVar("dragoman_start_limit", default=None)


@asynccontextmanager
async def unlimited() -> AsyncIterator[None]:
    """Do something that does not count as the start of an agent, within `start_limit`: a download."""
    limit = _limit.get()
    if limit is not None:
        limit.reschedule(None)
    try:
        yield
    finally:
        if limit is not None:
            limit.reschedule(asyncio.get_running_loop().time() + _START_SECONDS)


@asynccontextmanager
async def start_limit(name: str) -> AsyncIterator[None]:
    """Start an agent in this block, and wait for its first answer. Raises: ConnectionClosed if that takes too long."""
    try:
        async with asyncio.timeout(_START_SECONDS) as limit:
            token = _limit.set(limit)
            try:
                yield
            finally:
                _limit.reset(token)
    except TimeoutError:
        raise ConnectionClosed(f"{name} did not start within {_START_SECONDS:g} seconds") from None
