"""The host of a machine without its process: names, old questions, what it loads, who may use its methods."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import RequestError
from dragoman.host.agents import AgentSource
from dragoman.host.host import Visitor
from dragoman.host.local.local_host import QUESTION_SECONDS, LocalHost
from tests.host.kit import OURS, Client, Hosted, InProcess, make_log
from tests.host.test_sessions import Steps


class WithTestAgent(LocalHost):
    """A local host whose agents are in this process."""

    def __init__(self, source: InProcess) -> None:
        super().__init__(make_log(), mark="dragoman-host-test", idle_seconds=300.0)
        self._source = source

    def find_source(self, name: str) -> AgentSource | None:
        return self._source


@asynccontextmanager
async def local(steps: Steps) -> AsyncIterator[Hosted]:
    source = InProcess(steps)
    running = Hosted(WithTestAgent(source), source)
    try:
        yield running
    finally:
        await running.close()


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))


def new(tmp_path: Path, **own: Any) -> dict[str, Any]:
    return {"cwd": str(tmp_path), "mcpServers": [], "_meta": {"dragoman": {"agent": "-- test", "env": {}, **own}}}


async def question_of(client: Client) -> None:
    """Reads until the agent's question."""
    while (await client.next()).get("method") != "session/request_permission":
        pass


async def test_a_name_is_taken_once_in_a_folder(tmp_path: Path) -> None:
    async with local(Steps()) as host:
        client = await host.client(OURS)
        opened = await client.result("session/new", **new(tmp_path, name="n"))
        found = (await client.result("_dragoman/named", name="n", cwd=str(tmp_path)))["session"]
        assert found["sessionId"] == opened["sessionId"]
        assert (await client.result("_dragoman/named", name="n", cwd="/"))["session"] is None
        error = await client.error("session/new", **new(tmp_path, name="n"))
        assert error["data"]["reason"] == "name_taken"
        for name in ("", "two\nlines", "x" * 101, 3):
            assert (await client.error("session/new", **new(tmp_path, name=name)))["code"] == -32602


async def test_terms_that_are_wrong_are_refused(tmp_path: Path) -> None:
    async with local(Steps()) as host:
        client = await host.client(OURS)
        error = await client.error("session/new", **new(tmp_path, terms={"allow": "everything"}))
        assert error["code"] == -32602
        assert "terms" in error["message"]


async def test_a_client_of_another_machine_can_set_no_terms_and_has_none_of_the_methods(tmp_path: Path) -> None:
    async with local(Steps()) as host:
        client = await host.client(OURS, visitor=Visitor(is_local=False, agent="-- test"))
        opened = await client.result("session/new", **new(tmp_path, name="n", terms={"allows_all": True}))
        session = host.host.live(opened["sessionId"])
        assert session is not None
        assert not {"name", "terms"} & set(session.facts)
        for method in ("_dragoman/named", "_dragoman/retire", "_dragoman/host", "_dragoman/release"):
            _, answer = await client.answer_to(client.ask(method))
            assert answer["error"]["code"] == -32601


async def test_a_question_without_an_answer_ends_after_a_day(tmp_path: Path) -> None:
    steps = Steps()
    async with local(steps) as host:
        owner = host.host
        assert isinstance(owner, LocalHost)
        client = await host.client(OURS)
        opened = await client.result("session/new", **new(tmp_path))
        answer = client.ask("session/prompt", sessionId=opened["sessionId"], prompt=[{"type": "text", "text": "ask"}])
        await question_of(client)
        owner.end_old_questions(1000.0)
        owner.end_old_questions(1000.0 + QUESTION_SECONDS)
        assert any(session.is_busy for session in owner.live_sessions())
        owner.end_old_questions(1001.0 + QUESTION_SECONDS)
        assert (await client.answer_to(answer))[1]["result"] == {"stopReason": "cancelled"}
        assert not any(session.is_busy for session in owner.live_sessions())


async def test_a_host_is_not_idle_while_a_question_waits(tmp_path: Path) -> None:
    async with local(Steps()) as host:
        client = await host.client(OURS)
        opened = await client.result("session/new", **new(tmp_path))
        client.ask("session/prompt", sessionId=opened["sessionId"], prompt=[{"type": "text", "text": "ask"}])
        await question_of(client)
        await host.leave(client)
        assert not host.host.is_idle


async def test_a_host_is_idle_once_its_last_client_left(tmp_path: Path) -> None:
    async with local(Steps()) as host:
        first, second = await host.client(OURS), await host.client(OURS)
        await host.leave(first)
        assert not host.host.is_idle
        await host.leave(second)
        assert host.host.is_idle


LATE = """
import asyncio, sys
from dragoman.host.local.local_host import open_local_host
from dragoman.host.local.preload import load_everything
from dragoman.client import connect
from dragoman.transports.memory import memory_pair
from pathlib import Path

async def main(folder):
    host = open_local_host(Path(folder) / "hosted.db", "00000000")
    load_everything()
    before = set(sys.modules)
    ours, theirs = memory_pair()
    serving = asyncio.create_task(host.serve(theirs))
    async with connect(ours) as agent:
        terms = {"allow": ["execute", "edit"], "sandbox": "auto"}
        own = {"agent": "scripted", "env": {"PATH": "/usr/bin:/bin"}, "terms": terms}
        session = await agent.new_session(folder, meta={"dragoman": own})
        for prompt in ("tool", "terminal echo x", "fs", "permission", "config", "modes code"):
            try:
                await session.prompt(prompt)
            except Exception as error:
                print(prompt, error, file=sys.stderr)
        [each async for each in agent.sessions()]
    await host.close()
    await serving
    await host.log.close()
    late = {name for name in set(sys.modules) - before if name.startswith("dragoman")}
    print(" ".join(sorted(late)))

asyncio.run(main(sys.argv[1]))
"""


def test_a_host_has_loaded_what_sessions_need_before_the_first_one(tmp_path: Path) -> None:
    """After an update in place, a late import would load code of another version."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LATE, str(tmp_path)],
        env={**os.environ, "DRAGOMAN_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    late = set(done.stdout.split())
    # The test's own client loads modules of its role, which a host has anyway.
    assert late <= {name for name in late if name.startswith("dragoman.state")}, done.stderr


def test_an_error_of_the_settings_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home" / "config"
    home.mkdir(parents=True)
    (home / "settings.json").write_text("{")
    host = LocalHost(make_log(), mark="x", idle_seconds=1.0)
    with pytest.raises(RequestError, match="settings"):
        host.default_agent(str(tmp_path))
