"""Hooks at the start and the end of a subagent, with its name; other ACP agents included."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.builtin.hooks.test_failed_calls import keeping, kept
from tests.builtin.hooks.test_hooks import service_with
from tests.builtin.http_service import Service, ask
from tests.builtin.subagents.test_external import allow_other, needs_sandbox
from tests.builtin.subagents.test_runs import calls, output_of, settings, task, text_of


async def test_a_subagent_has_moments_of_its_own_with_its_name(tmp_path: Path) -> None:
    moments = ("subagent_start", "subagent_stop", "stop", "before_tool")
    service = service_with(tmp_path, {moment: [keeping(tmp_path / moment)] for moment in moments})
    (service.project / "a.txt").write_text("content\n")
    async with service.session() as session:
        await ask(session, task("explore", "read a.txt", "say found"), "say end")
    (start,), (stop,), (end,) = (kept(tmp_path / moment) for moment in moments[:3])
    assert (start["agent_id"], start["agent_type"]) == ("task_1", "explore")
    assert start["prompt"] == "read a.txt\nsay found"
    assert (stop["agent_type"], stop["last_assistant_message"]) == ("explore", "found")
    assert stop["stop_hook_active"] is False
    assert (end["last_assistant_message"], end.get("agent_type")) == ("end", None)
    assert [(each["tool_name"], each.get("agent_type")) for each in kept(tmp_path / "before_tool")] == [
        ("task", None),
        ("read", "explore"),
    ]


async def test_a_subagent_goes_on_as_often_as_a_turn_may(tmp_path: Path) -> None:
    seen = tmp_path / "seen.jsonl"
    again = {"command": f"{keeping(seen)['command']}; echo 'name the line' >&2; exit 2"}
    service = service_with(tmp_path, {"subagent_stop": [again]})
    async with service.session() as session:
        await ask(session, task("explore", "say found"), "say end")
        assert session.state.turns[-1].text.endswith("end")  # the turn itself ends as it is
    assert [each["stop_hook_active"] for each in kept(seen)] == [False, True, True, True]
    assert "The subagent explore ends although a hook wants it to go on" in str(session.state.timeline)


async def test_every_run_is_counted_by_itself(tmp_path: Path) -> None:
    """Two runs at the same time, each of which a hook sends on once."""
    seen = tmp_path / "seen.jsonl"
    line = "input=$(cat); case $input in *'stop_hook_active\":false'*) echo more >&2; exit 2;; esac"
    service = service_with(tmp_path, {"subagent_stop": [{"command": line}, keeping(seen)]})
    async with service.session() as session:
        await ask(session, task("explore", "say one"), f"& {task('plan', 'say two')}", "say end")
    sent = [(each["agent_type"], each["stop_hook_active"]) for each in kept(seen)]
    assert sorted(sent) == [("explore", False), ("explore", True), ("plan", False), ("plan", True)]


async def test_a_refusal_keeps_a_subagent_from_beginning(tmp_path: Path) -> None:
    refusing = {"matcher": "build", "command": "echo 'not today' >&2; exit 2"}
    service = service_with(tmp_path, {"subagent_start": [refusing]}, mode="full")
    async with service.session() as session:
        await ask(session, task("build", "write a.txt x"), task("explore", "say found"), "say {result}")
        first, second = calls(session)
        assert (first.status, second.status) == ("failed", "completed")
        assert "not today" in text_of(first)
    assert not (service.project / "a.txt").exists()


async def test_what_a_hook_adds_is_read_by_the_subagent(tmp_path: Path) -> None:
    service = service_with(tmp_path, {"subagent_start": [{"command": "echo 'say and this'"}]})
    async with service.session() as session:
        await ask(session, task("explore", "say the task"), "say end")
        assert "and this" in output_of(calls(session)[0])


@pytest.mark.parametrize("matcher", ["Explore", "explore", ""])
async def test_hooks_of_other_agents_get_the_names_that_they_know(tmp_path: Path, matcher: str) -> None:
    seen = tmp_path / "seen.jsonl"
    group = {"matcher": matcher, "hooks": [{"type": "command", **keeping(seen)}]}
    service = service_with(tmp_path, {"SubagentStart": [group], "SubagentStop": [group]})
    async with service.session() as session:
        await ask(session, task("explore", "say found"), "say end")
    assert [(each["hook_event_name"], each["agent_type"]) for each in kept(seen)] == [
        ("SubagentStart", "Explore"),
        ("SubagentStop", "Explore"),
    ]


async def test_a_run_in_the_background_has_its_hooks_between_two_turns(tmp_path: Path) -> None:
    seen = tmp_path / "seen.jsonl"
    service = service_with(tmp_path, {"subagent_stop": [keeping(seen)]})
    async with service.session() as session:
        script = task("explore", "run until [ -e ../go ]; do sleep 0.02; done", "say found", background=True)
        await ask(session, script, "say end")
        (tmp_path / "go").touch()
        async with asyncio.timeout(60):
            while not kept(seen):  # noqa: ASYNC110 - what another program writes cannot be waited for otherwise
                await asyncio.sleep(0.01)
    assert kept(seen)[0]["agent_type"] == "explore"


@needs_sandbox
async def test_another_agent_is_asked_to_go_on_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "own"))
    service, seen = Service(tmp_path), tmp_path / "seen.jsonl"
    line = f'input=$(cat); echo "$input" >> {seen}; '
    line += "case $input in *'stop_hook_active\":false'*) echo 'say the second answer' >&2; exit 2;; esac"
    allow_other(service)
    members = json.loads((service.home / "settings.json").read_text())
    settings(service, {**members, "hooks": {"subagent_stop": [{"matcher": "other", "command": line}]}})
    async with service.session("allow_once") as session:
        await ask(session, task("other", "say the first answer"), "say {result}")
        assert "the second answer" in session.state.text
        assert "the first answer" not in session.state.text
    assert [each["last_assistant_message"] for each in kept(seen)] == ["the first answer", "the second answer"]
