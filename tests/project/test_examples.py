"""The programs in examples/ do what they show."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.agent.handlers import Handlers
from dragoman.testing import ScriptedClient, linked
from examples import shout_agent
from tests.project.sources import ROOT
from tests.warm_programs import our_programs

CLIENT = str(ROOT / "examples" / "client.py")
SCRIPTED = ["--", sys.executable, "-m", "dragoman.testing.scripted_agent"]


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )


def test_client_shows_the_conversation_and_that_the_agent_is_scripted() -> None:
    done = run(
        *our_programs().command(CLIENT, "--yes", "Hello there", "think", "plan", "diff", "permission", *SCRIPTED)
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, *lines = done.stdout.splitlines()
    assert "Scripted agent (no model)" in first
    for expected in ("> Hello there", "Hello there", "> plan", "[>] Read  [ ] Change  [ ] Test", "  + print('hello')"):
        assert expected in lines
    assert "  answered by --yes: Allow" in lines
    assert lines.count("(end_turn)") == 5


def test_client_works_in_the_current_folder_as_its_page_says(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    agent = str(ROOT / "examples" / "shout_agent.py")
    done = run(*our_programs().command(CLIENT, "--yes", "shout notes.txt", "--", sys.executable, agent), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "notes.txt").read_text() == "HELLO\n"


def test_client_takes_an_agent_by_its_name(tmp_path: Path) -> None:
    done = run(*our_programs().command(CLIENT, "Hello there", "--", "scripted"), cwd=tmp_path)
    assert "Hello there" in done.stdout.splitlines(), done.stderr


def test_client_without_a_terminal_answers_no() -> None:
    done = run(*our_programs().command(CLIENT, "permission", *SCRIPTED))
    assert "  no terminal to ask on: no" in done.stdout.splitlines()
    assert "not allowed (None)" in done.stdout.splitlines()


@pytest.mark.parametrize("words", [[], ["hello"], ["--"]])
def test_client_explains_itself_when_it_has_no_agent(words: list[str]) -> None:
    done = run(*our_programs().command(CLIENT, *words))
    assert done.returncode == 2
    assert "PROMPT... -- AGENT" in done.stderr.replace("[", "").replace("]", "")


def test_client_says_in_a_line_that_an_agent_cannot_be_started() -> None:
    done = run(*our_programs().command(CLIENT, "hello", "--", "/nowhere/agent"))
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("client: error: ")
    assert "/nowhere/agent" in line


def test_client_survives_a_reader_that_goes_away() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, CLIENT, "hello", *SCRIPTED],
            cwd=ROOT,
            stdout=write_end,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    finally:
        os.close(write_end)
    assert done.stderr == b""
    assert done.returncode == 141


def examples() -> dict[str, tuple[Path, str]]:
    """Name -> the file and what its docstring says that it prints."""
    found = {}
    for path in sorted((ROOT / "examples").glob("*.py")):
        page = ast.get_docstring(ast.parse(path.read_text())) or ""
        _, marker, shown = page.partition(f"$ python examples/{path.name}\n")
        if marker:
            found[path.stem] = path, f"{shown}\n"
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_prints_what_its_docstring_shows(name: str, tmp_path: Path) -> None:
    path, shown = EXAMPLES[name]
    done = run(*our_programs().command("-W", "error", str(path)), cwd=tmp_path)
    assert done.stderr == ""
    assert done.stdout == shown
    assert done.returncode == 0


def test_every_decorator_of_an_agent_has_an_example() -> None:
    text = "".join(path.read_text() for path in (ROOT / "examples").glob("*.py"))
    decorators = {name for name in vars(Handlers) if not name.startswith("_")}
    assert len(decorators) > 20
    assert {name for name in decorators if not re.search(rf"@agent\.{name}\b", text)} == set()


@pytest.mark.parametrize("service", ["permission", "files", "terminals", "elicitation", "extensions", "supervise"])
def test_every_service_of_a_client_has_an_example(service: str) -> None:
    text = "".join(path.read_text() for path, _ in EXAMPLES.values())
    assert re.search(rf"\b{service}(=|\()", text)


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
