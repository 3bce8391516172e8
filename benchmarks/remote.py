"""Servers of ACP over Unix sockets, WebSocket and HTTP, and the host with its log: ``python -m benchmarks.remote``.

Peers take turns in every round, on one machine, with clients that cost next to nothing (`remote_lines.py`). What counts
is the CPU time of the server for each update, and ratios inside one run; absolute times depend on the machine. The
servers of the SDKs have no log and no host. Arguments: updates in a turn, rounds.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter

from benchmarks.remote_lines import Session, open_line
from dragoman.store.event_log import NewEvent, SessionRecord
from dragoman.store.sqlite_log import SqliteLog

ROOT = Path(__file__).resolve().parents[1]
UPDATES, ROUNDS = 20_000, 3
TEXT_BYTES = 60  # an update of about 200 bytes
ROUND_TRIPS = 300
IDLE = 300
LONG = 100_000
LONG_ID = "a-long-session"
SMALL = 20
SMALL_ROUNDS = 200
FOLLOWERS = 10
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Server:
    """A server in a process of its own."""

    def __init__(self, name: str, process: subprocess.Popen[str], addresses: list[str]) -> None:
        self.name = name
        self._pid = process.pid
        self._addresses = addresses

    def address(self, kind: str) -> str | None:
        found = next((each for each in self._addresses if each.startswith("unix:") == (kind == "unix")), None)
        return None if found is None else found.replace("http", kind, 1) if kind == "ws" else found

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * _PAGE


class Turns:
    """What was measured of one server over one transport."""

    def __init__(self) -> None:
        self.cpu_us: list[float] = []
        self.per_second: list[float] = []
        self.round_trip_us: list[float] = []


@contextmanager
def running(name: str, *command: str) -> Iterator[Server]:
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            addresses = process.stdout.readline().split()
            if not addresses:
                raise SystemExit(f"the server {name} did not start")
            yield Server(name, process, addresses)
        finally:
            process.kill()


def measure(server: Server, kind: str, updates: int, found: Turns) -> None:
    address = server.address(kind)
    assert address is not None
    session = Session(open_line(address))
    session.open()
    assert session.prompt(f"stream 200 {TEXT_BYTES}") == 200  # warm
    cpu, clock = server.cpu_seconds, perf_counter()
    count = session.prompt(f"stream {updates} {TEXT_BYTES}")
    seconds = perf_counter() - clock
    assert count == updates, f"{server.name} sent {count} of {updates} updates over {kind}"
    found.cpu_us.append((server.cpu_seconds - cpu) / updates * 1e6)
    found.per_second.append(updates / seconds)
    trips = []
    for _ in range(ROUND_TRIPS):
        clock = perf_counter()
        session.prompt(f"stream 0 {TEXT_BYTES}")
        trips.append(perf_counter() - clock)
    found.round_trip_us.append(statistics.median(trips) * 1e6)
    session.close()


def extra_client_us(server: Server, updates: int) -> float:
    """CPU of one more attached client for each update."""
    address = server.address("ws")
    assert address is not None
    taken = []
    for followers in (0, FOLLOWERS):
        first = Session(open_line(address))
        first.open()
        others = [Session(open_line(address)) for _ in range(followers)]
        for each in others:
            each.attach(first.id)
        first.prompt(f"stream 200 {TEXT_BYTES}")
        for each in others:
            each.drain(200)
        cpu = server.cpu_seconds
        with ExitStack() as threads:
            for each in others:
                threads.enter_context(_reading(each, updates))
            assert first.prompt(f"stream {updates} {TEXT_BYTES}") == updates
        taken.append((server.cpu_seconds - cpu) / updates * 1e6)
        for each in (first, *others):
            each.close()
    return (taken[1] - taken[0]) / FOLLOWERS


@contextmanager
def _reading(session: Session, count: int) -> Iterator[None]:
    from threading import Thread

    thread = Thread(target=session.drain, args=(count,))
    thread.start()
    try:
        yield
    finally:
        thread.join()


def idle_kib(server: Server) -> float:
    """Memory of a connection that is initialized and idle."""
    address = server.address("ws")
    assert address is not None
    warm = [Session(open_line(address)) for _ in range(20)]
    before = server.resident_bytes
    many = [Session(open_line(address)) for _ in range(IDLE)]
    grown = server.resident_bytes - before
    for each in (*warm, *many):
        each.close()
    return grown / IDLE / 1024


async def write_long(folder: Path) -> None:
    """A session of many events, each of a message of its own: neighbours of one message would be joined."""
    log = SqliteLog(folder / "log.db")
    owned = await log.create(SessionRecord(LONG_ID, "local", "bench", "old", os.getcwd(), b"{}", 1, 1, 0, 1))
    start = b'{"sessionUpdate":"agent_message_chunk","messageId":"m%d","content":{"type":"text","text":"%b"}}'
    for first in range(0, LONG, 1000):
        events = [NewEvent("update", start % (first + number, b"x" * 200), 1) for number in range(1000)]
        owned.append(events, lambda events: None)
        await owned.settle()
    await log.close()


def attach_long(server: Server) -> tuple[float, int, float]:
    """Load a session of many events: seconds, updates that came, and MiB that the server grew by."""
    address = server.address("ws")
    assert address is not None
    warm, second = Session(open_line(address)), Session(open_line(address))
    warm.open()
    warm.prompt(f"stream 1000 {TEXT_BYTES}")
    before = server.resident_bytes
    clock = perf_counter()
    count = second.load_all(LONG_ID)
    seconds = perf_counter() - clock
    grown = (server.resident_bytes - before) / 2**20
    for each in (warm, second):
        each.close()
    return seconds, count, grown


def load_small(server: Server) -> float:
    """Milliseconds of `session/load` of a small session over WebSocket, the median."""
    address = server.address("ws")
    assert address is not None
    first, second = Session(open_line(address)), Session(open_line(address))
    id = first.open()
    first.prompt(f"stream {SMALL} {TEXT_BYTES}")
    taken = []
    for _ in range(SMALL_ROUNDS):
        clock = perf_counter()
        second.load_all(id)
        taken.append((perf_counter() - clock) * 1e3)
    for each in (first, second):
        each.close()
    return statistics.median(taken)


async def read_small(folder: Path) -> float:
    """Milliseconds that the log itself takes for such a session: find it, and read its events."""
    log = SqliteLog(folder / "small.db")
    owned = await log.create(SessionRecord("s", "p", "a", None, "/", b"{}", 0, 0, 0, 1))
    body = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%b"}}' % (b"x" * TEXT_BYTES)
    owned.append([NewEvent("update", body, 1)] * SMALL, lambda events: None)
    await owned.settle()
    taken = []
    for _ in range(SMALL_ROUNDS):
        clock = perf_counter()
        await log.find("s", "p")
        await log.read("s", 0, SMALL)
        taken.append((perf_counter() - clock) * 1e3)
    await log.close()
    return statistics.median(taken)


async def log_latency(folder: Path) -> tuple[float, float]:
    """Microseconds from an append to its reader, one update at a time: the median and the 99th percentile."""
    log = SqliteLog(folder / "latency.db")
    owned = await log.create(SessionRecord("s", "p", "a", None, "/", b"{}", 0, 0, 0, 1))
    body = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%b"}}' % (b"x" * 300)
    taken = []
    for _ in range(2000):
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        clock = perf_counter()
        owned.append([NewEvent("update", body, 1)], done.set_result)
        await done
        taken.append((perf_counter() - clock) * 1e6)
    await log.close()
    return statistics.median(taken), statistics.quantiles(taken, n=100)[98]


def main(updates: int = UPDATES, rounds: int = ROUNDS) -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        asyncio.run(write_long(folder))
        start = _starter(stack)
        program = (sys.executable, "-m", "benchmarks.peers.dragoman.remote_agent", name)
        ours = start("dragoman", *program, "agent")
        host = start("dragoman host, SQLite", *program, "host")
        typescript = start("TypeScript SDK", "node", str(ROOT / "benchmarks/peers/ts/remote_agent.mjs"))
        python = start("Python SDK", sys.executable, "-m", "benchmarks.peers.pysdk.remote_agent")
        plan = [
            *((ours, kind) for kind in ("unix", "ws", "http")),
            *((host, kind) for kind in ("unix", "ws", "http")),
            *((each, kind) for each in (typescript, python) for kind in ("ws", "http")),
        ]
        found = {(server.name, kind): Turns() for server, kind in plan}
        for _ in range(rounds):
            for server, kind in plan:
                measure(server, kind, updates, found[server.name, kind])
        _print_turns(found)
        _print_goals(found, extra_client_us(host, updates), idle_kib(ours), idle_kib(typescript))
        seconds, count, grown = attach_long(host)
        print(f"attach to {LONG:,} events: {count:,} updates in {seconds:.2f} s, the server grew by {grown:.1f} MiB")
        whole, own = load_small(host), asyncio.run(read_small(folder))
        state = "met" if whole - own <= 5 else "MISSED"
        print(
            f"session/load of {SMALL} updates: {whole:.2f} ms, {whole - own:.2f} above the log's own (goal: 5) {state}"
        )
        median, worst = asyncio.run(log_latency(folder))
        print(f"log, append to reader: {median:.0f} us, 99 %: {worst:.0f} us")


def _starter(stack: ExitStack) -> Callable[..., Server]:
    def start(name: str, *command: str) -> Server:
        return stack.enter_context(running(name, *command))

    return start


def _print_turns(found: dict[tuple[str, str], Turns]) -> None:
    print(f"{'server':<24}{'over':<6}{'CPU us/update':>14}{'updates/s':>12}{'round trip us':>15}{'x TypeScript':>14}")
    for (server, kind), turns in found.items():
        like = found.get(("TypeScript SDK", kind))
        cpu = statistics.median(turns.cpu_us)
        ratio = f"{statistics.median(like.cpu_us) / cpu:.1f}" if like is not None and cpu else "-"
        rate, trip = statistics.median(turns.per_second), statistics.median(turns.round_trip_us)
        print(f"{server:<24}{kind:<6}{cpu:>14.1f}{rate:>12,.0f}{trip:>15.0f}{ratio:>14}")


def _print_goals(found: dict[tuple[str, str], Turns], extra_us: float, idle: float, theirs: float) -> None:
    mark = statistics.median(found["TypeScript SDK", "ws"].cpu_us)
    transport = mark / statistics.median(found["dragoman", "ws"].cpu_us)
    host = mark / statistics.median(found["dragoman host, SQLite", "ws"].cpu_us)
    for what, value, goal, is_met in (
        ("transport over WebSocket, times TypeScript", transport, "at least 3", transport >= 3),
        ("host with its log, times TypeScript", host, "at least 2", host >= 2),
        ("an extra attached client, us of CPU per update", extra_us, "at most 1", extra_us <= 1),
        (f"an idle connection, KiB (TypeScript: {theirs:.1f})", idle, "at most 17", idle <= 17),
    ):
        print(f"{what}: {value:.2f} (goal: {goal}) {'met' if is_met else 'MISSED'}")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
