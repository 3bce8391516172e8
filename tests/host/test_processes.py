"""A host with real agent processes: a turn, a terminal, a death, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.host import HostSettings
from dragoman.host.services import HostServices
from dragoman.policy import parse_rule
from dragoman.process import proctable
from dragoman.rpc import Transport
from dragoman.store.sqlite_log import SqliteLog
from dragoman.transports.process import ProcessTransport
from tests.host.kit import OURS, Client, hosted
from tests.process.kit import is_alive, until

END = {"stopReason": "end_turn"}
COMMAND = (sys.executable, "-m", "dragoman.testing.scripted_agent")


class Programs:
    """The scripted agent as a program."""

    name = "scripted"
    command = COMMAND
    version = "1"

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self.transports: list[ProcessTransport] = []
        self._command = command

    async def start(self, cwd: str, env: Mapping[str, str] | None) -> Transport:
        self.transports.append(await ProcessTransport.spawn(self._command, cwd=cwd, env=env))
        return self.transports[-1]

    @property
    def pid(self) -> int:
        return self.transports[-1].pid


async def answer(line: Client, id: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The updates before an answer, and the answer; a real process takes its time."""
    before: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        while (message := await line.lines.get()).get("id") != id:
            before.append(message)
    return before, message


async def open_session(line: Client, cwd: Path) -> str:
    _, opened = await answer(line, line.ask("session/new", cwd=str(cwd), mcpServers=[]))
    session: str = opened["result"]["sessionId"]
    return session


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_turn_of_a_program_survives_its_client_and_its_history_survives_the_host(tmp_path: Path) -> None:
    path = tmp_path / "host" / "events.db"
    programs = Programs()
    log = SqliteLog(path)
    async with hosted(programs, log=log) as host:
        line = await host.client(OURS)
        session = await open_session(line, tmp_path)
        before, ended = await answer(line, line.prompt(session, "say one two three"))
        texts = [m["params"]["update"] for m in before if m.get("method") == "session/update"]
        said = "".join(each["content"]["text"] for each in texts if each["sessionUpdate"] == "agent_message_chunk")
        assert said.split() == ["one", "two", "three"]
        assert ended["result"] == END
        pid = programs.pid
        assert is_running(pid)
    assert not is_running(pid), "agents end with the host"
    await log.close()
    log = SqliteLog(path)
    async with hosted(Programs(), log=log) as host:
        line = await host.client(OURS)
        updates, _ = await line.load(session, str(tmp_path))
        assert [each["content"]["text"].split() for each in updates if "content" in each] == [
            ["say", "one", "two", "three"],
            ["one", "two", "three"],
        ]
    await log.close()


async def test_a_program_that_is_killed_ends_its_turn_with_its_code(tmp_path: Path) -> None:
    programs = Programs()
    async with hosted(programs) as host:
        line = await host.client(OURS)
        session = await open_session(line, tmp_path)
        id = line.prompt(session, "slow 1000")
        await line.until("_dragoman/turn_started")
        os.kill(programs.pid, signal.SIGKILL)
        _, ended = await answer(line, id)
        data = ended["error"]["data"]
        assert (data["reason"], data["exitCode"], data["maybeExecuted"]) == ("agent_exited", -9, True)
        assert data["signal"] == "SIGKILL"
        _, ended = await answer(line, line.prompt(session, "say again"))
        assert ended["error"]["data"] == {"reason": "agent_lost"}, "this agent forgets its sessions with its process"
        updates, loaded = await line.load(session, str(tmp_path))
        assert updates
        assert loaded["_meta"]["dragoman"]["readOnly"] is True


async def test_a_command_of_a_program_runs_next_to_it_and_is_shown_as_text(tmp_path: Path) -> None:
    services = HostServices(rules=[parse_rule("*", "allow", "flag", "test")])
    async with hosted(Programs(), services=services) as host:
        line = await host.client(OURS)
        session = await open_session(line, tmp_path)
        before, ended = await answer(line, line.prompt(session, "terminal echo from the host"))
        assert ended["result"] == END
        shown = [m for m in before if m.get("method") == "session/update" and "from the host" in str(m)]
        assert shown
        assert "'type': 'terminal'" not in str(before)
        assert (await host.events(session, "terminal"))[-1]["exit"]["exitCode"] == 0


# Leaves its commands running when a turn is cancelled, as Codex does: one that it ran before in the background, and the
# one that is open. Then it answers, with or without a last report, or not at all.
LEAVING = """
import json, os, subprocess, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def report(update, id, **members):
    update = {"sessionUpdate": update, "toolCallId": id, **members}
    send(method="session/update", params={"sessionId": "s", "update": update})
def run(id):
    command = ["sh", "-c", f"echo $$ > {id}.tmp; mv {id}.tmp {id}.pid; sleep 1000 & wait; touch finished.txt"]
    subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    report("tool_call", id, title=id, kind="execute", status="in_progress")
for line in sys.stdin:
    request = json.loads(line)
    method = request.get("method")
    if method == "initialize":
        send(id=request["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
    elif method == "session/new":
        send(id=request["id"], result={"sessionId": "s"})
    elif method == "session/prompt":
        way, prompt = request["params"]["prompt"][0]["text"], request["id"]
        if way == "background":
            run("server")
            report("tool_call_update", "server", status="completed")
            send(id=prompt, result={"stopReason": "end_turn"})
        else:
            run("command")
    elif method == "session/cancel" and way != "stuck":
        if way == "reported":
            report("tool_call_update", "command", status="failed")
        send(id=prompt, result={"stopReason": "cancelled"})
"""


@pytest.mark.parametrize("way", ["left", "reported", "stuck"])
async def test_a_cancel_ends_a_command_that_the_agent_leaves_running_and_nothing_older(
    tmp_path: Path, way: str
) -> None:
    source = Programs((sys.executable, "-c", LEAVING))
    async with hosted(source, settings=HostSettings(cancel_seconds=1.0)) as host:
        line = await host.client(OURS)
        session = await open_session(line, tmp_path)
        _, ended = await answer(line, line.prompt(session, "background"))
        assert ended["result"] == END
        await until((tmp_path / "server.pid").exists)
        server = int((tmp_path / "server.pid").read_text())
        since = proctable.status(server).started + 2 * proctable.TICK_SECONDS
        await until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > since)  # two turns can be in one tick here
        id = line.prompt(session, way)
        await until((tmp_path / "command.pid").exists)
        command = int((tmp_path / "command.pid").read_text())
        line.notify("session/cancel", sessionId=session)
        _, ended = await answer(line, id)
        assert ended["result"] == {"stopReason": "cancelled"}
        assert not is_alive(command), "a command is over when its turn is"
        assert is_alive(server), "what an earlier turn started goes on"
        assert is_alive(source.pid), "and so does the agent"
    assert not (tmp_path / "finished.txt").exists()


async def test_nothing_is_left_behind_by_a_host_that_was_closed(tmp_path: Path) -> None:
    tasks, descriptors = asyncio.all_tasks(), set(os.listdir("/proc/self/fd"))
    programs = Programs()
    log = SqliteLog(tmp_path / "events.db")
    async with hosted(programs, log=log) as host:
        line = await host.client(OURS)
        session = await open_session(line, tmp_path)
        line.prompt(session, "slow 1000")
        await line.until("_dragoman/turn_started")
    await log.close()
    assert not is_running(programs.pid)
    assert asyncio.all_tasks() == tasks
    assert set(os.listdir("/proc/self/fd")) <= descriptors
