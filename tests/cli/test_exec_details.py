"""What the result and the events of `dragoman exec` say about tool calls, permissions and durations."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dragoman.runs.tool_calls import ToolWatch
from dragoman.schema import v1
from dragoman.state import SessionState, fold
from tests.cli.exec_kit import Place
from tests.cli.step_kit import play, tool
from tests.cli.ways import place, plain_place, shared_host

__all__ = ["place", "plain_place", "shared_host"]

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_a_tool_call_has_all_that_the_agent_reported(place: Place) -> None:
    path = str(place.project / "a.txt")
    diff = {"type": "diff", "path": path, "oldText": "a", "newText": "b"}
    text = {"type": "content", "content": {"type": "text", "text": "1 replaced"}}
    raw = {"file_path": path, "old_string": "a", "new_string": "b"}
    steps = [
        tool("1", title="Edit", kind="edit", status="pending", rawInput=raw, locations=[{"path": path, "line": 3}]),
        tool("1", new=False, status="completed", content=[diff, text]),
        tool("2", title="execute", kind="execute", rawInput={"command": "make test"}),
        tool("2", new=False, status="completed", rawOutput={"exit_code": 2, "stdout": "failed\n"}),
    ]
    edit, run = play(place, steps, "--output", "json").result["tool_calls"]
    assert edit["diffs"] == [{"path": path, "old_text": "a", "new_text": "b"}]
    assert (edit["paths"], edit["input"], edit["output"]) == ([path], raw, "1 replaced")
    assert (edit["command"], edit["exit_code"]) == (None, None)
    assert (run["command"], run["exit_code"], run["output"]) == ("make test", 2, "failed\n")
    for call in (edit, run):
        assert TIME.fullmatch(call["started_at"])
        assert TIME.fullmatch(call["ended_at"])
        assert call["started_at"] <= call["ended_at"]


def test_a_command_in_the_clients_terminal_shows_its_output(place: Place) -> None:
    done = place.run("-a", "scripted", "terminal echo forty-two", "--allow", "execute", "--output", "json")
    [call] = done.result["tool_calls"]
    assert (call["output"], call["exit_code"]) == ("forty-two\n", 0)
    assert "echo forty-two" in call["command"]


def test_an_open_call_has_no_end(place: Place) -> None:
    [call] = play(place, [tool("1", kind="read", status="in_progress")], "--output", "json").result["tool_calls"]
    assert (call["is_open"], call["ended_at"], call["output"]) == (True, None, None)


def test_long_texts_of_a_tool_are_cut_with_a_notice(place: Place) -> None:
    steps = [tool("1", kind="execute", status="completed", rawInput={"a": ["x" * 100_000]}, rawOutput="y" * 100_000)]
    [call] = play(place, steps, "--output", "json").result["tool_calls"]
    for text, letter in ((call["input"]["a"][0], "x"), (call["output"], "y")):
        assert len(text) < 70_000
        assert "[cut by dragoman: 34464 characters]" in text
        assert text.startswith(letter)
        assert text.endswith(letter)


def test_a_permission_has_its_command_its_paths_and_the_offered_options(place: Place) -> None:
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    run = {"toolCallId": "1", "title": "execute", "kind": "execute", "rawInput": {"command": "npm test"}}
    path = str(place.project / "a.txt")
    edit = {"toolCallId": "2", "title": "edit", "kind": "edit", "rawInput": {"path": path}}
    steps: list[Any] = [
        ["ask", "session/request_permission", {"toolCall": run, "options": options}],
        ["ask", "session/request_permission", {"toolCall": edit, "options": options}],
        ["say", "done"],
    ]
    done = play(place, steps, "--allow", "execute", "--deny", "edit", "--output", "json")
    first, second = done.result["permissions"]
    assert (first["command"], first["paths"], first["action"]) == ("npm test", [], "allow")
    assert (second["command"], second["paths"], second["action"]) == (None, [path], "deny")
    assert first["options"] == [
        {"id": "y", "name": "Yes", "kind": "allow_once"},
        {"id": "n", "name": "No", "kind": "reject_once"},
    ]
    assert "allowed execute: npm test (" in done.err
    assert "denied edit: a.txt (" in done.err


def test_decisions_that_repeat_are_counted(place: Place) -> None:
    run = {"toolCallId": "1", "title": "execute", "kind": "execute", "rawInput": {"command": "npm test"}}
    ask = ["ask", "session/request_permission", {"toolCall": run, "options": []}]
    other = ["ask", "session/request_permission", {"toolCall": {**run, "toolCallId": "2"}, "options": []}]
    done = play(place, [ask, ask, ask, other, ["say", "x"]], "--deny", "execute", "--output", "json")
    assert [each["count"] for each in done.result["permissions"]] == [3, 1]


def test_an_event_that_repeats_the_one_before_is_left_out(place: Place) -> None:
    plan = ["update", {"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "high", "status": "pending"}]}]
    same, usage = tool("1", status="in_progress"), ["update", {"sessionUpdate": "usage_update", "used": 5, "size": 9}]
    steps = [same, same, plan, usage, same, plan, usage, ["say", "x"], ["say", "x"]]
    events = play(place, steps, "--output", "events").events
    kinds = [event["event"] for event in events]
    assert kinds[3:-1] == ["tool_call", "plan", "usage", "message", "message"]


def test_the_first_events_describe_the_agent_and_the_session(plain_place: Place) -> None:
    option = {"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "large"}
    session = {"configOptions": [{**option, "options": [{"value": "large", "name": "Large"}]}]}
    info = {"name": "stepper", "title": "Stepper", "version": "1.2"}
    starting, initialized, opened = play(
        plain_place, [["say", "x"]], "--output", "events", info=info, session=session
    ).events[:3]
    assert [each["event"] for each in (starting, initialized, opened)] == ["starting", "initialized", "session"]
    assert starting["schema"] == "dragoman.exec.event/1"
    assert starting["agent"]["version"] is None
    assert (initialized["agent"]["title"], initialized["agent"]["version"]) == ("Stepper", "1.2")
    assert (opened["session_id"], opened["model"]) == ("s", "large")


def test_the_first_event_does_not_wait_for_the_agent(plain_place: Place) -> None:
    done = play(plain_place, [], "--output", "events", "--timeout", "1", never="initialize")
    assert [event["event"] for event in done.events] == ["starting", "result"]


def test_durations_are_split_by_step(plain_place: Place) -> None:
    result = play(plain_place, [["say", "x"]], "--output", "json").result
    spent = result["durations"]
    assert all(spent[name] >= 0 for name in ("start_ms", "session_ms", "turn_ms"))
    assert sum(spent.values()) <= result["duration_ms"] + 3
    failed = play(plain_place, [], "--output", "json", "--timeout", "6", never="session/new").result["durations"]
    assert failed["start_ms"] > 0
    assert failed["session_ms"] > 0
    assert failed["turn_ms"] is None


RECORDINGS = Path(__file__).parents[3] / "shared" / "transcripts"


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recordings of real agents are not on this machine")
@pytest.mark.parametrize(
    ("name", "command", "exit_code", "output"),
    [
        ("codex-zed", "cat /home/user/project/note.txt", 0, "line one\nline two\nalpha\n"),
        ("codex", "touch /home/user/project/ran.txt && echo out-42", 0, "out-42\n"),
        ("fast-agent", "touch /home/user/project/ran.txt && echo out-42", 0, "out-42\n\n\n[Exit code: 0]"),
        ("cline", "timeout 20 tail -f /dev/null", None, "Command failed: Command was aborted"),
        ("claude22", "touch /home/user/project/ran.txt && echo out-42", None, "out-42"),
    ],
)
def test_commands_of_recorded_agents_are_described(name: str, command: str, exit_code: int | None, output: str) -> None:
    """Each agent reports the command, the output and the exit code in places of its own."""
    from dragoman.schema import decoder

    state, watch = SessionState(), ToolWatch("/home/user/project")
    state.begin_turn([v1.TextContent("x")])
    read = decoder(v1.UpdateFrame)
    for line in (RECORDINGS / f"{name}.jsonl").read_text().splitlines():
        message = json.loads(line).get("msg")
        if isinstance(message, dict) and message.get("method") == "session/update":
            update = read.decode(json.dumps(message)).params.update
            fold(state, update)
            if isinstance(update, v1.ToolCall | v1.ToolCallUpdate):
                watch.note(update, 0.0)
    calls = [watch.describe(call) for call in state.tool_calls.values()]
    found = [call for call in calls if call.command and command in call.command and call.output]
    assert found, [(call.command, call.output) for call in calls]
    assert any(output in (call.output or "") for call in found), [call.output for call in found]
    assert exit_code in [call.exit_code for call in found]


def test_all_of_it_fits_the_schema(plain_place: Place) -> None:
    steps = [tool("1", kind="execute", status="completed", rawInput={"command": ["a", "b"]}, rawOutput=[{"x": None}])]
    schema = json.loads(plain_place.run("--schema").out)
    result = play(plain_place, steps, "--output", "json").result
    jsonschema.validate(result, schema)
    assert result["tool_calls"][0]["command"] == "a b"
    assert result["tool_calls"][0]["output"] == '{"x":null}'
