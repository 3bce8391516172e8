"""An agent's commands on this machine: real processes behind `terminal/*`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.client.terminals import LocalTerminals
from tests.client.fixtures import client_and_agent
from tests.client.terminal_kit import SLEEP, TerminalAgent, Words, using
from tests.process.kit import Deaths

# The five methods


@pytest.mark.rule(283, 288, 289, 290)
async def test_a_command_runs_in_a_terminal_with_its_arguments_environment_and_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    async with using(tmp_path, columns=77) as agent_side:
        source = "import os, sys; print(os.isatty(1), os.get_terminal_size().columns, os.environ['WHO'], sys.argv[1:])"
        source += "; print(os.getcwd()); sys.exit(3)"
        terminal_id = await agent_side.create(
            sys.executable,
            ["-c", source, "a b", "$HOME"],
            env=[{"name": "WHO", "value": "me"}],
            cwd=str(tmp_path / "sub"),
        )
        assert await agent_side.ask("wait_for_exit", terminal_id) == {"exitCode": 3, "signal": None}
        assert await agent_side.ask("output", terminal_id) == {
            "output": f"True 77 me ['a b', '$HOME']\n{tmp_path}/sub\n",
            "truncated": False,
            "exitStatus": {"exitCode": 3, "signal": None},
        }
        assert await agent_side.ask("release", terminal_id) == {}


@pytest.mark.rule(88, 285, 288)
async def test_create_answers_at_once_and_a_running_command_has_no_exit_status(tmp_path: Path) -> None:
    words = Words()
    async with using(tmp_path, on_output=words) as agent_side:
        terminal_id = await agent_side.create("sh", ["-c", "pwd; exec sleep 1000"])
        await words.saw(terminal_id, b"\n")
        assert await agent_side.ask("output", terminal_id) == {"output": f"{tmp_path}\n", "truncated": False}


@pytest.mark.rule(284)
async def test_a_whole_shell_line_as_the_command_is_run_by_a_shell(tmp_path: Path) -> None:
    async with using(tmp_path) as agent_side:
        assert await agent_side.printed("touch x && echo y; ls") == "y\nx\n"


@pytest.mark.rule(286, 287)
async def test_output_over_the_limit_keeps_its_end_and_whole_characters(tmp_path: Path) -> None:
    async with using(tmp_path) as agent_side:
        terminal_id = await agent_side.create("printf", ["é" * 30], outputByteLimit=31)
        await agent_side.ask("wait_for_exit", terminal_id)
        output = await agent_side.ask("output", terminal_id)
        assert (output["output"], output["truncated"]) == ("é" * 15, True)


async def test_a_flood_is_kept_below_our_own_ceiling(tmp_path: Path) -> None:
    async with using(tmp_path, ceiling_bytes=5000, pty=False) as agent_side:
        terminal_id = await agent_side.create("head", ["-c", "3000000", "/dev/zero"], outputByteLimit=10**12)
        await agent_side.ask("wait_for_exit", terminal_id)
        output = await agent_side.ask("output", terminal_id)
        assert (len(output["output"]), output["truncated"]) == (5000, True)


@pytest.mark.rule(291)
async def test_a_kill_keeps_the_output_and_the_id(tmp_path: Path) -> None:
    words = Words()
    async with using(tmp_path, on_output=words) as agent_side:
        terminal_id = await agent_side.create("sh", SLEEP)
        await words.saw(terminal_id, b"begun")
        for _ in range(2):
            assert await agent_side.ask("kill", terminal_id) == {}
            assert await agent_side.ask("wait_for_exit", terminal_id) == {"exitCode": None, "signal": "SIGTERM"}
            assert (await agent_side.ask("output", terminal_id))["output"] == "begun\n"


@pytest.mark.rule(291)
async def test_a_command_that_ended_by_itself_keeps_its_status_when_killed(tmp_path: Path) -> None:
    async with using(tmp_path) as agent_side:
        terminal_id = await agent_side.create("sh", ["-c", "exit 4"])
        await agent_side.ask("wait_for_exit", terminal_id)
        await agent_side.ask("kill", terminal_id)
        assert await agent_side.ask("wait_for_exit", terminal_id) == {"exitCode": 4, "signal": None}


@pytest.mark.rule(293, 294)
async def test_a_release_ends_the_command_and_its_id(tmp_path: Path) -> None:
    async with using(tmp_path) as agent_side:
        terminal_id = await agent_side.create("sh", SLEEP)
        command = Deaths(agent_side.pid(terminal_id))
        await agent_side.ask("release", terminal_id)
        assert command.wait(0.5) == []
        for verb in ("output", "wait_for_exit", "kill", "release"):
            assert (await agent_side.refused(verb, terminal_id))["code"] == -32002


@pytest.mark.rule(290, 293)
async def test_a_release_answers_every_wait_with_how_the_command_ended(tmp_path: Path) -> None:
    words = Words()
    async with using(tmp_path, on_output=words) as agent_side:
        terminal_id = await agent_side.create("sh", SLEEP)
        await words.saw(terminal_id, b"begun")
        waits = [agent_side.send("wait_for_exit", terminal_id) for _ in range(3)]
        release = agent_side.send("release", terminal_id)
        ended = {"exitCode": None, "signal": "SIGTERM"}
        answers = {message["id"]: message["result"] for message in [await agent_side.line.next() for _ in range(4)]}
        assert answers == {**dict.fromkeys(waits, ended), release: {}}


@pytest.mark.rule(290)
async def test_several_run_at_once_and_nothing_waits_for_another(tmp_path: Path) -> None:
    async with using(tmp_path) as agent_side:
        slow = await agent_side.create("sh", SLEEP)
        waiting = agent_side.send("wait_for_exit", slow)
        assert await agent_side.printed("echo", ["one"]) == "one\n"
        assert await agent_side.printed("echo", ["two"]) == "two\n"
        agent_side.send("kill", slow)
        answers = [await agent_side.line.next(), await agent_side.line.next()]
        assert waiting in [message["id"] for message in answers]


@pytest.mark.rule(296)
async def test_an_unknown_id_is_not_found(tmp_path: Path) -> None:
    async with using(tmp_path) as agent_side:
        for verb in ("output", "wait_for_exit", "kill", "release"):
            error = await agent_side.refused(verb, "term-1")
            assert (error["code"], error["data"]) == (-32002, {"terminalId": "term-1"})


async def test_a_terminal_belongs_to_its_session_alone(tmp_path: Path) -> None:
    async with using(tmp_path) as agent_side:
        terminal_id = await agent_side.create("sh", ["-c", "exit 5"])
        await agent_side.open("s2")
        for verb in ("output", "wait_for_exit", "kill", "release"):
            assert (await agent_side.refused(verb, terminal_id, sessionId="s2"))["code"] == -32002
        assert (await agent_side.ask("wait_for_exit", terminal_id))["exitCode"] == 5


async def test_a_terminal_belongs_to_its_connection_alone(tmp_path: Path) -> None:
    async with using(tmp_path) as agent_side:
        terminal_id = await agent_side.create("true")
        async with client_and_agent(terminals=agent_side.terminals) as (agent, line):
            other = TerminalAgent(agent, line, agent_side.terminals, tmp_path)
            await other.open("s1")
            assert (await other.refused("output", terminal_id))["code"] == -32002
        await agent_side.ask("output", terminal_id)


# What it refuses


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"command": "no-such-program-anywhere"}, "not found; install it"),
        ({"command": "echo a", "args": ["b"]}, "not found"),
        ({"command": "/etc/passwd"}, "not executable"),
        ({"command": ""}, "cannot start"),
        ({"command": "true", "cwd": "/no/such/folder"}, "existing directory"),
        ({"command": "true", "cwd": "/\0"}, "cannot start"),
        ({"command": "true", "env": [{"name": "A=B", "value": ""}]}, "cannot start"),
    ],
)
@pytest.mark.rule(284)
async def test_a_command_that_cannot_be_started_is_an_error_with_the_reason(
    params: dict[str, Any], says: str, tmp_path: Path
) -> None:
    async with using(tmp_path) as agent_side:
        error = await agent_side.refused("create", **params)
        assert error["code"] == -32602
        assert says in error["message"]


async def test_a_session_has_only_so_many_terminals_until_it_releases_one(tmp_path: Path) -> None:
    async with using(tmp_path, most_terminals=2) as agent_side:
        first = await agent_side.create("true")
        await agent_side.create("true")
        assert "release one" in (await agent_side.refused("create", command="true"))["message"]
        await agent_side.open("s2")
        await agent_side.create("true", sessionId="s2")
        await agent_side.ask("release", first)
        await agent_side.create("true")


async def test_secrets_of_this_program_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_X", "canary")
    monkeypatch.setenv("WANTED", "yes")
    async with using(tmp_path, kept_variables={"WANTED"}) as agent_side:
        lines = (await agent_side.printed("env", [])).splitlines()
        assert "canary" not in str(lines)
        assert "WANTED=yes" in lines
        assert f"PATH={os.environ['PATH']}" in lines


# Faces


@pytest.mark.rule(295)
async def test_output_is_live_and_stays_to_be_seen_after_the_release(tmp_path: Path) -> None:
    words = Words()
    async with using(tmp_path, on_output=words) as agent_side:
        terminal_id = await agent_side.create("sh", ["-c", r"printf '\033[1mbold\033[0m\n'; exec sleep 1000"])
        await words.saw(terminal_id, b"\x1b[1mbold\x1b[0m\r\n")
        assert words.sessions == {"s1"}
        shown = agent_side.terminals.look(terminal_id)
        assert shown is not None
        assert (shown.is_running, shown.is_released, shown.text) == (True, False, "\x1b[1mbold\x1b[0m\n")
        assert shown.command.startswith("sh -c 'printf ")
        await agent_side.ask("release", terminal_id)
        shown = agent_side.terminals.look(terminal_id)
        assert shown is not None
        assert (shown.is_running, shown.is_released, shown.signal) == (False, True, "SIGTERM")
        assert shown.text == "\x1b[1mbold\x1b[0m\n"
        assert agent_side.terminals.look("term-unknown") is None


async def test_released_terminals_are_remembered_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.client.terminals._REMEMBERED", 2)
    monkeypatch.setattr("dragoman.client.terminals._REMEMBERED_BYTES", 5)
    async with using(tmp_path) as agent_side:
        ids = []
        for n in range(3):
            ids.append(await agent_side.create("echo", [f"{n} and more"]))
            await agent_side.ask("wait_for_exit", ids[-1])
            await agent_side.ask("release", ids[-1])
        assert agent_side.terminals.look(ids[0]) is None
        shown = agent_side.terminals.look(ids[2])
        assert shown is not None
        assert (shown.text, shown.is_truncated) == ("more\n", True)


async def test_a_wait_can_be_given_up(tmp_path: Path) -> None:
    async with using(tmp_path) as agent_side:
        terminal_id = await agent_side.create("sh", SLEEP)
        waiting = agent_side.send("wait_for_exit", terminal_id)
        agent_side.line.send(agent_side.line.note("$/cancel_request", requestId=waiting))
        assert (await agent_side.answer(waiting))["error"]["code"] == -32800
        assert "exitStatus" not in await agent_side.ask("output", terminal_id)


async def test_offering_terminals_is_advertising_them() -> None:
    async with client_and_agent(terminals=LocalTerminals(permissions=None)) as (agent, _):
        assert agent._connection.client_capabilities.terminal is True
