"""Fixtures: the MCP servers of one session, its table of tools, and the notices about them."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.builtin.mcp.server import Waits
from dragoman.builtin.mcp.servers import McpServers
from dragoman.builtin.tools.tool import ToolOutput
from dragoman.schema import v1
from tests.warm_programs import mcp_package

HERE = Path(__file__).parent
PASSWORD = v1.HttpHeader("Authorization", "Bearer sesame")


def play(name: str = "play", **env: str) -> v1.McpServerStdio:
    """A server with the official package."""
    variables = [v1.EnvVariable(name, value) for name, value in env.items()]
    command, *arguments = mcp_package().command(str(HERE / "scripted_server.py"), "stdio")
    return v1.McpServerStdio(name, command, arguments, variables)


def old(way: str, *arguments: object, name: str = "old") -> v1.McpServerStdio:
    """A server of an older kind, which starts at once."""
    return v1.McpServerStdio(name, sys.executable, [str(HERE / "old_server.py"), way, *map(str, arguments)], [])


TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Context:
    """The context of a call, as far as MCP tools use it."""

    tool_call_id = "call_1"

    def __init__(self, folder: Path) -> None:
        self.cwd = str(folder)
        self.overflow_dir = str(folder / "output")
        self.trace = {"traceparent": TRACEPARENT}
        self.shown: list[str] = []

    async def progress(self, output: ToolOutput) -> None:
        self.shown.append(output.text)


class Session:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools: dict[str, Any] = {}
        self.notices: list[tuple[str, str]] = []
        self.servers: McpServers
        self._noticed = asyncio.Condition()

    async def notice(self, title: str, description: str) -> None:
        async with self._noticed:
            self.notices.append((title, description))
            self._noticed.notify_all()

    async def until_noticed(self, count: int) -> None:
        async with self._noticed:
            await self._noticed.wait_for(lambda: len(self.notices) >= count)

    async def call(self, name: str, **arguments: Any) -> ToolOutput:
        output: ToolOutput = await self.tools[name].run(arguments, Context(self.folder))
        return output


@asynccontextmanager
async def connected(
    folder: Path,
    *sent: v1.McpServer,
    configured: Mapping[str, Any] | None = None,
    waits: Waits = Waits(turn_seconds=60.0),  # noqa: B008 - frozen; a server may take long to start here
    tools: Mapping[str, Any] | None = None,
    is_ready: bool = True,
    config_dir: Path | None = None,
) -> AsyncIterator[Session]:
    session = Session(folder)
    session.tools.update(tools or {})
    session.servers = McpServers(
        sent, configured or {}, session.tools, session.notice, str(folder), waits=waits, config_dir=config_dir
    )
    session.servers.start()
    try:
        if is_ready:
            await session.servers.ready()
        yield session
    finally:
        await session.servers.close()


@asynccontextmanager
async def serving(kind: str) -> AsyncIterator[tuple[int, asyncio.subprocess.Process]]:
    """The official server on a port of this machine."""
    process = await asyncio.create_subprocess_exec(
        *mcp_package().command(str(HERE / "scripted_server.py"), kind), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline()), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
