"""Who joins a session while the agent speaks hears everything once and in order."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.builtin.viewer import Viewer
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from tests.builtin.fixtures import Prop, staged


class SlowClient:
    """A client whose first update takes until `gate` is open."""

    cwd = "/w"

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.reached = asyncio.Event()
        self.heard: list[str] = []

    async def update(self, update: v1.SessionUpdate) -> None:
        self.reached.set()
        await self.gate.wait()
        if isinstance(update, (v1.AgentMessageChunk, v1.UserMessageChunk)):
            assert isinstance(update.content, v1.TextContent)
            self.heard.append(update.content.text)


@pytest.mark.parametrize("repeats_history", [True, False])
async def test_what_is_said_while_the_past_is_told_comes_after_it_and_once(
    tmp_path: Path, repeats_history: bool
) -> None:
    async with staged(tmp_path) as stage:
        await stage.prompt("say long ago")
        release = asyncio.Event()
        stage.add(Prop("wait", lambda arguments, context: release.wait()))
        turn = stage.start("say before", "call wait", "say after")
        await stage.until(c.ToolInputAvailable)
        client = SlowClient()
        desk: Any = SimpleNamespace(host=stage.host, tools={})
        seat = Viewer(desk, client)  # type: ignore[arg-type]
        joining = asyncio.ensure_future(seat.join(repeats_history=repeats_history))
        await client.reached.wait()
        release.set()
        await turn  # it does not wait for who is still being told of the past
        client.gate.set()
        await joining
        await stage.prompt("say next")
        past = ["say long ago", "long ago", "say before\ncall wait\nsay after"] if repeats_history else []
        assert client.heard == [*past, "before", "after", "next"]
