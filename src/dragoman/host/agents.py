"""The agents that a host can run, and one that runs.

Owns starting an agent for a session and the connection to it. Decides nothing about the session.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from dragoman.client import connect
from dragoman.errors import ConnectionClosed
from dragoman.schema import is_advertised

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.client import ClientOptions, RemoteAgent, Session
    from dragoman.client.services import TracksChanges
    from dragoman.host.working.agent_traffic import AgentTraffic
    from dragoman.rpc import Transport
    from dragoman.schema import v1

_log = logging.getLogger("dragoman.host")
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
    """The command line of an agent; empty if it is not known."""
    return source.command if isinstance(source, DescribedSource) else ()


class RunningAgent:
    """A started agent with one session."""

    def __init__(self, remote: RemoteAgent, stack: AsyncExitStack, transport: Transport) -> None:
        self.remote = remote
        self._transport = transport
        self.session: Session
        self.changes: TracksChanges | None = None
        self._stack = stack
        self._ended: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        source: AgentSource,
        cwd: str,
        env: Mapping[str, str] | None,
        options: ClientOptions,
        traffic: AgentTraffic | None = None,
    ) -> RunningAgent:
        """Start the agent and initialize it.

        Args:
            source: The agent.
            cwd: The folder of the session.
            env: The environment of the client that opened the session; None for that of the host.
            options: Of the connection.
            traffic: Keeps the last lines of the connection.

        Raises:
            DragomanError: it cannot be started, or does not answer.
        """
        stack = AsyncExitStack()
        try:
            async with asyncio.timeout(_START_SECONDS):
                transport = await source.start(cwd, env)
                if traffic is not None:
                    traffic.begin(transport)
                    options = {**options, "observers": (traffic,)}
                remote = await stack.enter_async_context(connect(transport, **options))
        except TimeoutError:
            await stack.aclose()
            raise ConnectionClosed(f"{source.name} did not start within {_START_SECONDS:g} seconds") from None
        except BaseException:
            await stack.aclose()
            raise
        running = cls(remote, stack, transport)
        running.changes = options.get("changes")
        return running

    @property
    def is_open(self) -> bool:
        return self.remote.is_open

    def can(self, gate: str) -> bool:
        """Whether the agent advertised a capability, by its dotted path."""
        return is_advertised(self.remote.capabilities, gate)

    @property
    def can_come_back(self) -> bool:
        """Whether a session of it can be opened again by another process."""
        return self.can("sessionCapabilities.resume") or self.can("loadSession")

    async def new(
        self, cwd: str, servers: Sequence[v1.McpServer], directories: Sequence[str], meta: Mapping[str, Any] | None
    ) -> None:
        self.session = await self.remote.new_session(
            cwd, mcp_servers=servers, additional_directories=directories, meta=meta
        )

    async def come_back(
        self,
        id: str,
        cwd: str,
        servers: Sequence[v1.McpServer],
        directories: Sequence[str],
        *,
        with_history: bool = False,
    ) -> bool:
        """Open an earlier session; whether the agent may replay its history. It must be able to come back."""
        if self.can("sessionCapabilities.resume") and not (with_history and self.can("loadSession")):
            self.session = await self.remote.resume_session(
                id, cwd, mcp_servers=servers, additional_directories=directories
            )
            return False
        self.session = await self.remote.load_session(id, cwd, mcp_servers=servers, additional_directories=directories)
        return True

    def when_ended(self, callback: Callable[[ConnectionClosed | None], None]) -> None:
        """Call back when the connection has ended, by either side."""

        async def wait() -> None:
            await self.remote.wait_closed()
            callback(self.remote.closed_by)

        self._ended = asyncio.get_running_loop().create_task(wait())

    async def end_of_changes(self) -> None:
        """Return when it is known what the last turn changed in the folders, if that is followed."""
        if self.changes is not None:
            await self.changes.end_session(self.session)

    async def end_commands(self, since: float) -> None:
        """End what the agent started at or after a moment of `time.monotonic`, if its processes are on this machine."""
        if isinstance(self._transport, EndsCommands):
            await self._transport.end_commands(since)

    async def close(self) -> None:
        """End the agent with everything it started."""
        if self._ended is not None:
            self._ended.cancel()
        try:
            await self._stack.aclose()
        except Exception:
            _log.exception("an agent did not end cleanly")
        if self._ended is not None:
            with suppress(asyncio.CancelledError):
                await self._ended
