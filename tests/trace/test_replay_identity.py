"""A recording replayed against itself has no difference, on either side, however odd the recording is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.agent import Agent, Turn
from dragoman.errors import RequestError
from dragoman.trace import Difference, Replay, Trace, open_trace
from dragoman.transports.memory import memory_pair
from tests.conformance.recording_mutants import MUTANTS, RecordingMutant, mutated
from tests.conformance.recording_tape import HEADER, conforming
from tests.trace.kit import RECORDINGS
from tests.trace.replay_kit import HELLO, replay_client, script

SECONDS = 30.0
# Recordings in which something is missing, came twice, or is not a message.
ODD = [
    mutant
    for mutant in MUTANTS
    if mutant.rule in (1, 6, 7, 10, 19, 20, 22, 23, 24, 25, 33, 34, 116, 196, 201, 204, 331)
]


async def differences(trace: Trace) -> list[Difference]:
    """What both sides find when they play one recording to each other."""
    ours, theirs = memory_pair()
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        agent = group.create_task(Replay(trace).serve(theirs))
        client = group.create_task(Replay(trace).drive(ours))
    return [*agent.result(), *client.result()]


async def test_conforming_recording_is_its_own_replay() -> None:
    assert await differences(Trace(HEADER, conforming().entries)) == []


@pytest.mark.parametrize("mutant", ODD, ids=lambda mutant: f"{mutant.side}: {mutant.name}")
async def test_odd_recording_is_its_own_replay_each_time(mutant: RecordingMutant) -> None:
    for _ in range(3):
        assert await differences(Trace(HEADER, mutated(mutant))) == []


@pytest.mark.skipif(not RECORDINGS, reason="no recordings of real agents next to the project")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
async def test_recording_of_a_real_agent_is_its_own_replay(path: Path) -> None:
    assert await differences(open_trace(path)) == []


async def test_agent_that_waits_for_an_answer_that_was_never_recorded_does_not_wait_for_long() -> None:
    """The recorded client left the request open, and the recorded agent went on; this one does not."""
    agent = Agent("waiting", version="1")
    answers: list[str] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        try:
            await turn.read_file("/a")
        except RequestError as error:
            answers.append(error.message)

    trace = script(
        '> {"id":1,"method":"initialize","params":'
        '{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true}}}}',
        HELLO[1],
        '> {"id":2,"method":"session/new","params":{"cwd":"/p","mcpServers":[]}}',
        '< {"id":2,"result":{"sessionId":"s"}}',
        '> {"id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}',
        '< {"id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/a"}}',
        '< {"id":3,"result":{"stopReason":"end_turn"}}',
    )
    ignore = ("initialize *", "session/new *", "fs/read_text_file *")
    found = await replay_client(trace, agent, patience_seconds=0.3, ignore=ignore)
    assert answers == ["the recording has no answer to this fs/read_text_file"]
    assert found == []
