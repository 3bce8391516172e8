"""A served host in this process, with tokens in a file, and a proxy in front of it that cuts lines."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.agent import Agent, Turn
from dragoman.host.host import Host, HostSettings
from dragoman.host.services import HostServices
from dragoman.host.serving.access_log import AccessLog
from dragoman.host.serving.acts import HostActs
from dragoman.host.serving.counting_log import counting_log
from dragoman.host.serving.limits import ServeLimits
from dragoman.host.serving.metrics import HostMetrics
from dragoman.host.serving.oidc.logins import Logins
from dragoman.host.serving.page_files import PageFiles
from dragoman.host.serving.server import HostServer, ListeningAddress, ServeOptions
from dragoman.host.serving.tokens import RIGHTS, HostToken, HostTokens
from dragoman.host.serving.turn_spans import TurnSpans
from dragoman.store.event_log import EventLog
from tests.host.kit import InProcess, make_log

SECONDS = 30.0
ticks = itertools.count(1_700_000_000)


class Served:
    """A host that listens, and what a test needs of it."""

    def __init__(
        self, server: HostServer, endpoint: ListeningAddress, tokens: HostTokens, secret: str, source: InProcess
    ) -> None:
        self.server = server
        self.endpoint = endpoint
        self.tokens = tokens
        self.secret = secret
        self.source = source
        self.metrics: HostMetrics
        self.host: Host
        self.log: EventLog

    @property
    def port(self) -> int:
        return int(self.endpoint.address.rpartition(":")[2])

    def add(self, name: str, **facts: Any) -> str:
        """Another token."""
        return self.tokens.add(HostToken(**{"name": name, "digest": "", "user": name, **facts}))


@asynccontextmanager
async def served(
    make: Callable[[], Agent],
    folder: Path,
    *,
    options: ServeOptions | None = None,
    limits: ServeLimits | None = None,
    log: EventLog | None = None,
    access_log: AccessLog | None = None,
    settings: HostSettings | None = None,
    services: HostServices | None = None,
    page: PageFiles | None = None,
    tls: ssl.SSLContext | None = None,
    acts: HostActs | None = None,
    spans: TurnSpans | None = None,
    logins: Logins | None = None,
) -> AsyncIterator[Served]:
    source, metrics = InProcess(make), HostMetrics()
    tokens = HostTokens(folder / "tokens.json")
    secret = tokens.add(HostToken(name="tests", digest="", user="tests", rights=RIGHTS))
    listeners = [listener for listener in (acts, spans) if listener is not None]
    kept = counting_log(log or make_log(), metrics, listeners=listeners)
    host = Host(
        kept,
        [source],
        settings=settings or HostSettings(),
        services=services,
        clock=lambda: float(next(ticks)),
    )
    host.spans = spans
    chosen = options or ServeOptions(limits=limits or FREELY, drain_seconds=1.0)
    server = HostServer(
        host,
        tokens,
        chosen,
        metrics=metrics,
        access_log=access_log or AccessLog(None),
        acts=acts,
        page=page,
        logins=logins,
    )
    endpoint = await server.listen("127.0.0.1:0", tls)
    running = Served(server, endpoint, tokens, secret, source)
    running.metrics, running.host, running.log = metrics, host, kept
    try:
        yield running
    finally:
        async with asyncio.timeout(SECONDS):
            await server.close()


FREELY = ServeLimits(requests_per_second=1e6, connections_per_minute=1e6)


class CuttingProxy:
    """Passes bytes between clients and a server; `cut` breaks every connection with what is on its way."""

    def __init__(self) -> None:
        self.target = 0
        self.port = 0
        self.cuts = 0
        self.is_down = False
        self.is_mute = False
        """What the server sends is lost."""
        self._changed = asyncio.Event()
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._server: asyncio.Server

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    async def connected(self) -> None:
        """Wait until a client is connected through the proxy."""
        async with asyncio.timeout(SECONDS):
            while not self._pairs:
                self._changed.clear()
                await self._changed.wait()

    def cut(self) -> None:
        self.cuts += bool(self._pairs)
        pairs, self._pairs = self._pairs, set()
        for one, other in pairs:
            one.transport.abort()
            other.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.transport.abort()
            return
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, there_writer)
        self._pairs.add(pair)
        self._changed.set()
        await asyncio.gather(_pass_on(reader, there_writer), _pass_on(there_reader, writer, lambda: self.is_mute))
        self._pairs.discard(pair)


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_mute: Callable[[], bool] = lambda: False
) -> None:
    try:
        while data := await reader.read(4096):
            if not is_mute():
                writer.write(data)
                await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def counting_agent(step: asyncio.Event, updates: int = 200, at_once: int = 5) -> Agent:
    """An agent that sends numbers, so many for each time the test lets it."""
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        for number in range(updates):
            await turn.say(f"{number} ")
            if number % at_once == 0:
                await step.wait()
                step.clear()

    return agent
