"""The smallest agent on the official Python SDK, made like its own examples: a subclass of `acp.Agent`."""

import asyncio
from typing import Any
from uuid import uuid4

import acp
from acp import schema as s


class EchoAgent(acp.Agent):
    """Answers with the text of the prompt. What it does not override, the SDK answers."""

    def on_connect(self, conn: acp.Client) -> None:
        self.client = conn

    # Shorter signatures and missing methods, as in the SDK's own example: it calls by keyword and fills in the rest.

    async def initialize(  # type: ignore[override]
        self, protocol_version: int, **_: Any
    ) -> s.InitializeResponse:
        return s.InitializeResponse(protocol_version=protocol_version)

    async def new_session(  # type: ignore[override]
        self, cwd: str, **_: Any
    ) -> s.NewSessionResponse:
        return s.NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> s.PromptResponse:
        for block in prompt:
            text = getattr(block, "text", "")
            await self.client.session_update(session_id=session_id, update=acp.update_agent_message_text(text))
        return s.PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    asyncio.run(acp.run_agent(EchoAgent()))  # type: ignore[abstract]
