"""Nothing of an agent's commands survives its session."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.errors import RequestError
from tests.client.terminal_kit import SLEEP, Desk, Words, using
from tests.process.kit import STUBBORN, open_fds, python, survivors

DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(1, b"daemon\\n")
        time.sleep(1000)
    os._exit(0)
os.wait()
time.sleep(1000)
"""


async def start_three(desk: Desk, words: Words) -> list[str]:
    """A patient command, one that ignores TERM and one with a daemon; gives their markers."""
    ids = [
        await desk.create("sh", SLEEP),
        await desk.create(STUBBORN[0], list(STUBBORN[1:])),
        await desk.create(python(DAEMON)[0], python(DAEMON)[1:]),
    ]
    for terminal_id, said in zip(ids, (b"begun", b"ready", b"daemon"), strict=True):
        await words.saw(terminal_id, said)
    markers = [desk.marker(terminal_id) for terminal_id in ids]
    assert len(survivors(markers)) >= 4
    return markers


@pytest.mark.parametrize("how", ["session/close", "the client closes", "the agent is gone", "an exception"])
async def test_nothing_survives_the_session(how: str, tmp_path: Path) -> None:
    words = Words()
    before = open_fds()
    markers: list[str] = []
    try:
        async with using(tmp_path, on_output=words) as desk:
            markers = await start_three(desk, words)
            if how == "session/close":
                closing = asyncio.ensure_future(desk.agent.close_session("s1"))
                await desk.line.answer("session/close", {})
                await closing
                assert desk.terminals._owned == {}
            elif how == "the client closes":
                await desk.agent.close()
            elif how == "the agent is gone":
                desk.line.transport.close()
                await desk.agent.wait_closed()
            else:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert survivors(markers) == []
    assert open_fds() == before


async def test_the_terminals_of_other_sessions_go_on(tmp_path: Path) -> None:
    words = Words()
    async with using(tmp_path, on_output=words) as desk:
        await desk.open("s2")
        kept = await desk.create("sh", SLEEP, sessionId="s2")
        lost = await desk.create("sh", SLEEP)
        await words.saw(kept, b"begun")
        marker = desk.marker(lost)
        closing = asyncio.ensure_future(desk.agent.close_session("s1"))
        await desk.line.answer("session/close", {})
        await closing
        assert (await desk.ask("output", kept, sessionId="s2")).get("exitStatus") is None
        kept_marker = desk.marker(kept)
    assert survivors([marker, kept_marker]) == []


async def test_a_session_that_could_not_be_loaded_leaves_nothing_either(tmp_path: Path) -> None:
    async with using(tmp_path) as desk:
        loading = asyncio.ensure_future(desk.agent.resume_session("s2", tmp_path))
        resume = await desk.line.expect("session/resume")
        marker = desk.marker(await desk.create("sh", SLEEP, sessionId="s2"))
        desk.line.send({"jsonrpc": "2.0", "id": resume["id"], "error": {"code": -32603, "message": "No"}})
        with pytest.raises(RequestError):
            await loading
    assert survivors([marker]) == []


async def test_a_cancelled_turn_leaves_terminals_to_the_agent(tmp_path: Path) -> None:
    async with using(tmp_path) as desk:
        terminal_id = await desk.create("sh", SLEEP)
        session = desk.agent._connection.links["s1"].session
        turn = asyncio.ensure_future(session.prompt("go"))
        prompt = await desk.line.expect("session/prompt")
        waiting = desk.send("wait_for_exit", terminal_id)
        await session.cancel()
        await desk.line.expect("session/cancel")
        desk.line.send(desk.line.result(prompt["id"], {"stopReason": "cancelled"}))
        assert (await turn).stop_reason == "cancelled"
        assert "exitStatus" not in await desk.ask("output", terminal_id)
        assert desk.send("kill", terminal_id) > waiting
        assert {(await desk.line.next())["id"] for _ in range(2)} == {waiting, waiting + 2}


async def test_closing_the_service_ends_the_terminals_of_every_session(tmp_path: Path) -> None:
    words = Words()
    async with using(tmp_path, on_output=words) as desk:
        markers = await start_three(desk, words)
        await desk.terminals.close()
        assert survivors(markers) == []
