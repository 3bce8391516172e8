"""Many connections, and more of them than the system has descriptors for."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import pytest

from dragoman.client import RemoteAgent, Session, connect
from dragoman.transports.remote.connect import connect_url
from tests.transports.raw_websocket import RawWebSocket
from tests.transports.remote_kit import TOKEN, Http

SECONDS = 30.0
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024


class ServerProcess:
    """A server in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.port = port

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    @property
    def resident_kib(self) -> float:
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * _PAGE_KIB

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    @asynccontextmanager
    async def client(self, scheme: str = "ws") -> AsyncIterator[RemoteAgent]:
        async with connect(await connect_url(f"{scheme}://127.0.0.1:{self.port}/acp", token=TOKEN)) as remote:
            yield remote


@asynccontextmanager
async def server_process(*arguments: str) -> AsyncIterator[ServerProcess]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.transports.server_program", *arguments), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield ServerProcess(process, int(await process.stdout.readline()))
    finally:
        process.kill()
        await process.wait()


async def counted(session: Session, count: int) -> None:
    await session.prompt(str(count))
    assert session.state.text.split() == [str(number) for number in range(count)]


async def test_a_server_without_descriptors_lives_and_goes_on_when_there_are_some() -> None:
    limit = 40
    async with server_process(str(limit)) as server, server.client() as early:
        session = await early.new_session("/tmp")
        waiting = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(limit + 20)]
        await until(lambda: server.descriptors >= limit - 2)
        await counted(session, 50)  # who is there is served
        late = asyncio.ensure_future(_one_turn(server))
        await asyncio.sleep(0.05)
        assert not late.done()  # accepting pauses
        for _, writer in waiting:
            writer.transport.abort()
        async with asyncio.timeout(SECONDS):
            await late
        await counted(session, 50)
        assert server.is_alive


async def _one_turn(server: ServerProcess) -> None:
    async with server.client() as remote:
        await counted(await remote.new_session("/tmp"), 10)


async def until(holds: object) -> None:
    assert callable(holds)
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110 - another process reports no event
            await asyncio.sleep(0.01)


async def load(server: ServerProcess, *, idle: int, streaming: int, updates: int) -> tuple[float, float, float]:
    """Idle connections next to sessions that stream.

    Returns:
        KiB of an idle connection; milliseconds of a round trip meanwhile, the median and the 99th percentile.
    """
    http = Http(server.port)
    warm = [await RawWebSocket.open(http) for _ in range(5)]
    before = server.resident_kib
    sleeping = [await RawWebSocket.open(http) for _ in range(idle)]
    kib = (server.resident_kib - before) / idle
    trips: list[float] = []
    async with server.client() as busy, server.client() as probe:
        sessions = [await busy.new_session("/tmp") for _ in range(streaming)]
        turns = asyncio.gather(*(counted(session, updates) for session in sessions))
        asking = await probe.new_session("/tmp")
        while not turns.done() or len(trips) < 5:
            clock = perf_counter()
            await counted(asking, 1)
            trips.append((perf_counter() - clock) * 1000)
            await asyncio.sleep(0.001)
        await turns
    for each in (*warm, *sleeping):  # all of them are still served
        each.send(_ping())
        assert (await each.next()).data == b"still here"
        await each.close()
    worst = statistics.quantiles(trips, n=100)[98] if len(trips) > 1 else trips[0]
    return kib, statistics.median(trips), worst


def _ping() -> bytes:
    from tests.transports.raw_websocket import PING, frame

    return frame(PING, b"still here")


async def test_idle_connections_and_streaming_sessions_are_all_served() -> None:
    async with server_process() as server:
        await load(server, idle=60, streaming=10, updates=100)


@pytest.mark.soak
async def test_1000_idle_connections_and_100_streaming_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    async with server_process() as server:
        kib, median, worst = await load(server, idle=1000, streaming=100, updates=1000)
    with capsys.disabled():
        report = {"KiB per idle connection": round(kib, 1), "ms, median": round(median, 1), "ms, 99 %": round(worst, 1)}
        sys.stdout.write(f"\n1,000 idle connections, 100 streaming sessions: {json.dumps(report)}\n")
    assert kib <= 17
    assert median < 250
