"""One connection to an MCP server, through the official `mcp` package.

Owns the three transports and the messages about their failures. A server on stdio is a child of `dragoman.process`, so
that its whole process tree ends with it. The package takes most of a second to import and is not part of a base
install, so `load` imports it, in a thread, when a session has a server; all other imports of it are inside functions.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from dragoman._version import __version__
from dragoman.builtin.mcp.server import McpConnectionLost
from dragoman.builtin.mcp.stdio import Incoming, Outgoing, Watched
from dragoman.builtin.mcp.tools import Offer, output_of
from dragoman.builtin.tools.tool import ToolError
from dragoman.process.child import Patience
from dragoman.text.secrets import Secrets
from dragoman.transports.process import ProcessTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from types import TracebackType

    import httpx2
    import mcp_types
    from mcp.client._transport import Transport

    from dragoman.builtin.mcp.config import ServerSpec
    from dragoman.builtin.tools.tool import ToolOutput

_log = logging.getLogger("dragoman.builtin")

# What the official package passes on; everything else may be a secret.
INHERITED_VARIABLES: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
CALL_SECONDS: Final = 600.0  # a build or a crawl takes minutes; a server that forgot the call never answers
_REACH_SECONDS: Final = 30.0
_PATIENCE: Final = Patience(1.0, 2.0)  # servers that exit at the end of stdin do so at once
_LISTEN_SECONDS: Final = 2.0  # a change before the subscription is active would be missed
_MOST_TOOLS: Final = 512
_MOST_PAGES: Final = 64
_SIGN_IN: Final = (401, 403)


def load() -> type[PackageConnection]:
    """Import the package. Raises: ImportError."""
    import mcp  # the top first: its submodules may have been imported already by another package
    import mcp.client.sse
    import mcp.client.streamable_http  # noqa: F401 - so that no later import of it blocks the event loop

    return PackageConnection


class PackageConnection:
    """An `McpConnection` through the `mcp` package. `news` is called when `lost` or `has_changed` is set."""

    def __init__(self, spec: ServerSpec, cwd: str, news: Callable[[], None]) -> None:
        import mcp_types
        from mcp import Client

        self.lost: str | None = None
        self.has_changed = False
        self._spec = spec
        self._cwd = cwd
        self._news = news
        self._status: int | None = None
        self._listening: asyncio.Task[None] | None = None
        self._client = Client(
            self._transport(),
            message_handler=self._receive,
            client_info=mcp_types.Implementation(name="dragoman", version=__version__),
            read_timeout_seconds=CALL_SECONDS,
            cache=None,  # the list of tools is requested again only after the server announced a change
        )

    async def __aenter__(self) -> PackageConnection:
        """Raises: McpConnectionLost with the reason why the server is not available."""
        try:
            await self._client.__aenter__()
        except Exception as error:
            raise McpConnectionLost(self._why(error)) from error
        capability = self._client.server_capabilities.tools
        if self._client.session.discover_result is not None and capability is not None and capability.list_changed:
            await self._begin_listening()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """The package cancels the task that entered a connection when it breaks; this turns that into `lost`."""
        if self._listening is not None:
            self._listening.cancel()
        has_broken = False
        try:
            await self._client.__aexit__(kind, error, traceback)
        except Exception as broken:
            has_broken = broken is not error
            self._lose(self._why(broken))
        if self._listening is not None:
            await asyncio.wait({self._listening})
        task = asyncio.current_task()
        return has_broken and isinstance(error, asyncio.CancelledError) and task is not None and not task.cancelling()

    async def offers(self) -> tuple[Offer, ...]:
        """Return the server's tools. Raises: McpConnectionLost."""
        found: list[Offer] = []
        cursor: str | None = None
        try:
            if self._client.server_capabilities.tools is None:
                return ()
            for _ in range(_MOST_PAGES):
                page = await self._client.list_tools(cursor=cursor)
                found += map(_offer, page.tools)
                cursor = page.next_cursor
                if cursor is None or len(found) >= _MOST_TOOLS:
                    break
        except Exception as error:
            raise McpConnectionLost(self._why(error)) from error
        return tuple(found[:_MOST_TOOLS])

    async def call(self, tool: str, arguments: dict[str, Any], meta: Mapping[str, str]) -> ToolOutput:
        """Call a tool and return its result. Cancelling this cancels the call at the server.

        Raises: ToolError when the server refuses or fails, McpConnectionLost when it is gone.
        """
        try:
            result = await self._client.call_tool(tool, arguments, meta=cast("Any", {**meta} or None))
        except Exception as error:
            raise self._failure(tool, error) from error
        return output_of(result.content, result.structured_content, is_error=result.is_error)

    async def _receive(self, message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            self._change()

    async def _begin_listening(self) -> None:
        """Subscribe to changes, which protocol 2026-07-28 requires. Without it the server's tools stay as they are."""
        listens = asyncio.Event()

        async def listen() -> None:
            try:
                async with self._client.listen(tools_list_changed=True) as changes:
                    listens.set()
                    async for _ in changes:
                        self._change()
            except Exception as error:
                _log.debug("MCP server %s reports no changes: %s", self._spec.name, error)
            finally:
                listens.set()

        self._listening = asyncio.create_task(listen(), name=f"dragoman-mcp-listen-{self._spec.name}")
        with suppress(TimeoutError):
            async with asyncio.timeout(_LISTEN_SECONDS):
                await listens.wait()

    def _change(self) -> None:
        self.has_changed = True
        self._news()

    def _lose(self, why: str) -> None:
        if self.lost is None:
            self.lost = Secrets(os.environ, self._spec.env).mask(why)
            self._news()

    # Transports

    def _transport(self) -> Transport:
        if self._spec.command:
            return self._stdio()
        return self._sse() if self._spec.is_sse else self._http()

    @asynccontextmanager
    async def _stdio(self) -> AsyncIterator[Any]:
        spec = self._spec
        # Like other MCP clients: a server has no use for the keys of model providers, so it gets what its entry names.
        inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
        transport = await ProcessTransport.spawn(
            spec.command,
            cwd=spec.cwd or self._cwd,
            env={**inherited, **spec.env},
            inherit_env=False,
            patience=_PATIENCE,
        )
        streams = Incoming(transport, lambda reason: self._lose(str(reason).replace("the agent", "it", 1)))
        transport.start(streams)
        try:
            yield streams, Outgoing(streams)
        finally:
            streams.close()
            await transport.wait_closed()

    @asynccontextmanager
    async def _http(self) -> AsyncIterator[Any]:
        from httpx2 import AsyncClient, Timeout
        from mcp.client.streamable_http import streamable_http_client

        async with (
            AsyncClient(
                headers=self._spec.headers,
                timeout=Timeout(_REACH_SECONDS, read=CALL_SECONDS),
                event_hooks={"response": [self._note_status]},
            ) as client,
            streamable_http_client(self._spec.url, http_client=client) as streams,
        ):
            yield streams

    @asynccontextmanager
    async def _sse(self) -> AsyncIterator[Any]:
        from mcp.client.sse import sse_client

        async with sse_client(self._spec.url, self._spec.headers, sse_read_timeout=CALL_SECONDS) as (reads, writes):
            yield Watched(reads, lambda: self._lose("it closed the connection")), writes

    async def _note_status(self, response: httpx2.Response) -> None:
        self._status = response.status_code if response.is_error else None

    # Failures

    def _failure(self, tool: str, error: Exception) -> ToolError | McpConnectionLost:
        """Return the error of a call: that of the connection, or that of the call."""
        from httpx2 import HTTPError
        from mcp import MCPError
        from mcp_types import REQUEST_TIMEOUT

        first = _first(error)
        if self.lost is not None or isinstance(first, (HTTPError, OSError)) or _is_end(first):
            self._lose(self._why(first))
            return McpConnectionLost(self.lost or "")
        name = self._spec.name
        if not isinstance(first, MCPError):
            return ToolError(f"the answer of {name} to {tool} cannot be used: {first}")
        if first.code == REQUEST_TIMEOUT:
            return ToolError(f"{name} did not finish {tool} within {CALL_SECONDS:g} s")
        return ToolError(f"{name} refused {tool}: {first.message}")

    def _why(self, error: BaseException) -> str:
        """Return why there is no connection, and what to do."""
        from httpx2 import HTTPStatusError, TransportError

        if self.lost is not None:
            return self.lost
        first = _first(error)
        if isinstance(first, HTTPStatusError):
            self._status = first.response.status_code
        if self._status in _SIGN_IN:
            return f"it requires authentication (HTTP {self._status}); configure an Authorization header for it"
        if self._status is not None:
            return f"{self._spec.where} answered with HTTP {self._status}; check the address"
        if isinstance(first, TransportError):
            return f"{self._spec.where} cannot be reached ({str(first) or type(first).__name__}); check that it runs"
        if _is_end(first):
            return f"{self._spec.where} closed the connection"
        return str(first) or type(first).__name__


def _is_end(error: BaseException) -> bool:
    """Whether the connection is over. A session that the server no longer has is one that ended."""
    from anyio import BrokenResourceError, ClosedResourceError
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    if isinstance(error, MCPError):
        return error.code == CONNECTION_CLOSED or error.message == "Session terminated"
    return isinstance(error, (BrokenResourceError, ClosedResourceError))


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _offer(tool: mcp_types.Tool) -> Offer:
    hints = tool.annotations
    return Offer(
        tool.name,
        (hints and hints.title) or tool.title or "",
        tool.description or "",
        tool.input_schema,
        is_read_only=hints is not None and hints.read_only_hint is True,
        is_open_world=hints is not None and hints.open_world_hint is True,
    )
