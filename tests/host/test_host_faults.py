"""A host whose network breaks and whose process is killed: what a client was sent stays, and nothing comes twice."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.agent import Agent, Turn
from dragoman.errors import ConnectionClosed
from dragoman.host.host import Host, Visitor
from dragoman.store.event_log import LogEvent
from dragoman.store.sqlite_log import SqliteLog
from dragoman.transports.remote.connect import connect_url
from dragoman.transports.remote.server import NewConnection
from tests.host.kit import OURS, InProcess, make_log
from tests.host.watcher import Watcher
from tests.transports.fault_proxy import FaultProxy
from tests.transports.remote_kit import TOKEN, remote_server

SECONDS = 30.0
UPDATES = 200
CUTS = 100


class Follower:
    """A client that knows the host: it comes back to the same session with the number of the last event it got."""

    def __init__(self) -> None:
        self.port = 0
        self.session = ""
        self.seen: list[tuple[int, str]] = []
        self.updates = 0
        self._line: Watcher | None = None

    @property
    def cursor(self) -> int:
        return self.seen[-1][0] if self.seen else 0

    @property
    def line(self) -> Watcher:
        assert self._line is not None
        return self._line

    @property
    def is_connected(self) -> bool:
        self._take()
        return self._line is not None and self._line.is_open

    async def connect(self) -> None:
        """Connect, and attach to the session if there is one; tries until it works."""
        async with asyncio.timeout(SECONDS):
            while not await self._connected():
                await self.leave()

    async def ask(self, method: str, **params: object) -> dict[str, Any] | None:
        """The answer to a request; None if the connection broke first."""
        line = self.line
        id = line.ask(method, **params)
        async with asyncio.timeout(SECONDS):
            while id not in line.answers and line.is_open:  # noqa: ASYNC110 - the watcher has no events to wait for
                await asyncio.sleep(0.001)
        return line.answers.get(id)

    def prompt(self, text: str, id: str) -> int:
        blocks = [{"type": "text", "text": text}]
        return self.line.ask(
            "session/prompt", sessionId=self.session, prompt=blocks, _meta={"dragoman": {"promptId": id}}
        )

    async def until(self, count: int) -> None:
        """So many events came, or the connection broke."""
        async with asyncio.timeout(SECONDS):
            while self.is_connected and len(self.seen) < count:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.001)

    async def until_updates(self, count: int) -> None:
        """So many updates came, or the connection broke."""
        async with asyncio.timeout(SECONDS):
            while self.is_connected and self.updates < count:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.001)

    async def leave(self) -> None:
        if self._line is not None:
            self._line.close()
            await self._line.wait_closed()
            self._take()
            self._line = None

    def texts(self) -> list[str]:
        updates = [json.loads(what) for _, what in self.seen if what.startswith("{")]
        return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]

    async def _connected(self) -> bool:
        try:
            self._line = Watcher(await connect_url(f"ws://127.0.0.1:{self.port}/acp", token=TOKEN))
        except ConnectionClosed:
            return False
        if await self.ask("initialize", protocolVersion=1, clientCapabilities=OURS) is None:
            return False
        if not self.session:
            return True
        after = {"dragoman": {"after": self.cursor}}
        found = await self.ask("session/resume", sessionId=self.session, cwd="/tmp", mcpServers=[], _meta=after)
        return found is not None

    def _take(self) -> None:
        if self._line is not None:
            self.seen += self._line.events
            self.updates += sum(what.startswith("{") for _, what in self._line.events)
            self._line.events.clear()


async def follow_turn(seed: int) -> int:
    """A turn of 200 updates over 100 cuts of the WebSocket; gives how many there were."""
    dice = random.Random(seed)
    steps = asyncio.Semaphore(0)

    def make() -> Agent:
        agent = Agent("test")

        @agent.prompt
        async def reply(turn: Turn) -> None:
            for number in range(UPDATES):
                await steps.acquire()
                await turn.say(f"{number} ")

        return agent

    host = Host(make_log(), [InProcess(make)])
    serving: list[asyncio.Task[None]] = []

    def opened(connection: NewConnection) -> None:
        serving.append(asyncio.get_running_loop().create_task(host.serve(connection.transport, Visitor())))

    follower = Follower()
    async with remote_server(opened) as (server, port), FaultProxy(server, port, dice) as network:
        follower.port = network.port
        await follower.connect()
        made = await follower.ask("session/new", cwd="/tmp", mcpServers=[])
        assert made is not None
        follower.session = made["result"]["sessionId"]
        follower.prompt("go", "p1")
        assert await follower.ask("session/list") is not None  # the prompt was taken
        for number in range(UPDATES):
            steps.release()
            await asyncio.sleep(dice.uniform(0, 0.003))
            while network.cuts < CUTS * (number + 1) / UPDATES:
                network.cut()
                if not follower.is_connected:
                    await follower.connect()
                await asyncio.sleep(0)
            if not follower.is_connected:
                await follower.connect()
        while len(follower.texts()) < UPDATES:
            await follower.until(len(follower.seen) + 1)
            if not follower.is_connected:
                await follower.connect()
        await follower.leave()
        await host.close()
    for task in serving:
        await task
    numbers = [number for number, _ in follower.seen]
    assert numbers == sorted(set(numbers))
    assert follower.texts() == [f"{number} " for number in range(UPDATES)]
    return network.cuts


async def test_a_client_of_a_host_follows_a_turn_over_100_cuts_of_its_websocket() -> None:
    assert await follow_turn(1) >= CUTS


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 220))
async def test_a_client_of_a_host_follows_turns_for_many_seeds(seed: int) -> None:
    assert await follow_turn(seed) >= CUTS


@asynccontextmanager
async def host_process(file: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.host.host_program", str(file), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process, int(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def read_log(file: Path, session: str) -> list[LogEvent]:
    log = SqliteLog(file)
    try:
        found: list[LogEvent] = []
        while page := await log.read(session, len(found), 1000):
            found += page
        return found
    finally:
        await log.close()


async def kill_hosts(file: Path, kills: int, dice: random.Random) -> None:
    """A client follows a session whose host is killed again and again in the middle of a turn."""
    follower = Follower()
    for number in range(kills):
        async with host_process(file) as (process, port):
            follower.port = port
            await follower.connect()
            if not follower.session:
                made = await follower.ask("session/new", cwd="/tmp", mcpServers=[])
                assert made is not None
                follower.session = made["result"]["sessionId"]
            follower.prompt("count 1000000", f"p{number}")
            await follower.until_updates(follower.updates + dice.randrange(1, 300))  # so the prompt was taken
            process.kill()
            await process.wait()
        async with asyncio.timeout(SECONDS):
            while follower.is_connected:  # noqa: ASYNC110 - what is on its way still arrives
                await asyncio.sleep(0.001)
        await follower.leave()
        check_log(follower, await read_log(file, follower.session), number)


def check_log(follower: Follower, events: list[LogEvent], number: int) -> None:
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    numbers = [each for each, _ in follower.seen]
    assert numbers == sorted(set(numbers)), "an event came twice"
    by_number = {event.number: event for event in events}
    for each, what in follower.seen:
        event = by_number[each]  # what was sent is in the log
        if event.kind == "update":
            assert json.loads(what) == json.loads(event.body)
    updates = [event.number for event in events if event.kind == "update" and event.number <= follower.cursor]
    assert [each for each in numbers if by_number[each].kind == "update"] == updates, "an event is missing"
    prompts = [json.loads(event.body)["promptId"] for event in events if event.kind == "prompt"]
    assert prompts == [f"p{each}" for each in range(number + 1)]
    ends = [json.loads(event.body) for event in events if event.kind == "end"]
    assert [end["promptId"] for end in ends] == prompts[:number], "the outcome of every killed turn, once"
    assert {end["error"]["data"]["reason"] for end in ends} <= {"interrupted"}


async def test_a_host_that_is_killed_loses_nothing_that_a_client_has_seen(tmp_path: Path) -> None:
    await kill_hosts(tmp_path / "log.db", 2, random.Random(1))


@pytest.mark.soak
async def test_50_kills_of_a_host_lose_nothing_that_a_client_has_seen(tmp_path: Path) -> None:
    await kill_hosts(tmp_path / "log.db", 50, random.Random())
