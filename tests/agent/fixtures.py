"""An agent under test in front of a raw line on which the test plays the client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from dragoman.transports.fd import FdTransport
from dragoman.transports.memory import memory_pair
from tests.rpc.fixtures import RawEnd
from tests.transports.remote_kit import over_network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.agent import Agent
    from dragoman.rpc import Transport

Link: TypeAlias = "Callable[[Agent], AbstractAsyncContextManager[Transport]]"

# A client that can do everything the stable protocol knows.
EVERYTHING: dict[str, Any] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
    "elicitation": {"form": {}, "url": {}},
}
NOTHING: dict[str, Any] = {}


def in_memory(agent: Agent) -> AbstractAsyncContextManager[Transport]:
    return _between(agent, *memory_pair())


def by_pipes(agent: Agent) -> AbstractAsyncContextManager[Transport]:
    there, back = os.pipe(), os.pipe()
    return _between(agent, FdTransport(there[0], back[1]), FdTransport(back[0], there[1]))


def by_websocket(agent: Agent) -> AbstractAsyncContextManager[Transport]:
    return over_network(agent, "ws")


def by_http(agent: Agent) -> AbstractAsyncContextManager[Transport]:
    return over_network(agent, "http")


@asynccontextmanager
async def _between(agent: Agent, ours: Transport, theirs: Transport) -> AsyncIterator[Transport]:
    serving = asyncio.create_task(agent.serve(ours))
    try:
        yield theirs
    finally:
        theirs.close()
        await theirs.wait_closed()
        async with asyncio.timeout(60):
            await serving


class ClientLine(RawEnd):
    """The client's side: what it sends, and everything that came before an answer."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._last_id = 0

    def ask(self, method: str, /, **params: object) -> int:
        """Sends a request and returns its id."""
        self._last_id += 1
        self.send(self.request(self._last_id, method, **params))
        return self._last_id

    def notify(self, method: str, /, **params: object) -> None:
        self.send(self.note(method, **params))

    async def answer_to(self, request_id: object) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The answer to a request, and what came before it. Another answer in between fails the test."""
        before: list[dict[str, Any]] = []
        while True:
            message = await self.next()
            if "method" not in message:
                assert message.get("id") == request_id, message
                return before, message
            before.append(message)

    async def result(self, method: str, /, **params: object) -> Any:  # type: ignore[override]
        """The result of a request that nothing precedes."""
        before, answer = await self.answer_to(self.ask(method, **params))
        assert before == [], before
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, method: str, /, **params: object) -> dict[str, Any]:
        """The error a request is answered with, nothing before it."""
        before, answer = await self.answer_to(self.ask(method, **params))
        assert before == []
        assert "error" in answer, answer
        error: dict[str, Any] = answer["error"]
        return error

    async def open(self, cwd: str = "/work", **params: object) -> str:
        """A new session."""
        result = await self.result("session/new", cwd=cwd, mcpServers=[], **params)
        session_id: str = result["sessionId"]
        return session_id

    def prompt(self, session_id: str, text: str = "hi") -> int:
        """Sends a prompt and returns its id."""
        return self.ask("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": text}])

    async def turn(self, session_id: str, text: str = "hi") -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """A whole turn: the updates that came, and the answer."""
        before, answer = await self.answer_to(self.prompt(session_id, text))
        return [updated(message) for message in before], answer

    async def expect(self, method: str) -> dict[str, Any]:
        """The next message, which must be this request or notification of the agent."""
        message = await self.next()
        assert message.get("method") == method, message
        return message

    async def answer_next(self, method: str, result: object) -> dict[str, Any]:
        """Answers the agent's next request; returns its params."""
        message = await self.expect(method)
        self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        params: dict[str, Any] = message["params"]
        return params

    async def refuse(self, method: str, code: int, text: str = "No") -> None:
        message = await self.expect(method)
        self.send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}})

    async def silence(self) -> None:
        """Nothing was sent: the next message is the answer to a request that is made now."""
        assert (await self.error("_nobody/serves"))["code"] == -32601


def updated(message: dict[str, Any]) -> dict[str, Any]:
    """The update inside a session/update."""
    assert message.get("method") == "session/update", message
    assert "id" not in message
    update: dict[str, Any] = message["params"]["update"]
    return update


def texts(updates: list[dict[str, Any]], kind: str = "agent_message_chunk") -> list[str]:
    return [update["content"]["text"] for update in updates if update["sessionUpdate"] == kind]


@asynccontextmanager
async def raw(agent: Agent, link: Link = in_memory) -> AsyncIterator[ClientLine]:
    """A connection on which nothing was said yet. Leaving hangs up, and waits for the agent to notice."""
    async with link(agent) as transport:
        yield ClientLine(transport)


@asynccontextmanager
async def connected(
    agent: Agent, link: Link = in_memory, capabilities: dict[str, Any] | None = None
) -> AsyncIterator[ClientLine]:
    """A connection after `initialize`."""
    async with raw(agent, link) as line:
        await line.result(
            "initialize",
            protocolVersion=1,
            clientCapabilities=NOTHING if capabilities is None else capabilities,
            clientInfo={"name": "test", "version": "1"},
        )
        yield line


async def reached(event: asyncio.Event) -> None:
    """Waits for something inside a handler to have happened."""
    async with asyncio.timeout(60):
        await event.wait()
