"""Commands in a terminal: the client's when it offers one, a child of this process otherwise.

Owns the promise that every terminal is released, whatever happens around it (rule 292). `local_terminals.py`
runs a child.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, ClassVar

from dragoman.agent.client import ClientError
from dragoman.errors import ConnectionClosed, LocalProtocolError, RemoteProtocolError
from dragoman.schema import UNSET, v1

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Mapping, Sequence

    from dragoman.agent.session import AgentSession

# A client that does not answer a release must not keep a cancelled turn from being answered; the request itself has
# left by then and its answer changes nothing.
RELEASE_SECONDS = 2.0


class TerminalHandle(ABC):
    """A command that was started. Its terminal is released at the end of the `async with` around it."""

    id: str
    """The client's name for the terminal, or a local one."""
    is_released: bool
    """Whether the terminal is gone."""
    is_live: ClassVar[bool]
    """Whether the client itself shows the terminal; otherwise its output is shown as text."""

    @abstractmethod
    async def output(self) -> v1.TerminalOutputResponse:
        """Return what the command has written so far, whether the beginning is missing, and its exit status if it
        ended.

        Raises: ClientError, LocalProtocolError after the release.
        """

    @abstractmethod
    async def wait(self) -> v1.WaitForTerminalExitResponse:
        """Wait until the command has ended, and return the exit status.

        Raises: ClientError, LocalProtocolError after the release.
        """

    @abstractmethod
    async def kill(self) -> None:
        """End the command; its output and exit status stay available.

        Raises: ClientError, LocalProtocolError after the release.
        """

    @abstractmethod
    async def release(self) -> None:
        """End the command if it still runs, and free the terminal."""

    @abstractmethod
    def _shown(self) -> v1.ToolCallContent:
        """Return how a tool call shows the terminal."""

    def _require_live(self) -> None:
        if self.is_released:
            raise LocalProtocolError("this terminal was released; use it inside its `async with`")


class ClientTerminal(TerminalHandle):
    """A terminal of the client."""

    is_live = True

    def __init__(self, session: AgentSession, terminal_id: str) -> None:
        self._session = session
        self.id = terminal_id
        self.is_released = False

    async def output(self) -> v1.TerminalOutputResponse:
        self._require_live()
        request = v1.TerminalOutputRequest(self._session.id, self.id)
        return await self._session.client._ask("terminal/output", request, v1.TerminalOutputResponse)

    async def wait(self) -> v1.WaitForTerminalExitResponse:
        self._require_live()
        request = v1.WaitForTerminalExitRequest(self._session.id, self.id)
        return await self._session.client._ask("terminal/wait_for_exit", request, v1.WaitForTerminalExitResponse)

    async def kill(self) -> None:
        self._require_live()
        request = v1.KillTerminalRequest(self._session.id, self.id)
        await self._session.client._ask("terminal/kill", request, v1.KillTerminalResponse)

    async def release(self) -> None:
        if self.is_released:
            return
        self.is_released = True
        # The connection owns the request: neither a timeout nor a second cancellation takes it back.
        released = self._session._spawn(_release(self._session, self.id))
        await asyncio.wait({released}, timeout=RELEASE_SECONDS)

    def _shown(self) -> v1.ToolCallContent:
        return v1.Terminal(self.id)


@asynccontextmanager
async def open_terminal(
    session: AgentSession,
    command: str,
    args: Sequence[str],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    output_byte_limit: int | None,
) -> AsyncIterator[TerminalHandle]:
    """Start the command, and release its terminal when the body is left."""
    folder = session.cwd if cwd is None else session.path(cwd)
    terminal: TerminalHandle
    if session.client.offers("terminal"):
        request = v1.CreateTerminalRequest(
            session.id,
            command,
            args=list(args),
            env=[v1.EnvVariable(name, value) for name, value in (env or {}).items()],
            cwd=folder,
            output_byte_limit=UNSET if output_byte_limit is None else output_byte_limit,
        )
        terminal = await _create(session, request)
    else:
        from dragoman.agent.local_terminals import LocalTerminal

        terminal = LocalTerminal.start([command, *args], folder, env, output_byte_limit)
    try:
        yield terminal
    finally:
        await terminal.release()


async def _create(session: AgentSession, request: v1.CreateTerminalRequest) -> ClientTerminal:
    """Ask the client for a terminal.

    If this is cancelled, another task still waits for the answer and releases the terminal: otherwise the client could
    keep a terminal whose id this side does not know.
    """
    asked = session._spawn(session.client._ask("terminal/create", request, v1.CreateTerminalResponse))
    try:
        answer = await asyncio.shield(asked)
    except asyncio.CancelledError:
        _ = session._spawn(_release_when_created(session, asked))
        raise
    return ClientTerminal(session, answer.terminal_id)


async def _release_when_created(session: AgentSession, asked: asyncio.Task[v1.CreateTerminalResponse]) -> None:
    try:
        answer = await asked
    except (ClientError, RemoteProtocolError, ConnectionClosed):
        return
    await _release(session, answer.terminal_id)


async def _release(session: AgentSession, terminal_id: str) -> None:
    request = v1.ReleaseTerminalRequest(session.id, terminal_id)
    with suppress(ClientError, RemoteProtocolError, ConnectionClosed):  # it is gone already, or the client is
        await session.client._ask("terminal/release", request, v1.ReleaseTerminalResponse)
