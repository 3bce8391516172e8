"""Updates of version 2 folded into the session state."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from dragoman.schema import decode, encode, v1, v2
from dragoman.state import SessionState, fold
from dragoman.state.terminals import OUTPUT_LIMIT

TRAFFIC = Path(__file__).parents[2].parent / "shared" / "v2-traffic"
has_traffic = pytest.mark.skipif(not TRAFFIC.is_dir(), reason="the recorded traffic of version 2 is not there")


def folded(*updates: dict[str, Any], state: SessionState | None = None) -> SessionState:
    state = state or SessionState()
    for update in updates:
        fold(state, decode(v2.SessionUpdate, encode(update)))
    return state


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def chunk(kind: str, message_id: str, value: str) -> dict[str, Any]:
    return {"sessionUpdate": f"{kind}_chunk", "messageId": message_id, "content": text(value)}


def whole(kind: str, message_id: str, **members: Any) -> dict[str, Any]:
    return {"sessionUpdate": kind, "messageId": message_id, **members}


def tool(call_id: str = "c", **members: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **members}


def terminal(**members: Any) -> dict[str, Any]:
    return {"sessionUpdate": "terminal_update", "terminalId": "t", **members}


def base64(value: bytes) -> str:
    return b64encode(value).decode()


def test_a_whole_message_replaces_chunks_and_chunks_continue_it() -> None:
    state = folded(
        chunk("agent_message", "a", "draft "),
        chunk("agent_thought", "a", "hm"),
        whole("agent_message", "a", content=[text("Final"), text(" text")]),
        chunk("agent_message", "a", "."),
    )
    assert [(one.role, one.text) for one in state.messages] == [("agent", "Final text."), ("thought", "hm")]


@pytest.mark.parametrize("empty", [None, []])
def test_null_and_an_empty_list_clear_a_message_and_omission_does_not(empty: Any) -> None:
    kept = folded(whole("agent_message", "a", content=[text("x")]), whole("agent_message", "a", _meta={"k": 1}))
    assert (kept.messages[0].text, kept.messages[0].meta) == ("x", {"k": 1})
    cleared = folded(whole("agent_message", "a", content=empty), state=kept)
    assert (cleared.messages[0].text, cleared.messages[0].blocks) == ("", ())


def test_meta_is_patched_member_by_member() -> None:
    state = folded(tool(_meta={"a": 1, "b": 2}), tool(_meta={"b": None, "c": 3}))
    assert state.tool_calls["c"].meta == {"a": 1, "c": 3}
    assert folded(tool(_meta=None), state=state).tool_calls["c"].meta is None


def test_a_replaced_message_is_the_text_of_its_turn() -> None:
    state = SessionState()
    for words in ("one", "two"):
        state.begin_turn([v1.TextContent(words)])
        folded(chunk("agent_message", words, "draft"), chunk("agent_message", f"{words}-2", " more"), state=state)
        assert state.text == "draft more"
        folded(whole("agent_message", words, content=[text("final")]), state=state)
        assert state.text == "final more"
        state.end_turn("end_turn")
    folded(whole("agent_message", "one", content=[text("corrected")]), state=state)
    assert [turn.text for turn in state.turns] == ["corrected more", "final more"]


def test_a_message_written_in_two_turns_and_replaced_belongs_to_the_last() -> None:
    state = SessionState()
    for words in ("one", "two"):
        state.begin_turn([v1.TextContent(words)])
        folded(chunk("agent_message", "a", words), state=state)
        assert state.text == words
        state.end_turn("end_turn")
    folded(whole("agent_message", "a", content=[text("all")]), state=state)
    assert [turn.text for turn in state.turns] == ["", "all"]


@pytest.mark.parametrize("is_named_first", [False, True])
@pytest.mark.parametrize("pieces", [["hello world"], ["hello ", "world"]])
def test_the_agents_form_of_the_prompt_is_the_prompt(pieces: list[str], is_named_first: bool) -> None:
    state = SessionState()
    state.begin_turn([v1.TextContent("hello world")])
    if is_named_first:
        state.name_prompt("u")
    folded(*(chunk("user_message", "u", piece) for piece in pieces), state=state)
    folded(whole("user_message", "u", content=[text("hello world"), text("!")]), state=state)
    assert [(one.message_id, one.text) for one in state.messages] == [("u", "hello world!")]


def test_another_message_of_the_user_is_not_the_prompt() -> None:
    state = SessionState()
    state.begin_turn([v1.TextContent("hello")])
    folded(whole("user_message", "x", content=[text("from elsewhere")]), state=state)
    assert [one.text for one in state.messages] == ["hello", "from elsewhere"]


def test_members_of_a_tool_call_are_kept_cleared_or_replaced() -> None:
    full = tool(
        title="Read", name="read", kind="read", status="in_progress", rawInput={"path": "a"}, rawOutput=[1],
        content=[{"type": "content", "content": text("x")}], locations=[{"path": "/a", "line": 3}],
        capabilities={"cancel": {}},
    )  # fmt: skip
    kept = folded(full, tool()).tool_calls["c"]
    assert (kept.title, kept.name, kept.kind, kept.status, kept.can_cancel) == (
        "Read",
        "read",
        "read",
        "in_progress",
        True,
    )
    assert (kept.raw_input, kept.raw_output, kept.locations[0].line) == ({"path": "a"}, [1], 3)
    names = ("title", "name", "kind", "status", "rawInput", "rawOutput", "content", "locations", "capabilities")
    cleared = folded(full, tool("c", **dict.fromkeys(names))).tool_calls["c"]
    fresh = folded(tool()).tool_calls["c"]
    assert (cleared.title, cleared.name, cleared.kind, cleared.status) == ("", None, "other", "pending")
    for name in ("raw_input", "raw_output", "content", "locations", "can_cancel"):
        assert getattr(cleared, name) == getattr(fresh, name)


def test_a_cancelled_tool_call_is_over_and_a_paused_one_is_not() -> None:
    paused = folded(tool(status="paused"))
    assert paused.tool_calls["c"].is_running
    cancelled = folded(tool(status="cancelled"), state=paused).tool_calls["c"]
    assert (cancelled.is_finished, cancelled.is_cancelled, cancelled.is_running) == (True, True, False)


def test_content_is_added_to_a_tool_call_and_earlier_values_stay() -> None:
    piece = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c"}
    state = folded({**piece, "content": {"type": "content", "content": text("one")}})
    first = state.tool_calls["c"].content
    folded({**piece, "content": {"type": "content", "content": text("two")}}, state=state)
    assert [len(first), len(state.tool_calls["c"].content)] == [1, 2]
    assert list(state.tool_calls["c"].content[1:]) == [v1.Content(v1.TextContent("two"))]


def test_twenty_thousand_pieces_of_content_do_not_copy_each_other() -> None:
    state = SessionState()
    piece = v2.ToolCallContentChunk("c", v2.Content(v2.TextContent("x")))
    lists = set()
    for _ in range(20_000):
        fold(state, piece)
        lists.add(id(state.tool_calls["c"].content._items))  # type: ignore[attr-defined]
    assert len(state.tool_calls["c"].content) == 20_000
    assert len(lists) == 1


PATCH = "diff --git /a /a\n--- /a\n+++ /a\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n"


@pytest.mark.parametrize(
    ("changes", "patch", "shown"),
    [
        ([{"operation": "modify", "path": "/a"}], PATCH, [("/a", "same\nold\n", "same\nnew\n")]),
        ([{"operation": "modify", "path": "/a"}], None, ["modify /a"]),
        ([{"operation": "move", "oldPath": "/a", "path": "/b"}], None, ["move /a to /b"]),
        ([{"operation": "copy", "oldPath": "/a", "path": "/b"}], None, ["copy /a to /b"]),
        ([{"operation": "delete", "path": "/b", "fileType": "binary"}], None, ["delete /b"]),
        ([{"operation": "_link", "path": "/b"}], None, ["_link /b"]),
        ([], PATCH, [("/a", "same\nold\n", "same\nnew\n")]),
        (
            [{"operation": "add", "path": "/n"}],
            "diff --git /n /n\n--- /dev/null\n+++ /n\n@@ -0,0 +1,1 @@\n+first\n",
            [("/n", None, "first\n")],
        ),
    ],
)
def test_a_diff_is_shown_by_its_hunks_and_else_in_words(changes: Any, patch: str | None, shown: list[Any]) -> None:
    diff: dict[str, Any] = {"type": "diff", "changes": changes}
    if patch is not None:
        diff["patch"] = {"format": "git_patch", "text": patch}
    content = folded(tool(content=[diff])).tool_calls["c"].content
    found = [
        (each.path, each.old_text, each.new_text) if isinstance(each, v1.Diff) else each.content.text  # type: ignore[union-attr]
        for each in content
    ]
    assert found == shown


def test_a_terminal_is_its_bytes_command_and_exit() -> None:
    split = "é".encode()
    state = folded(
        terminal(command="make", cwd="/w", size={"cols": 80, "rows": 24}, capabilities={"cancel": {}}),
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": base64(b"a" + split[:1])},
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": base64(split[1:])},
    )
    found = state.terminals["t"]
    assert (found.text, found.command, found.cwd, found.is_running, found.can_cancel) == (
        "aé",
        "make",
        "/w",
        True,
        True,
    )
    assert found.size
    assert found.size.cols == 80
    folded(terminal(output={"data": base64(b"again")}, exitStatus={"exitCode": 2}, command=None), state=state)
    assert (found.text, found.exit_code, found.is_running, found.command) == ("again", 2, False, None)
    folded(terminal(exitStatus=None, output=None), state=state)
    assert (found.text, found.is_running) == ("", True)


def test_of_a_long_output_the_end_is_kept_and_wrong_base64_changes_nothing() -> None:
    state = folded(terminal())
    data = base64(b"x" * (OUTPUT_LIMIT - 1) + b"yz")
    folded({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data}, state=state)
    folded({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "!"}, state=state)
    found = state.terminals["t"]
    assert (len(found.output), found.output[-2:], found.lost_bytes) == (OUTPUT_LIMIT, b"yz", 1)


def test_activity_and_background_are_as_last_reported() -> None:
    state = SessionState()
    assert (state.activity, state.background) == ("idle", None)
    folded({"sessionUpdate": "state_update", "state": "running", "background": []}, state=state)
    assert (state.activity, state.background) == ("running", ())
    folded({"sessionUpdate": "state_update", "state": "_napping"}, state=state)
    assert (state.activity, state.background) == ("_napping", None)
    state.lose_agent()
    assert state.activity == "unknown"


def test_settings_usage_and_plans_are_in_the_same_place_as_in_version_1() -> None:
    option = {"configId": "m", "name": "Mode", "category": "mode", "type": "select", "currentValue": "a"}
    groups = [{"groupId": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}]
    entry = {"content": "Read", "priority": "high", "status": "cancelled"}
    state = folded(
        {"sessionUpdate": "config_option_update", "configOptions": [{**option, "options": groups}, {"type": "_x"}]},
        {"sessionUpdate": "available_commands_update", "availableCommands": [
            {"type": "command", "name": "t", "description": "d", "input": {"type": "text", "hint": "h"}},
            {"type": "_x"}]},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 1.5, "currency": "USD"}},
        {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [entry]}},
        {"sessionUpdate": "session_info_update", "title": "T"},
        {"sessionUpdate": "_own", "x": 1},
    )  # fmt: skip
    assert (state.mode, state.title, state.cost and state.cost.amount) == ("a", "T", 1.5)
    assert [(command.name, command.input and command.input.hint) for command in state.commands] == [("t", "h")]
    assert [step.status for step in state.plan] == ["cancelled"]
    assert len(state.unknown) == 1
    folded({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": None}, state=state)
    assert state.cost is None


def recorded(name: str) -> dict[str, SessionState]:
    """The sessions of a recording, folded."""
    states: dict[str, SessionState] = {}
    for line in (TRAFFIC / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        message = json.loads(line).get("msg")
        if isinstance(message, dict) and message.get("method") == "session/update":
            noted = decode(v2.UpdateSessionNotification, encode(message["params"]))
            fold(states.setdefault(noted.session_id, SessionState()), noted.update)
    return states


@has_traffic
def test_the_recorded_messages_are_interleaved_replaced_and_cleared_as_described() -> None:
    state = recorded("v2-turns")["sess_1"]
    by_id = {one.message_id: one.text for one in state.messages}
    assert by_id["msg_t2"] == "Thinking more"
    assert by_id["msg_a2"] == "Hello."
    assert by_id["msg_a6"] == "Final"  # created, appended to and replaced
    assert state.activity == "idle"


@has_traffic
def test_the_recorded_tools_terminals_and_plans_are_as_described() -> None:
    state = recorded("v2-tools")["sess_1"]
    edit = state.tool_calls["call_1"]
    assert (edit.title, edit.status, edit.name) == ("Edit main.rs (again)", "completed", "edit_file")
    assert {each.path for each in edit.content if isinstance(each, v1.Diff)} == {"/home/user/project/main.rs"}
    ran = state.terminals["term_2"]
    assert (ran.text, ran.exit_code, ran.command) == ("running é tests\r\nok\r\n", 0, "cargo test")
    assert [step.status for step in state.plan] == ["completed", "cancelled", "pending"]


@has_traffic
def test_the_recorded_background_work_is_cancelled_and_goes_on_by_itself() -> None:
    state = recorded("v2-background")["sess_1"]
    assert (state.tool_calls["call_1"].status, state.terminals["term_1"].is_running) == ("cancelled", False)
    assert state.messages[-1].text == "I went on by myself."
    assert state.background == ()


@has_traffic
@pytest.mark.parametrize("name", ["real-claude", "real-codex"])
def test_the_sessions_of_real_agents_fold_without_losses(name: str) -> None:
    (state,) = recorded(name).values()
    assert not state.unknown
    assert state.activity == "idle"
    texts = [one.text for one in state.messages]
    assert "Hello from the mock model." in texts
    assert "chunk 0 chunk 1 chunk 2 chunk 3 chunk 4 chunk 5 " in texts
    ran = next(each for each in state.terminals.values() if each.command and each.command.startswith("echo hi"))
    assert (ran.text.split(), ran.exit_code) == (["hi", "there"], 0)
    assert all(call.is_finished for call in state.tool_calls.values())


@has_traffic
@pytest.mark.parametrize("file", sorted(each.name for each in TRAFFIC.glob("*.jsonl") if each.name.startswith("v2-")))
def test_every_recorded_update_is_understood(file: str) -> None:
    for state in recorded(file.removesuffix(".jsonl")).values():
        assert {each.tag for each in state.unknown} <= {"_example_badge"}  # type: ignore[union-attr]
        assert state.activity == "idle"
