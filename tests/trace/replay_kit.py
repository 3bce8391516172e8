"""Conversations to record, and both ways to play them again."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest

from dragoman.agent import Agent
from dragoman.client import RemoteAgent, connect
from dragoman.errors import ConnectionClosed, RequestError
from dragoman.rpc import Transport
from dragoman.testing import KEYWORDS, ScriptedClient
from dragoman.trace import Difference, Recorder, Replay, Trace, open_trace
from dragoman.transports.memory import memory_pair

Conversation = Callable[[RemoteAgent], Awaitable[None]]
SECONDS = 30.0


HELLO = ('> {"id":1,"method":"initialize","params":{}}', '< {"id":1,"result":{"protocolVersion":1}}')


# Everything the scripted agent can do that ends by itself and says the same twice.
SCENES = sorted(KEYWORDS.keys() - {"crash", "slow", "late", "print", "big"})


def prompts(*texts: str) -> Any:
    async def conversation(agent: RemoteAgent) -> None:
        session = await agent.new_session("/project")
        for text in texts:
            await session.prompt(text)

    return conversation


def kinds_of(differences: Sequence[Difference]) -> list[tuple[str, str, str]]:
    return [(each.what, each.method, each.path) for each in differences]


async def everything(agent: RemoteAgent) -> None:
    session = await agent.new_session("/tmp")
    for text in SCENES:
        with pytest.raises(RequestError) if text in ("error", "exception") else nullcontext():
            await session.prompt(text)
    await session.set_mode("code")
    await session.set_config_option("verbose", True)
    assert [info.session_id async for info in agent.sessions()] == [session.id]
    assert await agent.request("_scripted/echo", {"n": 1}) == {"n": 1}
    await agent.notify("_scripted/poke", {"n": 2})
    other = await agent.new_session("/other")
    await asyncio.gather(session.prompt("say one two three"), other.prompt("think"))
    async with session.prompt("slow") as turn:
        async for _ in turn:
            break
    await other.close()
    await agent.load_session(other.id, "/other")


async def record(agent: Agent, conversation: Conversation) -> Trace:
    """What the agent and a scripted client say to each other."""
    file = io.BytesIO()
    await perform(agent.serve, conversation, Recorder(file))
    file.seek(0)
    return open_trace(file)


async def perform(
    serve: Callable[[Transport], Awaitable[Any]], conversation: Conversation, *observers: Recorder, **changed: Any
) -> Any:
    """The conversation, with whatever serves the other end; returns what that returned.

    `changed` replaces options of the scripted client.
    """
    ours, theirs = memory_pair()
    client = ScriptedClient(form={"name": "Ada"})
    serving = asyncio.ensure_future(serve(theirs))
    try:
        options = client.options()
        options["observers"] = observers
        options.update(changed)  # type: ignore[typeddict-item]  # of the test
        async with connect(ours, **options) as agent:
            await conversation(agent)
    finally:
        await client.close()
        async with asyncio.timeout(SECONDS):
            served = await serving
    return served


async def replay_agent(trace: Trace, conversation: Conversation, **options: Any) -> list[Difference]:
    """The conversation with the recorded agent."""
    found: list[Difference] = await perform(Replay(trace, **options).serve, conversation)
    return found


async def replay_client(trace: Trace, agent: Agent, **options: Any) -> list[Difference]:
    """The recorded client talks to an agent."""
    ours, theirs = memory_pair()
    serving = asyncio.ensure_future(agent.serve(theirs))
    try:
        async with asyncio.timeout(SECONDS):
            return await Replay(trace, **options).drive(ours)
    finally:
        await serving


class Wire:
    """One end of a connection on which a test sends and receives single lines."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.lines: list[bytes] = []
        self.has_ended = False
        self._rest = b""
        self._news = asyncio.Event()
        transport.start(self)

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.lines += lines
        self._news.set()

    def end(self, reason: ConnectionClosed) -> None:
        self.has_ended = True
        self._news.set()

    def drained(self) -> None:
        pass

    def send(self, **message: Any) -> None:
        self.transport.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def receive(self) -> Any:
        """Wait for the next line and return it, decoded if it is a message."""
        async with asyncio.timeout(SECONDS):
            while not self.lines:
                assert not self.has_ended, "the connection ended"
                self._news.clear()
                await self._news.wait()
        line = self.lines.pop(0)
        return json.loads(line) if line.startswith(b"{") else line

    async def wait_end(self) -> None:
        async with asyncio.timeout(SECONDS):
            while not self.has_ended:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def fake_agent(trace: Trace | Replay, **options: Any) -> AsyncIterator[tuple[Wire, list[Difference]]]:
    """A recorded agent to be talked to by hand; its differences are there when the block is left."""
    ours, theirs = memory_pair()
    differences: list[Difference] = []
    replay = trace if isinstance(trace, Replay) else Replay(trace, **options)
    serving = asyncio.create_task(replay.serve(theirs))
    try:
        yield Wire(ours), differences
    finally:
        ours.close()
        async with asyncio.timeout(SECONDS):
            differences += await serving


@asynccontextmanager
async def fake_client(trace: Trace, **options: Any) -> AsyncIterator[tuple[Wire, asyncio.Task[list[Difference]]]]:
    """A recorded client to be talked to by hand."""
    ours, theirs = memory_pair()
    driving = asyncio.create_task(Replay(trace, **options).drive(theirs))
    try:
        yield Wire(ours), driving
    finally:
        ours.close()
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({driving})


def script(*lines: str | tuple[float, str]) -> Trace:
    """A recording from lines like `> {"id":1,"method":"initialize"}`; `<` is a line of the agent, `!` its exit code.

    Times count up by a second a line, unless given.
    """
    rows = []
    for number, line in enumerate(lines):
        t, text = line if isinstance(line, tuple) else (float(number), line)
        mark, _, body = text.partition(" ")
        if mark == "!":
            rows.append({"t": t, "exit": {"code": int(body)}})
        else:
            row: dict[str, Any] = {"t": t, "dir": {">": "c2a", "<": "a2c"}[mark]}
            if body.startswith("{"):
                row["msg"] = {"jsonrpc": "2.0", **json.loads(body)}
            else:
                row["raw"] = body
            rows.append(row)
    return open_trace(io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode()))
