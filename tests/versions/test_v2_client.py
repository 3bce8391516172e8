"""A client of version 2 in front of an agent of version 1."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.versions import translator
from tests.versions.conversation import Conversation, text


def opened(agent: Any = None, session: Any = None) -> Conversation:
    made = Conversation(translator("2", "1"))
    made.ask("client", 0, "initialize", protocolVersion=2, info={"name": "c", "version": "1"}, capabilities={})
    made.answer("agent", 0, {"protocolVersion": 1, "agentCapabilities": agent or {}})
    made.ask("client", 1, "session/new", cwd="/w")
    made.answer("agent", 1, {"sessionId": "s", **(session or {})})
    made.take("client")
    made.take("agent")
    return made


@pytest.fixture
def talk() -> Conversation:
    return opened()


def prompt(talk: Conversation, request_id: Any, words: str) -> None:
    talk.ask("client", request_id, "session/prompt", sessionId="s", prompt=[text(words)])


def kinds(frames: list[Any]) -> list[Any]:
    """What the client received: ids of responses, kinds of updates, with states."""
    found = []
    for frame in frames:
        if "method" not in frame:
            found.append(frame["id"] if "result" in frame else (frame["id"], frame["error"]["code"]))
        else:
            update = frame["params"].get("update", {})
            found.append(update.get("state") or update.get("sessionUpdate") or frame["method"])
    return found


def test_a_prompt_is_accepted_shown_and_run(talk: Conversation) -> None:
    prompt(talk, 5, "hi")
    assert kinds(talk.client) == [5, "user_message", "running"]
    response, shown, _ = talk.take("client")
    assert shown["params"]["update"]["messageId"] == response["result"]["messageId"]
    asked = talk.take("agent")[0]
    assert asked["method"] == "session/prompt"
    talk.update("user_message_chunk", content=text("hi"))  # its own echo
    talk.update("agent_message_chunk", content=text("hello"))
    talk.answer("agent", asked["id"], {"stopReason": "end_turn", "usage": {"totalTokens": 3}})
    assert kinds(talk.client) == ["agent_message_chunk", "idle"]
    idle = talk.take("client")[-1]["params"]["update"]
    assert (idle["stopReason"], idle["usage"]) == ("end_turn", {"totalTokens": 3})


def test_a_second_prompt_is_held_and_idle_is_sent_in_between(talk: Conversation) -> None:
    prompt(talk, 5, "one")
    prompt(talk, 6, "two")
    first = talk.take("agent")
    assert len(first) == 1
    talk.take("client")
    talk.answer("agent", first[0]["id"], {"stopReason": "end_turn"})
    assert kinds(talk.take("client")) == ["idle", 6, "user_message", "running"]
    assert talk.take("agent")[0]["params"]["prompt"] == [text("two")]


def test_held_prompts_are_withdrawn_by_cancel_and_by_their_id(talk: Conversation) -> None:
    for number in (5, 6, 7):
        prompt(talk, number, f"{number}")
    talk.take("client")
    talk.notify("client", "$/cancel_request", requestId=6)
    assert kinds(talk.take("client")) == [(6, -32800)]
    talk.notify("client", "session/cancel", sessionId="s")
    assert kinds(talk.take("client")) == [(7, -32800)]
    assert [each["method"] for each in talk.take("agent")] == ["session/prompt", "session/cancel"]
    prompt(talk, 8, "after")  # sent after the cancel: it stays held
    assert talk.take("client") == []


def test_a_refused_prompt_ends_its_turn_with_the_error(talk: Conversation) -> None:
    prompt(talk, 5, "hi")
    asked = talk.take("agent")[0]
    talk.take("client")
    talk.fail("agent", asked["id"], -32000)
    idle = talk.updates()[-1]
    assert (idle["state"], idle["stopReason"], idle["error"]["code"]) == ("idle", "error", -32000)
    assert "late-refusal" in talk.lost()


def test_the_agents_end_ends_the_turn_and_fails_what_is_held(talk: Conversation) -> None:
    prompt(talk, 5, "one")
    prompt(talk, 6, "two")
    talk.take("client")
    talk.close("agent")
    assert kinds(talk.take("client")) == [(6, -32603), "idle"]


def test_messages_without_ids_are_counted_apart(talk: Conversation) -> None:
    talk.update("agent_thought_chunk", content=text("a"))
    talk.update("agent_thought_chunk", content=text("b"))
    talk.update("agent_message_chunk", content=text("c"))
    talk.update("usage_update", used=1, size=2)
    talk.update("agent_message_chunk", content=text("d"))
    talk.update("tool_call", toolCallId="t", title="t")
    talk.update("agent_message_chunk", content=text("e"))
    talk.update("tool_call_update", toolCallId="t", status="completed")
    talk.update("agent_message_chunk", content=text("f"))
    ids = [each["messageId"] for each in talk.updates() if "messageId" in each]
    assert len(dict.fromkeys(ids)) == 3
    assert ids == [ids[0], ids[0], ids[2], ids[2], ids[4], ids[4]]


def test_two_roles_do_not_share_an_id(talk: Conversation) -> None:
    talk.update("agent_thought_chunk", messageId="m", content=text("a"))
    talk.update("agent_message_chunk", messageId="m", content=text("b"))
    talk.update("agent_thought_chunk", messageId="m", content=text("c"))
    assert [each["messageId"] for each in talk.updates()] == ["m", "m~agent", "m"]


def test_null_says_nothing_in_version_1_and_a_second_announcement_clears(talk: Conversation) -> None:
    talk.update("tool_call", toolCallId="t", title="one", kind="edit", locations=[{"path": "/a", "line": 0}])
    talk.update("tool_call_update", toolCallId="t", title=None, status="completed", content=None, rawOutput=None)
    talk.update("tool_call", toolCallId="t", title="two")
    first, second, third = talk.updates()
    assert first["locations"] == [{"path": "/a"}]
    assert second == {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed", "rawOutput": None}
    assert (third["title"], third["kind"], third["content"], third["status"]) == ("two", None, None, None)


def test_a_diff_becomes_a_change_with_a_patch_and_its_texts(talk: Conversation) -> None:
    diff = {"type": "diff", "path": "/w/a", "oldText": "a\nb\n", "newText": "a\nc\n"}
    talk.update("tool_call", toolCallId="t", title="t", content=[diff, {**diff, "oldText": None}])
    changed, added = talk.updates()[0]["content"]
    assert changed["changes"] == [{"operation": "modify", "path": "/w/a", "fileType": "text"}]
    assert changed["patch"]["text"].endswith("@@ -1,2 +1,2 @@\n a\n-b\n+c\n")
    assert changed["_meta"]["dragoman"] == {"oldText": "a\nb\n", "newText": "a\nc\n"}
    assert added["changes"][0]["operation"] == "add"


def test_terminals_of_the_agent_become_updates_and_those_of_the_client_are_left_out(talk: Conversation) -> None:
    about = {"terminal_info": {"terminal_id": "x", "cwd": "/w"}}
    talk.update("tool_call", toolCallId="t", title="t", content=[{"type": "terminal", "terminalId": "x"}], _meta=about)
    talk.update("tool_call_update", toolCallId="t", _meta={"terminal_output": {"terminal_id": "x", "data": "é"}})
    ended = {"terminal_exit": {"terminal_id": "x", "exit_code": 1, "signal": None}}
    talk.update("tool_call_update", toolCallId="t", status="failed", _meta={**ended, "other": 1})
    talk.update("tool_call", toolCallId="u", title="u", content=[{"type": "terminal", "terminalId": "y"}])
    shown = talk.updates()
    assert [each["sessionUpdate"] for each in shown] == [
        "terminal_update",
        "tool_call_update",
        "terminal_output_chunk",
        "tool_call_update",
        "terminal_update",
        "tool_call_update",
        "tool_call_update",
    ]
    assert shown[1]["content"] == [{"type": "terminal", "terminalId": "x"}]
    assert (shown[2]["data"], shown[4]["exitStatus"], shown[5]["_meta"]) == ("w6k=", {"exitCode": 1}, {"other": 1})
    assert shown[6]["content"] == []
    assert "terminal-reference" in talk.lost()


def test_a_question_makes_the_state_require_an_action_until_it_is_answered(talk: Conversation) -> None:
    prompt(talk, 5, "hi")
    talk.take("client")
    talk.take("agent")
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    talk.update("tool_call", toolCallId="t", title="Run make")
    talk.ask("agent", 1, "session/request_permission", sessionId="s", toolCall={"toolCallId": "t"}, options=options)
    assert kinds(talk.client) == ["tool_call_update", "requires_action", "session/request_permission"]
    asked = talk.take("client")[-1]["params"]
    assert (asked["title"], asked["subject"]) == ("Run make", {"type": "tool_call", "toolCall": {"toolCallId": "t"}})
    talk.answer("client", 1, {"outcome": {"outcome": "selected", "optionId": "y"}})
    assert kinds(talk.take("client")) == ["running"]
    assert talk.take("agent")[0]["result"]["outcome"]["optionId"] == "y"


@pytest.mark.parametrize("outcome", [{"outcome": "_later"}, {"outcome": "selected", "optionId": "other"}, 5])
def test_an_unclear_answer_never_allows(talk: Conversation, outcome: Any) -> None:
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    talk.ask("agent", 1, "session/request_permission", sessionId="s", toolCall={"toolCallId": "t"}, options=options)
    talk.answer("client", 1, {"outcome": outcome})
    assert talk.take("agent")[0]["result"] == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.parametrize("method", ["fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/output"])
def test_files_and_terminals_of_the_client_do_not_exist(talk: Conversation, method: str) -> None:
    talk.ask("agent", 1, method, sessionId="s")
    assert talk.take("agent")[0]["error"]["code"] == -32601
    assert talk.take("client") == []


@pytest.mark.parametrize(
    ("version", "info", "code"),
    [
        (1, {"name": "c", "version": "1"}, -32022),
        (0, {}, -32022),
        ("2", {}, -32602),
        (True, {}, -32602),
        (2, None, -32602),
    ],
)
def test_other_versions_are_refused_as_the_official_router_does(version: Any, info: Any, code: int) -> None:
    talk = Conversation(translator("2", "1"))
    params = {"protocolVersion": version} if info is None else {"protocolVersion": version, "info": info}
    talk.feed("client", {"id": 0, "method": "initialize", "params": params})
    found = talk.take("client")[0]["error"]
    assert found["code"] == code
    assert talk.take("agent") == []
    if code == -32022:
        assert found["data"] == {"requested": version, "supported": [2]}


def test_a_replay_needs_an_agent_that_loads() -> None:
    talk = opened({"loadSession": False})
    talk.ask("client", 5, "session/resume", sessionId="s", cwd="/w", replayFrom={"type": "start"})
    talk.ask("client", 6, "session/resume", sessionId="s", cwd="/w")
    assert kinds(talk.take("client")) == [(5, -32602), (6, -32002)]


def test_resuming_an_agent_that_only_loads_hides_the_replay() -> None:
    talk = opened({"loadSession": True})
    talk.ask("client", 5, "session/resume", sessionId="s", cwd="/w")
    asked = talk.take("agent")[0]
    assert (asked["method"], asked["params"]["mcpServers"]) == ("session/load", [])
    talk.update("agent_message_chunk", content=text("old"))
    talk.update("available_commands_update", availableCommands=[])
    talk.answer("agent", asked["id"], {})
    assert kinds(talk.take("client")) == ["available_commands_update", "idle", 5]
    assert "replay-not-shown" in talk.lost()


def test_a_replay_from_the_start_is_shown_before_the_state_and_the_response() -> None:
    talk = opened({"loadSession": True, "sessionCapabilities": {"resume": {}}})
    talk.ask("client", 5, "session/resume", sessionId="s", cwd="/w", replayFrom={"type": "start"})
    talk.update("user_message_chunk", content=text("q"))
    talk.update("agent_message_chunk", content=text("a"))
    talk.answer("agent", 5, {})
    assert kinds(talk.take("client")) == ["user_message_chunk", "agent_message_chunk", "idle", 5]


MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}


def test_modes_become_an_option_and_are_set_through_it() -> None:
    talk = opened(session={"modes": MODES})
    talk.ask("client", 5, "session/set_config_option", sessionId="s", configId="mode", type="id", value="code")
    asked = talk.take("agent")[0]
    assert (asked["method"], asked["params"]["modeId"]) == ("session/set_mode", "code")
    talk.answer("agent", 5, {})
    assert talk.take("client")[0]["result"]["configOptions"][0]["currentValue"] == "code"
    talk.update("current_mode_update", currentModeId="ask")
    assert talk.updates()[0]["configOptions"][0]["currentValue"] == "ask"


def test_an_option_of_category_mode_stays_in_step_with_the_modes() -> None:
    option = {
        "id": "m",
        "name": "M",
        "category": "mode",
        "type": "select",
        "currentValue": "ask",
        "options": [{"value": "ask", "name": "A"}],
    }
    talk = opened(session={"modes": MODES, "configOptions": [option]})
    talk.update("current_mode_update", currentModeId="code")
    options = talk.updates()[0]["configOptions"]
    assert [(each["configId"], each["currentValue"]) for each in options] == [("m", "code")]


def test_what_the_agent_cannot_do_is_done_here_or_refused(talk: Conversation) -> None:
    talk.update("session_info_update", title="Tea")
    talk.take("client")
    talk.ask("client", 5, "session/list")
    assert talk.take("client")[0]["result"] == {"sessions": [{"sessionId": "s", "cwd": "/w", "title": "Tea"}]}
    talk.ask("client", 6, "auth/logout")
    talk.ask("client", 7, "tool_call/cancel", sessionId="s", toolCallId="t")
    assert kinds(talk.take("client")) == [(6, -32603), (7, -32602)]
    prompt(talk, 8, "hi")
    talk.take("client")
    talk.take("agent")
    talk.ask("client", 9, "session/close", sessionId="s")
    assert talk.take("agent")[0]["method"] == "session/cancel"
    assert talk.take("client")[0]["result"] == {}
    assert {"no-list", "no-logout", "no-close", "tool-cancel"} <= talk.lost()


def test_commands_options_and_logins_get_their_types() -> None:
    talk = Conversation(translator("2", "1"))
    talk.ask("client", 0, "initialize", protocolVersion=3, info={"name": "c", "version": "1"})
    methods = [{"id": "k", "name": "K"}, {"id": "t", "name": "T", "type": "terminal", "env": {"A": "1"}}]
    can = {"promptCapabilities": {"image": True, "audio": False}, "mcpCapabilities": {"http": True}}
    talk.answer("agent", 0, {"protocolVersion": 1, "agentCapabilities": can, "authMethods": methods})
    found = talk.take("client")[0]["result"]
    assert found["capabilities"]["session"] == {"prompt": {"image": {}}, "mcp": {"stdio": {}, "http": {}}}
    assert found["info"] == {"name": "unknown", "version": "unknown"}
    assert found["authMethods"][1]["env"] == [{"name": "A", "value": "1"}]
    assert [each["type"] for each in found["authMethods"]] == ["agent", "terminal"]
