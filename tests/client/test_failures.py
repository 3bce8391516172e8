"""A bug in an agent shows its cause: the traceback on the agent's stderr, its end in the client's error."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import dragoman
from dragoman.testing import linked, scripted_agent

AGENT = """
import sys
import dragoman

agent = dragoman.Agent("buggy")
sys.stderr.write("a line from before\\n")

@agent.prompt
async def reply(turn: dragoman.Turn) -> None:
    if turn.text == "refuse":
        raise dragoman.RequestError.invalid_params("no such thing")
    await turn.say("working")
    raise ValueError("the secret cause")

@agent.list_sessions
async def sessions(request, context):
    return {}[1]

agent.run()
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    program = tmp_path / "buggy.py"
    program.write_text(AGENT)
    return [sys.executable, str(program)]


async def test_an_exception_in_a_handler_reaches_the_client_with_its_traceback(command: list[str]) -> None:
    async with dragoman.spawn(*command) as agent:
        session = await agent.new_session(cwd="/")
        with pytest.raises(dragoman.RequestError) as caught:
            await session.prompt("hello")
    error = caught.value
    assert error.code == -32603
    assert error.data is None  # nothing of it is sent in the protocol
    assert error.message == "Internal error"
    assert "Traceback (most recent call last)" in error.stderr_tail
    assert "in reply" in error.stderr_tail
    assert str(error) == "Internal error (-32603); the agent's last words on stderr: ValueError: the secret cause"


async def test_the_same_holds_for_other_requests_and_for_iterating(command: list[str]) -> None:
    async with dragoman.spawn(*command) as agent:
        with pytest.raises(dragoman.RequestError, match="last words on stderr: KeyError: 1"):
            await agent.list_sessions()
        session = await agent.new_session(cwd="/")
        with pytest.raises(dragoman.RequestError, match="the secret cause"):
            async for _ in session.prompt("hello"):
                pass


async def test_an_error_that_the_agent_chose_to_send_needs_no_explanation(command: list[str]) -> None:
    async with dragoman.spawn(*command) as agent:
        session = await agent.new_session(cwd="/")
        with pytest.raises(dragoman.RequestError) as caught:
            await session.prompt("refuse")
    assert str(caught.value) == "no such thing (-32602)"
    assert caught.value.stderr_tail == ""


async def test_an_agent_without_a_process_has_no_last_words() -> None:
    async with linked(scripted_agent()) as agent:
        session = await agent.new_session(cwd="/")
        with pytest.raises(dragoman.RequestError) as caught:
            await session.prompt("exception")
    assert caught.value.stderr_tail == ""
    assert str(caught.value) == "Internal error (-32603)"


def command_line(pid: int | None) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_the_process_of_a_spawned_agent_is_known(command: list[str]) -> None:
    async with dragoman.spawn(*command) as agent:
        assert b"buggy.py" in command_line(agent.pid)
    async with linked(scripted_agent()) as agent:
        assert agent.pid is None
