"""A client of version 2 on a raw line; every message of the agent is judged by the schema."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from dragoman.rpc import Transport
from tests.agent.fixtures import ClientLine
from tests.versions.oracle import Judge

SECONDS = 60.0
INFO = {"name": "test", "version": "1"}


class V2Line(ClientLine):
    """The client's side."""

    def __init__(self, transport: Transport) -> None:
        self.judge = Judge(2)
        self.updates: list[dict[str, Any]] = []
        super().__init__(transport)

    def send(self, *messages: object) -> None:
        for message in messages:
            if isinstance(message, dict):
                self.judge.see("client", json.loads(json.dumps(message)))
        super().send(*messages)
        self.judge.faults.clear()  # what a test sends may be wrong on purpose

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            message = await self.lines.get()
        self.judge.see("agent", message)
        assert self.judge.faults == [], (self.judge.faults, message)
        if message.get("method") == "session/update":
            self.updates.append(message["params"]["update"])
        return message

    async def answer(self, request_id: object) -> dict[str, Any]:
        """The answer to a request, whatever came before it."""
        while True:
            message = await self.next()
            if "method" not in message and message.get("id") == request_id:
                return message

    async def call(self, method: str, /, **params: object) -> Any:
        """The result of a request, whatever came before it."""
        answer = await self.answer(self.ask(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    async def refused(self, method: str, /, **params: object) -> int:
        """The code of the error that a request is answered with."""
        answer = await self.answer(self.ask(method, **params))
        code: int = answer["error"]["code"]
        return code

    async def greet(self, version: object = 2, **capabilities: object) -> Any:
        return await self.call("initialize", protocolVersion=version, info=INFO, capabilities=capabilities)

    async def session(self, cwd: str = "/tmp") -> str:
        result = await self.call("session/new", cwd=cwd)
        session_id: str = result["sessionId"]
        return session_id

    async def until_update(self, kind: str, **members: object) -> dict[str, Any]:
        """The next update of this kind with these members."""
        while True:
            message = await self.next()
            update: dict[str, Any] = message.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == kind and members.items() <= update.items():
                return update

    async def expect_request(self, method: str) -> dict[str, Any]:
        """The next request of the agent for this method."""
        while True:
            message = await self.next()
            if message.get("method") == method:
                return message

    def choose(self, asked: dict[str, Any], option: str) -> None:
        """Answer a permission request."""
        outcome = {"outcome": {"outcome": "selected", "optionId": option}}
        self.send({"jsonrpc": "2.0", "id": asked["id"], "result": outcome})

    async def until_idle(self) -> dict[str, Any]:
        return await self.until_update("state_update", state="idle")

    def states(self) -> list[str]:
        """The states that were reported so far."""
        return [update["state"] for update in self.updates if update["sessionUpdate"] == "state_update"]
