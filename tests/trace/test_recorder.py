"""Any client and any agent of the library can record, from either end of a connection."""

from __future__ import annotations

import asyncio
import io
import logging
from pathlib import Path

import pytest

from dragoman.client import RemoteAgent, connect
from dragoman.testing import scripted_agent
from dragoman.trace import End, Recorder, Trace, open_trace
from dragoman.transports.memory import memory_pair
from tests.trace.kit import frames


async def talk(agent: RemoteAgent) -> None:
    session = await agent.new_session("/tmp")
    await session.prompt("noise")
    await session.prompt("think")


async def recorded_at_both_ends(*, redact: bool = False) -> tuple[Trace, Trace]:
    client_file, agent_file = io.BytesIO(), io.BytesIO()
    ours, theirs = memory_pair()
    recorder = Recorder(agent_file, role="agent", redact=redact)
    serving = asyncio.create_task(scripted_agent().serve(theirs, observers=[recorder]))
    async with connect(ours, observers=[Recorder(client_file, redact=redact)]) as agent:
        await talk(agent)
    await serving
    client_file.seek(0)
    agent_file.seek(0)
    return open_trace(client_file), open_trace(agent_file)


async def test_both_ends_record_the_same_conversation() -> None:
    client, agent = await recorded_at_both_ends()
    for direction in ("c2a", "a2c"):
        sent = [(data, eol) for way, data, eol in frames(client) if way == direction]
        received = [(data, eol) for way, data, eol in frames(agent) if way == direction]
        # What is no message is written as it is; the receiver sees it without blank lines.
        assert [line for line in sent if line[0].startswith(b"{")] == [
            line for line in received if line[0].startswith(b"{")
        ]
        assert sent
    assert b"initialize" in frames(client)[0][1]
    assert frames(client)[0][0] == "c2a"


async def test_lines_that_are_not_messages_are_recorded_too() -> None:
    client, _ = await recorded_at_both_ends()
    assert ("a2c", b"Loading model weights...", b"\n") in frames(client)


async def test_the_end_of_the_connection_ends_the_recording() -> None:
    for trace in await recorded_at_both_ends():
        assert [type(entry) for entry in trace.entries[-2:]] == [End, End]
        assert trace.problems == ()


async def test_a_recorder_redacts_on_demand() -> None:
    for trace in await recorded_at_both_ends(redact=True):
        assert trace.header.redacted
        assert b"Thought" not in b"".join(data for _, data, _ in frames(trace))


async def test_a_full_disk_costs_the_recording_and_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    ours, theirs = memory_pair()
    serving = asyncio.create_task(scripted_agent().serve(theirs))
    with caplog.at_level(logging.WARNING, logger="dragoman.trace"):
        async with connect(ours, observers=[Recorder("/dev/full")]) as agent:
            await talk(agent)
    await serving
    assert [record.getMessage() for record in caplog.records if record.name == "dragoman.trace"] == [
        "recording to /dev/full stopped: No space left on device"
    ]


def test_a_recording_that_cannot_be_written_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Recorder(tmp_path / "missing" / "trace.jsonl")
    with pytest.raises(IsADirectoryError):
        Recorder(tmp_path)
