"""The official Python SDK, client side: a handler class, one ``session_update`` call per update."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from acp import PROTOCOL_VERSION, Client, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AgentMessageChunk,
    ClientCapabilities,
    FileEditToolCallContent,
    FileSystemCapabilities,
    Implementation,
    ReadTextFileResponse,
    TextContentBlock,
    ToolCallProgress,
    WriteTextFileResponse,
)

from benchmarks.peers import probe
from benchmarks.peers.raw.agent import LINE

# The SDK's own default on the agent side; its client side starts with asyncio's 64 KiB.
BUFFER_BYTES = 50 * 1024 * 1024


class BenchClient(Client):
    def __init__(self) -> None:
        self.content = LINE * 16
        self.cancel_after = -1
        self.is_stuck = False
        self.never_set = asyncio.Event()
        self.on_cancel: Callable[[], Awaitable[None]]
        self.reset()

    def reset(self) -> None:
        self.updates = 0
        self.characters = 0
        self.served = 0
        self.by_session: dict[str, int] = {}

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        if isinstance(update, AgentMessageChunk):
            self.updates += 1
            self.by_session[session_id] = self.by_session.get(session_id, 0) + 1
            if isinstance(update.content, TextContentBlock):
                self.characters += len(update.content.text)
        elif isinstance(update, ToolCallProgress) and update.content:
            self.updates += 1
            diff = update.content[0]
            if isinstance(diff, FileEditToolCallContent):
                self.characters += len(diff.new_text)
        if self.updates == self.cancel_after:
            await self.on_cancel()
        if self.is_stuck:
            await self.never_set.wait()

    async def read_text_file(self, session_id: str, path: str, *args: Any, **kwargs: Any) -> ReadTextFileResponse:
        self.served += 1
        return ReadTextFileResponse(content=self.content)

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> WriteTextFileResponse:
        self.characters += len(content)
        return WriteTextFileResponse()


class Bench:
    """One connection, one handler object, one session; the cases are its methods."""

    def __init__(self, connection: ClientSideConnection, client: BenchClient, pid: int) -> None:
        self.connection = connection
        self.client = client
        self.pid = pid
        self.session_id = ""

    async def open(self) -> None:
        await self.connection.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=True, write_text_file=True)
            ),
            client_info=Implementation(name="pysdk", version="1"),
        )
        self.session_id = await self.new_session()

    async def new_session(self) -> str:
        return (await self.connection.new_session(cwd="/tmp", mcp_servers=[])).session_id

    async def prompt(self, text: str, session_id: str = "") -> None:
        await self.connection.prompt(session_id=session_id or self.session_id, prompt=[text_block(text)])

    async def rtt(self, params: dict[str, Any]) -> dict[str, float]:
        for _ in range(params["warm_up"]):
            await self.prompt("noop")
        times = []
        usage = probe.Usage(self.pid)
        for _ in range(params["count"]):
            start = time.perf_counter()
            await self.prompt("noop")
            times.append((time.perf_counter() - start) * 1e6)
        cpu = usage.per_item_us(len(times))
        return {"p50_us": statistics.median(times), "p99_us": probe.percentile(times, 0.99)} | cpu

    async def stream(self, params: dict[str, Any]) -> dict[str, float]:
        count = params["count"]
        await self.prompt(params["warm_up"])
        usage = probe.Usage(self.pid)
        times: list[float] = []
        while not probe.is_enough(times):
            self.client.reset()
            start = time.perf_counter()
            await self.prompt(params["prompt"])
            times.append(time.perf_counter() - start)
            probe.expect(self.client.updates, count, "updates")
            probe.expect(self.client.characters, count * params["characters"], "characters")
        return {"per_second": count / statistics.median(times)} | usage.per_item_us(count * len(times))

    async def read(self, params: dict[str, Any]) -> dict[str, float]:
        await self.prompt(params["warm_up"])
        self.client.reset()
        usage = probe.Usage(self.pid)
        start = time.perf_counter()
        await self.prompt(params["prompt"])
        seconds = time.perf_counter() - start
        probe.expect(self.client.served, params["count"], "reads")
        return {"per_second": params["count"] / seconds} | usage.per_item_us(params["count"])

    async def sessions(self, params: dict[str, Any]) -> dict[str, float]:
        ids = [await self.new_session() for _ in range(params["sessions"])]
        await asyncio.gather(*(self.prompt(params["warm_up"], session_id) for session_id in ids))
        self.client.reset()
        slowest_at_first_end: list[int] = []

        async def one(session_id: str) -> None:
            await self.prompt(params["prompt"], session_id)
            if not slowest_at_first_end:
                slowest_at_first_end.append(min(self.client.by_session.get(each, 0) for each in ids))

        usage = probe.Usage(self.pid)
        start = time.perf_counter()
        await asyncio.gather(*(one(session_id) for session_id in ids))
        seconds = time.perf_counter() - start
        total = params["sessions"] * params["count"]
        probe.expect(self.client.updates, total, "updates")
        fairness = slowest_at_first_end[0] / params["count"]
        return {"per_second": total / seconds, "fairness": fairness} | usage.per_item_us(total)

    async def cancel(self, params: dict[str, Any]) -> dict[str, float]:
        times: list[float] = []
        late: list[float] = []
        start = 0.0

        async def send_cancel() -> None:
            nonlocal start
            start = time.perf_counter()
            await self.connection.cancel(session_id=self.session_id)

        self.client.on_cancel = send_cancel
        self.client.cancel_after = params["after"]
        for number in range(params["warm_up"] + params["count"]):
            self.client.reset()
            await self.prompt(params["prompt"])
            if number >= params["warm_up"]:
                times.append((time.perf_counter() - start) * 1e3)
                late.append(float(self.client.updates - params["after"]))
        return probe.cancel_result(times, late)

    async def big(self, params: dict[str, Any]) -> dict[str, float]:
        await self.prompt(params["warm_up"])
        times = []
        for _ in range(params["count"]):
            self.client.reset()
            start = time.perf_counter()
            await self.prompt(params["prompt"])
            times.append(time.perf_counter() - start)
            probe.expect(self.client.characters, params["size"], "characters")
        return {
            "mib_per_second": params["size"] / probe.MIB / statistics.median(times),
            "client_peak_mib": probe.memory_mib(os.getpid(), "VmHWM"),
            "agent_peak_mib": probe.memory_mib(self.pid, "VmHWM"),
        }

    async def stuck(self, params: dict[str, Any]) -> dict[str, float]:
        client_idle, agent_idle = probe.memory_mib(os.getpid()), probe.memory_mib(self.pid)
        self.client.is_stuck = True
        prompt = asyncio.create_task(self.prompt(params["prompt"]))
        await asyncio.sleep(params["seconds"])
        result = {
            "client_growth_mib": probe.memory_mib(os.getpid()) - client_idle,
            "agent_growth_mib": probe.memory_mib(self.pid) - agent_idle,
            "started": float(self.client.updates),
        }
        prompt.cancel()
        return result


async def main() -> None:
    job = probe.read_job(sys.argv)
    # The SDK's own examples leave methods out, too: the protocol class answers for them.
    client = BenchClient()  # type: ignore[abstract]
    # Its spawn gives the child a trimmed environment and a stderr pipe that is not read; both are replaced here.
    transport: dict[str, Any] = {"stderr": None}
    if job.case == "big":
        transport["limit"] = BUFFER_BYTES
    async with spawn_agent_process(client, *job.agent_command, env=dict(os.environ), transport_kwargs=transport) as (
        connection,
        process,
    ):
        bench = Bench(connection, client, process.pid)
        await bench.open()
        probe.announce(bench.pid)
        cases = {
            "rtt": bench.rtt,
            "stream": bench.stream,
            "diffs": bench.stream,
            "read": bench.read,
            "sessions": bench.sessions,
            "cancel": bench.cancel,
            "big": bench.big,
            "stuck": bench.stuck,
        }
        probe.report(await cases[job.case](job.params))
        if job.case == "stuck":
            # A clean end would wait for handlers and for an agent that both never finish.
            process.kill()
            await process.wait()
            os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
