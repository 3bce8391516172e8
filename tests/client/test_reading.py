"""What is read from the permission requests of real agents, and what is not believed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.client.reading import Evidence, describe
from dragoman.policy import Request, Rule, judge, parse_rule
from dragoman.policy.decide import judge_all
from dragoman.schema import decode, v1
from dragoman.state import SessionState, fold

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "transcripts"
RECORDINGS = sorted(Path(os.environ.get("DRAGOMAN_TRANSCRIPTS", BESIDE)).glob("*.jsonl"))
ROOT = "/home/user/project"
NOTE = f"{ROOT}/note.txt"


def read(call: dict[str, Any], *announced: dict[str, Any]) -> Request:
    """The only request for the rules, or the first of those that differ in nothing but their kind."""
    found = evidence(call, *announced).requests
    assert len({(request.command, request.host) for request in found}) == 1
    return found[0]


def evidence(call: dict[str, Any], *announced: dict[str, Any]) -> Evidence:
    """As the client would: updates first, then the request is noted, then described."""
    state = SessionState()
    state.begin_turn([v1.TextContent("go")])
    call = {"toolCallId": "call_1", **call}
    for update in announced:
        text = json.dumps({"toolCallId": call["toolCallId"], "sessionUpdate": "tool_call_update", **update})
        fold(state, decode(v1.SessionUpdate, text.encode()))
    params = {"sessionId": "s", "toolCall": call, "options": []}
    request = decode(v1.RequestPermissionRequest, json.dumps(params).encode())
    before = state.tool_calls.get(request.tool_call.tool_call_id)
    state.note_permission(request.tool_call)
    return describe(request, state, before, agent="a", root=ROOT, home="/home/user")


def verdict(rules: list[Rule], found: Evidence) -> str:
    return judge_all(found.requests, lambda request: judge(rules, request))[0].action


def diff(path: str) -> dict[str, Any]:
    return {"type": "diff", "path": path, "oldText": "alpha", "newText": "omega"}


def text_content(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


EDITS = {
    "claude": {
        "title": "Edit note.txt",
        "kind": "edit",
        "rawInput": {"file_path": NOTE, "old_string": "alpha", "new_string": "omega", "replace_all": False},
        "content": [diff(NOTE)],
        "locations": [{"path": NOTE}],
    },
    "copilot": {
        "title": "Edit file",
        "kind": "edit",
        "rawInput": {"fileName": NOTE, "diff": f"--- a{NOTE}\n+++ b{NOTE}\n@@ -1 +1 @@\n"},
    },
    "gemini": {"title": "note.txt: alpha => omega", "kind": "edit", "content": [diff(NOTE)]},
    "kimi, which names no kind": {"title": "StrReplaceFile: note.txt", "content": [diff(NOTE)]},
    "kimi code, in words": {
        "title": "Write",
        "kind": "edit",
        "content": [text_content(f"Requesting approval to Writing {NOTE}")],
    },
    "the TypeScript example": {"title": "Modifying", "kind": "edit", "rawInput": {"path": NOTE, "content": "{}"}},
    "an editing tool with a command": {"kind": "edit", "rawInput": {"command": "str_replace", "path": NOTE}},
    "a change called a read": {"kind": "read", "content": [diff(NOTE)]},
    "cline": {"kind": "edit", "rawInput": {"files": [{"path": NOTE}]}},
    "cline's patch": {
        "kind": "other",
        "rawInput": {"input": "*** Begin Patch\n*** Add File: note.txt\n+x\n*** End Patch"},
    },
    "a list of paths": {"kind": "edit", "rawInput": {"files": [NOTE, 7, {"path": None}]}},
    "a patch over files": {"kind": "edit", "rawInput": {"changes": {NOTE: {"type": "update"}}}},
}


@pytest.mark.parametrize("call", EDITS.values(), ids=EDITS.keys())
def test_the_file_of_an_edit_is_read(call: dict[str, Any]) -> None:
    requests = evidence(call).requests
    assert {found.kind for found in requests} - {"read"} == {"edit"}
    for found in requests:
        assert (found.paths, found.command) == ((NOTE,), None)


LINE = "npm test -- --fast"
COMMANDS = {
    "claude": {"kind": "execute", "title": LINE, "rawInput": {"command": LINE, "description": "Run a command"}},
    "codex": {"kind": "execute", "title": LINE, "rawInput": {"command": LINE, "cwd": ROOT}},
    "codex by Zed": {"kind": "execute", "rawInput": {"command": ["/bin/bash", "-lc", LINE], "cwd": ROOT}},
    "copilot": {"kind": "execute", "title": "Run a command", "rawInput": {"command": LINE, "commands": [LINE]}},
    "an input that is JSON in a text": {"rawInput": json.dumps({"command": LINE})},
    "commands as a text": {"rawInput": {"commands": LINE}},
    "only commands": {"kind": "execute", "rawInput": {"commands": [LINE]}},
    "words": {"kind": "execute", "rawInput": {"command": "npm", "args": ["test", "--", "--fast"]}},
    "gemini": {
        "toolCallId": "run_shell_command__fc-9-1",
        "kind": "execute",
        "title": LINE,
        "content": [text_content(f"[current working directory {ROOT}] (Run a command)")],
    },
    "kimi": {
        "title": "Shell: npm te...",
        "content": [text_content(f"Requesting approval to perform: Run command `{LINE}`")],
    },
    "a command called a read": {"kind": "read", "rawInput": {"command": LINE}},
    "kimi code, as text": {"content": [text_content(json.dumps({"command": LINE, "description": "rm -r /"}))]},
    "a rule that the agent proposes is not run": {
        "rawInput": {"command": LINE, "proposed_execpolicy_amendment": ["rm"], "reason": {"command": "id"}}
    },
}


@pytest.mark.parametrize("call", COMMANDS.values(), ids=COMMANDS.keys())
def test_the_command_is_read_and_judged(call: dict[str, Any]) -> None:
    found = read(call)
    assert found.kind == "execute"
    assert judge([parse_rule("execute:npm test *", "allow", "flag")], found).action == "allow"


UNREADABLE = {
    "a title is no command": {"kind": "execute", "title": LINE},
    "a title of another tool is none": {"toolCallId": "my_run_shell_command__1", "kind": "execute", "title": LINE},
    "two commands that differ": {"kind": "execute", "rawInput": {"command": LINE, "cmd": "id"}},
    "a list with more than words": {"kind": "execute", "rawInput": {"command": ["npm", "test", 1]}},
    "arguments that are no list": {"kind": "execute", "rawInput": {"command": "npm", "args": "test"}},
    "an input that is no object": {"kind": "execute", "rawInput": LINE},
    "words that are cut": {"kind": "execute", "content": [text_content("Requesting approval to Running: npm test …")]},
    "commands of an unknown form": {"kind": "execute", "rawInput": {"commands": {"first": "id"}}},
    "arguments by another name": {"kind": "execute", "rawInput": {"command": LINE, "arguments": ["--evil"]}},
    "several commands": {"kind": "execute", "rawInput": {"commands": [LINE, "id"]}},
    "another folder": {"kind": "execute", "rawInput": {"command": LINE, "cwd": "/tmp"}},
    "words beside other words": {
        "kind": "execute",
        "content": [text_content("hello"), text_content(f"Requesting approval to perform: Run command `{LINE}`")],
    },
    "words within other words": {
        "kind": "execute",
        "content": [text_content(f"ignore: Requesting approval to perform: Run command `{LINE}`")],
    },
    "words against an input": {
        "kind": "execute",
        "rawInput": {"command": "id"},
        "content": [text_content(f"Requesting approval to perform: Run command `{LINE}`")],
    },
}


@pytest.mark.parametrize("call", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_for_certain_matches_no_words(call: dict[str, Any]) -> None:
    rules = [parse_rule(f"execute:{LINE}", "allow", "flag"), parse_rule("execute:npm test *", "allow", "flag")]
    assert verdict(rules, evidence(call)) == "ask"


@pytest.mark.parametrize("call", [{"kind": "edit", "title": "Write"}, {"kind": "edit", "content": [text_content("x")]}])
def test_an_edit_without_a_file_matches_no_path(call: dict[str, Any]) -> None:
    assert judge([parse_rule("edit:**", "allow", "flag")], read(call)).action == "ask"


def test_a_file_next_to_the_one_shown_counts() -> None:
    call = {"kind": "edit", "content": [diff(NOTE)], "locations": [{"path": "/home/user/.bashrc"}]}
    assert read(call).paths == (NOTE, "/home/user/.bashrc")


def test_earlier_updates_of_the_tool_call_count() -> None:
    announced = {"kind": "execute", "title": "Run", "rawInput": {"command": LINE}}
    found = read({"title": "Run it"}, announced)
    assert (found.kind, found.title, found.command_line) == ("execute", "Run it", LINE)


def test_an_older_call_of_the_same_id_does_not_count() -> None:
    state = SessionState()
    state.begin_turn([v1.TextContent("one")])
    fold(state, v1.ToolCall("call_1", "Run", kind="execute", status="completed", raw_input={"command": LINE}))
    state.end_turn("end_turn", None)
    state.begin_turn([v1.TextContent("two")])
    request = v1.RequestPermissionRequest("s", v1.ToolCallPatch("call_1", kind="execute"), [])
    state.note_permission(request.tool_call)
    before = state.tool_calls["call_1"]
    found = describe(request, state, before, agent="a", root=ROOT)
    assert found.requests[0].command is None
    assert found.problem


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"name": "mcp__github__get_issue", "kind": "other"}, ("github", "get_issue")),
        ({"_meta": {"claudeCode": {"toolName": "mcp__a__b__c"}}}, ("a", "b__c")),
        ({"rawInput": {"server": "github", "tool": "get", "arguments": {}}}, ("github", "get")),
        ({"title": "mcp__github__get_issue"}, None),
        ({"rawInput": {"server": "github", "tool": "get", "command": "id"}}, None),
    ],
)
def test_mcp_tools_are_known_by_their_names(call: dict[str, Any], expected: tuple[str, str] | None) -> None:
    assert read(call).mcp == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/a?b#c", "example.org"),
        ("example.org/a", "example.org"),
        ("https://example.org@evil.org/", "evil.org"),
        ("https://EVIL.org:8080/", "evil.org"),
        ("https://evil.org\\@example.org/", None),
        ("https://evil.org /example.org", None),
        ("https://[::1]/", "::1"),
        ("https://[::1/", None),
        ("https:///x", None),
        (7, None),
    ],
)
def test_the_host_of_an_address_is_the_one_it_leads_to(url: object, expected: str | None) -> None:
    assert read({"kind": "fetch", "rawInput": {"url": url}}).host == expected


# The only recorded requests in which there is nothing to read: Gemini's lists of what is to be done.
TODO_LISTS = {"gemini": 1, "gemini-noread": 1}
# Claude guesses which files a command is about; the TypeScript example announces another path than it asks for.
ELSEWHERE = {"/dev/null", "/project/config.json"}


def requests_of(recording: Path) -> list[Evidence]:
    """Every permission request of a recording, described with the state that was folded until then."""
    states: dict[str, SessionState] = {}
    asked: dict[str, object] = {}
    found = []
    for text in recording.read_text().splitlines():
        message = json.loads(text).get("msg")
        if not isinstance(message, dict) or not isinstance(message.get("params"), dict):
            continue
        params = json.dumps(message["params"]).encode()
        state = states.setdefault(str(message["params"].get("sessionId")), SessionState())
        match message.get("method"):
            case "session/prompt":
                if state.is_running:
                    state.end_turn(None, None)
                state.begin_turn([v1.TextContent("go")])
            case "session/update":
                fold(state, decode(v1.SessionNotification, params).update)
            case "session/request_permission":
                request = decode(v1.RequestPermissionRequest, params)
                call_id = request.tool_call.tool_call_id
                known = state.tool_calls.get(call_id)
                before = None if known is asked.get(call_id) else known
                asked[call_id] = state.note_permission(request.tool_call)
                found.append(describe(request, state, before, agent=recording.stem, root=ROOT, home="/home/user"))
    return found


@pytest.mark.skipif(not RECORDINGS, reason="the recordings of real agents are not beside this project")
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_every_recorded_request_is_read(recording: Path) -> None:
    todo_lists = 0
    for found in requests_of(recording):
        assert not found.problem, found
        kinds = {request.kind for request in found.requests}
        if kinds == {"other"}:
            todo_lists += 1
            continue
        assert kinds in ({"edit"}, {"read"}, {"execute"}), found
        for request in found.requests:
            assert request.title
            assert all(path.startswith(f"{ROOT}/") for path in request.paths if path not in ELSEWHERE), found
            assert request.command if request.kind == "execute" else request.paths, found
        assert len(found.requests) == 1, found
    assert todo_lists == TODO_LISTS.get(recording.stem, 0)


@pytest.mark.skipif(not RECORDINGS, reason="the recordings of real agents are not next to this project")
def test_the_recordings_hold_as_many_requests_as_were_counted() -> None:
    counted = [len(requests_of(recording)) for recording in RECORDINGS]
    assert sum(counted) == 91


@pytest.mark.parametrize(("agent", "is_problem"), [("gemini", False), ("gemini-noread", False), ("other", True)])
def test_the_id_of_a_to_do_list_counts_only_for_the_agent_that_has_one(agent: str, is_problem: bool) -> None:
    """The agent chooses the id, so another agent must not become readable by it."""
    call = v1.ToolCallPatch("write_todos-1", title="Plan", kind="other")
    request = v1.RequestPermissionRequest("s", call, [])
    found = describe(request, SessionState(), None, agent=agent, root=ROOT)
    assert bool(found.problem) == is_problem
