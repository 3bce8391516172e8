"""Recordings of version 2: what `check trace` finds in them, what `inspect` shows, and how they are played again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.trace.entry import Frame
from dragoman.trace.inspect.folding import FoldedSessions
from dragoman.trace.reader import open_trace
from dragoman.trace.violations import Finding, PassiveChecker

TRAFFIC = Path(__file__).parents[2].parent / "shared" / "v2-traffic"
has_traffic = pytest.mark.skipif(not TRAFFIC.is_dir(), reason="the recorded traffic of version 2 is not there")
DRAGOMAN = (sys.executable, "-m", "dragoman")
AGENT = (sys.executable, "-S", str(Path(__file__).parents[1] / "conformance" / "agents" / "version2.py"))
INFO = {"name": "x", "version": "1"}
CAPABILITIES: dict[str, Any] = {"session": {"prompt": {}, "mcp": {"stdio": {}}}}
LOGINS = [
    {"type": "agent", "methodId": "key", "name": "Key"},
    {"type": "terminal", "methodId": "tty", "name": "Terminal"},
]

Line = tuple[str, dict[str, Any]]


def to_agent(method: str, request_id: Any = None, **params: Any) -> Line:
    return "c2a", {"method": method, "params": params, **({} if request_id is None else {"id": request_id})}


def to_client(method: str, request_id: Any = None, **params: Any) -> Line:
    return "a2c", {"method": method, "params": params, **({} if request_id is None else {"id": request_id})}


def answer(request_id: Any, direction: str = "a2c", **result: Any) -> Line:
    return direction, {"id": request_id, "result": result}


def refusal(request_id: Any, code: int) -> Line:
    return "a2c", {"id": request_id, "error": {"code": code, "message": "no"}}


def update(kind: str, /, session: str = "s", **members: Any) -> Line:
    return to_client("session/update", sessionId=session, update={"sessionUpdate": kind, **members})


def state(name: str, **members: Any) -> Line:
    return update("state_update", state=name, **members)


def tool(**members: Any) -> Line:
    return update("tool_call_update", toolCallId="c", **members)


def terminal(**members: Any) -> Line:
    return update("terminal_update", terminalId="t", **members)


HELLO: list[Line] = [
    to_agent("initialize", 0, protocolVersion=2, info=INFO, capabilities={}),
    answer(0, protocolVersion=2, info=INFO, capabilities=CAPABILITIES, authMethods=LOGINS),
    to_agent("session/new", 1, cwd="/w"),
    answer(1, sessionId="s"),
]
IDLE = state("idle", stopReason="end_turn")
SHOWN = update("user_message", messageId="u", content=[{"type": "text", "text": "hi"}])
PROMPT: list[Line] = [
    to_agent("session/prompt", 2, sessionId="s", prompt=[{"type": "text", "text": "hi"}]),
    answer(2, messageId="u"),
    SHOWN,
    state("running"),
]
ASK = {"sessionId": "s", "title": "?", "options": [{"optionId": "y", "name": "Y", "kind": "allow_once"}]}
ALLOWED = {"outcome": {"outcome": "selected", "optionId": "y"}}
PATCH = {"format": "git_patch", "text": "diff --git /b /b\n--- /b\n+++ /b\n@@ -1,1 +1,1 @@\n-x\n+y\n"}
DIFF = {"type": "diff", "changes": [{"operation": "modify", "path": "/a"}]}
CLOSE = [to_agent("session/close", 7, sessionId="s"), answer(7)]


def findings(*lines: Line) -> list[Finding]:
    checker = PassiveChecker(is_whole=True)
    found = []
    for number, (direction, message) in enumerate(lines):
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        found += checker.feed(Frame(float(number), direction, data))  # type: ignore[arg-type]
    return [*found, *checker.finish()]


# The rule, whose fault it is, and what follows the handshake and the opening of session "s".
BROKEN: list[tuple[int, str, list[Line]]] = [
    (2001, "a2c", [update("state_update")]),
    (2001, "c2a", [to_agent("session/prompt", 2, sessionId="s")]),
    (2002, "a2c", [update("state_update", state="idle", extra=1)]),
    (2003, "a2c", [tool(content=[{"type": "picture"}])]),
    (2005, "a2c", [to_client("fs/read_text_file", 9, sessionId="s", path="/a")]),
    (2005, "a2c", [to_client("terminal/create", 9, sessionId="s", command="ls")]),
    (2006, "c2a", [to_agent("initialize", 5, protocolVersion=1, info=INFO)]),
    (2013, "c2a", [to_agent("session/delete", 5, sessionId="s")]),
    (2013, "c2a", [to_agent("session/new", 5, cwd="/w", additionalDirectories=["/x"])]),
    (
        2013,
        "c2a",
        [to_agent("session/new", 5, cwd="/w", mcpServers=[{"type": "http", "name": "n", "url": "http://x"}])],
    ),
    (
        2013,
        "c2a",
        [to_agent("session/prompt", 2, sessionId="s", prompt=[{"type": "image", "data": "", "mimeType": "image/png"}])],
    ),
    (2015, "c2a", [to_agent("auth/login", 5, methodId="no")]),
    (2015, "c2a", [to_agent("auth/login", 5, methodId="tty")]),
    (2017, "c2a", [to_agent("session/new", 5, cwd="w")]),
    (2017, "a2c", [tool(locations=[{"path": "a.txt"}])]),
    (2017, "a2c", [tool(content=[{"type": "diff", "changes": [{"operation": "add", "path": "a.txt"}]}])]),
    (2019, "a2c", [to_agent("session/resume", 5, sessionId="s", cwd="/w"), answer(5)]),
    (2024, "a2c", [*CLOSE, update("session_info_update", title="x")]),
    (2026, "a2c", [update("state_update", session="other", state="idle")]),
    (2028, "c2a", [to_agent("session/prompt", 2, sessionId="s", prompt=[])]),
    (2029, "a2c", [PROMPT[0], PROMPT[1], state("running"), IDLE]),
    (2030, "a2c", [*PROMPT[:3], IDLE]),
    (2031, "a2c", [*PROMPT, state("idle")]),
    (2032, "a2c", [*PROMPT, IDLE, *PROMPT[:2]]),
    (2034, "a2c", [PROMPT[0], to_agent("session/cancel", sessionId="s"), refusal(2, -32603)]),
    (2035, "a2c", [*PROMPT, to_client("session/request_permission", 9, **ASK), answer(9, "c2a", **ALLOWED)]),
    (
        2036,
        "a2c",
        [*PROMPT, state("requires_action"), update("agent_message", messageId="a", content=[])],
    ),
    (2037, "a2c", [state("running", background=[]), state("idle", stopReason="end_turn")]),
    (2038, "a2c", [update("terminal_output_chunk", terminalId="t", data="!!")]),
    (2038, "a2c", [terminal(output={"data": "%"})]),
    (2039, "a2c", [tool(content=[{**DIFF, "patch": PATCH}])]),
    (2040, "a2c", [*PROMPT, tool(content=[{"type": "terminal", "terminalId": "t"}]), IDLE]),
    (2041, "c2a", [tool(title="x"), to_agent("tool_call/cancel", 5, sessionId="s", toolCallId="c")]),
    (2041, "c2a", [terminal(), to_agent("terminal/cancel", 5, sessionId="s", terminalId="t")]),
    (2043, "a2c", [tool(capabilities={"cancel": {}}), tool(status="completed")]),
    (2043, "a2c", [terminal(capabilities={"cancel": {}}), terminal(exitStatus={"exitCode": 0})]),
    (2044, "a2c", [to_client("session/request_permission", 9, **{**ASK, "options": []})]),
    (
        2045,
        "c2a",
        [
            to_client("session/request_permission", 9, **ASK),
            answer(9, "c2a", outcome={"outcome": "selected", "optionId": "z"}),
        ],
    ),
    (
        2046,
        "c2a",
        [
            to_client("session/request_permission", 9, **ASK),
            to_agent("session/cancel", sessionId="s"),
            answer(9, "c2a", **ALLOWED),
        ],
    ),
]


@pytest.mark.parametrize(("rule", "side", "lines"), BROKEN, ids=[str(rule) for rule, *_ in BROKEN])
def test_a_broken_rule_is_found_and_the_right_side_is_blamed(rule: int, side: str, lines: list[Line]) -> None:
    found = findings(*HELLO, *lines)
    assert (rule, side) in {(each.rule, each.dir) for each in found if each.level != "NOTE"}
    assert {each.rule for each in found if each.is_failure} <= {rule, 2001, 331}


KEPT: list[list[Line]] = [
    [*PROMPT, IDLE],
    [PROMPT[0], SHOWN, state("running"), IDLE, PROMPT[1]],  # the response comes last
    [*PROMPT, state("requires_action"), to_client("session/request_permission", 9, **ASK),
     answer(9, "c2a", **ALLOWED), state("running"), update("agent_message_chunk", messageId="a",
     content={"type": "text", "text": "x"}), IDLE],
    [*PROMPT, to_client("session/request_permission", 9, **ASK), tool(title="goes on"),
     answer(9, "c2a", **ALLOWED), IDLE],
    [PROMPT[0], to_agent("session/cancel", sessionId="s"), refusal(2, -32800)],
    [*PROMPT, tool(content=[{"type": "terminal", "terminalId": "t"}]), terminal(output={"data": "b2s="}), IDLE],
    [tool(capabilities={"cancel": {}}), to_agent("tool_call/cancel", 5, sessionId="s", toolCallId="c"), answer(5),
     tool(status="cancelled", capabilities=None)],
    [*CLOSE, to_agent("session/resume", 5, sessionId="s", cwd="/w", replayFrom={"type": "start"}), SHOWN,
     state("idle"), answer(5)],
    [update("_own", anything=1), to_client("_own/note", x=1)],
    [state("running"), state("idle", stopReason="end_turn")],  # work without a prompt
]  # fmt: skip


@pytest.mark.parametrize("lines", KEPT, ids=range(len(KEPT)))
def test_what_the_protocol_allows_is_not_blamed(lines: list[Line]) -> None:
    assert [each for each in findings(*HELLO, *lines) if each.level not in ("NOTE",)] == []


@has_traffic
@pytest.mark.parametrize("name", sorted(each.name for each in TRAFFIC.glob("*.jsonl") if each.name[0] in "rv"))
def test_the_recorded_agents_break_no_rule(name: str) -> None:
    trace = open_trace(TRAFFIC / name)
    assert trace.protocol == "2"
    checker = PassiveChecker()
    checker.begin(trace.header)
    found = [finding for entry in trace.entries for finding in checker.feed(entry)] + checker.finish()
    assert [each for each in found if each.dir == "a2c" and each.is_failure] == []
    # These the recorded clients did on purpose.
    assert {each.rule for each in found if each.is_failure} <= {2001, 2015, 2028, 2041, 28, 331}


@has_traffic
def test_inspect_folds_the_turns_of_a_real_agent() -> None:
    trace = open_trace(TRAFFIC / "real-claude.jsonl")
    checker, folded = PassiveChecker(), FoldedSessions()
    states = {}
    for entry in trace.entries:
        if isinstance(entry, Frame):
            frame = checker.read(entry)
            if frame.method == "session/resume":
                states.update(folded.states)  # before the replay
                break
            folded.feed(frame)
    (state_of,) = states.values()
    reasons = [turn.stop_reason for turn in state_of.turns]
    assert reasons.count("end_turn") >= 8
    assert "cancelled" in reasons
    assert state_of.turns[0].text == "Hello from the mock model."


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DRAGOMAN, *command], cwd=cwd, capture_output=True, text=True, check=False, timeout=120)


def test_a_turn_is_recorded_inspected_judged_and_played_in_both_versions(tmp_path: Path) -> None:
    recording = str(tmp_path / "turn.jsonl")
    recorder = (*DRAGOMAN, "record", "-o", recording, "--protocol", "2", "--", *AGENT)
    first = run("exec", "--protocol", "2", "--no-ledger", "run", "--", *recorder, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert open_trace(recording).header.protocol == "2"
    shown = run("inspect", recording, "--state", cwd=tmp_path)
    assert "make" in shown.stdout
    judged = run("check", "trace", recording, cwd=tmp_path)
    assert (judged.returncode, judged.stdout.splitlines()[-1][:8]) == (0, "ACP v2: ")
    for version in ("2", "1"):
        player = (*DRAGOMAN, "replay", recording, "--protocol", version)
        again = run(
            "exec", "--protocol", version, "--no-ledger", "--output", "json", "run", "--", *player, cwd=tmp_path
        )
        result = json.loads(again.stdout)
        assert [(call["title"], call["status"]) for call in result["tool_calls"]] == [("make", "completed")]
    driven = run("replay", recording, "--as", "client", "--", *AGENT, cwd=tmp_path)
    assert driven.returncode == 0, driven.stderr
