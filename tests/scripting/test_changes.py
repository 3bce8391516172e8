"""`session.changes()` and `session.rewind()` of the library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import dragoman
from dragoman import Agent, Turn
from dragoman.client import Session, WorkspaceFiles
from dragoman.client.services import ChangedPath
from dragoman.errors import LocalProtocolError


@asynccontextmanager
async def connected(agent: Agent, folder: Path, *, follows: bool = True) -> AsyncIterator[Session]:
    """A session with an agent in this process, whose changes are followed."""
    ours, theirs = dragoman.memory_pair()
    serving = asyncio.ensure_future(agent.serve(theirs))
    changes = dragoman.follow_changes(base=str(folder.parent / "store"), agent="x") if follows else None
    files = WorkspaceFiles(permissions=None)
    try:
        async with dragoman.connect(ours, changes=changes, files=files) as remote:
            yield await remote.new_session(cwd=folder)
    finally:
        await serving


def shown(changes: list[ChangedPath]) -> list[tuple[str, str, str]]:
    return [(change.kind, change.path, change.by) for change in changes]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    (place / "a.txt").write_text("one\n")
    return place


async def test_a_turn_shows_its_changes_and_is_taken_back(folder: Path) -> None:
    agent = Agent("changing")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        (folder / "a.txt").write_text(f"{turn.text}\n")
        await turn.write_file(folder / "through.txt", "through the client\n")
        await turn.say("done")

    async with connected(agent, folder) as session:
        with pytest.raises(LocalProtocolError, match="had no turn"):
            await session.changes()
        await session.prompt("first")
        assert shown([*await session.changes()]) == [
            ("modified", "a.txt", "turn"),
            ("created", "through.txt", "agent"),
        ]
        async for _ in session.prompt("second"):
            pass
        assert shown([*await session.changes()]) == [("modified", "a.txt", "turn")]
        rewound = await session.rewind()
        assert (rewound.changed, (folder / "a.txt").read_text()) == (("a.txt",), "first\n")
        await session.rewind()
        assert (folder / "a.txt").read_text() == "one\n"
        assert not (folder / "through.txt").exists()
        with pytest.raises(LocalProtocolError, match="0 turns"):
            await session.rewind()


async def test_changes_and_rewind_wait_for_the_end_of_the_turn(folder: Path) -> None:
    agent = Agent("waiting")
    going = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say("begun")
        await going.wait()

    async with connected(agent, folder) as session:
        turn = session.prompt("x")
        await anext(turn)
        with pytest.raises(LocalProtocolError, match="a turn runs"):
            await session.changes()
        with pytest.raises(LocalProtocolError, match="a turn runs"):
            await session.rewind()
        going.set()
        await turn
        assert [*await session.changes()] == []


async def test_a_session_that_is_not_followed_says_how(folder: Path) -> None:
    agent = Agent("plain")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say("x")

    async with connected(agent, folder, follows=False) as session:
        await session.prompt("x")
        with pytest.raises(LocalProtocolError, match="follow_changes"):
            await session.changes()


async def test_a_prompt_that_is_cancelled_while_the_folder_is_looked_at_is_never_sent(folder: Path) -> None:
    agent = Agent("never")
    prompts: list[str] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        prompts.append(turn.text)

    for number in range(300):
        (folder / f"{number}.txt").write_text("x")
    async with connected(agent, folder) as session:
        turn = session.prompt("first")
        waiting = asyncio.ensure_future(turn.__aenter__())
        await asyncio.sleep(0)
        await turn.cancel()
        assert await waiting is turn
        assert turn.result.stop_reason == "cancelled"
        await session.prompt("second")
        assert prompts == ["second"]
