"""A greeting for the MCP servers of a session: they are started, initialized and ended.

The scripted agent has no model that could use a tool, so it sends nothing else to the servers.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Iterable

# For a server that starts slowly; one that does not answer at all is ended, too.
ANSWER_SECONDS: Final = 5.0
_HELLO: Final = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    b'"clientInfo":{"name":"dragoman-scripted","version":"0"}}}\n'
)


async def greet(servers: Iterable[v1.McpServer], cwd: str) -> None:
    """Start each stdio server, one after the other; one that cannot be started is skipped."""
    for server in servers:
        if isinstance(server, v1.McpServerStdio):
            with suppress(OSError):
                await _greet(server, cwd)


async def _greet(server: v1.McpServerStdio, cwd: str) -> None:
    process = await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        cwd=cwd,
        env={**os.environ, **{variable.name: variable.value for variable in server.env}},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(_HELLO)
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await process.stdout.readline()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
