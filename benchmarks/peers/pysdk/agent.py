"""The official Python SDK, agent side, written the way its own examples are."""

from __future__ import annotations

import asyncio
from typing import Any

from acp import PROTOCOL_VERSION, Agent, run_agent, start_tool_call, update_agent_message_text, update_tool_call
from acp.helpers import tool_diff_content
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    ClientCapabilities,
    Implementation,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    TextContentBlock,
)

LINE = "the quick brown fox jumps over the lazy dog and runs on; again" + " \n"


class BenchAgent(Agent):
    _client: Client

    def __init__(self) -> None:
        self._sessions = 0
        self._cancelled: set[str] = set()

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **kwargs: Any,
    ) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(),
            agent_info=Implementation(name="pysdk", version="1"),
        )

    async def new_session(self, cwd: str, *args: Any, **kwargs: Any) -> NewSessionResponse:
        self._sessions += 1
        return NewSessionResponse(session_id=f"session-{self._sessions}")

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        self._cancelled.add(session_id)

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> PromptResponse:
        block = prompt[0]
        words = block.text.split() if isinstance(block, TextContentBlock) else ["noop"]
        numbers = [int(word) for word in words[1:]]
        match words[0]:
            case "stream":
                await self._stream(session_id, *numbers)
            case "tools":
                await self._tools(session_id, *numbers)
            case "read":
                await self._read(session_id, *numbers)
            case "write":
                content = LINE * (numbers[0] // len(LINE))
                await self._client.write_text_file(session_id=session_id, path="/tmp/file.py", content=content)
            case "forever":
                await self._forever(session_id, *numbers)
                return PromptResponse(stop_reason="cancelled")
        return PromptResponse(stop_reason="end_turn")

    async def _stream(self, session_id: str, count: int, size: int) -> None:
        text = (LINE * (size // len(LINE) + 1))[:size]
        for _ in range(count):
            await self._client.session_update(session_id, update_agent_message_text(text))

    async def _tools(self, session_id: str, count: int, per_call: int) -> None:
        old = LINE * 32
        new = LINE * 32
        send = self._client.session_update
        for number in range(count // per_call):
            tool_call_id = f"call-{number}"
            await send(session_id, start_tool_call(tool_call_id, "Edit file", kind="edit", status="pending"))
            await send(session_id, update_tool_call(tool_call_id, status="in_progress"))
            for _ in range(per_call):
                content = [tool_diff_content("/tmp/file.py", new, old)]
                await send(session_id, update_tool_call(tool_call_id, content=content))
            await send(session_id, update_tool_call(tool_call_id, status="completed"))

    async def _read(self, session_id: str, count: int) -> None:
        total = 0
        for _ in range(count):
            answer = await self._client.read_text_file(session_id=session_id, path="/tmp/file.py")
            total += len(answer.content)

    async def _forever(self, session_id: str, size: int) -> None:
        text = (LINE * (size // len(LINE) + 1))[:size]
        self._cancelled.discard(session_id)
        while session_id not in self._cancelled:
            await self._client.session_update(session_id, update_agent_message_text(text))


if __name__ == "__main__":
    # The SDK's own examples leave methods out, too: the protocol class answers for them.
    asyncio.run(run_agent(BenchAgent()))  # type: ignore[abstract]
