"""A client that takes a session over during a turn is shown everything once and in order."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman.builtin.viewer import Viewer
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from tests.builtin.fixtures import FakeTool, open_fixture


class SlowClient:
    """A client whose first update takes until `gate` is open."""

    cwd = "/w"
    roots = ("/w",)
    client = SimpleNamespace(is_connected=True, offers=lambda gate: False)

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.reached = asyncio.Event()
        self.texts: list[str] = []

    async def update(self, update: v1.SessionUpdate) -> None:
        self.reached.set()
        await self.gate.wait()
        if isinstance(update, (v1.AgentMessageChunk, v1.UserMessageChunk)):
            assert isinstance(update.content, v1.TextContent)
            self.texts.append(update.content.text)

    async def update_all(self, updates: Sequence[v1.SessionUpdate]) -> None:
        for update in updates:
            await self.update(update)


@pytest.mark.parametrize("repeats_history", [True, False])
async def test_updates_that_arrive_while_the_history_is_replayed_follow_it_once(
    tmp_path: Path, repeats_history: bool
) -> None:
    async with open_fixture(tmp_path) as fixture:
        await fixture.prompt("say long ago")
        release = asyncio.Event()
        fixture.add(FakeTool("wait", lambda arguments, context: release.wait()))
        turn = fixture.start("say before", "call wait", "say after")
        await fixture.until(c.ToolInputAvailable)
        client = SlowClient()
        viewer = Viewer(fixture.session, client)  # type: ignore[arg-type]  # a fake client
        fixture.session.viewer = viewer
        joining = asyncio.ensure_future(viewer.join(repeats_history=repeats_history))
        await client.reached.wait()
        release.set()
        await turn  # it does not wait for a client that is still shown the history
        client.gate.set()
        await joining
        await fixture.prompt("say next")
        past = ["say long ago", "long ago", "say before\ncall wait\nsay after"] if repeats_history else []
        assert client.texts == [*past, "before", "after", "next"]
