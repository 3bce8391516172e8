"""One session of three hundred turns: tools, jobs, subagents, undo, other models and modes, cancels and kills.

The agent is a real process, the provider speaks each wire form in turn and looks at every request: what a provider
would refuse is a failure. In the end the process must not have grown, and the store must have everything.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.context.window.summary import SYSTEM
from dragoman.client import RemoteAgent, Session, spawn
from dragoman.errors import ConnectionClosed
from dragoman.schema import v1
from tests.builtin.providers.server import WIRES, Answer, Asked, ProviderServer, refused, text_answer, use
from tests.builtin.providers.valid_requests import problems_of
from tests.builtin.test_kill import allow, pid_of
from tests.builtin.window.counting_model import GOOD_SUMMARY, words
from tests.builtin.window.test_wire_forms import counted, messages_of

TURNS = 300
KILLS = (120, 220)
WINDOW = 24_000
OF_THE_TURN = (v1.AgentMessageChunk, v1.AgentThoughtChunk, v1.ToolCall, v1.ToolCallUpdate)


class DayProvider:
    """Plays the answers laid out for a turn, and checks every request."""

    def __init__(self) -> None:
        self.plan: deque[Answer] = deque()
        self.problems: list[str] = []
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self.summaries = 0
        self.turn = 0

    def play(self, asked: Asked) -> Answer:
        found = problems_of(asked.body)
        self.problems += [f"turn {self.turn}, {asked.path}: {problem}" for problem in found]
        tokens = int(len(asked.data) / 3.3)
        if tokens > WINDOW:
            return refused(400, f"prompt is too long: {tokens} tokens > {WINDOW} maximum")
        if SYSTEM[:60].encode() in asked.data:
            self.summaries += 1
            return counted(text_answer(GOOD_SUMMARY), tokens)
        if b"You are the subagent" in asked.data:
            answer = text_answer("found it") if asked.question.results else Answer((use("read", path="a.txt"),))
            return counted(answer, tokens)
        self.bodies.append((f"{asked.path} {asked.question.model}", asked.body))
        return counted(self.plan.popleft() if self.plan else text_answer("done ", str(self.turn)), tokens)


def steps_of(kind: int, turn: int, dice: random.Random) -> list[Answer]:  # noqa: PLR0911 - a table
    """The answers of the model in one turn."""
    match kind:
        case 0:
            return [Answer((use("read", path="a.txt"), use("grep", pattern="word", path=".")))]
        case 1:
            return [
                Answer((use("write", path=f"f{turn % 7}.txt", text=f"{turn} {words(300)}"),)),
                Answer((use("read", path=f"f{turn % 7}.txt"),)),
            ]
        case 2:
            return [Answer((use("bash", command=f"seq {dice.randrange(400)}; echo end"),))]
        case 3:
            return [
                Answer((use("bash", command="sleep 1", background=True),)),
                Answer((use("bash_output", id="bg_1"), use("bash", command="true", background=True))),
                *(Answer((use("bash_stop", id=f"bg_{id}"),)) for id in range(1, 5)),
            ]
        case 4:
            return [Answer((use("task", description="look", prompt="look at it", agent="explore"),))]
        case 5:
            task = use("task", description="look", prompt="look at it", agent="explore", background=True)
            return [Answer((task,)), Answer((use("bash_output", id="task_1"),))]
        case 6:
            return [Answer((use("no_such_tool", x=1), use("read", path=["wrong"]), use("read", path="missing.txt")))]
        case 7:
            return [Answer((use("todo", items=[{"content": f"part {turn}", "status": "in_progress"}]),))]
        case _:
            return [text_answer(words(400))]


class Load:
    """What a process uses."""

    def __init__(self, pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        self.memory = int(fields["VmRSS"].split()[0])
        self.threads = int(fields["Threads"])
        self.files = len(os.listdir(f"/proc/{pid}/fd"))

    def __repr__(self) -> str:
        return f"{self.memory // 1024} MB, {self.threads} threads, {self.files} files"


@asynccontextmanager
async def agent_of(folder: Path, url: str) -> AsyncIterator[RemoteAgent]:
    store = str(folder / "s.db")
    model = WIRES["anthropic"].model
    command = [sys.executable, "-m", "dragoman", "agent", "--model", model, "--mode", "full", "--store", store]
    env = {"DRAGOMAN_HOME": str(folder / "home")}
    for wire in WIRES.values():
        env |= wire.variables(url)
    async with spawn(*command, cwd=folder / "p", env=env, permission=allow) as agent:
        yield agent


class Day:
    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.dice = random.Random(seed)
        self.provider = DayProvider()
        self.loads: list[Load] = []
        self.cuts: set[int] = set()
        """Numbers of requests from which on the beginning may differ: after an undo, a clear, another model."""
        self.calls: set[str] = set()
        self.prompts = 0

    async def run(self) -> Session:
        first, session_id = 1, ""
        with ProviderServer(play=self.provider.play) as server:
            for last in (*KILLS, TURNS):
                async with agent_of(self.folder, server.url) as agent:
                    session = await self._opened(agent, session_id)
                    session_id = session.id
                    with suppress(ConnectionClosed):
                        for turn in range(first, last + 1):
                            await self._turn(agent, session, turn, is_killed=turn in KILLS)
                            if turn % 25 == 0:
                                self.loads.append(Load(pid_of(agent)))
                    self.calls |= session.state.tool_calls.keys()
                first = last + 1
            async with agent_of(self.folder, server.url) as agent:
                loaded = await agent.load_session(session_id, self.folder / "p")
                await loaded.prompt("the last one")
            # A request that was cancelled, or whose program was killed, may end before its body.
            assert [each for each in server.failures if "line 1 column 1 (char 0)" not in each] == []
        return loaded

    async def _opened(self, agent: RemoteAgent, session_id: str) -> Session:
        if not session_id:
            return await agent.new_session(self.folder / "p")
        return await agent.load_session(session_id, self.folder / "p")

    async def _turn(self, agent: RemoteAgent, session: Session, turn: int, *, is_killed: bool) -> None:
        provider, dice = self.provider, self.dice
        provider.turn = turn
        provider.plan.clear()
        if turn % 40 == 0:
            self.cuts.add(len(provider.bodies))
            await session.set_config_option("model", dice.choice([wire.model for wire in WIRES.values()]))
        if turn % 33 == 0:
            await session.set_config_option("mode", dice.choice(["edit", "full", "plan", "ask"]))
        command = {17: "/context", 23: "/undo", 24: "/redo", 31: "/compact", 47: "/undo", 59: "/clear"}.get(turn % 61)
        if command is not None:
            self.cuts.add(len(provider.bodies))
            await self._prompt(session, command)
            self.cuts.add(len(provider.bodies))
            return
        provider.plan += steps_of(dice.randrange(9), turn, dice)
        stop = dice.randrange(1, 12) if dice.random() < 0.12 else 0
        if is_killed:
            stop = dice.randrange(1, 4)
            provider.plan.appendleft(Answer((use("bash", command="sleep 60"),)))
        await self._prompt(session, f"turn {turn}: {words(60)}", stop, agent if is_killed else None)
        if stop:
            self.cuts.add(len(provider.bodies))

    async def _prompt(self, session: Session, text: str, stop: int = 0, killed: RemoteAgent | None = None) -> None:
        """Send a prompt; after so many updates it is cancelled, or its agent is killed."""
        self.prompts += 1
        received = 0
        async with asyncio.timeout(60):
            prompt = session.prompt(text)
            async for update in prompt:
                # A change of mode or model may be shown before the prompt is in the store.
                received += isinstance(update, OF_THE_TURN)
                if received == stop and killed is not None:
                    os.kill(pid_of(killed), signal.SIGKILL)
                elif received == stop:
                    await session.cancel()
            await prompt


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_long_day(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.txt").write_text(words(900))
    day = Day(tmp_path, 1)
    loaded = asyncio.run(day.run())
    provider = day.provider
    assert provider.problems == []
    assert provider.summaries >= 5
    # The beginning changes where something was shortened or taken back, and nowhere else.
    breaks = [
        number + 1
        for number, ((form, before), (same, after)) in enumerate(pairwise(provider.bodies))
        if form == same and messages_of(after)[: len(messages_of(before))] != messages_of(before)
    ]
    unexplained = [number for number in breaks if number not in day.cuts]
    assert len(unexplained) <= provider.summaries, (unexplained, sorted(day.cuts))
    assert {call.status for call in loaded.state.tool_calls.values()} <= {"completed", "failed"}
    assert day.calls <= loaded.state.tool_calls.keys()
    assert len([message for message in loaded.state.messages if message.role == "user"]) == day.prompts + 1
    for begin, end in ((0, 3), (5, 7), (9, 11)):  # one process each
        assert day.loads[end].memory < day.loads[begin].memory + 60 * 1024, day.loads
        assert day.loads[end].threads <= day.loads[begin].threads + 8, day.loads
        assert day.loads[end].files <= day.loads[begin].files + 10, day.loads
    with sqlite3.connect(tmp_path / "s.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*) FROM live").fetchone() == (0,)
    db.close()
    size = sum(path.stat().st_size for path in tmp_path.glob("s.db*"))
    assert size < 60 * 1024 * 1024, size
