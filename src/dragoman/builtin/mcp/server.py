"""One MCP server of a session, from its first connection until the session ends.

Owns the life cycle: connects within a time limit, lists what the server offers again when that changes, connects again
after each loss with growing pauses, and reports a server that is not available. Depends on the `McpConnection`
protocol, not on the `mcp` package.

Theory of operation: one task per server runs connection after connection. A connection calls `news` when it is lost or
when a list changes; the task then decides what to do. `_settled` is set while the lists are current, and
cleared at once when news arrives, so that a turn that begins then waits, for at most `turn_seconds`.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from dragoman.builtin.mcp.listing import Listing
from dragoman.builtin.skills.manifest import mismatch_in
from dragoman.builtin.tools.tool import ToolError
from dragoman.errors import ConfigError, DragomanError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from dragoman.builtin.mcp.config import ServerSpec
    from dragoman.builtin.mcp.listing import PromptMessage, ResourceText
    from dragoman.builtin.tools.tool import ToolOutput

    Notice = Callable[[str, str], Awaitable[None]]
    Progress = Callable[[str], Awaitable[None]]

_log = logging.getLogger("dragoman.builtin")

# A child process has three seconds to end and is then killed; a connection to an address has this long to close.
_CLOSE_SECONDS: Final = 8.0
# A connection that lasted this long was good: the losses before it do not count any more.
_STEADY_SECONDS: Final = 60.0

_T = TypeVar("_T")
ServerState: TypeAlias = Literal["starting", "connected", "reconnecting", "login needed", "not available"]


class Waits(Struct, frozen=True):
    """Time limits for servers."""

    turn_seconds: float = 15.0
    """A turn waits this long for a server that is starting, and then continues without its tools."""
    connect_seconds: float = 60.0
    """A server is given up after this: `npx` downloads its package first, which takes longer than a turn should."""
    again_seconds: tuple[float, ...] = (1.0, 2.0, 5.0, 15.0, 60.0)
    """The pause before connecting again after the first loss, the second...; after the last the server is given up."""


class McpConnectionLost(DragomanError):
    """The lack of a connection to the server; the message states why."""


class McpLoginNeeded(McpConnectionLost):
    """The server wants the user to log in; the message names the command."""


class McpConnection(AbstractAsyncContextManager["McpConnection"], Protocol):
    """A connection to a server, open while it is entered. Entering raises McpConnectionLost if that fails."""

    lost: str | None
    """Why the connection is over, None while it is open."""
    has_changed: bool
    """Whether the server announced that one of its lists changed."""

    async def listing(self) -> Listing:
        """Return what the server offers. Raises: McpConnectionLost."""
        ...

    async def call(
        self, tool: str, arguments: dict[str, Any], meta: Mapping[str, str], progress: Progress | None = None
    ) -> ToolOutput:
        """Raises: ToolError when the server refuses or fails, McpConnectionLost when it is gone."""
        ...

    async def read(self, uri: str) -> tuple[ResourceText, ...]:
        """Read a resource. Raises: ToolError, McpConnectionLost."""
        ...

    async def prompt(self, name: str, arguments: dict[str, str]) -> tuple[PromptMessage, ...]:
        """Return the messages of a prompt. Raises: ToolError, McpConnectionLost."""
        ...

    async def announce_roots(self) -> None:
        """Report that the session's folders have changed."""
        ...


class Opener(Protocol):
    """A function that creates connections."""

    def __call__(self, spec: ServerSpec, cwd: str, news: Callable[[], None]) -> McpConnection: ...


async def report(notice: Notice, title: str, description: str) -> None:
    """Log a problem and show it to the user. An error of `notice` is logged and must not end a server."""
    _log.warning("%s: %s", title, description)
    try:
        await notice(title, description)
    except Exception:
        _log.exception("the notice %r could not be shown", title)


class SessionServer:
    """One server of a session. `listing` is what it last offered; it is kept while the server is connected again."""

    def __init__(
        self, spec: ServerSpec, cwd: str, notice: Notice, waits: Waits, on_change: Callable[[], None] | None = None
    ) -> None:
        self.spec = spec
        self.listing = Listing()
        self.state: ServerState = "starting"
        self.problem = "it is still starting"
        """Why it cannot be used, unless it is connected."""
        self._cwd = cwd
        self._notice = notice
        self._waits = waits
        self._on_change = on_change
        self._connection: McpConnection | None = None
        self._stopping = asyncio.Event()
        self._news = asyncio.Event()
        self._settled = asyncio.Event()
        self._wait_until = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self, opener: asyncio.Future[Opener | None]) -> None:
        """Connect in the background when `opener` is done; None as its result means that no server can be reached.

        A server that was given up is tried again; one that is connected, or connecting, stays as it is.
        """
        if self._task is not None and not self._task.done():
            return
        self.state, self.problem = "starting", "it is still starting"
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

    async def call(
        self, tool: str, arguments: dict[str, Any], meta: Mapping[str, str], progress: Progress | None = None
    ) -> ToolOutput:
        """Raises: ToolError."""
        return await self._used(lambda connection: connection.call(tool, arguments, meta, progress))

    async def read(self, uri: str) -> tuple[ResourceText, ...]:
        """Read a resource; one of a listed skill must be what the list states. Raises: ToolError."""
        parts = await self._used(lambda connection: connection.read(uri))
        changed = mismatch_in(self.listing.skills or (), uri, parts)
        if changed:
            if self._connection is not None:
                self._connection.has_changed = True
                self._on_news()
            raise ToolError(f"{changed}. The list of {self.spec.name} is read again; make the same call again")
        return parts

    async def prompt(self, name: str, arguments: dict[str, str]) -> tuple[PromptMessage, ...]:
        """Raises: ToolError."""
        return await self._used(lambda connection: connection.prompt(name, arguments))

    async def announce_roots(self) -> None:
        """Report that the session's folders have changed, if the server is connected."""
        if self._connection is not None:
            await self._connection.announce_roots()

    async def _used(self, use: Callable[[McpConnection], Awaitable[_T]]) -> _T:
        try:
            if self._connection is None:
                raise McpConnectionLost(self.problem)
            return await use(self._connection)
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
        """Run one connection after another, until the first fails, a login is needed, or too many were lost."""
        losses, has_connected, pauses = 0, False, self._waits.again_seconds
        is_up = False
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            began = loop.time()
            try:
                why = f"it was lost too often, at last because {await self._run_connection(self._open(opener))}"
                has_connected = is_up = True
            except McpLoginNeeded as error:
                await self._give_up(str(error), "login needed")
                return
            except McpConnectionLost as error:
                why, is_up = str(error), False
                self.problem = why
            if self._stopping.is_set():
                return
            _log.warning("MCP server %s was lost: %s", self.spec.name, why)
            losses = 0 if loop.time() - began > _STEADY_SECONDS else losses
            if not has_connected or losses == len(pauses):
                await self._give_up(why)
                return
            self.state, self.problem = "reconnecting", f"{self.problem}; it is being started again"
            if is_up:
                self._unsettle()
            else:
                self._settled.set()  # a turn waits for the first attempt, not for all of them
            with suppress(TimeoutError):
                async with asyncio.timeout(pauses[losses]):
                    await self._stopping.wait()
            losses += 1

    def _open(self, opener: Opener) -> McpConnection:
        """Raises: McpConnectionLost."""
        try:
            return opener(self.spec, self._cwd, self._on_news)
        except ConfigError as error:
            raise McpConnectionLost(str(error)) from error

    async def _run_connection(self, connection: McpConnection) -> str:
        """Run a connection until it ends, and return why it ended. Raises: McpConnectionLost if it never began."""
        seconds = self._waits.connect_seconds
        has_begun = False
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(seconds):
                    await stack.enter_async_context(connection)
                    self._take(await connection.listing())
            except TimeoutError:
                why = f"{self.spec.where} did not answer within {seconds:g} s; check that it is an MCP server"
                raise McpConnectionLost(why) from None
            self._connection, has_begun, self.state = connection, True, "connected"
            if connection.lost is None:
                self._settled.set()
            try:
                await self._watch(connection)
            finally:
                self._connection = None
                self.problem = connection.lost or "it was closed"
        # A connection that breaks leaves the block above at any line, without an exception, and sets `lost`.
        why = connection.lost or ""
        if not has_begun:
            raise McpConnectionLost(why)
        return why

    async def _watch(self, connection: McpConnection) -> None:
        """List what is offered again whenever that changes. Return when the connection is over, or is to be closed."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._stopping.is_set() or connection.lost is not None:
                return
            if connection.has_changed:
                connection.has_changed = False
                try:
                    async with asyncio.timeout(self._waits.connect_seconds):
                        self._take(await connection.listing())
                except (McpConnectionLost, TimeoutError) as error:
                    _log.warning("what MCP server %s offers cannot be listed: %s", self.spec.name, error)
            if not connection.has_changed and connection.lost is None:
                self._settled.set()

    def _take(self, listing: Listing) -> None:
        has_changed, self.listing = listing != self.listing, listing
        if has_changed and self._on_change is not None:
            self._on_change()

    async def _give_up(self, why: str, state: ServerState = "not available") -> None:
        self.state, self.problem = state, why
        self._take(Listing())
        self._settled.set()
        await self._report("is not available", f"{why}. The session continues without its tools")

    async def _report(self, what: str, description: str) -> None:
        await report(self._notice, f"MCP server {self.spec.name} {what}", description)
