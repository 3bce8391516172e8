"""The built-in agent as its users' editors meet it: the official SDKs' clients, and ours, over stdio.

A report fails when one frame of the agent breaks the schema, so each test here is also a test of that.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.client import RemoteAgent
from dragoman.schema import v1
from tests.interop.our_client import DiskFiles, ProcessTerminals
from tests.interop.support import BUILT_IN_AGENT, SDKS, Report, Walks
from tests.interop.wire_check import WireCheck

both = pytest.mark.parametrize("sdk", SDKS)
WORK = "think hm\ntodo [x] look; [>] change; test\nread a.txt\nsay it says {result}"


def kinds(updates: list[dict[str, Any]]) -> list[str]:
    return [update["sessionUpdate"] for update in updates]


def text_of(report: Report, call: str) -> str:
    chunks = [update for update in report.updates(call) if update["sessionUpdate"] == "agent_message_chunk"]
    return "".join(chunk["content"]["text"] for chunk in chunks)


def outcomes(report: Report, call: str) -> list[str]:
    """How the tool calls of a turn ended."""
    return [
        update["status"]
        for update in report.updates(call)
        if update["sessionUpdate"] == "tool_call_update" and update.get("status") in ("completed", "failed")
    ]


@both
@pytest.mark.rule(31, 54, 180, 210)
def test_a_turn_thinks_plans_reads_and_speaks(walks: Walks, sdk: str) -> None:
    report = walks.coding(sdk, "work")
    assert report.result("initialize")["agentInfo"]["name"] == "dragoman"
    assert report.result("new")["modes"]["currentModeId"] == "ask"
    assert report.result(WORK)["stopReason"] == "end_turn"
    seen = kinds(report.updates(WORK))
    for kind in ("agent_thought_chunk", "tool_call", "plan", "agent_message_chunk", "usage_update"):
        assert kind in seen
    assert "session_info_update" in kinds(report.updates())
    assert "it says 1\tone" in text_of(report, WORK)
    assert outcomes(report, WORK) == ["completed"]  # the to-do list is the plan, not a call


@both
def test_the_user_allows_refuses_or_does_not_answer(walks: Walks, sdk: str) -> None:
    report = walks.coding(sdk, "permission_to_write")
    expected = {"yes": "completed", "no": "failed", "unanswered": "failed"}
    for name, outcome in expected.items():
        call = f"write {name}.txt new\nsay and on"
        assert report.result(call)["stopReason"] == "end_turn"
        assert outcomes(report, call) == [outcome]
        assert text_of(report, call) == "and on"
        assert (walks.project(sdk) / f"{name}.txt").exists() == (name == "yes")
    asked = [request for request in report.requests() if request["method"] == "session/request_permission"]
    assert len(asked) == 3
    assert {option["kind"] for option in asked[0]["options"]} == {
        *("allow_once", "allow_always", "reject_once", "reject_always")
    }
    assert asked[0]["toolCall"]["content"][0]["newText"] == "new"


@both
def test_files_terminals_and_forms_are_the_clients(walks: Walks, sdk: str) -> None:
    report = walks.coding(sdk, "tool_access")
    methods = [request["method"] for request in report.requests()]
    for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/wait_for_exit"):
        assert method in methods
    assert methods.count("terminal/create") == methods.count("terminal/release") == 1
    assert "elicitation/create" in methods
    assert (walks.project(sdk) / "a.txt").read_text() == "one\nzwei\n"
    assert "from the terminal" in text_of(report, "run touch made.txt; echo from the terminal\nsay {result}")
    assert "that" in text_of(report, "question Which one? | this | that\nsay {result}")


@both
def test_a_mode_and_an_option_are_chosen_and_hold(walks: Walks, sdk: str) -> None:
    report = walks.coding(sdk, "choices")
    report.result("mode")
    assert report.error("mode junk")[0] == -32602
    values = {option["id"]: option["currentValue"] for option in report.result("effort")["configOptions"]}
    assert values == {"mode": "plan", "model": "scripted", "effort": "high"}
    assert report.error("effort junk")[0] == -32602
    assert outcomes(report, "write planned.txt no") == ["failed"]
    assert not (walks.project(sdk) / "planned.txt").exists()
    assert {request["method"] for request in report.requests()} <= {"fs/read_text_file"}


@both
def test_a_cancel_ends_a_turn_that_speaks_and_one_that_waits_for_leave(walks: Walks, sdk: str) -> None:
    report = walks.coding(sdk, "stop")
    assert report.result("slow 500")["stopReason"] == "cancelled"
    assert report.result("run touch held.txt")["stopReason"] == "cancelled"
    assert outcomes(report, "run touch held.txt") == ["failed"]
    assert text_of(report, "say still here") == "still here"


@both
def test_words_steer_a_turn_that_runs_and_no_other(walks: Walks, sdk: str) -> None:
    report = walks.coding(sdk, "steer")
    assert report.result("steer") == {"accepted": True}
    assert report.result("steer late") == {"accepted": False}
    told = [update for update in report.updates() if update["sessionUpdate"] == "user_message_chunk"]
    assert [update["content"]["text"] for update in told] == ["use tabs"]


@both
@pytest.mark.rule(107, 112, 116)
def test_sessions_are_found_again_replayed_resumed_and_closed(walks: Walks, sdk: str) -> None:
    report = walks.coding(sdk, "come_back")
    listed = report.result("list")["sessions"]
    assert len(listed) == 6
    assert listed[-1]["title"].startswith("think hm todo")
    replayed = report.updates("load")
    assert kinds(replayed)[0] == "user_message_chunk"
    assert replayed[0]["content"]["text"] == WORK
    assert "it says 1\tone" in text_of(report, "load")
    assert outcomes(report, "load") == ["completed"]  # the to-do list is the plan, not a call
    assert report.error("load missing")[0] == -32002
    assert not {"user_message_chunk", "agent_message_chunk"} & set(kinds(report.updates("resume")))
    assert text_of(report, "say on we go") == "on we go"
    assert report.result("slow 500")["stopReason"] == "cancelled"
    report.result("close")
    assert report.error("closed")[0] == -32002


def test_a_deleted_session_is_gone(walks: Walks) -> None:
    report = walks.coding("ts", "forget")
    report.result("delete")
    report.result("delete again")
    assert report.error("load deleted")[0] == -32002
    assert len(report.result("list after")["sessions"]) == len(report.result("list")["sessions"]) - 1


class AgentCheck(WireCheck):
    """Judges what the other side sent."""

    def received(self, line: bytes) -> None:
        super().sent(line)

    def sent(self, line: bytes) -> None:
        super().received(line)


@asynccontextmanager
async def ours(home: Path, *answers: str) -> AsyncIterator[RemoteAgent]:
    """Our client and the built-in agent, whose every frame has to be right."""
    left = list(answers)

    async def permission(request: v1.RequestPermissionRequest, session: object) -> str:
        return left.pop(0)

    check = AgentCheck()
    options: Any = {"files": DiskFiles(), "terminals": ProcessTerminals(), "permission": permission}
    env = {"DRAGOMAN_HOME": str(home)}
    async with dragoman.spawn(*BUILT_IN_AGENT, env=env, observers=[check], **options) as agent:
        yield agent
    assert check.problems() == []


async def test_our_own_client_walks_the_same_way(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\ntwo\n")
    async with ours(tmp_path / "home", "allow-once", "reject-once", "allow-once") as agent:
        session = await agent.new_session(project)
        assert (await session.prompt(WORK)).stop_reason == "end_turn"
        assert "it says 1\tone" in session.state.text
        assert [entry.status for entry in session.state.plan] == ["completed", "in_progress", "pending"]
        command = "run touch made.txt; echo from the terminal\nsay {result}"
        await session.prompt(f"edit a.txt two => zwei\nwrite no.txt no\n{command}")
        assert (project / "a.txt").read_text() == "one\nzwei\n"
        assert not (project / "no.txt").exists()
        assert "from the terminal" in session.state.text
        await session.set_mode("plan")
        await session.set_config_option("effort", "high")
        async with asyncio.timeout(60):
            turn = session.prompt("slow 500")
            async for _ in turn:
                await session.cancel()
        assert session.state.stop_reason == "cancelled"
        steered = await agent.request("_dragoman/steer", {"sessionId": session.id, "text": "too late"})
        assert steered == {"accepted": False}
        await agent.close_session(session.id)
        other = await agent.new_session(project)
    async with ours(tmp_path / "home") as agent:
        loaded = await agent.load_session(session.id, project)
        assert loaded.state.mode == "plan"
        assert next(message.text for message in loaded.state.messages if message.role == "user") == WORK
        resumed = await agent.resume_session(other.id, project)
        await resumed.prompt("say on we go")
        assert resumed.state.text == "on we go"
        await agent.delete_session(session.id)
        assert [each.session_id async for each in agent.sessions(cwd=project)] == [other.id]
