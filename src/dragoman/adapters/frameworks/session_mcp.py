"""The MCP servers that a client passes with a session, as tools that an adapter can give to its framework.

Owns the connections, one task for each server: the package `mcp` wants a connection to be left by the task that entered
it, and cancels that task when the connection breaks. A server that cannot be reached has no tools; the others work.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman._version import __version__
from dragoman.schema import Unknown, v1
from dragoman.text.terminal import plain, sentence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp import Client

START_SECONDS: Final = 30.0
CALL_SECONDS: Final = 600.0
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST: Final = 64


def can_use_mcp() -> bool:
    """Return whether the package is there that speaks with MCP servers."""
    return find_spec("mcp") is not None


class McpToolError(Exception):
    """A tool of an MCP server failed; its text is for the model."""


class SessionMcpTool(NamedTuple):
    """A tool of an MCP server."""

    name: str
    """`mcp__SERVER__TOOL`, by which clients recognise it."""
    description: str
    schema: dict[str, Any]
    server: _Connection
    own_name: str

    async def call(self, arguments: dict[str, Any]) -> str:
        """Call it. Raises: McpToolError."""
        return await self.server.call(self.own_name, arguments)


class SessionMcp:
    """The MCP servers of one session, connected by `tools`."""

    def __init__(self, servers: Iterable[v1.McpServer], cwd: str) -> None:
        known = [server for server in servers if not isinstance(server, Unknown)]
        self._connections = [_Connection(server, cwd) for server in known]
        self._tools: list[SessionMcpTool] | None = None
        self._opening = asyncio.Lock()

    async def tools(self) -> list[SessionMcpTool]:
        """Return the tools of all servers. The first call connects."""
        async with self._opening:
            if self._tools is None:
                found = await asyncio.gather(*(connection.open() for connection in self._connections))
                self._tools = [tool for tools in found for tool in tools]
            return self._tools

    def problems(self) -> list[str]:
        """Return why servers have no tools; each is given once."""
        found = [f"{connection.name}: {connection.problem}" for connection in self._connections if connection.problem]
        for connection in self._connections:
            connection.problem = ""
        return found

    async def close(self) -> None:
        """End every connection and its program."""
        await asyncio.gather(*(connection.close() for connection in self._connections))


class _Connection:
    """One server: a task that holds the connection until it is to be closed, or breaks."""

    def __init__(self, server: Any, cwd: str) -> None:
        self.name = sentence(server.name)
        self.problem = ""
        self._server = server
        self._cwd = cwd
        self._client: Client | None = None
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> list[SessionMcpTool]:
        ready: asyncio.Future[list[SessionMcpTool]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._hold(ready))
        try:
            async with asyncio.timeout(START_SECONDS):
                return await asyncio.shield(ready)
        except TimeoutError:
            self.problem = f"no answer within {START_SECONDS:g} seconds"
            await self.close()
            return []

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        client = self._client
        if client is None:
            raise McpToolError(f"The MCP server {self.name} is not connected any more.")
        try:
            result = await client.call_tool(name, arguments, CALL_SECONDS)
        except Exception as error:  # the package raises its own errors, and those of three transports
            raise McpToolError(plain(str(error)) or type(error).__name__) from error
        text = "\n".join(_text_of(block) for block in result.content)
        if result.is_error:
            raise McpToolError(plain(text) or "The tool failed.")
        return text

    async def close(self) -> None:
        self._stop.set()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.shield(self._task)

    async def _hold(self, ready: asyncio.Future[list[SessionMcpTool]]) -> None:
        try:
            async with AsyncExitStack() as stack:
                self._client = client = await self._connect(stack)
                listed = (await client.list_tools()).tools
                if not ready.done():
                    ready.set_result([self._tool(tool) for tool in listed])
                await self._stop.wait()
        except (Exception, asyncio.CancelledError) as error:
            self.problem = "" if self._stop.is_set() else plain(_cause(error)) or type(error).__name__
        finally:
            self._client = None
            if not ready.done():
                ready.set_result([])

    async def _connect(self, stack: AsyncExitStack) -> Client:
        import mcp_types
        from mcp import Client, StdioServerParameters, stdio_client

        server: Any = self._server
        transport: Any
        if isinstance(server, v1.McpServerStdio):
            env = {variable.name: variable.value for variable in server.env}
            how = StdioServerParameters(command=server.command, args=list(server.args), env=env, cwd=self._cwd)
            transport = stdio_client(how)
        else:
            headers = {header.name: header.value for header in server.headers}
            if isinstance(server, v1.McpServerSse):
                from mcp.client.sse import sse_client

                transport = sse_client(server.url, headers)
            else:
                from httpx2 import AsyncClient
                from mcp.client.streamable_http import streamable_http_client

                http = await stack.enter_async_context(AsyncClient(headers=headers, timeout=CALL_SECONDS))
                transport = streamable_http_client(server.url, http_client=http)
        info = mcp_types.Implementation(name="dragoman", version=__version__)
        return await stack.enter_async_context(Client(transport, client_info=info))

    def _tool(self, tool: Any) -> SessionMcpTool:
        name = _NAME.sub("_", f"mcp__{self.name}__{tool.name}")[:_LONGEST]
        return SessionMcpTool(name, plain(tool.description or ""), dict(tool.input_schema), self, tool.name)


def _text_of(content: Any) -> str:
    if content.type == "text":
        return str(content.text)
    resource = getattr(content, "resource", None)
    text = getattr(resource, "text", None)
    return text if isinstance(text, str) else f"[{content.type}]"


def _cause(error: BaseException) -> str:
    """Return the first thing that went wrong; task groups wrap it."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return str(error)
