"""The programs in examples/ do what they show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.testing import ScriptedClient, linked
from examples import shout_agent
from tests.project.sources import ROOT

CLIENT = [sys.executable, "examples/client.py"]
SCRIPTED = ["--", sys.executable, "-m", "dragoman.testing.scripted_agent"]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )


def test_client_shows_the_conversation_and_that_the_agent_is_scripted() -> None:
    done = run(*CLIENT, "--yes", "Hello there", "think", "plan", "diff", "permission", *SCRIPTED)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, *lines = done.stdout.splitlines()
    assert "Scripted agent (no model)" in first
    for expected in ("> Hello there", "Hello there", "> plan", "[>] Read  [ ] Change  [ ] Test", "  + print('hello')"):
        assert expected in lines
    assert "  answered by --yes: Allow" in lines
    assert lines.count("(end_turn)") == 5


def test_client_without_a_terminal_answers_no() -> None:
    done = run(*CLIENT, "permission", *SCRIPTED)
    assert "  no terminal to ask on: no" in done.stdout.splitlines()
    assert "not allowed (None)" in done.stdout.splitlines()


@pytest.mark.parametrize("words", [[], ["hello"], ["--"]])
def test_client_explains_itself_when_it_has_no_agent(words: list[str]) -> None:
    done = run(*CLIENT, *words)
    assert done.returncode == 2
    assert "PROMPT... -- COMMAND..." in done.stderr.replace("[", "").replace("]", "")


def test_client_says_in_a_line_that_an_agent_cannot_be_started() -> None:
    done = run(*CLIENT, "hello", "--", "/nowhere/agent")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("client: error: ")
    assert "/nowhere/agent" in line


def test_client_survives_a_reader_that_goes_away() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [*CLIENT, "hello", *SCRIPTED], cwd=ROOT, stdout=write_end, stderr=subprocess.PIPE, check=False, timeout=60
        )
    finally:
        os.close(write_end)
    assert done.stderr == b""
    assert done.returncode == 141


@pytest.mark.rule(89)
async def test_shout_agent_writes_below_its_folder_after_permission(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    client = ScriptedClient()
    async with linked(shout_agent.agent, permission=client.permit) as agent:
        session = await agent.new_session(cwd=tmp_path)
        await session.prompt("shout notes.txt")
    [asked] = client.asked
    assert asked.tool_call.title == "Write notes.txt"
    assert (tmp_path / "notes.txt").read_text() == "HELLO\n"
    assert session.state.text == "notes.txt is loud now."
    assert [call.status for call in session.state.tool_calls.values()] == ["completed", "completed"]


async def test_shout_agent_leaves_the_file_alone_without_permission(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    async with linked(shout_agent.agent) as agent:
        session = await agent.new_session(cwd=tmp_path)
        await session.prompt("shout notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "hello\n"


@pytest.mark.rule(190)
async def test_shout_agent_prefers_the_files_of_the_client(tmp_path: Path) -> None:
    client = ScriptedClient()
    client.files.files[str(tmp_path / "draft.txt")] = "unsaved"
    async with linked(shout_agent.agent, **client.options()) as agent:
        session = await agent.new_session(cwd=tmp_path)
        await session.prompt("shout draft.txt")
    assert client.files.files[str(tmp_path / "draft.txt")] == "UNSAVED"
    assert not (tmp_path / "draft.txt").exists()


async def test_shout_agent_reports_what_went_wrong(tmp_path: Path) -> None:
    async with linked(shout_agent.agent) as agent:
        session = await agent.new_session(cwd=tmp_path)
        result = await session.prompt("shout missing.txt")
    assert result.stop_reason == "end_turn"
    assert session.state.text.startswith("That did not work: ")
