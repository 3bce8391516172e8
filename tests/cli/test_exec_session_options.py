"""`dragoman exec --session NAME` with options of a single run: patch, retries, violations, recording, raw output."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.warm_python import WarmPython
from tests.host.local.kit import HostPlaceKit, local_place, scripted


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, warm_python: WarmPython) -> Iterator[HostPlaceKit]:
    """One host for the tests of this file; each test has a project of its own, and so its own names."""
    with local_place(tmp_path_factory.mktemp("host"), warm_python) as found:
        yield found


@pytest.fixture
def place(shared: HostPlaceKit, tmp_path: Path) -> HostPlaceKit:
    shared.project = tmp_path
    return shared


STEP_AGENT = Path(__file__).parent / "step_agent.py"


def steps(place: HostPlaceKit, *turns: list[Any]) -> list[str]:
    """The command of an agent whose prompts play these turns, the last one again and again."""
    script = place.project / "script.json"
    script.write_text(json.dumps({"turns": turns, "tries": [turns[-1]]}))
    return ["--", sys.executable, str(STEP_AGENT), str(script)]


def diff(path: Path, old: str, new: str) -> list[dict[str, Any]]:
    return [{"type": "diff", "path": str(path), "oldText": old, "newText": new}]


def test_a_patch_has_what_the_host_wrote_and_what_the_agent_wrote_in_this_turn(place: HostPlaceKit) -> None:
    ours, theirs = place.project / "ours.txt", place.project / "theirs.txt"
    ours.write_text("one\n")
    theirs.write_text("uno\n")
    edit: dict[str, Any] = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "edit", "kind": "edit"}
    turns: list[list[Any]] = [
        [["ask", "fs/write_text_file", {"path": str(ours), "content": "two\n"}]],
        [
            ["ask", "fs/write_text_file", {"path": str(ours), "content": "three\n"}],
            ["update", {**edit, "status": "pending", "content": diff(theirs, "uno\n", "due\n")}],
            ["write", str(theirs), "due\n"],
            ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}],
        ],
    ]
    agent = steps(place, *turns)
    first, second = place.project / "first.patch", place.project / "second.patch"
    done = place.run("--session", "p", "--allow", "edit", "--patch", str(first), "go", *agent)
    assert done.code in (0, 6), done.err
    assert "-one\n+two\n" in first.read_text()
    done = place.run("--session", "p", "--patch", str(second), "--output", "json", "go")
    patch = second.read_text()
    assert "-two\n+three\n" in patch
    assert "-uno\n+due\n" in patch
    assert "one" not in patch, "an earlier turn is not in it"
    assert {Path(each["path"]).name for each in done.result["files_changed"]} == {"ours.txt", "theirs.txt"}
    assert done.result["patch"]["files"] == [str(ours), str(theirs)]
    back = subprocess.run(["git", "apply", "-R", str(second)], cwd=place.project, capture_output=True, check=False)
    assert back.returncode == 0, back.stderr
    assert (ours.read_text(), theirs.read_text()) == ("two\n", "uno\n")


def test_a_turn_that_failed_in_passing_and_changed_nothing_is_tried_again(place: HostPlaceKit) -> None:
    busy: list[Any] = [["error", {"code": -32603, "message": "overloaded, try again in 0.01 s"}]]
    agent = steps(place, busy, busy, [["say", "done"]])
    done = place.run("--session", "r", "--retries", "2", "--output", "json", "go", *agent)
    assert done.code == 0, done.err
    assert done.result["text"] == "done"
    assert [each["kind"] for each in done.result["retries"]] == ["agent_error", "agent_error"]
    assert "trying again" in done.err


def test_a_turn_that_changed_something_is_not_tried_again(place: HostPlaceKit) -> None:
    busy: list[Any] = ["error", {"code": -32603, "message": "overloaded"}]
    write: list[Any] = ["ask", "fs/write_text_file", {"path": str(place.project / "made.txt"), "content": "x"}]
    agent = steps(place, [write, busy], [["say", "again"]])
    done = place.run("--session", "c", "--allow", "edit", "--retries", "2", "--output", "json", "go", *agent)
    assert done.code == 1, done.err
    assert done.result["retries"] == []


def test_stop_on_violation_cancels_the_turn_at_a_changed_protected_file(place: HostPlaceKit) -> None:
    (place.project / "build.sh").write_text("echo x > .envrc\n")
    command = {"command": "sh", "args": ["build.sh"]}
    turn = [["ask", "terminal/create", command], ["await", "session/cancel"], ["answer", {"stopReason": "cancelled"}]]
    words = ("--allow", "execute:sh build.sh", "--stop-on-violation", "--output", "json")
    done = place.run("--session", "f", *words, "go", *steps(place, turn))
    assert done.code == 10, done.err
    assert [Path(each["paths"][0]).name for each in done.result["violations"]] == [".envrc"]


def test_what_the_user_changes_between_two_turns_is_not_a_violation_of_the_agent(place: HostPlaceKit) -> None:
    agent = steps(place, [["say", "one"]], [["say", "two"]], [["write", str(place.project / ".envrc"), "x"]])
    assert place.run("--session", "u", "go", *agent).code == 0
    (place.project / "AGENTS.md").write_text("mine\n")
    done = place.run("--session", "u", "--output", "json", "go")
    assert (done.code, done.result["violations"]) == (0, []), done.err
    done = place.run("--session", "u", "--output", "json", "go")
    assert done.code == 10, done.err
    assert [Path(each["paths"][0]).name for each in done.result["violations"]] == [".envrc"]


def test_a_recording_and_raw_output_are_of_the_connection_to_the_host(place: HostPlaceKit) -> None:
    recording = place.project / "run.jsonl"
    done = scripted(place, "w", "say hello", "--record", str(recording), "--output", "raw")
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in done.out.splitlines()]
    shown = place.run(str(recording), verb="inspect")
    assert shown.code == 0, shown.err
    assert "session/prompt" in shown.out
    assert any("session/prompt" in str(line) for line in lines)
    assert any("hello" in str(line) for line in lines)
