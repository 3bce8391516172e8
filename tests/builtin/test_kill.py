"""The agent is killed in the middle of a turn, again and again, and nothing a client saw is lost."""

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from dragoman.client import RemoteAgent, Session, spawn
from dragoman.errors import ConnectionClosed
from dragoman.schema import v1

UPDATES = 50  # of a turn
TURN = "think about it\nsay here it comes\nread a.txt\nflood 30\nrun sleep 60"


@asynccontextmanager
async def agent_at(folder: Path, **options: object) -> AsyncIterator[RemoteAgent]:
    command = [sys.executable, "-m", "dragoman", "agent", "--model", "scripted", "--store", str(folder / "s.db")]
    env = {"DRAGOMAN_HOME": str(folder / "home")}
    async with spawn(*command, cwd=folder, env=env, **options) as agent:  # type: ignore[arg-type]
        yield agent


def pid_of(agent: RemoteAgent) -> int:
    return agent._connection.peer._transport.pid  # type: ignore[attr-defined, no-any-return]


async def allow(request: v1.RequestPermissionRequest, session: Session) -> str:
    return request.options[0].option_id


def texts_of(session: Session) -> dict[str, str]:
    """Every text and thought by the id of its message."""
    spoken = (message for message in session.state.messages if message.role != "user")
    return {f"{message.role} {message.message_id}": message.text for message in spoken}


async def kill_after(folder: Path, count: int, session_id: str | None) -> Session:
    """Run a turn and kill the agent when the client has received so many updates, or when the command runs."""
    async with agent_at(folder, permission=allow) as agent:
        opening = agent.new_session(folder) if session_id is None else agent.resume_session(session_id, folder)
        session = await opening
        with suppress(ConnectionClosed):
            received = 0
            async for update in session.prompt(TURN):
                # The commands are sent after the session is open, possibly before the prompt has arrived.
                received += not isinstance(update, v1.AvailableCommandsUpdate)
                if received == count or is_running(session):
                    os.kill(pid_of(agent), signal.SIGKILL)
        assert session.lost_by is not None
    return session


def is_running(session: Session) -> bool:
    calls = session.state.tool_calls.values()
    return any(call.kind == "execute" and call.status == "in_progress" for call in calls)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kills", [8, pytest.param(UPDATES, marks=pytest.mark.soak)])
def test_what_a_client_saw_survives_every_kill_and_open_calls_are_closed(tmp_path: Path, kills: int) -> None:
    asyncio.run(kill_and_look(tmp_path, kills))


async def kill_and_look(tmp_path: Path, kills: int) -> None:
    (tmp_path / "a.txt").write_text("content\n")
    session_id: str | None = None
    received: dict[str, str] = {}
    called: set[str] = set()
    for number in range(kills):
        killed = await asyncio.wait_for(kill_after(tmp_path, 1 + number * UPDATES // kills, session_id), 20)
        session_id = killed.id
        received |= texts_of(killed)
        called |= killed.state.tool_calls.keys()
    assert session_id is not None
    async with agent_at(tmp_path) as agent:
        loaded = await agent.load_session(session_id, tmp_path)
        assert called <= loaded.state.tool_calls.keys()
        assert all(call.status in ("completed", "failed") for call in loaded.state.tool_calls.values())
        assert len([message for message in loaded.state.messages if message.role == "user"]) == kills
        # A kill may come between a commit and its update to the client: more may be stored than was received.
        kept = texts_of(loaded)
        lost = {id: text for id, text in received.items() if not kept.get(id, "").startswith(text)}
        assert lost == {}
        assert len(received) > kills
        ends = [text for text in kept.values() if "The turn failed: the agent ended before the turn was over" in text]
        assert len(ends) == kills
    with sqlite3.connect(tmp_path / "s.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*) FROM live").fetchone() == (0,)
    db.close()
