"""This library, client side: ``async for update in session.prompt(...)``, one loop body per update."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.peers import probe
from benchmarks.peers.dragoman.chunks import chunks
from benchmarks.peers.dragoman.coding import coding
from benchmarks.peers.dragoman.foreign import foreign
from benchmarks.peers.dragoman.long_sessions import long_sessions
from benchmarks.peers.dragoman.models import models
from benchmarks.peers.dragoman.once import once
from benchmarks.peers.raw.agent import LINE
from dragoman import Limits, RemoteAgent, Session, spawn
from dragoman.schema import v1


class Files:
    """The client's files: one constant text to read, and a sink that counts what is written."""

    def __init__(self) -> None:
        self.content = LINE * 16
        self.served = 0
        self.characters = 0

    async def read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> str:
        self.served += 1
        return self.content

    async def write_text_file(self, request: v1.WriteTextFileRequest, session: Session) -> None:
        self.characters += len(request.content)


class Counter:
    """The loop body: looks at every update and counts what it carried."""

    def __init__(self) -> None:
        self.updates = 0
        self.characters = 0

    def on_update(self, update: v1.SessionUpdate) -> None:
        if isinstance(update, v1.AgentMessageChunk):
            self.updates += 1
            if isinstance(update.content, v1.TextContent):
                self.characters += len(update.content.text)
        elif isinstance(update, v1.ToolCallUpdate) and update.content:
            self.updates += 1
            diff = update.content[0]
            if isinstance(diff, v1.Diff):
                self.characters += len(diff.new_text)


class Bench:
    """One connection, one session; the cases are its methods."""

    def __init__(self, agent: RemoteAgent, session: Session, files: Files, pid: int) -> None:
        self.agent = agent
        self.session = session
        self.files = files
        self.pid = pid

    async def turn(self, text: str, session: Session | None = None, counter: Counter | None = None) -> Counter:
        counter = counter or Counter()
        async for update in (session or self.session).prompt(text):
            counter.on_update(update)
        return counter

    async def rtt(self, params: dict[str, Any]) -> dict[str, float]:
        for _ in range(params["warm_up"]):
            await self.session.prompt("noop")
        times = []
        usage = probe.Usage(self.pid)
        for _ in range(params["count"]):
            start = time.perf_counter()
            await self.session.prompt("noop")
            times.append((time.perf_counter() - start) * 1e6)
        cpu = usage.per_item_us(len(times))
        return {"p50_us": statistics.median(times), "p99_us": probe.percentile(times, 0.99)} | cpu

    async def stream(self, params: dict[str, Any]) -> dict[str, float]:
        count = params["count"]
        await self.turn(params["warm_up"])
        usage = probe.Usage(self.pid)
        times: list[float] = []
        while not probe.is_enough(times):
            start = time.perf_counter()
            counter = await self.turn(params["prompt"])
            times.append(time.perf_counter() - start)
            probe.expect(counter.updates, count, "updates")
            probe.expect(counter.characters, count * params["characters"], "characters")
        return {"per_second": count / statistics.median(times)} | usage.per_item_us(count * len(times))

    async def read(self, params: dict[str, Any]) -> dict[str, float]:
        await self.session.prompt(params["warm_up"])
        self.files.served = 0
        usage = probe.Usage(self.pid)
        start = time.perf_counter()
        await self.session.prompt(params["prompt"])
        seconds = time.perf_counter() - start
        probe.expect(self.files.served, params["count"], "reads")
        return {"per_second": params["count"] / seconds} | usage.per_item_us(params["count"])

    async def sessions(self, params: dict[str, Any]) -> dict[str, float]:
        sessions = [await self.agent.new_session(cwd="/tmp") for _ in range(params["sessions"])]
        await asyncio.gather(*(self.turn(params["warm_up"], session) for session in sessions))
        counters = [Counter() for _ in sessions]
        slowest_at_first_end: list[int] = []

        async def one(session: Session, counter: Counter) -> None:
            await self.turn(params["prompt"], session, counter)
            if not slowest_at_first_end:
                slowest_at_first_end.append(min(each.updates for each in counters))

        usage = probe.Usage(self.pid)
        start = time.perf_counter()
        await asyncio.gather(*map(one, sessions, counters))
        seconds = time.perf_counter() - start
        total = params["sessions"] * params["count"]
        probe.expect(sum(each.updates for each in counters), total, "updates")
        fairness = slowest_at_first_end[0] / params["count"]
        return {"per_second": total / seconds, "fairness": fairness} | usage.per_item_us(total)

    async def cancel(self, params: dict[str, Any]) -> dict[str, float]:
        times, late = [], []
        start = 0.0
        for number in range(params["warm_up"] + params["count"]):
            counter = Counter()
            async for update in self.session.prompt(params["prompt"]):
                counter.on_update(update)
                if counter.updates == params["after"]:
                    start = time.perf_counter()
                    await self.session.cancel()
            if number >= params["warm_up"]:
                times.append((time.perf_counter() - start) * 1e3)
                late.append(float(counter.updates - params["after"]))
        return probe.cancel_result(times, late)

    async def cancel_task(self, params: dict[str, Any]) -> dict[str, float]:
        """Another task cancels, woken by the loop over updates: how many updates come before its turn, and after."""
        times, late, before = [], [], []
        for number in range(params["warm_up"] + params["count"]):
            counter = Counter()
            is_time = asyncio.Event()

            async def cancel(counter: Counter = counter, is_time: asyncio.Event = is_time) -> tuple[float, int]:
                await is_time.wait()
                await self.session.cancel()
                return time.perf_counter(), counter.updates

            cancelling = asyncio.create_task(cancel())
            async for update in self.session.prompt(params["prompt"]):
                counter.on_update(update)
                if counter.updates == params["after"]:
                    is_time.set()
            end = time.perf_counter()
            start, seen = await cancelling
            if number >= params["warm_up"]:
                times.append((end - start) * 1e3)
                late.append(float(counter.updates - seen))
                before.append(float(seen - params["after"]))
        return probe.cancel_result(times, late) | {"before": max(before)}

    async def big(self, params: dict[str, Any]) -> dict[str, float]:
        await self.session.prompt(params["warm_up"])
        times = []
        for _ in range(params["count"]):
            self.files.characters = 0
            start = time.perf_counter()
            await self.session.prompt(params["prompt"])
            times.append(time.perf_counter() - start)
            probe.expect(self.files.characters, params["size"], "characters")
        return {
            "mib_per_second": params["size"] / probe.MIB / statistics.median(times),
            "client_peak_mib": probe.memory_mib(os.getpid(), "VmHWM"),
            "agent_peak_mib": probe.memory_mib(self.pid, "VmHWM"),
        }

    async def stuck(self, params: dict[str, Any]) -> dict[str, float]:
        client_idle, agent_idle = probe.memory_mib(os.getpid()), probe.memory_mib(self.pid)
        counter = Counter()
        async with self.session.prompt(params["prompt"]) as turn:
            async for update in turn:
                counter.on_update(update)
                await asyncio.sleep(params["seconds"])
                break
            return {
                "client_growth_mib": probe.memory_mib(os.getpid()) - client_idle,
                "agent_growth_mib": probe.memory_mib(self.pid) - agent_idle,
                "started": float(counter.updates),
            }


async def main() -> None:
    job = probe.read_job(sys.argv)
    if job.case == "exec":
        probe.report(once(job.params))
        return
    if job.case == "coding":
        probe.report(await coding(job.params))
        return
    if job.case == "models":
        probe.report(await models(job.params))
        return
    if job.case == "foreign":
        probe.report(await foreign(job.params))
        return
    if job.case == "chunks":
        probe.report(chunks(job.params))
        return
    if job.case == "long":
        probe.report(await long_sessions(job.params))
        return
    files = Files()
    limits = Limits(message_bytes=128 * probe.MIB) if job.case == "big" else Limits()
    async with spawn(*job.agent_command, files=files, limits=limits) as agent:
        bench = Bench(agent, await agent.new_session(cwd="/tmp"), files, probe.child_pid(job.agent_command))
        probe.announce(bench.pid)
        cases: dict[str, Callable[[dict[str, Any]], Awaitable[dict[str, float]]]] = {
            "rtt": bench.rtt,
            "unpinned": bench.rtt,
            "stream": bench.stream,
            "diffs": bench.stream,
            "read": bench.read,
            "sessions": bench.sessions,
            "cancel": bench.cancel,
            "cancel_task": bench.cancel_task,
            "big": bench.big,
            "stuck": bench.stuck,
        }
        probe.report(await cases[job.case](job.params))


if __name__ == "__main__":
    asyncio.run(main())
