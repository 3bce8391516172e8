"""What the built-in agent costs with a provider's model: the first request, each step, each word of an answer.

The provider is a process of its own on the loopback interface (``benchmarks/provider.py``), so that its work is not
counted. CPU time is that of the agent, for the words also that of this client.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers import ROOT, probe
from dragoman import RemoteAgent, Session, spawn
from dragoman.schema import v1

AGENT = [sys.executable, "-m", "dragoman", "agent", "--model", "anthropic:claude-sonnet-5-5"]
_FILE = "file.txt"


async def models(params: dict[str, Any]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, _provider() as provider:
        _prepare(folder, _line(provider))
        firsts = [await _first(provider, folder) for _ in range(params["spawns"])]
        result = {name: statistics.median(each[name] for each in firsts) for name in firsts[0]}
        async with spawn(*AGENT, cwd=folder) as agent:
            pid = probe.child_pid(AGENT)
            result |= await _words(await agent.new_session(cwd=folder), pid, params["words"])
            result |= await _steps(agent, await agent.new_session(cwd=folder), pid, params)
        return result


def _prepare(folder: str, port: str) -> None:
    Path(folder, _FILE).write_text("a line of text\n")
    os.environ["DRAGOMAN_HOME"] = os.path.join(folder, "home")  # nothing of the user's is read or written
    os.environ |= {"ANTHROPIC_API_KEY": "a-key", "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}"}


@contextmanager
def _provider() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.provider"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _line(provider: subprocess.Popen[str]) -> str:
    assert provider.stdout is not None
    return provider.stdout.readline().strip()


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process with the threads that have ended: an import may run in one. In steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _first(provider: subprocess.Popen[str], folder: str) -> dict[str, float]:
    """From the start of the agent until its first request is there, and from the answer until the first word is."""
    async with spawn(*AGENT, cwd=folder) as agent:
        pid = probe.child_pid(AGENT)
        session = await agent.new_session(cwd=folder)
        turn = session.prompt("@@hold 3@@")
        words = aiter(turn)
        arrival = asyncio.ensure_future(_word(words))
        await asyncio.to_thread(_line, provider)
        request_seconds, request_mib = _cpu_seconds(pid), probe.memory_mib(pid)
        assert provider.stdin is not None
        provider.stdin.write("\n")
        provider.stdin.flush()
        await arrival
        chunk_seconds = _cpu_seconds(pid) - request_seconds
        async for _ in words:
            pass
        return {"request_ms": request_seconds * 1e3, "request_mib": request_mib, "chunk_ms": chunk_seconds * 1e3}


async def _word(updates: Any) -> None:
    async for update in updates:
        if isinstance(update, v1.AgentMessageChunk):
            return


async def _words(session: Session, pid: int, count: int) -> dict[str, float]:
    await session.prompt("@@words 10@@")
    agent, own = probe.cpu_seconds(pid), time.process_time()
    characters = 0
    async for update in session.prompt(f"@@words {count}@@"):
        if isinstance(update, v1.AgentMessageChunk) and isinstance(update.content, v1.TextContent):
            characters += len(update.content.text)
    seconds = probe.cpu_seconds(pid) - agent + time.process_time() - own
    probe.expect(characters, sum(len(f"word {number} ") for number in range(count)), "characters")
    return {"words_seconds": seconds}


async def _steps(agent: RemoteAgent, session: Session, pid: int, params: dict[str, Any]) -> dict[str, float]:
    """A turn of some steps behind a long conversation, while the client asks for the list of sessions."""
    for _ in range(params["messages"] // 2):
        await session.prompt("@@words 1@@ " + "and some more words " * 20)
    steps = params["steps"]
    before = probe.cpu_seconds(pid)
    await session.prompt(f"@@steps {steps}@@")
    step_ms = (probe.cpu_seconds(pid) - before) * 1e3 / (steps + 1)
    turn = asyncio.ensure_future(_ended(session, f"@@steps {steps}@@"))
    waits = []
    while not turn.done():
        began = time.perf_counter()
        await agent.list_sessions()
        waits.append((time.perf_counter() - began) * 1e3)
        await asyncio.sleep(0)
    await turn
    return {"step_ms": step_ms, "list_ms": statistics.median(waits), "list_max_ms": max(waits)}


async def _ended(session: Session, prompt: str) -> None:
    await session.prompt(prompt)
