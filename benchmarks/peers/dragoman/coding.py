"""What the built-in agent costs with the scripted model: its start, its memory, its first word, a thousand tool calls.

Its start is measured against that of the scripted agent, which has the same library under it and no coding agent.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers import probe
from benchmarks.peers.raw.client import RawAgent
from dragoman import Session, spawn
from dragoman.schema import v1

SCRIPTED_AGENT = [sys.executable, "-m", "dragoman.testing.scripted_agent"]
BUILT_IN_AGENT = [sys.executable, "-m", "dragoman", "agent", "--model", "scripted"]


async def coding(params: dict[str, Any]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        _prepare(folder, params["calls"])
        result = _starts(params["spawns"])
        async with spawn(*BUILT_IN_AGENT, cwd=folder) as agent:
            session = await agent.new_session(cwd=folder)
            result |= await _first_words(session, params["prompts"])
            result |= await _tool_calls(session, params["calls"], params["parallel"])
        return result


def _prepare(folder: str, files: int) -> None:
    os.environ["DRAGOMAN_HOME"] = os.path.join(folder, "home")  # nothing of the user's is read or written
    for number in range(files):
        Path(folder, _file(number)).write_text("a line of text\n" * 50)


def _file(number: int) -> str:
    return f"file-{number}.txt"


def _starts(spawns: int) -> dict[str, float]:
    """The two agents take turns, so that noise of the machine hits both."""
    bare, ours, memory = [], [], []
    for _ in range(spawns):
        bare.append(_start(SCRIPTED_AGENT)[0])
        milliseconds, mebibytes = _start(BUILT_IN_AGENT)
        ours.append(milliseconds)
        memory.append(mebibytes)
    ratios = [one / other for one, other in zip(ours, bare, strict=True)]
    return {
        "over": statistics.median(ratios),
        "ms": statistics.median(ours),
        "scripted_ms": statistics.median(bare),
        "rss_mib": statistics.median(memory),
    }


def _start(command: list[str]) -> tuple[float, float]:
    """Milliseconds from spawn to the answer of initialize, and the resident memory then."""
    start = time.perf_counter()
    agent = RawAgent(command)
    agent.initialize()
    milliseconds = (time.perf_counter() - start) * 1e3
    memory = probe.memory_mib(agent.pid)
    agent.close()
    return milliseconds, memory


async def _first_words(session: Session, prompts: int) -> dict[str, float]:
    """From the prompt to the first word of the answer: stored, asked, committed, shown. The session's first one loads
    what the others use, and is left out."""
    times = []
    for number in range(prompts + 1):
        start = time.perf_counter()
        milliseconds = 0.0
        async for update in session.prompt("say one two three"):
            if isinstance(update, v1.AgentMessageChunk) and not milliseconds:
                milliseconds = (time.perf_counter() - start) * 1e3
        if number:
            times.append(milliseconds)
    return {"first_ms": statistics.median(times), "first_max_ms": max(times)}


async def _tool_calls(session: Session, calls: int, parallel: int) -> dict[str, float]:
    """One turn that reads so many files, some of the calls side by side, as models do it. A turn that repeats one call
    is ended by the agent."""
    lines = [f"{'& ' if number % parallel else ''}read {_file(number)}" for number in range(calls)]
    pid = probe.child_pid(BUILT_IN_AGENT)
    usage = probe.Usage(pid)
    start = time.perf_counter()
    done = 0
    async for update in session.prompt("\n".join(lines)):
        done += isinstance(update, v1.ToolCallUpdate) and update.status == "completed"
    seconds = time.perf_counter() - start
    probe.expect(done, calls, "tool calls")
    return {"calls_seconds": seconds, "peak_mib": probe.memory_mib(pid, "VmHWM")} | usage.per_item_us(calls)
