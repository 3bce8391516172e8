"""The MCP servers of one session, and their tools in the session's table of tools.

Owns which servers there are, that all connect in parallel and in the background, and the names of their tools in the
table. The table changes only between turns, in `ready`: a turn keeps the tools it began with. The `mcp` package is
loaded in a thread when the first server is started, and not at all without one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from dragoman.builtin.mcp.config import read_servers
from dragoman.builtin.mcp.server import SessionServer, Waits, report
from dragoman.builtin.mcp.tools import McpTool, name_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dragoman.builtin.mcp.server import Notice, Opener
    from dragoman.builtin.tools.tool import Tool
    from dragoman.schema import v1

_log = logging.getLogger("dragoman.builtin")


class McpServers:
    """The servers of a session.

    Args:
        client_servers: The servers that the client sent.
        configured: The servers of the user's configuration, by name.
        tools: The session's table of tools, which `ready` and `close` change.
        notice: Shows a problem to the user: a title, and the reason with what to do.
        cwd: The working folder of servers that are started.
        after: Awaited before anything is started, such as the search for the user's PATH.
    """

    def __init__(
        self,
        client_servers: Sequence[v1.McpServer],
        configured: Mapping[str, Any],
        tools: dict[str, Tool],
        notice: Notice,
        cwd: str,
        *,
        waits: Waits = Waits(),  # noqa: B008 - frozen
        after: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        specs, self._problems = read_servers(client_servers, configured)
        self._servers = [SessionServer(spec, cwd, notice, waits) for spec in specs]
        self._tools = tools
        self._notice = notice
        self._after = after
        self._added: dict[tuple[SessionServer, str], McpTool] = {}
        self._beginning: asyncio.Task[Opener | None] | None = None

    def start(self) -> None:
        """Start to connect, in the background."""
        if self._beginning is None:
            self._beginning = asyncio.create_task(self._begin(), name="dragoman-mcp")
            for server in self._servers:
                server.start(self._beginning)

    async def ready(self) -> None:
        """Return when every server is connected, has failed, or has taken too long; never raises.

        Then the table has the current tools of the servers. Call it only when no turn is running.
        """
        await asyncio.gather(*(server.settle() for server in self._servers))
        self._update_tools()

    async def close(self) -> None:
        """End every connection and every process, and remove the tools from the table."""
        beginning = self._beginning
        if beginning is not None:
            beginning.cancel()
            await asyncio.wait({beginning})
        await asyncio.gather(*(server.close() for server in self._servers))
        for tool in self._added.values():
            self._remove(tool)
        self._added.clear()

    async def _begin(self) -> Opener | None:
        for problem in self._problems:
            await report(self._notice, f"MCP server {problem.name} is not available", problem.why)
        if not self._servers:
            return None
        if self._after is not None:
            await self._after()
        try:
            return await asyncio.to_thread(_load)  # takes most of a second
        except ImportError as error:
            why = f"{error}. Install what is missing: pip install 'dragoman[agent]'"
        except Exception as error:  # a damaged installation fails in its own way
            _log.exception("the mcp package cannot be loaded")
            why = f"the mcp package cannot be loaded ({type(error).__name__}: {error}). Install it again"
        names = ", ".join(server.spec.name for server in self._servers)
        await report(self._notice, "MCP servers are not available", f"{names} cannot be used: {why}")
        return None

    def _update_tools(self) -> None:
        offered = {(server, offer.name): offer for server in self._servers for offer in server.offers}
        for key, tool in list(self._added.items()):
            if key not in offered:
                self._remove(tool)
                del self._added[key]
        for (server, name), offer in offered.items():
            old = self._added.get((server, name))
            if old is not None and old.offer == offer:
                continue
            # A tool that only changed keeps the name that the model has seen.
            known_as = name_of(server.spec.name, name, self._tools) if old is None else old.name
            tool = McpTool(known_as, server.spec.name, offer, server)
            self._tools[known_as] = self._added[server, name] = tool

    def _remove(self, tool: McpTool) -> None:
        if self._tools.get(tool.name) is tool:
            del self._tools[tool.name]


def _load() -> Opener:
    from dragoman.builtin.mcp.connection import load

    return load()
