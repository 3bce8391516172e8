"""Recordings as tests: helpers and the pytest fixture pass what is as recorded, and fail what is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.agent import Agent, Turn
from dragoman.client import RemoteAgent
from dragoman.testing import NotAsRecorded, drive_as_recorded, linked, replayed, scripted_agent
from dragoman.trace import Recorder, Replay

COMMAND = [sys.executable, "-m", "dragoman.testing.scripted_agent"]


async def talk(agent: RemoteAgent, text: str = "think") -> str:
    session = await agent.new_session("/tmp")
    await session.prompt(text)
    return session.state.text


async def record(path: Path) -> Path:
    async with linked(scripted_agent(), observers=[Recorder(path)]) as agent:
        await talk(agent)
    return path


async def test_client_code_runs_against_the_recorded_agent(tmp_path: Path) -> None:
    recording = await record(tmp_path / "think.jsonl")
    async with replayed(recording) as agent:
        assert await talk(agent) == "Thought about it."


async def test_client_code_that_does_something_else_fails(tmp_path: Path) -> None:
    recording = await record(tmp_path / "think.jsonl")
    with pytest.raises(NotAsRecorded, match='recorded "think", came "think again"') as caught:
        async with replayed(recording) as agent:
            await talk(agent, "think again")
    assert [difference.path for difference in caught.value.differences] == ["params.prompt[0].text"]
    async with replayed(recording, ignore=["session/prompt params.prompt*"]) as agent:
        await talk(agent, "think again")


async def test_a_failure_of_the_test_itself_is_not_hidden(tmp_path: Path) -> None:
    recording = await record(tmp_path / "think.jsonl")
    with pytest.raises(ZeroDivisionError):
        async with replayed(recording):
            _ = 1 / 0


@pytest.mark.parametrize("agent", [scripted_agent(), COMMAND], ids=["agent", "command"])
async def test_an_agent_that_behaves_as_recorded_passes(agent: Agent | list[str], tmp_path: Path) -> None:
    await drive_as_recorded(await record(tmp_path / "think.jsonl"), agent)


async def test_an_agent_that_behaves_otherwise_fails(tmp_path: Path) -> None:
    agent = Agent("other", version="1")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say("I never think.")

    recording = Replay(await record(tmp_path / "think.jsonl"), patience_seconds=0.1)
    with pytest.raises(NotAsRecorded, match="missing: notification session/update"):
        await drive_as_recorded(recording, agent)


TEST = """
import asyncio
import subprocess

import dragoman
from dragoman.testing import scripted_agent


async def talk(agent):
    session = await agent.new_session("/tmp")
    await session.prompt("{prompt}")


def test_client(recordings):
    async def main():
        async with recordings.replayed("think") as agent:
            await talk(agent)
    asyncio.run(main())


def test_agent(recordings):
    asyncio.run(recordings.drive("think.jsonl", scripted_agent()))


def test_program(recordings):
    async def main():
        async with dragoman.spawn(*recordings.command("think")) as agent:
            await talk(agent)
    asyncio.run(main())


def test_program_that_is_never_started(recordings):
    recordings.command("think")
"""


def run_pytest(folder: Path) -> list[str]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-W",
            "error",
            "-rA",
            "--tb=short",
            str(folder),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=folder,
    )
    return sorted(
        line.split(" - ")[0].replace("test_sample.py::", "")
        for line in done.stdout.splitlines()
        if line.startswith(("PASSED", "FAILED", "ERROR"))
    )


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("think", ["PASSED test_agent", "PASSED test_client", "PASSED test_program"]),
        ("ponder", ["ERROR test_program", "FAILED test_client", "PASSED test_agent", "PASSED test_program"]),
    ],
)
async def test_the_fixture_passes_what_is_as_recorded_and_fails_what_is_not(
    prompt: str, expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "recordings").mkdir()
    await record(tmp_path / "recordings" / "think.jsonl")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["dragoman.testing.pytest_plugin"]\n')
    (tmp_path / "test_sample.py").write_text(TEST.replace("{prompt}", prompt))
    never = ["ERROR test_program_that_is_never_started", "PASSED test_program_that_is_never_started"]
    assert run_pytest(tmp_path) == sorted([*expected, *never])
