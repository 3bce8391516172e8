"""An agent that uses terminals, and what stands around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.client import RemoteAgent, Session
from dragoman.client.terminals import LocalTerminals
from tests.client.fixtures import AgentLine, client_and_agent
from tests.process.kit import SECONDS

SLEEP = ["-c", "echo begun; exec sleep 1000"]


class TerminalAgent:
    """The agent's side of the line; sends terminal requests."""

    def __init__(self, agent: RemoteAgent, line: AgentLine, terminals: LocalTerminals, cwd: Path) -> None:
        self.agent = agent
        self.line = line
        self.terminals = terminals
        self.session_id = "s1"
        self.cwd = str(cwd)
        self._asked = 0

    async def open(self, session_id: str) -> Session:
        opening = asyncio.ensure_future(self.agent.new_session(self.cwd))
        await self.line.answer("session/new", {"sessionId": session_id})
        return await opening

    def send(self, verb: str, terminal_id: str | None = None, **params: object) -> int:
        self._asked += 1
        params = {"sessionId": self.session_id, **params}
        if terminal_id is not None:
            params["terminalId"] = terminal_id
        self.line.send(self.line.request(self._asked, f"terminal/{verb}", **params))
        return self._asked

    async def answer(self, request_id: int) -> dict[str, Any]:
        message = await self.line.next()
        assert message.get("id") == request_id, message
        return message

    async def ask(self, verb: str, terminal_id: str | None = None, **params: object) -> Any:
        message = await self.answer(self.send(verb, terminal_id, **params))
        assert "result" in message, message
        return message["result"]

    async def refused(self, verb: str, terminal_id: str | None = None, **params: object) -> dict[str, Any]:
        message = await self.answer(self.send(verb, terminal_id, **params))
        assert "error" in message, message
        error: dict[str, Any] = message["error"]
        return error

    async def create(self, command: str = "sh", args: list[str] | None = None, **params: object) -> str:
        if args is not None:
            params["args"] = args
        terminal_id: str = (await self.ask("create", None, command=command, **params))["terminalId"]
        return terminal_id

    async def printed(self, command: str, args: list[str] | None = None, **params: object) -> str:
        """All that a command printed."""
        terminal_id = await self.create(command, args, **params)
        await self.ask("wait_for_exit", terminal_id)
        output: str = (await self.ask("output", terminal_id))["output"]
        return output

    def pid(self, terminal_id: str) -> int:
        return self.terminals._owned[terminal_id].terminal.pid

    def marker(self, terminal_id: str) -> str:
        return self.terminals._owned[terminal_id].terminal.marker


class Words:
    """Waits for output as a user interface sees it."""

    def __init__(self) -> None:
        self.seen: dict[str, bytes] = {}
        self.sessions: set[str] = set()
        self._changed = asyncio.Event()

    def __call__(self, terminal_id: str, session: Session, data: bytes) -> None:
        self.seen[terminal_id] = self.seen.get(terminal_id, b"") + data
        self.sessions.add(session.id)
        self._changed.set()

    async def saw(self, terminal_id: str, words: bytes) -> None:
        async with asyncio.timeout(SECONDS):
            while words not in self.seen.get(terminal_id, b""):
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def using(cwd: Path, **options: Any) -> AsyncIterator[TerminalAgent]:
    """A session with real terminals. When it is left, nothing of them may be left, and no descriptor."""
    terminals = LocalTerminals(**{"permissions": None, **options})
    async with client_and_agent(terminals=terminals) as (agent, line):
        agent_side = TerminalAgent(agent, line, terminals, cwd)
        await agent_side.open("s1")
        yield agent_side
