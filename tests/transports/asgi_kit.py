"""An ASGI application in a real server, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from dragoman.transports.remote.asgi import AsgiApplication
from dragoman.transports.remote.gate import GateRules, Principal
from dragoman.transports.remote.server import NewConnection
from tests.transports.remote_kit import TOKEN

SECONDS = 60.0


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the test keeps its signals


@asynccontextmanager
async def uvicorn_server(make: Callable[[int], Any], **options: Any) -> AsyncIterator[int]:
    """Serves the application that `make` builds for a port; gives the port. Leaving shuts the server down."""
    sock = socket.create_server(("127.0.0.1", 0))
    port: int = sock.getsockname()[1]
    config = uvicorn.Config(
        make(port),
        log_level="critical",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
        **options,
    )
    server = _Uvicorn(config)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        async with asyncio.timeout(SECONDS):
            await server.is_ready.wait()
        yield port
    finally:
        server.should_exit = True
        async with asyncio.timeout(SECONDS):
            await serving
        sock.close()


def application(
    opened: Callable[[NewConnection], None],
    port: int,
    principals: dict[str, Principal] | None = None,
    rules: dict[str, Any] | None = None,
    **options: Any,
) -> AsgiApplication:
    known = {TOKEN: Principal("tests")} if principals is None else principals
    settings: dict[str, Any] = {"hosts": {b"127.0.0.1:%d" % port}, "find_principal": known.get, **(rules or {})}
    return AsgiApplication(opened, GateRules(**settings), **options)
