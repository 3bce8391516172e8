"""One MCP server of a session, from its first connection until the session ends.

Owns the life cycle: connects within a time limit, lists the tools again when they change, connects again once after
each loss, and reports a server that is not available. Depends on the `McpConnection` protocol, not on the `mcp`
package.

Theory of operation: one task per server runs connection after connection. A connection calls `news` when it is lost or
when the tools change; the task then decides what to do. `_settled` is set while the list of tools is current, and
cleared at once when news arrives, so that a turn that begins then waits, for at most `turn_seconds`.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from dragoman.builtin.tools.tool import ToolError
from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from dragoman.builtin.mcp.config import ServerSpec
    from dragoman.builtin.mcp.tools import Offer
    from dragoman.builtin.tools.tool import ToolOutput

    Notice = Callable[[str, str], Awaitable[None]]

_log = logging.getLogger("dragoman.builtin")

# A child process has three seconds to end and is then killed; a connection to an address has this long to close.
_CLOSE_SECONDS: Final = 8.0


class Waits(Struct, frozen=True):
    """Time limits for servers."""

    turn_seconds: float = 15.0
    """A turn waits this long for a server that is starting, and then continues without its tools."""
    connect_seconds: float = 60.0
    """A server is given up after this: `npx` downloads its package first, which takes longer than a turn should."""
    again_seconds: tuple[float, ...] = (1.0, 2.0, 5.0, 15.0, 60.0)
    """The pause before connecting again after the first loss, the second...; after the last the server is given up."""


class McpConnectionLost(DragomanError):
    """There is no connection to the server; the message states why."""


class McpConnection(AbstractAsyncContextManager["McpConnection"], Protocol):
    """A connection to a server, open while it is entered. Entering raises McpConnectionLost if that fails."""

    lost: str | None
    """Why the connection is over, None while it is open."""
    has_changed: bool
    """Whether the server announced that its tools changed."""

    async def offers(self) -> tuple[Offer, ...]:
        """Return the server's tools. Raises: McpConnectionLost."""
        ...

    async def call(self, tool: str, arguments: dict[str, Any], meta: Mapping[str, str]) -> ToolOutput:
        """Raises: ToolError when the server refuses or fails, McpConnectionLost when it is gone."""
        ...


class Opener(Protocol):
    """Creates connections."""

    def __call__(self, spec: ServerSpec, cwd: str, news: Callable[[], None]) -> McpConnection: ...


async def report(notice: Notice, title: str, description: str) -> None:
    """Log a problem and show it to the user. An error of `notice` is logged and must not end a server."""
    _log.warning("%s: %s", title, description)
    try:
        await notice(title, description)
    except Exception:
        _log.exception("the notice %r could not be shown", title)


class SessionServer:
    """One server of a session. `offers` are the tools that it last listed."""

    def __init__(self, spec: ServerSpec, cwd: str, notice: Notice, waits: Waits) -> None:
        self.spec = spec
        self.offers: tuple[Offer, ...] = ()
        self._cwd = cwd
        self._notice = notice
        self._waits = waits
        self._connection: McpConnection | None = None
        self._problem = "it is still starting"
        self._stopping = asyncio.Event()
        self._news = asyncio.Event()
        self._settled = asyncio.Event()
        self._wait_until = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self, opener: asyncio.Future[Opener | None]) -> None:
        """Connect in the background when `opener` is done; None as its result means that no server can be reached."""
        self._unsettle()
        self._task = asyncio.create_task(self._run(opener), name=f"dragoman-mcp-{self.spec.name}")

    async def settle(self) -> None:
        """Return when the list of tools is current, or when a turn has waited long enough for it."""
        if self._settled.is_set():
            return
        loop = asyncio.get_running_loop()
        is_first = self._wait_until > loop.time()
        try:
            async with asyncio.timeout_at(self._wait_until):
                await self._settled.wait()
        except TimeoutError:
            if is_first:
                await self._report(
                    "is still starting", "The turn continues without its tools; the next one may have them"
                )

    async def close(self) -> None:
        """End the connection, and the server's process if it has one."""
        self._stopping.set()
        self._news.set()
        task = self._task
        if task is None:
            return
        if self._connection is None:
            task.cancel()
        _, pending = await asyncio.wait({task}, timeout=_CLOSE_SECONDS)
        if pending:
            task.cancel()
            await asyncio.wait({task}, timeout=_CLOSE_SECONDS)

    async def call(self, tool: str, arguments: dict[str, Any], meta: Mapping[str, str]) -> ToolOutput:
        """Raises: ToolError."""
        try:
            if self._connection is None:
                raise McpConnectionLost(self._problem)
            return await self._connection.call(tool, arguments, meta)
        except McpConnectionLost as error:
            why = f"the MCP server {self.spec.name} is not available: {error}. Try again later or continue without it"
            raise ToolError(why) from error

    def _on_news(self) -> None:
        if self._settled.is_set():
            self._unsettle()
        self._news.set()

    def _unsettle(self) -> None:
        self._settled.clear()
        self._wait_until = asyncio.get_running_loop().time() + self._waits.turn_seconds

    async def _run(self, opener: asyncio.Future[Opener | None]) -> None:
        try:
            connect = await asyncio.shield(opener)  # the other servers wait for it too
            if connect is not None:
                await self._keep_connected(connect)
        except Exception:
            _log.exception("MCP server %s", self.spec.name)
        finally:
            self._settled.set()

    async def _keep_connected(self, opener: Opener) -> None:
        """Run one connection after another, until a connection fails or too many were lost."""
        for seconds in (*self._waits.again_seconds, None):
            try:
                why = await self._run_connection(opener(self.spec, self._cwd, self._on_news))
            except McpConnectionLost as error:
                await self._give_up(str(error))
                return
            if self._stopping.is_set():
                return
            _log.warning("MCP server %s was lost: %s", self.spec.name, why)
            if seconds is None:
                await self._give_up(f"it was lost too often, at last because {why}")
                return
            self._problem = f"{why}; it is being started again"
            self._unsettle()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()
            if self._stopping.is_set():
                return

    async def _run_connection(self, connection: McpConnection) -> str:
        """Run a connection until it ends, and return why it ended. Raises: McpConnectionLost if it never began."""
        seconds = self._waits.connect_seconds
        has_begun = False
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(seconds):
                    await stack.enter_async_context(connection)
                    self.offers = await connection.offers()
            except TimeoutError:
                why = f"{self.spec.where} did not answer within {seconds:g} s; check that it is an MCP server"
                raise McpConnectionLost(why) from None
            self._connection, has_begun = connection, True
            if connection.lost is None:
                self._settled.set()
            try:
                await self._watch(connection)
            finally:
                self._connection = None
                self._problem = connection.lost or "it was closed"
        # A connection that breaks leaves the block above at any line, without an exception, and sets `lost`.
        why = connection.lost or ""
        if not has_begun:
            raise McpConnectionLost(why)
        return why

    async def _watch(self, connection: McpConnection) -> None:
        """List the tools again whenever they change. Return when the connection is over, or is to be closed."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._stopping.is_set() or connection.lost is not None:
                return
            if connection.has_changed:
                connection.has_changed = False
                try:
                    async with asyncio.timeout(self._waits.connect_seconds):
                        self.offers = await connection.offers()
                except (McpConnectionLost, TimeoutError) as error:
                    _log.warning("the tools of MCP server %s cannot be listed: %s", self.spec.name, error)
            if not connection.has_changed and connection.lost is None:
                self._settled.set()

    async def _give_up(self, why: str) -> None:
        self._problem = why
        self.offers = ()
        self._settled.set()
        await self._report("is not available", f"{why}. The session continues without its tools")

    async def _report(self, what: str, description: str) -> None:
        await report(self._notice, f"MCP server {self.spec.name} {what}", description)
