"""The MCP servers of one session and their tools among ours.

Owns which servers there are, that all connect side by side without anybody waiting, and the names their tools have in
the session's table. The table changes between turns only, in `ready`: a turn keeps the tools it began with. The `mcp`
package is loaded in a thread when the first server is started, and never without one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from dragoman.builtin.mcp.config import read_servers
from dragoman.builtin.mcp.server import Server, Waits
from dragoman.builtin.mcp.tools import McpTool, name_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dragoman.builtin.mcp.server import Notice, Opener
    from dragoman.builtin.tools.tool import Tool
    from dragoman.schema import v1

_log = logging.getLogger("dragoman.builtin")


class McpServers:
    """The servers of a session. `notice` hears of one that cannot be had: a title, and why with what to do.

    Nothing is started before `after` has returned, such as the search for the user's PATH.
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
        self._servers = [Server(spec, cwd, notice, waits) for spec in specs]
        self._tools = tools
        self._notice = notice
        self._after = after
        self._added: dict[tuple[Server, str], McpTool] = {}
        self._beginning: asyncio.Task[Opener | None] | None = None

    def start(self) -> None:
        """Begins to connect, in the background."""
        if self._beginning is None:
            self._beginning = asyncio.create_task(self._begin(), name="dragoman-mcp")
            for server in self._servers:
                server.start(self._beginning)

    async def ready(self) -> None:
        """Returns when every server is connected, has failed, or has been waited for long enough; never raises.

        From then on the table has the tools that the servers have now. To be called when no turn runs.
        """
        await asyncio.gather(*(server.settle() for server in self._servers))
        self._update_tools()

    async def close(self) -> None:
        """Ends every connection and every process, and takes the tools away."""
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
            await self._tell(f"MCP server {problem.name} is not available", problem.why)
        if not self._servers:
            return None
        if self._after is not None:
            await self._after()
        try:
            return await asyncio.to_thread(_load)
        except ImportError as error:
            why = f"{error}. Install what is missing: pip install 'dragoman[agent]'"
        except Exception as error:  # a damaged installation fails in its own way
            _log.exception("the mcp package cannot be loaded")
            why = f"the mcp package cannot be loaded ({type(error).__name__}: {error}). Install it again"
        names = ", ".join(server.spec.name for server in self._servers)
        await self._tell("MCP servers are not available", f"{names} cannot be used: {why}")
        return None

    async def _tell(self, title: str, description: str) -> None:
        _log.warning("%s: %s", title, description)
        try:
            await self._notice(title, description)
        except Exception:  # whoever listens must not be able to end the servers
            _log.exception("a notice about MCP servers could not be shown")

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
            # A tool that merely changed keeps the name under which the model knows it.
            known_as = name_of(server.spec.name, name, self._tools) if old is None else old.name
            tool = McpTool(known_as, server.spec.name, offer, server)
            self._tools[known_as] = self._added[server, name] = tool

    def _remove(self, tool: McpTool) -> None:
        if self._tools.get(tool.name) is tool:
            del self._tools[tool.name]


def _load() -> Opener:
    """Takes most of a second. Raises: ImportError."""
    from dragoman.builtin.mcp.connection import load

    return load()
