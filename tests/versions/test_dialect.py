"""The dialect 2025.1 and version 1, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.versions import translator
from dragoman.versions.dialect.client import DialectClientV1Agent
from dragoman.versions.dialect.fields import error_to_dialect, error_to_v1, tool_kind
from tests.versions.conversation import Conversation, text

OFFERS = {"text_files": True, "terminal": True, "image": True}
UPDATE_TYPES = {
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "mode_change",
    "done",
}


def dialect_client(agent: Any = None, session: Any = None, decide: Any = None, **more: Any) -> Conversation:
    """A client of the dialect with session `own` open; the agent calls it `s`."""
    talk = Conversation(translator("2025.1", "1", decide=decide))
    client = {"name": "c", "version": "1"}
    params = {"protocol_version": "2025.1", "client_info": client, "capabilities": OFFERS, "working_directory": "/w"}
    talk.ask("client", 0, "initialize", **params, **more)
    talk.answer("agent", 0, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, **(agent or {})})
    talk.ask("client", 1, "session/new", session_id="own", mode="agent")
    talk.answer("agent", 1, {"sessionId": "s", **(session or {})})
    return talk


def begun(**options: Any) -> Conversation:
    """The same, with a prompt under way."""
    talk = dialect_client(**options)
    talk.ask("client", 2, "session/prompt", session_id="own", content=[text("go")])
    talk.take("client")
    talk.take("agent")
    return talk


def shown(talk: Conversation) -> list[Any]:
    frames = [each["params"] for each in talk.take("client") if each.get("method") == "session/update"]
    assert all(each["session_id"] == "own" and each["type"] in UPDATE_TYPES for each in frames)
    return [(each["type"], each.get("data")) for each in frames]


class TestDialectClient:
    def test_folder_and_servers_of_initialize_open_every_session(self) -> None:
        servers = [
            {"name": "a", "url": "stdio:///bin/a", "credentials": {"KEY": "k"}},
            {"name": "b", "url": "https://b.example", "credentials": {"token": "t", "X": "x"}},
        ]
        talk = dialect_client(mcp_servers=servers)
        initialize, new = talk.take("agent")
        assert initialize["params"]["clientCapabilities"]["fs"] == {"readTextFile": True, "writeTextFile": True}
        assert new["params"] == {
            "cwd": "/w",
            "mcpServers": [
                {"name": "a", "command": "/bin/a", "args": [], "env": [{"name": "KEY", "value": "k"}]},
                {
                    "type": "http",
                    "name": "b",
                    "url": "https://b.example",
                    "headers": [{"name": "Authorization", "value": "Bearer t"}, {"name": "X", "value": "x"}],
                },
            ],
        }
        ready, made = talk.take("client")
        assert ready["result"]["capabilities"]["supported_modes"] == ["agent"]
        assert made["result"] == {"session_id": "own"}

    def test_another_version_is_refused_with_the_supported_one(self) -> None:
        talk = Conversation(translator("2025.1", "1"))
        talk.ask("client", 0, "initialize", protocol_version="2026.1")
        assert talk.take("client")[0]["error"]["data"] == {"supported": ["2025.1"]}

    def test_the_order_of_the_states_is_kept(self) -> None:
        talk = Conversation(translator("2025.1", "1"))
        talk.ask("client", 0, "session/new", session_id="x")
        assert talk.take("client")[0]["error"]["code"] == -32003
        talk = begun()
        talk.ask("client", 3, "session/prompt", session_id="own", content=[text("again")])
        talk.ask("client", 4, "session/new", session_id="own")
        talk.ask("client", 5, "session/prompt", session_id="other", content=[text("x")])
        assert [each["error"]["code"] for each in talk.take("client")] == [-32003, -32003, -32001]

    def test_a_mode_that_the_agent_has_is_set_before_the_session_is_there(self) -> None:
        modes = {"currentModeId": "x", "availableModes": [{"id": "x", "name": "X"}, {"id": "agent", "name": "A"}]}
        talk = dialect_client(session={"modes": modes})
        asked = talk.take("agent")[-1]
        assert (asked["method"], asked["params"]) == ("session/set_mode", {"sessionId": "s", "modeId": "agent"})
        assert len(talk.take("client")) == 1
        talk.answer("agent", asked["id"], {})
        assert talk.take("client")[0]["result"] == {"session_id": "own"}
        talk.ask("client", 5, "session/new", session_id="two", mode="nope")
        talk.answer("agent", 5, {"sessionId": "s2", "modes": modes})
        assert talk.take("client")[0]["error"]["code"] == -32602

    def test_updates_have_the_dialects_words(self) -> None:
        talk = begun()
        talk.update("agent_message_chunk", content=text("a"))
        talk.update("agent_thought_chunk", content={"type": "image", "mimeType": "image/png", "data": "A" * 16000})
        talk.update("tool_call", toolCallId="t", title="Read a", kind="read", status="pending", rawInput={"path": "/a"})
        talk.update("tool_call_update", toolCallId="t", title="Read a!")
        content = [{"type": "content", "content": text("text")}]
        talk.update("tool_call_update", toolCallId="t", status="failed", content=content)
        entry = {"content": "one", "priority": "high", "status": "pending"}
        talk.update("plan", entries=[entry, {**entry, "content": "two"}])
        talk.update("plan", entries=[{**entry, "content": "two", "status": "completed"}])
        talk.update("current_mode_update", currentModeId="ask")
        talk.update("usage_update", used=1, size=2)
        assert shown(talk) == [
            ("agent_message_chunk", {"text": "a"}),
            ("agent_thought_chunk", {"text": "[image image/png, 12 kB]"}),
            ("tool_call", {"id": "t", "name": "read", "arguments": {"path": "/a"}}),
            ("tool_call_update", {"id": "t", "status": "failed", "result": {"content": "text"}, "error": "text"}),
            (
                "plan",
                {
                    "steps": [
                        {"id": 1, "description": "one", "status": "pending"},
                        {"id": 2, "description": "two", "status": "pending"},
                    ]
                },
            ),
            ("plan", {"steps": [{"id": 2, "description": "two", "status": "completed"}]}),
            ("mode_change", {"mode": "ask"}),
        ]
        assert {"content-as-text", "tool-title", "plan-priority", "usage"} <= talk.lost()

    def test_done_comes_before_the_result_with_the_stop_reason(self) -> None:
        talk = begun()
        talk.answer("agent", 2, {"stopReason": "refusal"})
        done, result = talk.take("client")
        assert done["params"] == {"session_id": "own", "type": "done"}
        assert result["result"] == {"status": "ok", "stop_reason": "refusal"}

    def test_a_cancel_with_an_id_is_answered_at_once_and_ends_the_turn_as_cancelled(self) -> None:
        talk = begun()
        talk.ask("client", 3, "session/cancel", session_id="own")
        assert talk.take("client") == [{"jsonrpc": "2.0", "id": 3, "result": None}]
        assert talk.take("agent")[0] == {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}
        talk.answer("agent", 2, {"stopReason": "end_turn"})
        assert talk.take("client")[-1]["result"] == {"status": "cancelled", "stop_reason": "cancelled"}

    def test_a_form_is_cancelled(self) -> None:
        talk = begun()
        talk.ask("agent", 1, "elicitation/create", sessionId="s", mode="form", message="?", requestedSchema={})
        assert talk.take("agent")[0]["result"] == {"action": "cancel"}

    def test_a_range_of_a_file_and_a_command_with_arguments(self) -> None:
        talk = begun()
        talk.ask("agent", 1, "fs/read_text_file", sessionId="s", path="/a", line=2, limit=1)
        assert talk.take("client")[0]["params"] == {"path": "/a"}
        talk.answer("client", 1, {"content": "1\n2\n3\n"})
        assert talk.take("agent")[0]["result"] == {"content": "2\n"}
        env = [{"name": "A", "value": "x y"}]
        talk.ask("agent", 2, "terminal/create", sessionId="s", command="echo", args=["a b"], env=env, outputByteLimit=3)
        assert talk.take("client")[0]["params"] == {"cwd": "/w", "command": "A='x y' echo 'a b'"}
        talk.answer("client", 2, {"terminal_id": "T"})
        talk.ask("agent", 3, "terminal/output", sessionId="s", terminalId="T")
        talk.answer("client", 3, {"output": "abcdef", "exited": True, "exit_code": 0})
        found = talk.take("agent")[-1]["result"]
        assert found == {"output": "def", "truncated": True, "exitStatus": {"exitCode": 0}}

    def test_a_killed_terminal_is_gone_for_the_client_and_still_known_to_the_agent(self) -> None:
        talk = begun()
        talk.ask("agent", 1, "terminal/kill", sessionId="s", terminalId="T")
        talk.answer("client", 1, {"success": True})
        talk.take("client")
        talk.ask("agent", 2, "terminal/output", sessionId="s", terminalId="T")
        talk.ask("agent", 3, "terminal/release", sessionId="s", terminalId="T")
        assert talk.take("client") == []
        assert [each["id"] for each in talk.take("agent")] == [1, 2, 3]

    def test_known_sessions_are_loaded_under_the_agents_id(self) -> None:
        made = DialectClientV1Agent()
        made.know_sessions({"own": "s"})
        talk = Conversation(made)
        talk.ask("client", 0, "initialize", protocol_version="2025.1", working_directory="/w")
        talk.answer("agent", 0, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
        talk.ask("client", 1, "session/load", session_id="own")
        assert talk.take("agent")[-1]["params"]["sessionId"] == "s"
        talk.answer("agent", 1, {})
        assert talk.take("client")[-1]["result"] == {"session_id": "own", "loaded": True}
        assert made.session_ids == {"own": "s"}

    def test_an_id_of_an_earlier_connection_may_be_used_for_a_new_session(self) -> None:
        kept: list[tuple[str, str]] = []
        made = DialectClientV1Agent(keep_session=lambda own, agents: kept.append((own, agents)))
        made.know_sessions({"own": "old"})
        talk = Conversation(made)
        talk.ask("client", 0, "initialize", protocol_version="2025.1", working_directory="/w")
        talk.answer("agent", 0, {"protocolVersion": 1})
        talk.ask("client", 1, "session/new", session_id="own")
        talk.answer("agent", 1, {"sessionId": "new"})
        assert talk.take("client")[-1]["result"] == {"session_id": "own"}
        assert kept == [("own", "new")]
        talk.ask("client", 2, "session/new", session_id="own")
        assert "error" in talk.take("client")[-1]


KINDS = ["allow_once", "allow_always", "reject_once", "reject_always", "_other"]


@given(st.lists(st.sampled_from(KINDS), max_size=5))
def test_without_a_decision_a_permission_request_is_never_allowed(kinds: list[str]) -> None:
    talk = begun()
    options = [{"optionId": f"{number}", "name": kind, "kind": kind} for number, kind in enumerate(kinds)]
    talk.ask("agent", 1, "session/request_permission", sessionId="s", toolCall={"toolCallId": "t"}, options=options)
    outcome = talk.take("agent")[0]["result"]["outcome"]
    if outcome["outcome"] == "selected":
        assert kinds[int(outcome["optionId"])].startswith("reject")
    else:
        assert not any(kind.startswith("reject") for kind in kinds)


def test_a_decision_sees_the_whole_tool_call_and_must_name_an_option() -> None:
    seen: list[Any] = []

    def decide(params: Any, reported: Any, folder: str) -> str:
        seen.append((reported, folder))
        return "y"

    options = [
        {"optionId": "y", "name": "Y", "kind": "allow_once"},
        {"optionId": "n", "name": "N", "kind": "reject_once"},
    ]
    talk = begun(decide=decide)
    talk.update("tool_call", toolCallId="t", title="t", rawInput={"command": "make"})
    talk.update("tool_call_update", toolCallId="t", kind="execute", title=None)
    call = {"toolCallId": "t"}
    talk.ask("agent", 1, "session/request_permission", sessionId="s", toolCall=call, options=options)
    talk.ask("agent", 2, "session/request_permission", sessionId="s", toolCall=call, options=options[1:])
    first, second = talk.take("agent")
    assert first["result"]["outcome"]["optionId"] == "y"
    assert second["result"]["outcome"]["optionId"] == "n"
    (reported, folder), _ = seen
    assert folder == "/w"
    assert reported == [
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "t",
            "title": "t",
            "kind": "execute",
            "rawInput": {"command": "make"},
        }
    ]


@pytest.mark.parametrize(
    ("v1", "dialect", "back"),
    [
        (-32700, -32700, -32700),
        (-32602, -32602, -32602),
        (-32000, -32003, -32000),
        (-32002, -32001, -32002),
        (-32800, -32603, -32603),
        (-32601, -32601, -32601),
        (400, 400, 400),
    ],
)
def test_errors_keep_their_meaning(v1: int, dialect: int, back: int) -> None:
    there = error_to_dialect({"code": v1, "message": "m"})
    assert (there["code"], error_to_v1(there)["code"]) == (dialect, back)


def test_not_found_and_permission_denied_are_not_confused() -> None:
    denied = error_to_v1({"code": -32002, "message": "no"})
    assert (denied["code"], denied["data"]) == (-32603, {"reason": "permission denied"})
    assert error_to_dialect({"code": -32601, "message": "m"}, is_gate=True)["code"] == -32004
    assert error_to_v1({"code": -32004, "message": "m"})["code"] == -32601


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("read_file", "read"),
        ("cat", "read"),
        ("edit_file", "edit"),
        ("bash", "execute"),
        ("rename", "move"),
        ("x", "other"),
    ],
)
def test_the_kind_of_a_tool_is_read_from_its_name(name: str, kind: str) -> None:
    assert tool_kind(name) == kind


def dialect_agent(**options: Any) -> tuple[Conversation, str]:
    """A client of version 1 with a session open at an agent of the dialect."""
    talk = Conversation(translator("1", "2025.1", folder="/w", **options))
    offers = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    talk.ask("client", 0, "initialize", protocolVersion=1, clientCapabilities=offers)
    if not options.get("is_lazy"):
        talk.answer(
            "agent", 0, {"agent_info": {"name": "a", "version": "1"}, "capabilities": {"supported_modes": ["ask"]}}
        )
    talk.ask("client", 1, "session/new", cwd="/w", mcpServers=[])
    if options.get("is_lazy"):
        talk.answer("agent", talk.agent[-1]["id"], {"capabilities": {}})
    talk.answer("agent", 1, {"session_id": "any"})
    session = talk.take("client")[-1]["result"]["sessionId"]
    return talk, session


def processing(**options: Any) -> tuple[Conversation, str]:
    talk, session = dialect_agent(**options)
    talk.ask("client", 2, "session/prompt", sessionId=session, prompt=[text("go")])
    talk.take("agent")
    return talk, session


def send_update(talk: Conversation, session: str, kind: str, data: Any = None) -> None:
    talk.notify("agent", "session/update", session_id=session, type=kind, **({} if data is None else {"data": data}))


class TestDialectAgent:
    def test_the_folder_is_named_at_initialize(self) -> None:
        talk, session = dialect_agent()
        initialize, new = talk.take("agent")
        assert initialize["params"]["working_directory"] == "/w"
        assert initialize["params"]["capabilities"]["text_files"] is True
        assert new["params"] == {"session_id": session, "mode": "ask"}

    def test_a_session_in_another_folder_or_with_servers_is_refused(self) -> None:
        talk, _ = dialect_agent()
        talk.ask("client", 5, "session/new", cwd="/other", mcpServers=[])
        server = {"name": "a", "command": "/bin/a", "args": [], "env": []}
        talk.ask("client", 6, "session/new", cwd="/w", mcpServers=[server])
        first, second = talk.take("client")
        assert first["error"]["data"] == {"cwd": "/other", "working_directory": "/w"}
        assert second["error"]["code"] == -32602

    def test_a_lazy_agent_learns_folder_and_servers_with_the_first_session(self) -> None:
        talk = Conversation(translator("1", "2025.1", folder="/w", is_lazy=True))
        talk.ask("client", 0, "initialize", protocolVersion=1)
        assert talk.take("agent") == []
        server = {"name": "a", "command": "/bin/a", "args": [], "env": [{"name": "K", "value": "v"}]}
        talk.ask("client", 1, "session/new", cwd="/other", mcpServers=[server])
        asked = talk.take("agent")[0]
        assert asked["params"]["working_directory"] == "/other"
        assert asked["params"]["mcp_servers"] == [{"name": "a", "url": "stdio:///bin/a", "credentials": {"K": "v"}}]
        talk.answer("agent", asked["id"], {"capabilities": {}})
        assert talk.take("agent")[0]["method"] == "session/new"

    def test_updates_become_version_1(self) -> None:
        talk, session = processing()
        send_update(talk, session, "agent_thought_chunk", {"text": "hm"})
        send_update(talk, session, "agent_message_chunk", {"text": "a"})
        send_update(talk, session, "tool_call", {"id": 7, "name": "read_file", "arguments": {"path": "/a"}})
        send_update(talk, session, "tool_call_update", {"id": 7, "status": "ok", "result": {"content": "x"}})
        send_update(talk, session, "plan", {"steps": [{"id": 1, "description": "one", "status": "skipped"}]})
        send_update(talk, session, "surprise", {})
        thought, message, call, result, plan = talk.updates()
        assert thought["messageId"] != message["messageId"]
        assert call["title"] == "read_file /a"
        assert (call["toolCallId"], call["kind"], call["locations"]) == ("7", "read", [{"path": "/a"}])
        assert (result["status"], result["content"][0]["content"]["text"]) == ("completed", "x")
        assert plan["entries"][0]["status"] == "completed"
        assert {"step-status", "unknown-update"} <= talk.lost()

    def test_a_result_that_overtook_its_updates_waits_for_done(self) -> None:
        talk, session = processing()
        talk.answer("agent", 2, {"status": "ok"})
        assert talk.translator.wait_seconds is not None
        send_update(talk, session, "agent_message_chunk", {"text": "late"})
        assert [each.get("id") for each in talk.take("client")] == [None]
        send_update(talk, session, "done")
        assert talk.take("client")[0]["result"] == {"stopReason": "end_turn"}
        assert talk.translator.wait_seconds is None

    def test_an_agent_without_done_is_waited_for_in_its_first_turn_only(self) -> None:
        talk, session = processing()
        talk.answer("agent", 2, {"status": "ok", "stop_reason": "max_tokens"})
        assert talk.take("client") == []
        talk.wait()
        assert talk.take("client")[0]["result"] == {"stopReason": "max_tokens"}
        talk.ask("client", 3, "session/prompt", sessionId=session, prompt=[text("again")])
        talk.answer("agent", 3, {"status": "odd"})
        assert talk.take("client")[0]["result"] == {"stopReason": "end_turn", "_meta": {"2025.1": {"status": "odd"}}}

    def test_a_cancel_counts_when_the_result_comes(self) -> None:
        talk, session = processing()
        talk.notify("client", "session/cancel", sessionId=session)
        assert talk.take("agent")[0]["params"] == {"session_id": session}
        send_update(talk, session, "done")
        talk.answer("agent", 2, {"status": "ok"})
        assert talk.take("client")[0]["result"] == {"stopReason": "cancelled"}

    def test_a_turn_that_does_not_end_after_a_cancel_is_answered_and_its_rest_left_out(self) -> None:
        talk, session = processing()
        waits = [talk.translator.wait_seconds]
        talk.notify("client", "session/cancel", sessionId=session)
        for _ in range(6):
            assert talk.take("client") == []
            waits.append(talk.translator.wait_seconds)
            talk.wait()
        assert talk.take("client")[0]["result"] == {"stopReason": "cancelled"}
        assert [*waits, talk.translator.wait_seconds] == [None, *[5.0] * 6, None]
        talk.ask("client", 3, "session/prompt", sessionId=session, prompt=[text("next")])
        send_update(talk, session, "agent_message_chunk", {"text": "of the turn before"})
        talk.answer("agent", 2, {"status": "ok"})
        assert talk.take("client") == []
        send_update(talk, session, "agent_message_chunk", {"text": "of this one"})
        send_update(talk, session, "done")
        talk.answer("agent", 3, {"status": "ok"})
        shown, ended = talk.take("client")
        assert shown["params"]["update"]["content"]["text"] == "of this one"
        assert ended["result"] == {"stopReason": "end_turn"}
        assert talk.translator.closed("agent") == []

    def test_files_and_commands_belong_to_the_session_that_works(self) -> None:
        talk, session = processing()
        talk.ask("agent", 1, "fs/read_text_file", path="/a")
        assert talk.take("client")[0]["params"] == {"sessionId": session, "path": "/a"}
        talk.ask("agent", 2, "terminal/create", cwd="/w", command="make all | cat")
        asked = talk.take("client")[0]["params"]
        assert (asked["command"], asked["args"]) == ("sh", ["-c", "make all | cat"])
        talk.answer("client", 2, {"terminalId": "T"})
        talk.ask("agent", 3, "terminal/wait_for_exit", terminal_id="T")
        talk.answer("client", 3, {"exitCode": 2})
        own = talk.take("client")[-1]
        assert own["method"] == "terminal/output"
        talk.answer("client", own["id"], {"output": "out", "truncated": False})
        assert talk.take("agent")[-1]["result"] == {"exit_code": 2, "output": "out"}

    def test_a_request_that_may_belong_to_two_sessions_is_refused(self) -> None:
        talk, first = processing()
        talk.ask("client", 3, "session/new", cwd="/w", mcpServers=[])
        talk.answer("agent", 3, {})
        second = talk.take("client")[-1]["result"]["sessionId"]
        talk.ask("client", 4, "session/prompt", sessionId=second, prompt=[text("go")])
        talk.take("agent")
        talk.ask("agent", 1, "fs/read_text_file", path="/a")
        assert talk.take("agent")[0]["error"]["code"] == -32003
        send_update(talk, first, "tool_call", {"id": "c", "name": "x", "arguments": {}})
        talk.take("client")
        talk.ask("agent", 2, "fs/read_text_file", path="/a")
        assert talk.take("client")[0]["params"]["sessionId"] == first

    def test_what_the_dialect_does_not_have_is_refused_here(self) -> None:
        talk, session = dialect_agent()
        talk.take("agent")
        for number, method in enumerate(("session/set_mode", "session/list", "logout"), 5):
            talk.ask("client", number, method, sessionId=session)
        talk.ask("client", 9, "session/close", sessionId=session)
        *refused, closed = talk.take("client")
        assert [each["error"]["code"] for each in refused] == [-32601] * 3
        assert closed["result"] == {}
        assert talk.take("agent") == []

    @pytest.mark.parametrize("is_right", [True, False])
    def test_a_token_is_the_only_way_to_log_in(self, is_right: bool) -> None:
        talk, _ = dialect_agent(token="t")
        talk.take("agent")
        talk.ask("client", 5, "authenticate", methodId="token")
        assert talk.take("agent")[0]["params"] == {"type": "token", "token": "t"}
        talk.answer("agent", 5, {"success": is_right})
        assert ("result" in talk.take("client")[0]) is is_right

    def test_blocks_of_a_prompt(self) -> None:
        talk, session = dialect_agent()
        talk.take("agent")
        blocks = [
            {"type": "image", "mimeType": "image/jpeg", "data": "QQ=="},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "t", "mimeType": "text/plain"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "QQ=="}},
            {"type": "resource_link", "uri": "file:///c", "name": "c", "size": 4},
        ]
        talk.ask("client", 2, "session/prompt", sessionId=session, prompt=blocks)
        assert talk.take("agent")[0]["params"]["content"] == [
            {"type": "image", "format": "jpg", "data": "QQ=="},
            {"type": "resource", "uri": "file:///a", "mime_type": "text/plain", "content": "t"},
            {"type": "resource_link", "uri": "file:///b"},
            {"type": "resource_link", "uri": "file:///c"},
        ]
        assert "block-details" in talk.lost()

    def test_an_unknown_session_and_a_failed_turn(self) -> None:
        talk, session = processing()
        talk.fail("agent", 2, -32001)
        talk.ask("client", 3, "session/load", sessionId="x", cwd="/w", mcpServers=[])
        talk.answer("agent", 3, {"session_id": "x", "loaded": False})
        assert [each["error"]["code"] for each in talk.take("client")] == [-32002, -32002]
        assert json.dumps(session)
