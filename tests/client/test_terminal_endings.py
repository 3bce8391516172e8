"""Nothing of an agent's commands survives its session."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.errors import RequestError
from tests.client.terminal_kit import SLEEP, TerminalAgent, Words, using
from tests.process.kit import STUBBORN, open_fds, python, settled_fds, survivors

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


async def start_three(agent_side: TerminalAgent, words: Words) -> list[str]:
    """A patient command, one that ignores TERM and one with a daemon; gives their markers."""
    ids = [
        await agent_side.create("sh", SLEEP),
        await agent_side.create(STUBBORN[0], list(STUBBORN[1:])),
        await agent_side.create(python(DAEMON)[0], python(DAEMON)[1:]),
    ]
    for terminal_id, said in zip(ids, (b"begun", b"ready", b"daemon"), strict=True):
        await words.saw(terminal_id, said)
    markers = [agent_side.marker(terminal_id) for terminal_id in ids]
    assert len(survivors(markers)) >= 4
    return markers


@pytest.mark.parametrize("how", ["session/close", "the client closes", "the agent is gone", "an exception"])
async def test_nothing_survives_the_session(how: str, tmp_path: Path) -> None:
    words = Words()
    before = settled_fds()
    markers: list[str] = []
    try:
        async with using(tmp_path, on_output=words) as agent_side:
            markers = await start_three(agent_side, words)
            if how == "session/close":
                closing = asyncio.ensure_future(agent_side.agent.close_session("s1"))
                await agent_side.line.answer("session/close", {})
                await closing
                assert agent_side.terminals._owned == {}
            elif how == "the client closes":
                await agent_side.agent.close()
            elif how == "the agent is gone":
                agent_side.line.transport.close()
                await agent_side.agent.wait_closed()
            else:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert survivors(markers) == []
    assert open_fds() == before


async def test_the_terminals_of_other_sessions_go_on(tmp_path: Path) -> None:
    words = Words()
    async with using(tmp_path, on_output=words) as agent_side:
        await agent_side.open("s2")
        kept = await agent_side.create("sh", SLEEP, sessionId="s2")
        lost = await agent_side.create("sh", SLEEP)
        await words.saw(kept, b"begun")
        marker = agent_side.marker(lost)
        closing = asyncio.ensure_future(agent_side.agent.close_session("s1"))
        await agent_side.line.answer("session/close", {})
        await closing
        assert (await agent_side.ask("output", kept, sessionId="s2")).get("exitStatus") is None
        kept_marker = agent_side.marker(kept)
    assert survivors([marker, kept_marker]) == []


async def test_a_session_that_could_not_be_loaded_leaves_nothing_either(tmp_path: Path) -> None:
    async with using(tmp_path) as agent_side:
        loading = asyncio.ensure_future(agent_side.agent.resume_session("s2", tmp_path))
        resume = await agent_side.line.expect("session/resume")
        marker = agent_side.marker(await agent_side.create("sh", SLEEP, sessionId="s2"))
        agent_side.line.send({"jsonrpc": "2.0", "id": resume["id"], "error": {"code": -32603, "message": "No"}})
        with pytest.raises(RequestError):
            await loading
    assert survivors([marker]) == []


async def test_a_cancelled_turn_leaves_terminals_to_the_agent(tmp_path: Path) -> None:
    async with using(tmp_path) as agent_side:
        terminal_id = await agent_side.create("sh", SLEEP)
        session = agent_side.agent._connection.links["s1"].session
        turn = asyncio.ensure_future(session.prompt("go"))
        prompt = await agent_side.line.expect("session/prompt")
        waiting = agent_side.send("wait_for_exit", terminal_id)
        await session.cancel()
        await agent_side.line.expect("session/cancel")
        agent_side.line.send(agent_side.line.result(prompt["id"], {"stopReason": "cancelled"}))
        assert (await turn).stop_reason == "cancelled"
        assert "exitStatus" not in await agent_side.ask("output", terminal_id)
        assert agent_side.send("kill", terminal_id) > waiting
        assert {(await agent_side.line.next())["id"] for _ in range(2)} == {waiting, waiting + 2}


async def test_closing_the_service_ends_the_terminals_of_every_session(tmp_path: Path) -> None:
    words = Words()
    async with using(tmp_path, on_output=words) as agent_side:
        markers = await start_three(agent_side, words)
        await agent_side.terminals.close()
        assert survivors(markers) == []
