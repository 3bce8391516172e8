"""A client under test in front of a raw line on which the test plays the agent."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from dragoman.client import RemoteAgent, connect
from tests.rpc.fixtures import RawEnd
from tests.transports.ends import http_ends, memory_ends, unix_ends, websocket_ends

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from dragoman.client import Session

# The transport under every test of the client; `make soak` runs them over each.
LINK = os.environ.get("DRAGOMAN_CLIENT_LINK", "memory")
PAIRS = {"memory": memory_ends, "unix": unix_ends, "ws": websocket_ends, "http": http_ends}

by_one_stream = pytest.mark.skipif(
    LINK == "http", reason="over HTTP each session has a stream of its own, and one that was not opened has none"
)
in_memory_only = pytest.mark.skipif(
    LINK != "memory", reason="a socket cuts what is sent at once, buffers what is not read, and hides the end behind it"
)

EVERYTHING: dict[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
    "auth": {"logout": {}},
}


class AgentLine(RawEnd):
    """The agent's side: answers what the client asks, in the order the test gives."""

    async def expect(self, method: str) -> dict[str, Any]:
        message = await self.next()
        assert message.get("method") == method, message
        return message

    async def answer(self, method: str, result: object) -> dict[str, Any]:
        request = await self.expect(method)
        self.send(self.result(request["id"], result))
        return request

    async def refuse(self, method: str, code: int, message: str = "No") -> None:
        request = await self.expect(method)
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})

    def update(self, session_id: str, kind: str, **members: object) -> dict[str, Any]:
        return self.note("session/update", sessionId=session_id, update={"sessionUpdate": kind, **members})

    def chunk(self, session_id: str, text: str) -> dict[str, Any]:
        return self.update(session_id, "agent_message_chunk", content={"type": "text", "text": text})


@asynccontextmanager
async def client_and_agent(
    capabilities: dict[str, Any] | None = None,
    *,
    auth_methods: Sequence[object] = (),
    initialized: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[tuple[RemoteAgent, AgentLine]]:
    """A connected client and the line on which it believes to meet an agent."""
    async with PAIRS[LINK]() as (ours, opened):
        context = connect(ours, **options)
        entering = asyncio.ensure_future(context.__aenter__())
        theirs = await opened
        line = AgentLine(theirs)
        initialized = initialized or {
            "protocolVersion": 1,
            "agentCapabilities": EVERYTHING if capabilities is None else capabilities,
            "authMethods": list(auth_methods),
        }
        try:
            await line.answer("initialize", initialized)
            agent = await entering  # a test may expect that this fails: the other end is closed all the same
            try:
                yield agent, line
            finally:
                await context.__aexit__(None, None, None)
        finally:
            theirs.close()
            await theirs.wait_closed()


async def open_session(agent: RemoteAgent, line: AgentLine, session_id: str = "s1", **result: object) -> Session:
    opening = asyncio.ensure_future(agent.new_session("/tmp"))
    await line.answer("session/new", {"sessionId": session_id, **result})
    return await opening
