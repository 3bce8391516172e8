"""A host with many sessions that stream: ``python -m benchmarks.streaming [--before TREE] [--sessions N...]``.

Each session runs one turn after the other, of 20 updates at 10 a second, over a Unix socket; the agents and the clients
are in another process. Measured are the CPU of the host for each update, of the thread of its event loop and of all its
threads, and the time from a prompt to its first update. With `--before` the host of another working tree takes turns
with this one, and the ratios are printed: only they can be compared with those of another machine.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
UPDATES, PAUSE_SECONDS = 20, 0.1
SECONDS = 8.0  # measured, after one turn of each session
GOAL_SECONDS = 0.150
_MARK = b'"agent_message_chunk"'
_UPDATE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%b","update":'
    b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"' + b"x" * 60 + b'"}}}}\n'
)


class Measured(NamedTuple):
    """What was measured of one host with one number of sessions."""

    loop_us: float
    process_us: float
    p50: float
    p99: float
    per_second: float


class Line(asyncio.Protocol):
    """A connection of messages; what arrives is passed on as whole lines."""

    def __init__(self, took: Callable[[bytes], None], opened: Callable[[], None] = lambda: None) -> None:
        self._took = took
        self._opened = opened
        self._rest = b""
        self.io: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.io = transport
        self._opened()

    def data_received(self, data: bytes) -> None:
        whole, _, self._rest = (self._rest + data).rpartition(b"\n")
        if whole:
            self._took(whole)

    def send(self, message: dict[str, Any]) -> None:
        self.io.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


class AgentEnd:
    """An agent with one session: each prompt is answered by updates at a steady pace."""

    def __init__(self) -> None:
        self.line = Line(self._take)
        self._update = b""

    def _take(self, lines: bytes) -> None:
        for line in lines.split(b"\n"):
            message = json.loads(line)
            method = message.get("method")
            if method == "initialize":
                self.line.send({"id": message["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}}})
            elif method == "session/new":
                self._update = _UPDATE % f"a{id(self)}".encode()
                self.line.send({"id": message["id"], "result": {"sessionId": f"a{id(self)}"}})
            elif method == "session/prompt":
                self._say(message["id"], UPDATES)

    def _say(self, id: object, left: int) -> None:
        if left:
            self.line.io.write(self._update)
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._say, id, left - 1)
        else:
            self.line.send({"id": id, "result": {"stopReason": "end_turn"}})


class ClientEnd:
    """A client with one session, which prompts again when its turn ends."""

    def __init__(self, load: Load) -> None:
        self.line = Line(self._take, self._greet)
        self._load = load
        self._session = ""
        self._asked_at: float | None = None
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _greet(self) -> None:
        self.line.send({"id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}})

    def _take(self, lines: bytes) -> None:
        count = lines.count(_MARK)
        if count:
            self._load.updates += count
            if self._asked_at is not None:
                self._load.waits.append(perf_counter() - self._asked_at)
                self._asked_at = None
        if not self._session:
            for line in lines.split(b"\n"):
                message = json.loads(line)
                if message.get("id") == 1:
                    self.line.send({"id": 2, "method": "session/new", "params": {"cwd": "/tmp", "mcpServers": []}})
                elif message.get("id") == 2:
                    self._session = message["result"]["sessionId"]
                    self.ready.set_result(None)
        elif b'"stopReason"' in lines:
            self.prompt()

    def prompt(self) -> None:
        self._asked_at = perf_counter()
        params = {"sessionId": self._session, "prompt": [{"type": "text", "text": "go on"}]}
        self.line.send({"id": 3, "method": "session/prompt", "params": params})


class Load:
    """What the clients of one run have seen."""

    def __init__(self) -> None:
        self.updates = 0
        self.waits: list[float] = []


class MeasuredHost:
    """A host in a process of its own."""

    def __init__(self, pid: int, path: str) -> None:
        self.path = path
        self._tasks = Path(f"/proc/{pid}/task")
        self._pid = pid

    def cpu_seconds(self) -> tuple[float, float]:
        """Of the thread of the loop, and of all threads."""
        seconds = {task.name: int((task / "schedstat").read_text().split()[0]) / 1e9 for task in self._tasks.iterdir()}
        return seconds[str(self._pid)], sum(seconds.values())


@contextmanager
def running(tree: Path, agents: str) -> Iterator[MeasuredHost]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        program = [sys.executable, "-m", "benchmarks.peers.dragoman.streaming_host", folder, agents]
        env = {**os.environ, "PYTHONPATH": f"{tree}/src"}
        with subprocess.Popen(program, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                path, _, module = process.stdout.readline().strip().partition(" ")
                assert module.startswith(f"{tree}/src/"), f"{module} is not of {tree}"
                yield MeasuredHost(process.pid, path)
            finally:
                process.kill()


async def measure(tree: Path, sessions: int, seconds: float) -> Measured:
    """Run one host with so many sessions."""
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        agents = f"{folder}/agents.sock"
        server = await loop.create_unix_server(lambda: AgentEnd().line, agents, backlog=1024)
        load = Load()
        with running(tree, agents) as host:
            clients: list[ClientEnd] = []
            for _ in range(sessions):
                client = ClientEnd(load)
                clients.append(client)
                await loop.create_unix_connection(lambda: clients[-1].line, host.path)
                async with asyncio.timeout(60):
                    await client.ready
            gc.freeze()
            # Spread over the length of a turn, so that turns begin and end all the time.
            turn = UPDATES * PAUSE_SECONDS
            for number, client in enumerate(clients):
                loop.call_later(turn * number / sessions, client.prompt)
            await asyncio.sleep(2 * turn)
            load.updates, load.waits = 0, []
            before, clock = host.cpu_seconds(), perf_counter()
            await asyncio.sleep(seconds)
            after, taken = host.cpu_seconds(), perf_counter() - clock
            updates, waits = load.updates, list(load.waits)
            for client in clients:
                client.line.io.abort()
        server.close()
    loop_us, process_us = ((end - start) / updates * 1e6 for start, end in zip(before, after, strict=True))
    quantiles = statistics.quantiles(waits, n=100)
    return Measured(loop_us, process_us, quantiles[49], quantiles[98], updates / taken)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path, help="the working tree of another version")
    parser.add_argument("--sessions", type=int, nargs="*", default=[100, 300, 600])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    words = parser.parse_args()
    trees = {"now": ROOT} | ({} if words.before is None else {"before": words.before.resolve()})
    print(f"{'sessions':>8} {'tree':<7}{'loop us':>9}{'all us':>9}{'p50 ms':>9}{'p99 ms':>9}{'updates/s':>11}")
    for sessions in words.sessions:
        rounds: dict[str, list[Measured]] = {name: [] for name in trees}
        for _ in range(words.rounds):
            for name, tree in trees.items():
                rounds[name].append(asyncio.run(measure(tree, sessions, words.seconds)))
        medians = {name: Measured(*map(statistics.median, zip(*runs, strict=True))) for name, runs in rounds.items()}
        for name, median in medians.items():
            cpu = f"{median.loop_us:>9.1f}{median.process_us:>9.1f}"
            times = f"{median.p50 * 1000:>9.1f}{median.p99 * 1000:>9.1f}{median.per_second:>11,.0f}"
            print(f"{sessions:>8} {name:<7}{cpu}{times}", flush=True)
        if "before" in medians:
            ratios = [new / old for new, old in zip(medians["now"], medians["before"], strict=True)]
            print(
                f"{sessions:>8} ratio  {ratios[0]:>9.2f}{ratios[1]:>9.2f}{ratios[2]:>9.2f}{ratios[3]:>9.2f}"
                f"{ratios[4]:>11.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
