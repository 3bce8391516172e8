"""A client of version 1 in front of an agent of version 2."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dragoman.versions import translator
from tests.versions.conversation import Conversation, text

AGENT = {
    "protocolVersion": 2,
    "info": {"name": "a", "version": "1"},
    "capabilities": {"session": {"prompt": {"image": {}}, "mcp": {"stdio": {}}}},
}


@pytest.fixture
def talk() -> Conversation:
    return opened()


def opened(capabilities: Any = None) -> Conversation:
    made = Conversation(translator("1", "2"))
    made.ask("client", 0, "initialize", protocolVersion=1, clientCapabilities=capabilities or {})
    made.answer("agent", 0, AGENT)
    made.ask("client", 1, "session/new", cwd="/w", mcpServers=[])
    made.answer("agent", 1, {"sessionId": "s"})
    made.take("client")
    made.take("agent")
    return made


def prompt(talk: Conversation, request_id: int, words: str) -> None:
    talk.ask("client", request_id, "session/prompt", sessionId="s", prompt=[text(words)])


def responses(talk: Conversation) -> dict[Any, Any]:
    found = {each["id"]: each.get("result") or each["error"] for each in talk.client if "method" not in each}
    talk.take("client")
    return found


def test_a_prompt_is_answered_when_the_agent_is_idle_after_its_message(talk: Conversation) -> None:
    prompt(talk, 2, "hi")
    talk.answer("agent", 2, {"messageId": "u"})
    talk.update("user_message", messageId="u", content=[text("hi")])
    talk.update("state_update", state="running")
    assert talk.take("client") == []  # a client of version 1 shows its own prompt
    talk.update("state_update", state="idle", stopReason="max_tokens", usage={"totalTokens": 1}, _meta={"q": 1})
    assert responses(talk) == {2: {"stopReason": "max_tokens", "usage": {"totalTokens": 1}, "_meta": {"q": 1}}}


def test_the_idle_between_two_prompts_ends_the_first_only(talk: Conversation) -> None:
    prompt(talk, 2, "one")
    prompt(talk, 3, "two")
    talk.answer("agent", 2, {"messageId": "u1"})
    talk.update("user_message", messageId="u1", content=[text("one")])
    talk.update("state_update", state="running")
    talk.update("state_update", state="idle", stopReason="end_turn")
    assert responses(talk) == {2: {"stopReason": "end_turn"}}
    talk.update("user_message", messageId="u2", content=[text("two")])
    talk.answer("agent", 3, {"messageId": "u2"})
    talk.update("state_update", state="running")
    assert responses(talk) == {}
    talk.update("state_update", state="idle", stopReason="refusal")
    assert responses(talk) == {3: {"stopReason": "refusal"}}


def test_an_idle_before_the_response_is_decided_when_the_response_comes(talk: Conversation) -> None:
    prompt(talk, 2, "hi")
    talk.update("user_message_chunk", messageId="u", content=text("hi"))
    talk.update("state_update", state="idle", stopReason="end_turn")
    assert responses(talk) == {}
    talk.answer("agent", 2, {"messageId": "u"})
    assert responses(talk) == {2: {"stopReason": "end_turn"}}


def test_an_idle_from_before_the_message_ends_nothing_when_the_response_comes(talk: Conversation) -> None:
    prompt(talk, 2, "hi")
    talk.update("state_update", state="idle")
    talk.update("user_message", messageId="u", content=[text("hi")])
    talk.answer("agent", 2, {"messageId": "u"})
    assert responses(talk) == {}


def test_an_agent_that_never_shows_the_prompt_ends_it_after_running(talk: Conversation) -> None:
    prompt(talk, 2, "hi")
    talk.answer("agent", 2, {"messageId": "u"})
    talk.update("state_update", state="idle")
    assert responses(talk) == {}
    talk.update("state_update", state="running")
    talk.update("state_update", state="idle")
    assert responses(talk) == {2: {"stopReason": "end_turn"}}


def test_a_turn_that_fails_answers_the_prompt_with_its_error(talk: Conversation) -> None:
    prompt(talk, 2, "hi")
    talk.answer("agent", 2, {"messageId": "u"})
    talk.update("user_message", messageId="u", content=[text("hi")])
    reason = {"code": -32000, "message": "log in", "data": {"x": 1}}
    talk.update("state_update", state="idle", stopReason="error", error=reason)
    assert responses(talk) == {2: reason}


def test_a_prompt_withdrawn_by_a_cancel_ends_as_cancelled_and_others_fail(talk: Conversation) -> None:
    prompt(talk, 2, "hi")
    talk.notify("client", "session/cancel", sessionId="s")
    talk.fail("agent", 2, -32800)
    prompt(talk, 3, "hi")
    talk.fail("agent", 3, -32800)
    assert responses(talk) == {2: {"stopReason": "cancelled"}, 3: {"code": -32800, "message": "no"}}


def test_cancelling_the_request_of_an_accepted_prompt_cancels_its_turn(talk: Conversation) -> None:
    prompt(talk, 2, "hi")
    talk.answer("agent", 2, {"messageId": "u"})
    talk.take("agent")
    talk.notify("client", "$/cancel_request", requestId=2)
    assert [each["method"] for each in talk.take("agent")] == ["session/cancel"]


def test_a_lost_agent_fails_every_open_request(talk: Conversation) -> None:
    prompt(talk, 2, "accepted")
    talk.answer("agent", 2, {"messageId": "u"})
    prompt(talk, 3, "not yet")
    talk.close("agent")
    assert {number: reason["code"] for number, reason in responses(talk).items()} == {2: -32603, 3: -32603}


def test_a_message_that_grows_is_continued_and_one_that_is_replaced_gets_a_new_id(talk: Conversation) -> None:
    talk.update("agent_message", messageId="m", content=[text("A"), text("B")])
    talk.update("agent_message_chunk", messageId="m", content=text("C"))
    talk.update("agent_message", messageId="m", content=[text("ABCD")])
    assert [each["content"]["text"] for each in talk.updates()] == ["A", "B", "C", "D"]
    assert "message-replaced" not in talk.lost()
    talk.update("agent_message", messageId="m", content=[text("New")])
    talk.update("agent_message_chunk", messageId="m", content=text("er"))
    shown = talk.updates()
    assert [(each["messageId"], each["content"]["text"]) for each in shown] == [("m~2", "New"), ("m~2", "er")]
    assert "message-replaced" in talk.lost()


def test_a_cleared_message_is_reported_and_what_follows_is_apart(talk: Conversation) -> None:
    talk.update("agent_message_chunk", messageId="m", content=text("secret"))
    talk.update("agent_message", messageId="m", content=None)
    talk.update("agent_message", messageId="m", _meta={"x": 1})
    talk.update("agent_message_chunk", messageId="m", content=text("fine"))
    assert [each["messageId"] for each in talk.updates()] == ["m", "m~2"]
    assert "message-cleared" in talk.lost()


def test_a_replay_of_empty_messages_and_chunks_is_not_a_replacement(talk: Conversation) -> None:
    talk.update("agent_message_chunk", messageId="m", content=text("before"))
    talk.ask("client", 5, "session/load", sessionId="s", cwd="/w", mcpServers=[])
    assert talk.take("agent")[-1]["params"]["replayFrom"] == {"type": "start"}
    talk.update("agent_message", messageId="m", content=[])
    talk.update("agent_message_chunk", messageId="m", content=text("before"))
    talk.update("state_update", state="idle")
    talk.answer("agent", 5, {})
    assert [each["messageId"] for each in talk.updates()] == ["m", "m"]
    assert talk.lost() == set()


def test_the_first_update_of_a_tool_call_announces_it(talk: Conversation) -> None:
    talk.update("tool_call_update", toolCallId="c", name="fill", kind="_brew", status="paused")
    talk.update("tool_call_update", toolCallId="c", title=None, status="cancelled", name=None, locations=None)
    first, second = talk.updates()
    assert first == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "title": "fill",
        "name": "fill",
        "kind": "other",
        "status": "in_progress",
        "_meta": {"dragoman": {"status": "paused"}},
    }
    assert (second["title"], second["status"], second["locations"], "name" in second) == ("", "failed", [], False)
    assert {"tool-kind", "tool-status", "tool-cleared"} <= talk.lost()


@pytest.mark.parametrize("count", [500, 2000])
def test_chunked_tool_content_grows_with_its_size_and_not_with_its_square(count: int) -> None:
    talk = opened()
    talk.update("tool_call_update", toolCallId="c", title="t")
    given = 0
    for number in range(count):
        item = {"type": "content", "content": text(f"{number:080}")}
        given += len(str(item))
        talk.update("tool_call_content_chunk", toolCallId="c", content=item)
    talk.update("tool_call_update", toolCallId="c", status="completed")
    shown = talk.updates()
    assert len(str(shown)) < 4 * given
    assert len(shown[-1]["content"]) == count
    assert shown[-1]["content"][-1]["content"]["text"] == f"{count - 1:080}"


def chunk(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_terminal_output_is_decoded_across_chunks_and_shown_as_text(talk: Conversation) -> None:
    talk.update("terminal_update", terminalId="t", command="make", cwd="/w")
    talk.update("tool_call_update", toolCallId="c", title="make", content=[{"type": "terminal", "terminalId": "t"}])
    whole = "\x1b[32mcafé\x1b[0m\r\n".encode()
    talk.update("terminal_output_chunk", terminalId="t", data=chunk(whole[:9]))
    talk.update("terminal_output_chunk", terminalId="t", data=chunk(whole[9:]))
    talk.update("terminal_update", terminalId="t", exitStatus={"exitCode": 0})
    last = [each for each in talk.updates() if each.get("content")][-1]
    assert last["content"] == [{"type": "content", "content": text("café\n")}]
    assert {"terminal-output", "terminal-state"} <= talk.lost()


def test_a_client_that_reads_terminals_gets_them_in_meta() -> None:
    talk = opened({"_meta": {"terminal_output": True}})
    talk.update("terminal_update", terminalId="t", cwd="/w")
    talk.update("tool_call_update", toolCallId="c", title="make", content=[{"type": "terminal", "terminalId": "t"}])
    talk.update("terminal_output_chunk", terminalId="t", data=chunk(b"one"))
    talk.update("terminal_update", terminalId="t", output={"data": chunk(b"one two")})
    talk.update("terminal_update", terminalId="t", exitStatus={"exitCode": 3})
    first, *rest = talk.updates()
    assert first["content"] == [{"type": "terminal", "terminalId": "t"}]
    assert first["_meta"] == {"terminal_info": {"terminal_id": "t", "cwd": "/w"}}
    assert [each["_meta"] for each in rest] == [
        {"terminal_output": {"terminal_id": "t", "data": "one"}},
        {"terminal_output": {"terminal_id": "t", "data": " two"}},
        {"terminal_exit": {"terminal_id": "t", "exit_code": 3, "signal": None}},
    ]
    assert "terminal-output" not in talk.lost()


def test_a_patch_is_shown_by_hunks_and_other_changes_as_a_line(talk: Conversation) -> None:
    patch = "diff --git /w/a /w/a\n--- /w/a\n+++ /w/a\n@@ -1,2 +1,2 @@\n x\n-old\n+new\n@@ -9,1 +9,1 @@\n-p\n+q\n"
    changes = [{"operation": "modify", "path": "/w/a"}, {"operation": "move", "oldPath": "/w/b", "path": "/w/c"}]
    diff = {"type": "diff", "changes": changes, "patch": {"format": "git_patch", "text": patch}}
    talk.update("tool_call_update", toolCallId="c", title="t", content=[diff])
    assert talk.updates()[0]["content"] == [
        {"type": "diff", "path": "/w/a", "oldText": "x\nold\n", "newText": "x\nnew\n"},
        {"type": "diff", "path": "/w/a", "oldText": "p\n", "newText": "q\n"},
        {"type": "content", "content": text("move /w/b to /w/c")},
    ]


def test_texts_that_do_not_fit_the_patch_are_not_believed(talk: Conversation) -> None:
    patch = "diff --git /w/a /w/a\n--- /w/a\n+++ /w/a\n@@ -1,1 +1,1 @@\n-a\n+rm -rf\n"
    lie = {"dragoman": {"oldText": "a\n", "newText": "harmless\n"}}
    diff = {
        "type": "diff",
        "changes": [{"operation": "modify", "path": "/w/a"}],
        "patch": {"format": "git_patch", "text": patch},
        "_meta": lie,
    }
    talk.update("tool_call_update", toolCallId="c", title="t", content=[diff])
    assert talk.updates()[0]["content"][0]["newText"] == "rm -rf\n"


OPTIONS = [
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]


def ask_permission(talk: Conversation, **members: Any) -> Any:
    params: dict[str, Any] = {"sessionId": "s", "title": "Run it?", "options": OPTIONS, **members}
    talk.feed("agent", {"id": "p", "method": "session/request_permission", "params": params})
    found = talk.take("client")
    return found[0]["params"] if found else None


def test_a_permission_request_carries_its_own_title_and_description(talk: Conversation) -> None:
    call = {"toolCallId": "c", "title": "make", "status": "pending"}
    asked = ask_permission(talk, description="It writes.", subject={"type": "tool_call", "toolCall": call})
    assert asked["toolCall"]["title"] == "Run it?"
    assert asked["toolCall"]["content"] == [{"type": "content", "content": text("It writes.")}]
    assert {"permission-title", "permission-description"} <= talk.lost()


def test_a_command_and_nothing_become_tool_calls(talk: Conversation) -> None:
    asked = ask_permission(talk, subject={"type": "command", "command": "rm x", "cwd": "/w", "toolCallId": "c"})
    assert asked["toolCall"] == {
        "toolCallId": "c",
        "title": "Run it?",
        "kind": "execute",
        "rawInput": {"command": "rm x", "cwd": "/w"},
    }
    talk.answer("client", "p", {"outcome": {"outcome": "cancelled"}})
    assert ask_permission(talk)["toolCall"] == {"toolCallId": "perm-1", "title": "Run it?"}


@pytest.mark.parametrize(
    "outcome",
    [{"outcome": "maybe"}, {"outcome": "selected", "optionId": "hidden"}, {"outcome": "selected"}, None, {}],
)
def test_an_unclear_answer_to_a_permission_request_never_allows(talk: Conversation, outcome: Any) -> None:
    hidden = {"optionId": "hidden", "name": "Perhaps", "kind": "_perhaps"}
    asked = ask_permission(talk, options=[*OPTIONS, hidden])
    assert [option["optionId"] for option in asked["options"]] == ["y", "n"]
    talk.take("agent")
    talk.answer("client", "p", {"outcome": outcome})
    assert talk.take("agent")[0]["result"] == {"outcome": {"outcome": "cancelled"}}


def test_a_request_with_no_option_left_is_cancelled_here(talk: Conversation) -> None:
    assert ask_permission(talk, options=[{"optionId": "h", "name": "H", "kind": "_perhaps"}]) is None
    assert talk.take("agent")[-1]["result"] == {"outcome": {"outcome": "cancelled"}}


def test_a_mode_is_set_through_the_option_of_that_category() -> None:
    talk = opened()
    choices = [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]
    option = {
        "configId": "m",
        "name": "Mode",
        "category": "mode",
        "type": "select",
        "currentValue": "ask",
        "options": choices,
    }
    talk.ask("client", 2, "session/new", cwd="/w", mcpServers=[])
    command = {"type": "command", "name": "x", "description": "X"}
    talk.answer("agent", 2, {"sessionId": "s", "configOptions": [option], "availableCommands": [command]})
    response, commands = talk.take("client")
    assert response["result"]["modes"]["currentModeId"] == "ask"
    assert response["result"]["configOptions"][0]["id"] == "m"
    assert commands["params"]["update"]["availableCommands"] == [{"name": "x", "description": "X"}]
    talk.take("agent")
    talk.ask("client", 3, "session/set_mode", sessionId="s", modeId="code")
    asked = talk.take("agent")[0]
    assert (asked["method"], asked["params"]["configId"], asked["params"]["value"]) == (
        "session/set_config_option",
        "m",
        "code",
    )
    talk.answer("agent", 3, {"configOptions": [{**option, "currentValue": "code"}]})
    assert talk.take("client")[0]["result"] == {}
    talk.update("config_option_update", configOptions=[option])
    assert [each["sessionUpdate"] for each in talk.updates()] == ["config_option_update", "current_mode_update"]


def test_servers_that_cannot_be_used_are_refused_or_reported(talk: Conversation) -> None:
    sse = {"type": "sse", "name": "s", "url": "https://s.example", "headers": []}
    stdio = {"name": "k", "command": "/bin/k", "args": [], "env": []}
    talk.ask("client", 2, "session/new", cwd="/w", mcpServers=[sse])
    assert talk.take("client")[0]["error"]["code"] == -32602
    talk.ask("client", 3, "session/new", cwd="/w", mcpServers=[sse, stdio])
    assert talk.take("agent")[0]["params"]["mcpServers"] == [{"type": "stdio", **stdio}]
    assert "sse-server" in talk.lost()


@pytest.mark.parametrize("answered", [{"protocolVersion": 1}, {**AGENT, "capabilities": {}}])
def test_an_agent_that_cannot_be_translated_fails_initialize(answered: Any) -> None:
    talk = Conversation(translator("1", "2"))
    talk.ask("client", 0, "initialize", protocolVersion=1)
    talk.answer("agent", 0, answered)
    assert talk.take("client")[0]["error"]["code"] == -32603


def test_gated_updates_reach_only_clients_that_announced_them() -> None:
    notice = {"severity": "info", "title": "t"}
    plain, gated = opened(), opened({"session": {"notices": {}}})
    plain.update("notice", **notice)
    gated.update("notice", **notice)
    assert (plain.updates(), plain.lost()) == ([], {"notice"})
    assert (gated.updates(), gated.lost()) == ([{"sessionUpdate": "notice", **notice}], set())


@pytest.mark.rule(150)
def test_boolean_options_reach_only_clients_that_announced_them() -> None:
    option = {"configId": "b", "name": "B", "type": "boolean", "currentValue": True}
    plain, gated = opened(), opened({"session": {"configOptions": {"boolean": {}}}})
    plain.update("config_option_update", configOptions=[option])
    gated.update("config_option_update", configOptions=[option])
    assert (plain.updates()[0]["configOptions"], plain.lost()) == ([], {"boolean-option"})
    assert gated.updates()[0]["configOptions"] == [{"id": "b", "name": "B", "type": "boolean", "currentValue": True}]


def test_several_plans_are_joined_in_the_order_of_their_first_sight(talk: Conversation) -> None:
    def plan(plan_id: str, *entries: tuple[str, str]) -> None:
        items = [{"content": content, "priority": "high", "status": status} for content, status in entries]
        talk.update("plan_update", plan={"type": "items", "planId": plan_id, "entries": items})

    plan("a", ("one", "pending"))
    plan("b", ("two", "pending"))
    plan("a", ("one", "completed"), ("gone", "cancelled"))
    assert [entry["content"] for entry in talk.updates()[-1]["entries"]] == ["one", "two"]
    assert {"several-plans", "plan-entry"} <= talk.lost()
    talk.update("plan_removed", planId="a")
    assert [entry["content"] for entry in talk.updates()[-1]["entries"]] == ["two"]


def test_a_request_that_reuses_an_open_id_is_refused(talk: Conversation) -> None:
    talk.ask("client", 7, "session/list")
    talk.ask("client", 7, "session/list")
    assert talk.take("client")[0]["error"]["code"] == -32600
    talk.ask("client", "7", "session/list")
    assert talk.take("client") == []
