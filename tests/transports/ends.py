"""The two ends of a connection over each transport, for tests that play the agent on a raw line."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from dragoman.transports.memory import memory_pair
from dragoman.transports.remote.connect import connect_url
from dragoman.transports.remote.server import NewConnection
from dragoman.transports.unix import UnixServer, bind_unix, connect_unix
from tests.transports.remote_kit import TOKEN, remote_server

if TYPE_CHECKING:
    from dragoman.rpc import Transport

Ends: TypeAlias = "tuple[Transport, asyncio.Future[Transport]]"
"""The client's end, and the agent's, which a server has only when the client has sent its first message."""


@asynccontextmanager
async def memory_ends() -> AsyncIterator[Ends]:
    ours, theirs = memory_pair()
    opened: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()
    opened.set_result(theirs)
    yield ours, opened


@asynccontextmanager
async def unix_ends() -> AsyncIterator[Ends]:
    opened: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        server = UnixServer(bind_unix(path), opened.set_result)
        try:
            yield await connect_unix(path), opened
        finally:
            server.close()


def websocket_ends() -> AbstractAsyncContextManager[Ends]:
    return _remote_ends("ws")


def http_ends() -> AbstractAsyncContextManager[Ends]:
    return _remote_ends("http")


@asynccontextmanager
async def _remote_ends(scheme: str) -> AsyncIterator[Ends]:
    opened: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()

    def take(connection: NewConnection) -> None:
        opened.set_result(connection.transport)

    async with remote_server(take) as (_, port):
        yield await connect_url(f"{scheme}://127.0.0.1:{port}/acp", token=TOKEN), opened
