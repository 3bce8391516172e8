"""Further ways to a client under test: TLS, an ASGI server, a slow network."""

from __future__ import annotations

import functools
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.transports.remote.connect import connect_url
from tests.transports.certificates import Certificates
from tests.transports.fault_proxy import FaultProxy
from tests.transports.remote_kit import TOKEN, Serving, over_network, remote_server

if TYPE_CHECKING:
    from dragoman.agent import Agent
    from dragoman.rpc import Transport


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@functools.cache
def _certificates() -> Certificates:
    return Certificates(Path(_folder().name))


def over_tls(agent: Agent, scheme: str) -> AbstractAsyncContextManager[Transport]:
    certificates = _certificates()
    return over_network(agent, scheme, tls=certificates.server(), authority=certificates.authority)


@asynccontextmanager
async def over_asgi(agent: Agent, scheme: str) -> AsyncIterator[Transport]:
    from tests.transports.asgi_kit import application, uvicorn_server

    serving = Serving(agent)
    async with uvicorn_server(lambda port: application(serving, port)) as port:
        transport = await connect_url(f"{scheme}://127.0.0.1:{port}/acp", token=TOKEN)
        yield transport
        transport.close()
        await transport.wait_closed()
        await serving.over()


@asynccontextmanager
async def over_slow_network(agent: Agent, scheme: str) -> AsyncIterator[Transport]:
    """In small pieces with delays; nothing is cut."""
    serving = Serving(agent)
    async with remote_server(serving) as (server, port), FaultProxy(server, port, random.Random(3)) as network:
        transport = await connect_url(f"{scheme}://127.0.0.1:{network.port}/acp", token=TOKEN)
        yield transport
        transport.close()
        await transport.wait_closed()
        await serving.over()
