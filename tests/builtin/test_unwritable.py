"""A store or a log that cannot be written, and files that no other user can read: with real processes."""

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.client import RemoteAgent, Session, spawn
from dragoman.errors import RequestError
from dragoman.schema import v1

AGENT = (sys.executable, "-m", "dragoman", "agent", "--model", "scripted")


@asynccontextmanager
async def agent_in(home: Path, *words: str, **options: Any) -> AsyncIterator[RemoteAgent]:
    async with spawn(*AGENT, *words, cwd=home.parent, env={"DRAGOMAN_HOME": str(home)}, **options) as agent:
        yield agent


async def allow(request: v1.RequestPermissionRequest, session: Session) -> str:
    return request.options[0].option_id


async def running_command(session: Session, prompt: str) -> None:
    """Return when the command of this prompt runs; its turn goes on."""
    async for _ in session.prompt(prompt):
        calls = session.state.tool_calls.values()
        if any(call.kind == "execute" and call.status == "in_progress" for call in calls):
            return
    raise AssertionError("the command did not run")


async def test_another_program_cannot_delete_a_session_whose_turn_runs(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with asyncio.timeout(60):
        async with agent_in(home, permission=allow) as ours, agent_in(home) as theirs:
            session = await ours.new_session(tmp_path)
            await running_command(session, "say first\nrun sleep 60")
            with pytest.raises(RequestError, match="another program is running a turn in this session; wait for it"):
                await theirs.delete_session(session.id)
            assert [each.session_id for each in (await theirs.list_sessions()).sessions] == [session.id]
            await session.cancel()
            await ours.close_session(session.id)
            await theirs.delete_session(session.id)
            assert not (await ours.list_sessions()).sessions


async def test_a_store_that_cannot_be_written_is_one_notice_and_sessions_work(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "data").write_text("a file where the folder should be")
    async with asyncio.timeout(60):
        async with agent_in(home) as agent:
            first = await agent.new_session(tmp_path)
            await first.prompt("say hello")
            assert first.state.text == "hello"
            second = await agent.new_session(tmp_path)
            listed = {each.session_id for each in (await agent.list_sessions()).sessions}
            assert listed == {first.id, second.id}
            await agent.delete_session(second.id)
            notices = [each for each in (*first.state.notices, *second.state.notices) if "not stored" in str(each)]
            assert len(notices) == 1
            assert "--store" in str(notices[0])
    assert (home / "data").read_text() == "a file where the folder should be"
    assert (home / "state" / "agent.log").read_text().count("sessions are not stored") == 1


def answer_of(*words: str, home: Path, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """Run one prompt in the agent and return how it ended."""
    command = [
        sys.executable,
        "-m",
        "dragoman",
        "exec",
        "--verbose",
        "run echo hello",
        "--allow",
        "*",
        "--",
        *AGENT,
        *words,
    ]
    return subprocess.run(
        command,
        env={**os.environ, "DRAGOMAN_HOME": str(home), **(env or {})},
        cwd=home.parent, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("log", ["/dev/full", "file/agent.log"])
def test_a_log_that_cannot_be_written_is_one_warning(tmp_path: Path, log: str) -> None:
    (tmp_path / "file").write_text("")
    ended = answer_of("--log", log, "--log-level", "debug", home=tmp_path / "home")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("cannot be written") == 1, ended.stderr
    assert f"the log {log} cannot be written" in ended.stderr
    assert "Traceback" not in ended.stderr


def modes(folder: Path) -> dict[str, int]:
    """The permissions of everything in a folder."""
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}


@pytest.mark.parametrize("words", [(), ("--store", "elsewhere/deep/s.db", "--log", "elsewhere/logs/a.log")])
def test_no_other_user_can_read_what_the_agent_writes(tmp_path: Path, words: Sequence[str]) -> None:
    before = os.umask(0)
    try:
        project = tmp_path / "p"
        project.mkdir()
        command = [*AGENT, *words, "--log-level", "debug"]
        long = "run seq 20000"  # its output is kept in a file
        script = [sys.executable, "-m", "dragoman", "exec", long, "--allow", "*", "--", *command]
        ended = subprocess.run(
            script, env={**os.environ, "DRAGOMAN_HOME": str(project / "home")}, cwd=project,
            capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    finally:
        os.umask(before)
    assert ended.returncode == 0, ended.stderr
    found = modes(project)
    assert any(name.endswith(".db") for name in found)
    assert any("output/" in name and name.endswith(".txt") for name in found)
    assert any(name.endswith(".log") for name in found)
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


async def test_a_store_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with asyncio.timeout(60):
        async with agent_in(home) as agent:
            await agent.new_session(tmp_path)
            store = home / "data" / "sessions.db"
            for path in (store, store.with_name("sessions.db-wal"), store.with_name("sessions.db-shm")):
                path.chmod(0o644)
            async with agent_in(home) as other:
                await other.new_session(tmp_path)
                assert {name: oct(mode) for name, mode in modes(home).items() if mode & 0o077} == {}
