"""A host in this process with agents in this process, and raw clients that see every message."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from dragoman.agent import Agent
from dragoman.host.host import Host, HostSettings, Visitor
from dragoman.host.services import HostServices
from dragoman.rpc import Transport
from dragoman.store.event_log import EventLog, MemoryLog
from dragoman.transports.memory import memory_pair
from tests.agent.fixtures import ClientLine

ticks = itertools.count(1_700_000_000)
OURS: dict[str, Any] = {"_meta": {"dragoman": {}}, "elicitation": {"form": {}}}


class InProcess:
    """An agent of a test; each start is a connection of its own, which the test can break."""

    def __init__(self, make: Callable[[], Agent], name: str = "test") -> None:
        self.name = name
        self._make = make
        self.starts = 0
        self.environments: list[Mapping[str, str] | None] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, cwd: str, env: Mapping[str, str] | None) -> Transport:
        self.starts += 1
        self.environments.append(env)
        ours, theirs = memory_pair()
        task = asyncio.get_running_loop().create_task(self._make().serve(theirs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ours

    def die(self) -> None:
        """The agent's process ends."""
        for task in self._tasks:
            task.cancel()


class Client(ClientLine):
    """A client of the host."""

    async def hello(self, capabilities: dict[str, Any] | None = None) -> Any:
        return await self.result("initialize", protocolVersion=1, clientCapabilities=capabilities or {})

    async def update(self) -> dict[str, Any]:
        """The next message, which must be an update."""
        message = await self.expect("session/update")
        update: dict[str, Any] = message["params"]["update"]
        return update

    def result_of(self, asked: dict[str, Any], result: object) -> dict[str, Any]:
        """The answer to a request of the host."""
        return {"jsonrpc": "2.0", "id": asked["id"], "result": result}

    async def silence_of_prompts(self) -> None:
        """Everything that was sent so far has been handled."""
        await self.answer_to(self.ask("session/list"))

    async def texts(self, count: int) -> list[str]:
        return [(await self.update())["content"]["text"] for _ in range(count)]


class Hosted:
    """A running host."""

    def __init__(self, host: Host, source: InProcess) -> None:
        self.host = host
        self.source = source
        self._serving: list[asyncio.Task[None]] = []
        self._lines: list[Client] = []

    async def client(
        self, capabilities: dict[str, Any] | None = None, *, visitor: Visitor | None = None, hello: bool = True
    ) -> Client:
        ours, theirs = memory_pair()
        self._serving.append(asyncio.create_task(self.host.serve(theirs, visitor or Visitor())))
        line = Client(ours)
        self._lines.append(line)
        if hello:
            await line.hello(capabilities)
        return line

    async def leave(self, line: Client) -> None:
        """The client's connection ends."""
        line.transport.close()
        await line.transport.wait_closed()
        async with asyncio.timeout(10):
            await self._serving[self._lines.index(line)]

    async def close(self) -> None:
        async with asyncio.timeout(10):
            await self.host.close()
            for line in self._lines:
                line.transport.close()
            for task in self._serving:
                await task


def make_log() -> EventLog:
    return MemoryLog(lambda: float(next(ticks)))


@asynccontextmanager
async def hosted(
    make: Callable[[], Agent], *, log: EventLog | None = None, settings: HostSettings | None = None, **options: Any
) -> AsyncIterator[Hosted]:
    source = InProcess(make)
    kept = log or make_log()
    host = Host(
        kept,
        [source],
        settings=settings or HostSettings(),
        services=options.get("services") or HostServices(),
        clock=lambda: float(next(ticks)),
    )
    running = Hosted(host, source)
    try:
        yield running
    finally:
        await running.close()
