"""One MCP server of a session, from its first connection until the session ends.

Owns its life: connecting within a bound, hearing that its tools changed, one new attempt after each loss, and saying
so when it cannot be had. What a connection is, is not known here; nor is the `mcp` package.
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

# A child has three seconds to end and is then killed; an address has this long to take leave.
_CLOSE_SECONDS: Final = 8.0


class Waits(Struct, frozen=True):
    """How long is waited for servers."""

    turn_seconds: float = 15.0
    """A turn waits this long for a server that is starting, and then goes on without its tools."""
    connect_seconds: float = 60.0
    """A server is given up after this: `npx` downloads its package first, which takes longer than a turn should."""
    again_seconds: tuple[float, ...] = (1.0, 2.0, 5.0, 15.0, 60.0)
    """Before the new attempt after the first loss, the second...; a server lost more often is given up."""


class LinkLost(DragomanError):
    """There is no connection, or no more; the message says why."""


class Link(AbstractAsyncContextManager["Link"], Protocol):
    """A connection to a server, while it is entered. Entering raises LinkLost when the server cannot be had."""

    lost: str | None
    """Why it is over."""
    has_changed: bool
    """The server has other tools now."""

    async def offers(self) -> tuple[Offer, ...]:
        """Raises: LinkLost."""
        ...

    async def call(self, tool: str, arguments: dict[str, Any], meta: Mapping[str, str]) -> ToolOutput:
        """Raises: ToolError when the server does not do it, LinkLost when it is gone."""
        ...


class Opener(Protocol):
    """Makes connections."""

    def __call__(self, spec: ServerSpec, cwd: str, news: Callable[[], None]) -> Link: ...


class Server:
    """One server. `offers` are the tools it has, as far as is known."""

    def __init__(self, spec: ServerSpec, cwd: str, notice: Notice, waits: Waits) -> None:
        self.spec = spec
        self.offers: tuple[Offer, ...] = ()
        self._cwd = cwd
        self._notice = notice
        self._waits = waits
        self._link: Link | None = None
        self._problem = "it is still starting"
        self._stopping = asyncio.Event()
        self._news = asyncio.Event()
        self._settled = asyncio.Event()
        self._wait_until = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self, opener: asyncio.Future[Opener | None]) -> None:
        """Connects in the background, once `opener` is there; None means that nothing can be connected."""
        self._unsettle()
        self._task = asyncio.create_task(self._run(opener), name=f"dragoman-mcp-{self.spec.name}")

    async def settle(self) -> None:
        """Returns when it is known what tools there are, or a turn has waited long enough for that."""
        if self._settled.is_set():
            return
        loop = asyncio.get_running_loop()
        is_first = self._wait_until > loop.time()
        try:
            async with asyncio.timeout_at(self._wait_until):
                await self._settled.wait()
        except TimeoutError:
            if is_first:
                await self._tell("is still starting", "The turn goes on without its tools; the next one may have them")

    async def close(self) -> None:
        """Ends the connection, and the server's process if it has one."""
        self._stopping.set()
        self._news.set()
        task = self._task
        if task is None:
            return
        if self._link is None:
            task.cancel()
        _, pending = await asyncio.wait({task}, timeout=_CLOSE_SECONDS)
        if pending:
            task.cancel()
            await asyncio.wait({task}, timeout=_CLOSE_SECONDS)

    async def call(self, tool: str, arguments: dict[str, Any], meta: Mapping[str, str]) -> ToolOutput:
        """Raises: ToolError."""
        link = self._link
        if link is None:
            raise self._absence(self._problem)
        try:
            return await link.call(tool, arguments, meta)
        except LinkLost as error:
            raise self._absence(str(error)) from error

    def _absence(self, why: str) -> ToolError:
        return ToolError(f"the MCP server {self.spec.name} is not there: {why}. Try again later or do without it")

    def _hear(self) -> None:
        """At once, so that a turn that begins now waits for what follows."""
        if self._settled.is_set():
            self._unsettle()
        self._news.set()

    def _unsettle(self) -> None:
        self._settled.clear()
        self._wait_until = asyncio.get_running_loop().time() + self._waits.turn_seconds

    async def _run(self, opener: asyncio.Future[Opener | None]) -> None:
        try:
            open_link = await asyncio.shield(opener)  # the others wait for it too
            if open_link is not None:
                await self._live(open_link)
        except Exception:
            _log.exception("MCP server %s", self.spec.name)
        finally:
            self._settled.set()

    async def _live(self, open_link: Opener) -> None:
        """Connection after connection, until there is none to be had."""
        for seconds in (*self._waits.again_seconds, None):
            try:
                why = await self._connection(open_link)
            except LinkLost as error:
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
            await self._rest(seconds)
            if self._stopping.is_set():
                return

    async def _connection(self, open_link: Opener) -> str:
        """One connection from its beginning to its end, and why it ended. Raises: LinkLost when it never began."""
        link = open_link(self.spec, self._cwd, self._hear)
        has_begun = False
        async with AsyncExitStack() as stack:
            await self._connect(link, stack)
            self._link, has_begun = link, True
            if link.lost is None:
                self._settled.set()
            try:
                await self._stay(link)
            finally:
                self._link = None
                self._problem = link.lost or "it was closed"
        # A connection that breaks leaves the block above anywhere, without an exception: it then says why.
        why = link.lost or ""
        if not has_begun:
            raise LinkLost(why)
        return why

    async def _connect(self, link: Link, stack: AsyncExitStack) -> None:
        seconds = self._waits.connect_seconds
        try:
            async with asyncio.timeout(seconds):
                await stack.enter_async_context(link)
                self.offers = await link.offers()
        except TimeoutError:
            where = self.spec.where
            raise LinkLost(f"{where} did not answer within {seconds:g} s; check that it is an MCP server") from None

    async def _stay(self, link: Link) -> None:
        """Returns when the connection is over, or should be."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._stopping.is_set() or link.lost is not None:
                return
            if link.has_changed:
                link.has_changed = False
                try:
                    async with asyncio.timeout(self._waits.connect_seconds):
                        self.offers = await link.offers()
                except (LinkLost, TimeoutError) as error:
                    _log.warning("the tools of MCP server %s cannot be listed: %s", self.spec.name, error)
            if not link.has_changed and link.lost is None:
                self._settled.set()

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _give_up(self, why: str) -> None:
        self._problem = why
        self.offers = ()
        self._settled.set()
        await self._tell("is not available", f"{why}. The session goes on without its tools")

    async def _tell(self, what: str, description: str) -> None:
        _log.warning("MCP server %s %s: %s", self.spec.name, what, description)
        try:
            await self._notice(f"MCP server {self.spec.name} {what}", description)
        except Exception:  # whoever listens must not be able to end a server
            _log.exception("a notice about MCP server %s could not be shown", self.spec.name)
