"""The asyncio floor, client side: an event loop that reads the agent's stdout, and a future for each answer.

What stock asyncio costs before a library adds anything: no dispatch, no limits, no flow control, no errors.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from typing import Any

from msgspec import Struct

from benchmarks.peers import probe
from benchmarks.peers.raw.agent import (
    LINE,
    ClientMessage,
    ClientParams,
    ReadAnswer,
    ReadTextFileRequest,
    ReadTextFileResponse,
    SessionNotification,
    TextContent,
    encode,
)
from benchmarks.peers.raw.client import Counter, RawAgent, decode_answer, decode_read, decode_update


class AioAgent:
    """The agent process on an event loop; the handshake is the blocking one, which no case measures."""

    def __init__(self, command: list[str]) -> None:
        self.raw = RawAgent(command)
        self.raw.open_session()
        self.counter = Counter()
        self.served = 0
        self.is_reading = False
        assert self.raw.process.stdin is not None
        assert self.raw.process.stdout is not None
        self._stdin = self.raw.process.stdin.fileno()
        self._stdout = self.raw.process.stdout.fileno()
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[None] = self._loop.create_future()
        self._content = LINE * 16
        self._rest = b""
        self._loop.add_reader(self._stdout, self._on_readable)

    async def prompt(self, text: str) -> None:
        self._answer = self._loop.create_future()
        params = ClientParams(session_id=self.raw.session_id, prompt=[TextContent(text)])
        self._send(ClientMessage("session/prompt", params, id=7))
        await self._answer

    def close(self) -> None:
        self._loop.remove_reader(self._stdout)
        self.raw.close()

    def _send(self, message: Struct) -> None:
        os.write(self._stdin, encode(message) + b"\n")

    def _on_readable(self) -> None:
        *lines, self._rest = (self._rest + os.read(self._stdout, 65536)).split(b"\n")
        for line in lines:
            self._on_line(line)

    def _on_line(self, line: bytes) -> None:
        if b'"method":"session/update"' in line:
            params = decode_update(line).params
            assert isinstance(params, SessionNotification)
            self.counter.on_update(params.update)
        elif self.is_reading and isinstance((message := decode_read(line)).params, ReadTextFileRequest):
            self.served += 1
            self._send(ReadAnswer(message.id, ReadTextFileResponse(self._content)))
        else:
            decode_answer(line)
            self._answer.set_result(None)


async def rtt(agent: AioAgent, params: dict[str, Any]) -> dict[str, float]:
    for _ in range(params["warm_up"]):
        await agent.prompt("noop")
    times = []
    usage = probe.Usage(agent.raw.pid)
    for _ in range(params["count"]):
        start = time.perf_counter()
        await agent.prompt("noop")
        times.append((time.perf_counter() - start) * 1e6)
    return {"p50_us": statistics.median(times), "p99_us": probe.percentile(times, 0.99)} | usage.per_item_us(len(times))


async def stream(agent: AioAgent, params: dict[str, Any]) -> dict[str, float]:
    count = params["count"]
    await agent.prompt(params["warm_up"])
    usage = probe.Usage(agent.raw.pid)
    times: list[float] = []
    while not probe.is_enough(times):
        agent.counter = Counter()
        start = time.perf_counter()
        await agent.prompt(params["prompt"])
        times.append(time.perf_counter() - start)
        probe.expect(agent.counter.updates, count, "updates")
    return {"per_second": count / statistics.median(times)} | usage.per_item_us(count * len(times))


async def read(agent: AioAgent, params: dict[str, Any]) -> dict[str, float]:
    agent.is_reading = True
    await agent.prompt(params["warm_up"])
    agent.served = 0
    usage = probe.Usage(agent.raw.pid)
    start = time.perf_counter()
    await agent.prompt(params["prompt"])
    seconds = time.perf_counter() - start
    probe.expect(agent.served, params["count"], "reads")
    return {"per_second": params["count"] / seconds} | usage.per_item_us(params["count"])


async def main() -> None:
    job = probe.read_job(sys.argv)
    agent = AioAgent(job.agent_command)
    probe.announce(agent.raw.pid)
    result = await {"rtt": rtt, "unpinned": rtt, "stream": stream, "read": read}[job.case](agent, job.params)
    agent.close()
    probe.report(result)


if __name__ == "__main__":
    asyncio.run(main())
