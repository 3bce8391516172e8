"""What long answers and long sessions cost with the built-in agent and the scripted model.

A session of 10,000 stored messages is loaded, resumed and prompted, and compared with one of 100; an answer streams in
20,000 pieces. The long session was cleared 100 messages before its end, so that the model is given as much of it as of
the short one: what is compared is the work for what is only stored.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers import probe
from dragoman import RemoteAgent, Session, spawn
from dragoman.builtin.context.history import CLEAR, COMMAND
from dragoman.schema import v1
from dragoman.store.ids import new_id
from dragoman.store.messages import message_to_row
from dragoman.store.sessions import SessionRow, Store
from dragoman.uistream.messages import StepStartPart, TextPart, ToolPart, UIMessage

_SHORT = 100


async def long_sessions(params: dict[str, Any]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DRAGOMAN_HOME"] = os.path.join(folder, "home")  # nothing of the user's is read or written
        store = Path(folder, "sessions.db")
        short, long = await _fill(store, folder, _SHORT), await _fill(store, folder, params["messages"])
        command = [sys.executable, "-m", "dragoman", "agent", "--model", "scripted", "--store", str(store)]
        result: dict[str, float] = {}
        async with spawn(*command, cwd=folder) as agent:
            result |= await _load(agent, long, folder, params["messages"], probe.child_pid(command))
        given = await _fill_given(store, folder, _SHORT), await _fill_given(store, folder, params["messages"])
        async with spawn(*command, cwd=folder) as agent:
            result |= await _given(agent, *given, folder, params["prompts"], probe.child_pid(command))
        async with spawn(*command, cwd=folder) as agent:
            pid = probe.child_pid(command)
            result |= await _prompts(agent, short, long, folder, params["prompts"], pid)
            session = await agent.new_session(cwd=folder)
            result |= await _deltas(session, params["deltas"], pid)
            result |= await _listed(agent, session, params["lists"])
        return result


async def _fill(path: Path, folder: str, messages: int) -> str:
    """Store a session and return its id. Its last 100 messages follow a `/clear`."""
    store = await Store.open(path)
    try:
        row = await store.create_session(SessionRow(new_id("ses"), "dragoman", folder, model="scripted", title="long"))
        rows = [message_to_row(_message(number, messages - _SHORT)) for number in range(messages)]
        await asyncio.gather(*(store.add_message(row.id, each) for each in rows))
        return row.id
    finally:
        await store.close()


async def _fill_given(path: Path, folder: str, messages: int) -> str:
    """Store a session and return its id. Its messages are so short that the model is given all of them."""
    store = await Store.open(path)
    try:
        row = await store.create_session(SessionRow(new_id("ses"), "dragoman", folder, model="scripted", title="given"))
        for number in range(messages):
            role, text = ("user", "Go on.") if number % 2 == 0 else ("assistant", "Done.")
            message = UIMessage(new_id("msg"), role, [TextPart(text)])  # type: ignore[arg-type]  # one of the two
            await store.add_message(row.id, message_to_row(message))
        return row.id
    finally:
        await store.close()


def _message(number: int, clear_at: int) -> UIMessage:
    if number % 2 == 0:
        metadata = {COMMAND: {"name": CLEAR}} if number == clear_at else {}
        return UIMessage(new_id("msg"), "user", [TextPart("Please look at the next file. " * 4)], metadata)
    output = {"text": "a line of the file\n" * 20}
    call = ToolPart(f"call{number}", "read", "output-available", {"path": "/w/file"}, output, title="Read file")
    return UIMessage(
        new_id("msg"), "assistant", [StepStartPart(), call, StepStartPart(), TextPart("It says so. " * 20)]
    )


async def _load(agent: RemoteAgent, session_id: str, folder: str, messages: int, pid: int) -> dict[str, float]:
    """CPU time of agent and client, and how much the agent's memory grew at its highest."""
    await agent.list_sessions()  # opens the store
    memory, own, theirs = probe.memory_mib(pid), probe.cpu_seconds(os.getpid()), probe.cpu_seconds(pid)
    session = await agent.load_session(session_id, folder)
    seconds = probe.cpu_seconds(os.getpid()) - own + probe.cpu_seconds(pid) - theirs
    probe.expect(len(session.state.messages), messages, "messages")
    return {"load_seconds": seconds, "load_mib": probe.memory_mib(pid, "VmHWM") - memory}


async def _given(agent: RemoteAgent, short: str, long: str, folder: str, prompts: int, pid: int) -> dict[str, float]:
    """CPU of the agent for the first prompt after a session was loaded, and for a next one: long over short."""
    await (await agent.new_session(cwd=folder)).prompt("say hello")  # loads the agent's modules
    firsts, nexts = [], []
    for session_id in (short, long):
        session = await agent.load_session(session_id, folder)
        seconds = []
        for _ in range(prompts + 1):
            before = probe.cpu_seconds(pid)
            await session.prompt("say one two three")
            seconds.append(probe.cpu_seconds(pid) - before)
        firsts.append(seconds[0])
        nexts.append(statistics.median(seconds[1:]))
    return {"given_first_ratio": firsts[1] / firsts[0], "given_ratio": nexts[1] / nexts[0]}


async def _prompts(agent: RemoteAgent, short: str, long: str, folder: str, prompts: int, pid: int) -> dict[str, float]:
    short_session = await agent.resume_session(short, folder)  # the first session loads the agent's modules
    start = time.perf_counter()
    sessions = (short_session, await agent.resume_session(long, folder))
    resume_ms = (time.perf_counter() - start) * 1e3
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(prompts + 1):
        for session, seconds in zip(sessions, times, strict=True):
            before = probe.cpu_seconds(pid)
            await session.prompt("say one two three")
            if number:  # the first one reads the past, and loads what the others use
                seconds.append(probe.cpu_seconds(pid) - before)
    at_short, at_long = map(statistics.median, times)
    return {"resume_ms": resume_ms, "prompt_ms": at_long * 1e3, "prompt_ratio": at_long / at_short}


async def _deltas(session: Session, deltas: int, pid: int) -> dict[str, float]:
    """CPU time of agent and client for an answer in so many pieces."""
    own, theirs = probe.cpu_seconds(os.getpid()), probe.cpu_seconds(pid)
    characters = 0
    async for update in session.prompt(f"flood {deltas}"):
        if isinstance(update, v1.AgentMessageChunk) and isinstance(update.content, v1.TextContent):
            characters += len(update.content.text)
    seconds = probe.cpu_seconds(os.getpid()) - own + probe.cpu_seconds(pid) - theirs
    probe.expect(characters, sum(len(str(number)) + 1 for number in range(1, deltas + 1)), "characters")
    return {"deltas_seconds": seconds}


async def _listed(agent: RemoteAgent, session: Session, lists: int) -> dict[str, float]:
    """How long `session/list` takes while a model streams as fast as it can."""
    times = []
    async with session.prompt("flood 10000000") as turn:
        await anext(turn)
        for _ in range(lists):
            start = time.perf_counter()
            await agent.list_sessions()
            times.append((time.perf_counter() - start) * 1e3)
        await turn.cancel()
    return {"list_ms": probe.percentile(times, 0.9), "list_max_ms": max(times)}
