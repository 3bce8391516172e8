"""Hosts that hand over to the next one, as processes: no turn is cancelled, no update lost, no connection refused."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.host.bridge.kit import Editor, editor

SECONDS = 60.0
AGENT = Path(__file__).with_name("hand_over_agent.py")
DRAGOMAN = (sys.executable, "-m", "dragoman")
# Starts a program with the socket of this descriptor, as a service manager does.
PASSING = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execv(sys.executable, [sys.executable, "-m", "dragoman", *sys.argv[2:]])
"""


class HostProcess:
    """A host as a program, and what it has written."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.notes = ""
        self._news = asyncio.Event()
        self._reader = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(4096):
            self.notes += data.decode()
            self._news.set()
        self.notes += "\n(end)\n"
        self._news.set()

    async def noted(self, words: str) -> None:
        """It has written these words to stderr."""
        async with asyncio.timeout(SECONDS):
            while words not in self.notes:
                assert not self.notes.endswith("(end)\n"), self.notes
                self._news.clear()
                await self._news.wait()

    async def serving(self) -> str:
        """Its URL, when it serves."""
        assert self.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            url = (await self.process.stdout.readline()).decode().strip()
        if not url:
            await self.ended()
        assert url, self.notes
        return url

    async def ended(self) -> int:
        async with asyncio.timeout(SECONDS):
            code = await self.process.wait()
            await self._reader
            assert self.process.stdout is not None
            await self.process.stdout.read()  # to its end, so that nothing of the process is left open
        return code

    def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()


class Machine:
    """A folder with the data of hosts, of which one serves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        self.go = folder / "go"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DRAGOMAN", "XDG"))}
        self.environment = {**kept, "HOME": str(folder), "DRAGOMAN_HOME": str(folder / "home")}
        self.hosts: list[HostProcess] = []

    async def start(
        self, *words: str, listen: str = "127.0.0.1:0", sock: socket.socket | None = None, **environment: str
    ) -> HostProcess:
        passed = () if sock is None else (sock.fileno(),)
        program = DRAGOMAN if sock is None else (sys.executable, "-c", PASSING, str(sock.fileno()))
        process = await asyncio.create_subprocess_exec(
            *(*program, "serve", "--listen", listen, "--folder", str(self.project)),
            *("--limit", "connections_per_minute=100000", "--limit", "turns=100"),
            *(*words, "--", sys.executable, str(AGENT)),
            cwd=self.project,
            env={**self.environment, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=passed,
        )
        self.hosts.append(HostProcess(process))
        return self.hosts[-1]

    @property
    def kept(self) -> Path:
        return self.folder / "home" / "data" / "serve" / ".dragoman-kept-prompts"

    @property
    def token(self) -> str:
        return (self.folder / "home" / "data" / "serve" / "first.token").read_text().strip()


@asynccontextmanager
async def machine(folder: Path) -> AsyncIterator[Machine]:
    found = Machine(folder)
    try:
        yield found
    finally:
        found.go.touch()
        for host in found.hosts:
            host.kill()
            await host.ended()


@asynccontextmanager
async def opened(place: Machine, url: str) -> AsyncIterator[tuple[Editor, str]]:
    """An editor behind a bridge, with a session of its own."""
    async with editor(url, place.token) as line:
        await line.hello({"session": {"notices": {}}})
        yield line, await line.open(str(place.project))


async def get(url: str, path: str) -> tuple[int, str]:
    """The answer to a GET on a new connection."""
    host, port = url.removeprefix("ws://").removesuffix("/acp").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body.strip()


async def probe(url: str, stop: asyncio.Event) -> int:
    """Ask for its health on new connections until the end; each has to be answered."""
    count = 0
    while not stop.is_set():
        async with asyncio.timeout(SECONDS):
            assert await get(url, "/healthz") == (200, "ok")
        count += 1
    return count


class Counting:
    """A client that prompts in a loop, and checks that each turn has every number once."""

    def __init__(self, line: Editor, session: str, updates: int) -> None:
        self._line = line
        self._session = session
        self._updates = updates
        self.turns = 0
        self._news = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> int:
        while not stop.is_set():
            updates, answer = await self._line.turn(self._session, f"count {self._updates}")
            assert answer.get("result") == {"stopReason": "end_turn"}, answer
            texts = [found["content"]["text"] for found in updates if found["sessionUpdate"] == "agent_message_chunk"]
            assert texts == [f"{number} " for number in range(self._updates)]
            self.turns += 1
            self._news.set()
        return self.turns

    async def turned(self, turns: int) -> None:
        async with asyncio.timeout(SECONDS):
            while self.turns < turns:
                self._news.clear()
                await self._news.wait()


def texts_of(history: list[dict[str, Any]]) -> list[str]:
    return [found["content"]["text"] for found in history if found["sessionUpdate"].endswith("_chunk")]


async def hand_over_under_load(folder: Path, *, clients: int, updates: int, times: int) -> tuple[int, int]:
    """Clients prompt in a loop and others connect while hosts hand over; gives how many turns and connections."""
    async with machine(folder) as place:
        old = await place.start("--drain", "120")
        url = await old.serving()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            probing = tasks.create_task(probe(url, stop))
            looping = []
            ready = asyncio.Semaphore(0)

            async def loop(counting: list[Counting]) -> int:
                async with opened(place, url) as (line, session):
                    counting.append(Counting(line, session, updates))
                    ready.release()
                    return await counting[0].run(stop)

            lines: list[list[Counting]] = [[] for _ in range(clients)]
            looping = [tasks.create_task(loop(line)) for line in lines]
            async with asyncio.timeout(SECONDS):
                for _ in lines:
                    await ready.acquire()
            for _ in range(times):
                before = [line[0].turns for line in lines]
                for line, turns in zip(lines, before, strict=True):
                    await line[0].turned(turns + 1)
                new = await place.start("--drain", "120", "--replace")
                assert await new.serving() == url
                assert await old.ended() == 0
                assert "cancelled" not in old.notes
                old = new
            for line in lines:
                await line[0].turned(line[0].turns + 2)
            stop.set()
        return sum(task.result() for task in looping), probing.result()


async def test_two_hosts_hand_over_under_load_and_clients_notice_nothing(tmp_path: Path) -> None:
    turns, connections = await hand_over_under_load(tmp_path, clients=3, updates=20, times=1)
    assert turns >= 9
    assert connections >= 3


@pytest.mark.soak
async def test_hosts_hand_over_ten_times_under_twenty_streaming_sessions(tmp_path: Path) -> None:
    turns, connections = await hand_over_under_load(tmp_path, clients=20, updates=200, times=10)
    assert turns >= 20 * 10
    assert connections >= 100


async def test_a_turn_ends_in_the_old_host_and_what_comes_meanwhile_is_run_by_the_next(tmp_path: Path) -> None:
    async with machine(tmp_path) as place:
        old = await place.start("--drain", "120")
        url = await old.serving()
        async with opened(place, url) as (line, session), opened(place, url) as (other, kept):
            held = line.prompt(session, f"hold {place.go}")
            assert (await line.update())["content"]["text"] == "held "
            # One that dies while it waits changes nothing: what was kept meanwhile runs here.
            first = await place.start("--replace")
            await old.noted("waits; turns may go on for 120 s")
            waiting = other.prompt(kept, "count 2")
            assert (await get(url, "/readyz")) == (503, "not ready: draining")
            assert (await get(url, "/healthz")) == (200, "ok")
            await first.noted("1 turn still run there")
            first.kill()
            before, answer = await other.answer_to(waiting)
            assert answer["result"] == {"stopReason": "end_turn"}
            assert texts_of([message["params"]["update"] for message in before])[-2:] == ["0 ", "1 "]
            assert (await get(url, "/readyz")) == (200, "ready")
            # Another one waits; a second is refused; a client sends a prompt and leaves for good.
            new = await place.start("--replace")
            await new.noted("1 turn still run there")
            second = await place.start("--replace")
            assert await second.ended() != 0
            assert f"pid {new.process.pid} waits already" in second.notes
            last = other.prompt(kept, "count 3")
            place.go.touch()
            before, answer = await line.answer_to(held)
            assert answer["result"] == {"stopReason": "end_turn"}
            assert texts_of([message["params"]["update"] for message in before])[-1] == "released "
            assert await new.serving() == url
            assert await old.ended() == 0
            assert f"the host with pid {new.process.pid} goes on" in old.notes
            before, answer = await other.answer_to(last)
            assert answer["result"] == {"stopReason": "end_turn"}
            assert texts_of([message["params"]["update"] for message in before])[-3:] == ["0 ", "1 ", "2 "]
        new.process.send_signal(signal.SIGTERM)
        assert await new.ended() == 0


async def test_the_next_host_goes_on_when_the_one_before_is_killed_and_runs_what_it_kept(tmp_path: Path) -> None:
    async with machine(tmp_path) as place:
        old = await place.start("--drain", "120")
        url = await old.serving()
        async with opened(place, url) as (line, session):
            held = line.prompt(session, f"hold {place.go}")
            assert (await line.update())["content"]["text"] == "held "
            async with opened(place, url) as (other, kept):
                new = await place.start("--replace")
                await new.noted("1 turn still run there")
                other.prompt(kept, "count 3")
                assert "is being replaced" in str(await other.until_update("notice"))
                assert "the next one runs it" in str(await other.until_update("notice"))
                async with asyncio.timeout(SECONDS):
                    while not place.kept.exists():  # noqa: ASYNC110 - a file of another process
                        await asyncio.sleep(0.01)
            # Its client is gone for good, and now its host too.
            old.kill()
            assert await new.serving() == url
            assert "it was killed" in new.notes
            _, answer = await line.answer_to(held)
            assert answer["error"]["data"]["reason"] == "interrupted"
            async with asyncio.timeout(SECONDS), editor(url, place.token) as back:
                await back.hello()
                while texts_of((await back.load(kept, str(place.project)))[0])[-1:] != ["0 1 2 "]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            async with asyncio.timeout(SECONDS):
                while place.kept.exists():  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.01)


async def test_a_signal_starts_the_installed_program_in_place_of_this_one(tmp_path: Path) -> None:
    listening = asyncio.get_running_loop().create_datagram_endpoint
    heard: asyncio.Queue[str] = asyncio.Queue()

    class Manager(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: object) -> None:
            heard.put_nowait(data.decode())

    socket_path = f"/tmp/dragoman-notify-{os.getpid()}"
    with suppress(FileNotFoundError):
        os.unlink(socket_path)
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(socket_path)
    notify.setblocking(False)
    transport, _ = await listening(Manager, sock=notify)
    pid = 0
    try:
        async with machine(tmp_path) as place:
            old = await place.start(NOTIFY_SOCKET=socket_path)
            url = await old.serving()
            async with asyncio.timeout(SECONDS):
                assert await heard.get() == "READY=1"
            old.process.send_signal(signal.SIGUSR2)
            await old.noted("goes on")
            async with asyncio.timeout(SECONDS):
                word, _, number = (await heard.get()).partition("=")
                assert word == "MAINPID"
                pid = int(number)
                assert await heard.get() == "READY=1"
            assert await get(url, "/readyz") == (200, "ready")
            os.kill(pid, signal.SIGTERM)
            assert await old.ended() == 0
            async with asyncio.timeout(SECONDS):
                assert await heard.get() == "STOPPING=1"
    finally:
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        transport.close()
        os.unlink(socket_path)


async def test_clients_of_a_killed_host_wait_at_the_socket_that_the_service_manager_holds(tmp_path: Path) -> None:
    async with machine(tmp_path) as place:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            address = f"127.0.0.1:{sock.getsockname()[1]}"
            old = await place.start(listen=address, sock=sock)
            url = await old.serving()
            assert url == f"ws://{address}/acp"
            assert await get(url, "/readyz") == (200, "ready")
            old.kill()
            await old.ended()
            waiting = asyncio.ensure_future(get(url, "/readyz"))  # connects, and is not answered yet
            await (await place.start(listen=address, sock=sock)).serving()
            async with asyncio.timeout(SECONDS):
                assert await waiting == (200, "ready")
