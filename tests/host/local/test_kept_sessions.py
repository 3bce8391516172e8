"""What becomes of sessions when the host is idle: of agents that can bring them back, and of those that cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.host.local.kit import HostPlaceKit, scripted, wait_for

COUNTING_AGENT = """
import json, sys
count = 0
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    result = {}
    if message["method"] == "initialize": result = {"protocolVersion": 1}
    if message["method"] == "session/new": result = {"sessionId": "s"}
    if message["method"] == "session/prompt":
        count += 1
        content = {"type": "text", "text": f"prompt {count}"}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        print(json.dumps({"jsonrpc": "2.0", "method": "session/update",
                          "params": {"sessionId": "s", "update": update}}), flush=True)
        result = {"stopReason": "end_turn"}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
ANNOUNCED = "This agent cannot bring a session back"


@pytest.fixture
def counting(tmp_path: Path) -> tuple[str, ...]:
    """The command of an agent that can neither load nor resume, and counts the prompts that it got."""
    agent = tmp_path / "counting.py"
    agent.write_text(COUNTING_AGENT)
    return ("--", sys.executable, "-IS", str(agent))


def test_an_idle_host_stays_for_a_session_that_its_agent_cannot_bring_back(
    place: HostPlaceKit, counting: tuple[str, ...]
) -> None:
    place.settings(host={"idle": 0.1})
    first = place.run("--session", "s", "--output", "json", "x", *counting)
    assert first.result["text"] == "prompt 1"
    assert first.result["kept_seconds"] == 24 * 3600
    assert f"{ANNOUNCED}: it can be continued for 24 hours after its last prompt" in first.err
    (pid,) = place.pids()
    wait_for(lambda: "stays for sessions that cannot come back" in place.log())
    second = place.run("--session", "s", "--output", "json", "x")
    assert second.result["text"] == "prompt 2"
    assert second.result["kept_seconds"] == 24 * 3600
    assert place.pids() == [pid]
    # A session that was closed is not kept.
    assert place.run("close", "s", verb="sessions").code == 0
    wait_for(lambda: not place.pids())


def test_a_kept_session_ends_when_it_was_not_used_for_long_which_was_announced(
    place: HostPlaceKit, counting: tuple[str, ...]
) -> None:
    place.settings(host={"idle": 0.1, "keep": 0.5})
    first = place.run("--session", "s", "--no-wait", "--output", "json", "x", *counting)
    assert f"{ANNOUNCED}: it can be continued for 0.5 seconds" in first.err
    assert '"kept_seconds": 0' in first.out
    wait_for(lambda: not place.pids())
    lost = place.run("--session", "s", "x")
    assert lost.code != 0
    assert "can neither resume nor load" in lost.err


def test_the_agent_of_a_kept_session_ends_also_while_the_host_is_in_use(
    place: HostPlaceKit, counting: tuple[str, ...]
) -> None:
    place.settings(host={"keep": 0.5})
    assert place.run("--session", "s", "x", *counting).code == 0
    client = place.connect()
    wait_for(lambda: client.call("_dragoman/host")["agents"] == 0)
    states = {each["_meta"]["dragoman"]["state"] for each in client.call("session/list")["sessions"]}
    assert states == {"readOnly"}


def test_an_idle_host_ends_and_an_agent_that_can_brings_its_session_back(place: HostPlaceKit, tmp_path: Path) -> None:
    place.settings(host={"idle": 0.1})
    agent = ("--", *built_in(tmp_path))
    first = place.run("--session", "s", "--output", "json", "say one", *agent)
    assert first.result["kept_seconds"] is None
    assert ANNOUNCED not in first.err
    wait_for(lambda: not place.pids())
    again = place.run("--session", "s", "say two")
    assert "two" in again.out, again.err
    assert "The agent was started again." in again.err


def built_in(folder: Path) -> tuple[str, ...]:
    """The built-in agent with a model that calls nothing; it keeps its sessions in a store."""
    return (sys.executable, "-m", "dragoman", "agent", "--model", "scripted", "--store", str(folder / "sessions.db"))


def test_an_agent_that_has_forgotten_a_session_once_is_not_trusted_again(place: HostPlaceKit, tmp_path: Path) -> None:
    """It announces that it can load sessions, and keeps them in its memory."""
    place.settings(host={"idle": 0.1})
    agent = tmp_path / "forgetful.py"
    announced = '"protocolVersion": 1, "agentCapabilities": {"loadSession": True}'
    unknown = """
    if message["method"] == "session/load":
        error = {"code": -32002, "message": "Resource not found"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
"""
    code = COUNTING_AGENT.replace('"protocolVersion": 1', announced)
    agent.write_text(code.replace("    result = {}\n", f"    result = {{}}{unknown}", 1))
    command = ("--", sys.executable, "-IS", str(agent))
    first = place.run("--session", "s", "--output", "json", "x", *command)
    assert first.result["kept_seconds"] is None
    wait_for(lambda: not place.pids())
    lost = place.run("--session", "s", "x")
    assert "the agent does not know it any more" in lost.err
    other = place.run("--session", "t", "--output", "json", "x", *command)
    assert other.result["kept_seconds"] == 24 * 3600
    assert ANNOUNCED in other.err
    wait_for(lambda: "stays for sessions that cannot come back" in place.log())
    assert place.run("--session", "t", "x").out.strip() == "prompt 2"


def test_a_session_of_the_scripted_agent_is_kept_too(place: HostPlaceKit) -> None:
    place.settings(host={"idle": 0.1})
    assert scripted(place).code == 0
    wait_for(lambda: "stays for sessions that cannot come back" in place.log())
    again = place.run("--session", "s", "--output", "json", "hello")
    assert again.result["text"] == "hello"
    assert again.result["kept_seconds"] == 24 * 3600
