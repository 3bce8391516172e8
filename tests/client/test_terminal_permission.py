"""Whether a command of an agent may run is asked before anything else, about what would really run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dragoman.client import Session
from dragoman.client.permission import ClientPermissions
from dragoman.errors import RequestError
from dragoman.policy import Command, Request, parse_rule
from tests.client.terminal_kit import using

HOME = os.path.expanduser("~")


class Judge:
    """A permission check that keeps what it was asked, and answers as the test set."""

    def __init__(self, refusal: RequestError | None = None) -> None:
        self.asked: list[Request] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._refusal = refusal

    async def check(
        self, request: Request, session: Session, *, change: object = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.asked.append(request)
        await self.gate.wait()
        if self._refusal is not None:
            raise self._refusal


async def test_nothing_runs_before_it_was_allowed(tmp_path: Path) -> None:
    judge = Judge()
    judge.gate.clear()
    async with using(tmp_path, permissions=judge) as agent_side:
        creating = agent_side.send("create", command="touch", args=["x"])
        assert (await agent_side.refused("output", "none"))["code"] == -32002  # so the create was seen before
        assert [request.command for request in judge.asked] == [Command(("touch", "x"))]
        assert agent_side.terminals._owned == {}
        judge.gate.set()
        terminal_id = (await agent_side.answer(creating))["result"]["terminalId"]
        await agent_side.ask("wait_for_exit", terminal_id)
        assert os.listdir(tmp_path) == ["x"]


async def test_what_was_refused_does_not_run(tmp_path: Path) -> None:
    async with using(tmp_path, permissions=Judge(RequestError(-32603, "Denied by rule execute:touch *"))) as agent_side:
        error = await agent_side.refused("create", command="touch", args=["x"])
        assert error == {"code": -32603, "message": "Denied by rule execute:touch *"}
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("params", "command", "shell"),
    [
        ({"command": "npm", "args": ["test", "a b"]}, ("npm", "test", "a b"), None),
        ({"command": "npm test && id"}, None, "npm test && id"),
        ({"command": "npm test"}, None, "npm test"),
        ({"command": "bash", "args": ["-lc", "id"]}, ("bash", "-lc", "id"), None),
        ({"command": "./run"}, ("./run",), None),
        ({"command": "npm", "env": {"NO_COLOR": "1", "TERM": "dumb", "SHELL": "/bin/bash"}}, ("npm",), None),
        ({"command": "npm", "env": {"PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}}, ("npm",), None),
        ({"command": "npm", "env": {"PATH": "/tmp/evil", "CI": "1"}}, None, "PATH=/tmp/evil npm"),
        ({"command": "npm", "env": {"PAGER": "sh -c id"}}, None, "PAGER='sh -c id' npm"),
        ({"command": "npm", "env": {"SHELL": "/tmp/sh"}}, None, "SHELL=/tmp/sh npm"),
        ({"command": "npm", "env": {"CI": "1\nid"}}, None, "CI='1\nid' npm"),
        ({"command": "npm i", "env": {"LD_PRELOAD": "/x"}}, None, "LD_PRELOAD=/x /bin/sh -c 'npm i'"),
        ({"command": "make", "cwd": "/usr"}, None, "cd /usr && make"),
        ({"command": "make all", "cwd": "/usr"}, None, "cd /usr && make all"),
    ],
)
async def test_permission_is_checked_for_what_would_really_run(
    params: dict[str, Any], command: tuple[str, ...] | None, shell: str | None, tmp_path: Path
) -> None:
    judge = Judge(RequestError(-32603, "No"))
    params = {**params, "env": [{"name": name, "value": value} for name, value in params.get("env", {}).items()]}
    async with using(tmp_path, permissions=judge) as agent_side:
        await agent_side.refused("create", **params)
    expected = Command(command, shell, cwd=params.get("cwd", ""))
    assert [(request.kind, request.command) for request in judge.asked] == [("execute", expected)]
    assert (judge.asked[0].root, judge.asked[0].home) == (str(tmp_path), HOME)


async def test_a_program_of_another_folder_is_asked_about_by_its_full_path(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    judge = Judge(RequestError(-32603, "No"))
    async with using(tmp_path, permissions=judge) as agent_side:
        await agent_side.refused("create", command="./run", args=["x"], cwd=str(tmp_path / "sub"))
    assert judge.asked[0].command == Command((f"{tmp_path}/sub/run", "x"), cwd=f"{tmp_path}/sub")


async def test_a_link_out_of_the_project_is_outside(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/usr")
    judge = Judge(RequestError(-32603, "No"))
    async with using(tmp_path, permissions=judge) as agent_side:
        await agent_side.refused("create", command="make", cwd=str(tmp_path / "out"))
    assert judge.asked[0].command_line == f"cd {tmp_path}/out && make"


async def test_a_session_that_ended_while_the_user_was_asked_starts_nothing(tmp_path: Path) -> None:
    judge = Judge()
    judge.gate.clear()
    async with using(tmp_path, permissions=judge) as agent_side:
        creating = agent_side.send("create", command="touch", args=["x"])
        closing = asyncio.ensure_future(agent_side.agent.close_session("s1"))
        await agent_side.line.answer("session/close", {})
        await closing
        judge.gate.set()
        assert (await agent_side.answer(creating))["error"]["code"] == -32002
        assert os.listdir(tmp_path) == []


async def test_the_rules_of_the_user_decide_what_runs(tmp_path: Path) -> None:
    rules = [parse_rule("execute:echo *", "allow", "flag"), parse_rule("execute:touch *", "deny", "pinned")]
    async with using(tmp_path, permissions=ClientPermissions(rules, agent="test")) as agent_side:
        assert await agent_side.printed("echo", ["one"]) == "one\n"
        assert await agent_side.printed("echo two") == "two\n"
        for params in (
            {"command": "touch", "args": ["x"]},
            {"command": "echo one; id"},
            {"command": "echo", "env": [{"name": "PATH", "value": str(tmp_path)}]},
            {"command": "echo", "args": ["one"], "cwd": "/usr"},
        ):
            assert "Not permitted" in (await agent_side.refused("create", **params))["message"]
        assert os.listdir(tmp_path) == []
