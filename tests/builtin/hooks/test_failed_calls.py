"""Hooks after a tool call that failed: which calls count, what the hook is sent, what the model reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builtin.hooks.test_hooks import answering, service_with
from tests.builtin.http_service import Answers


def kept(path: Path) -> list[dict[str, Any]]:
    """What a hook of `keeping` was sent, each time."""
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def keeping(path: Path) -> dict[str, str]:
    """A hook that writes what it is sent as one line, at once: another one may run at the same time."""
    return {"command": f"input=$(cat); printf '%s\\n' \"$input\" >> {path}"}


async def test_a_hook_after_a_failed_call_is_sent_the_reason_and_adds_to_it(tmp_path: Path) -> None:
    answer = {"hookSpecificOutput": {"additionalContext": "the file is called b.txt"}}
    seen = tmp_path / "seen.jsonl"
    hooks = {
        "after_failed_tool": [keeping(seen), {"matcher": "read", "command": answering(answer)}],
        "after_tool": [keeping(tmp_path / "worked.jsonl")],
    }
    service = service_with(tmp_path, hooks)
    async with service.session() as session:
        await session.prompt("read a.txt\nsay {result}")
        assert "the file is called b.txt" in session.state.turns[-1].text
        (call,) = session.state.tool_calls.values()
        assert call.status == "failed"  # whatever a hook adds
    (sent,) = kept(seen)
    assert (sent["hook_event_name"], sent["tool_name"]) == ("after_failed_tool", "read")
    assert sent["tool_input"] == {"path": "a.txt"}
    assert sent["tool_response"] == {"output": sent["error"], "is_error": True}
    assert "a.txt" in sent["error"]
    assert not (tmp_path / "worked.jsonl").exists()


async def test_a_command_that_ends_with_an_error_is_a_call_that_worked(tmp_path: Path) -> None:
    """Its exit code is a part of the result, as for the hooks of other agents."""
    worked, failed = tmp_path / "worked.jsonl", tmp_path / "failed.jsonl"
    service = service_with(tmp_path, {"after_tool": [keeping(worked)], "after_failed_tool": [keeping(failed)]})
    async with service.session("allow_once") as session:
        await session.prompt("run exit 3\nsay done")
    assert "3" in kept(worked)[0]["tool_response"]["output"]
    assert kept(failed) == []


async def test_a_refused_call_is_not_a_failed_one(tmp_path: Path) -> None:
    """By a rule, by the user, or by a hook: the call never began."""
    failed = tmp_path / "failed.jsonl"
    refusing = {"matcher": "glob", "command": "exit 2"}
    service = service_with(tmp_path, {"after_failed_tool": [keeping(failed)], "before_tool": [refusing]}, mode="ask")
    members = json.loads((service.home / "settings.json").read_text())
    (service.home / "settings.json").write_text(json.dumps({**members, "rules": {"deny": ["edit:secret.txt"]}}))
    async with service.session(permission=Answers("reject_once")) as session:
        await session.prompt("write secret.txt x\nwrite a.txt x\nglob *\ncall nothing {}\nsay done")
    assert kept(failed) == []


@pytest.mark.parametrize(("event", "count"), [("PostToolUseFailure", 1), ("PostToolUse", 1), ("AfterTool", 2)])
async def test_hooks_of_other_agents_run_at_their_moments(tmp_path: Path, event: str, count: int) -> None:
    """Gemini CLI has one moment after a call, Claude Code one for each outcome."""
    seen = tmp_path / "seen.jsonl"
    group = {"matcher": "Read", "hooks": [{"type": "command", **keeping(seen)}]}
    service = service_with(tmp_path, {event: [group]})
    (service.project / "a.txt").write_text("content\n")
    async with service.session() as session:
        await session.prompt("read a.txt\nread missing.txt\nsay done")
    sent = kept(seen)
    assert [each["hook_event_name"] for each in sent] == [event] * count
    is_error = [each["tool_response"]["is_error"] for each in sent]
    assert is_error == {"PostToolUseFailure": [True], "PostToolUse": [False], "AfterTool": [False, True]}[event]
    assert all(each["tool_name"] == "Read" for each in sent)


async def test_the_defect_of_a_tool_is_a_failure_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.builtin.tools.read import ReadTool

    async def broken(self: Any, arguments: Any, context: Any) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr(ReadTool, "run", broken)
    seen = tmp_path / "seen.jsonl"
    service = service_with(tmp_path, {"after_failed_tool": [keeping(seen)]})
    (service.project / "a.txt").write_text("content\n")
    async with service.session() as session:
        await session.prompt("read a.txt\nsay {result}")
        assert "read failed: RuntimeError: a defect" in session.state.turns[-1].text
    assert "a defect" in kept(seen)[0]["error"]
