"""What passes through the guard, and as what."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.wire import TooLong, Truncated
from tests.proxy.kit import ALL, OPTIONS, guarded, permission, selected, without_words

# Lines as programs write them: spaces, order, escapes and numbers differ from what we would write.
FROM_AGENT = [
    b'{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": '
    b'"agent_message_chunk", "content": {"type": "text", "text": "caf\\u00e9 \\ud83d\\ude00 <b>"}}}}',
    b'{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"future_update","n":1e3}},"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","method":"_vendor/progress","params":{"at":0.5000}}',
    b'{"jsonrpc":"2.0","id":"x-1","method":"_vendor/ask","params":{"method":"nested"}}',
    b'{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"mode":"form","message":"?"}}',
    b'{"jsonrpc":"2.0","id":8,"method":"mcp/connect","params":{"acpId":"a"}}',
    b'{"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e"}}',
    b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":99}}',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"T"}}}',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","odd":[1]}}}',
    b'{"jsonrpc":"2.0","method":"session/update","params":[1]}',
]
FROM_EDITOR = [
    b'{"jsonrpc": "2.0", "id": "a", "method": "session/set_mode", "params": {"modeId": "x", "sessionId": "s"}}',
    b'{"jsonrpc":"2.0","id":5,"method":"session/list","params":{}}',
    b'{"jsonrpc":"2.0","id":6,"method":"authenticate","params":{"methodId":"m"}}',
    b'{"jsonrpc":"2.0","id":7,"method":"_vendor/thing","params":{"error":"text"}}',
    b'{"jsonrpc":"2.0","id":8,"method":"session/set_model","params":{"sessionId":"s","modelId":"m"}}',
    b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}',
    b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":5}}',
    b'{"jsonrpc":"2.0","method":"_vendor/note"}',
    b'{"jsonrpc":"2.0","id":9,"method":"session/prompt","params":{"prompt":[{"text":"a  b","type":"text"}],'
    b'"sessionId":"s","_meta":{"k":1.50}}}',
]


@pytest.mark.parametrize("line", FROM_AGENT)
async def test_a_line_of_the_agent_that_is_not_judged_passes_as_it_was(line: bytes, tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        guard.exchange.from_agent(line)
        assert (guard.editor, guard.agent) == ([line], [])


@pytest.mark.parametrize("line", FROM_EDITOR)
async def test_a_line_of_the_editor_that_is_not_judged_passes_as_it_was(line: bytes, tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        guard.exchange.from_editor(line)
        assert (guard.editor, guard.agent) == ([], [line])


async def test_responses_pass_as_they_were_once(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        guard.exchange.from_editor(FROM_EDITOR[1])
        result = b'{"jsonrpc": "2.0", "result": {"sessions": []}, "id": 5}'
        guard.exchange.from_agent(result)
        guard.exchange.from_agent(result)
        assert guard.editor == [result]
        guard.exchange.from_agent(FROM_AGENT[3])
        error = b'{"jsonrpc": "2.0", "error": {"code": -1, "message": "m", "data": {"x": 1.0}}, "id": "x-1"}'
        guard.agent.clear()
        guard.exchange.from_editor(error)
        guard.exchange.from_editor(error)
        assert guard.agent == [error]
        assert [each for each in guard.sentences if "a response to no open request" in each]


async def test_files_and_terminals_are_offered_in_version_1(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        given = {"elicitation": {"form": {}}, "_meta": {"x": 1}}
        params = {"protocolVersion": 2, "clientCapabilities": given, "clientInfo": {"name": "e", "version": "1"}}
        guard.from_editor({"id": 1, "method": "initialize", "params": params})
        sent = (await guard.for_agent())["params"]
        assert sent == {**params, "protocolVersion": 1, "clientCapabilities": {**given, **ALL}}


async def test_a_request_waits_for_the_session_that_is_being_opened(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        (tmp_path / "project/a.txt").write_text("text")
        guard.from_editor({"id": 2, "method": "session/new", "params": {"cwd": str(guard.folder), "mcpServers": []}})
        await guard.for_agent()
        params = {"sessionId": "early", "path": f"{guard.folder}/a.txt"}
        guard.from_agent({"id": 1, "method": "fs/read_text_file", "params": params})
        guard.from_agent({"id": 2, "result": {"sessionId": "early"}})
        assert (await guard.for_agent())["result"] == {"content": "text"}
        answer = await guard.asked("fs/read_text_file", sessionId="unknown", path="/x")
        assert answer["code"] == -32002


# Permission


async def test_rules_answer_before_the_editor_is_asked(tmp_path: Path) -> None:
    async with guarded(tmp_path, deny=["execute:rm *"], allow=["execute:ls"]) as guard:
        await guard.open()
        for command, option in (("rm -rf x", "no"), ("ls", "yes")):
            answer = await guard.asked(
                "session/request_permission", **permission(kind="execute", rawInput={"command": command})
            )
            assert answer == selected(option)
        assert guard.editor == []
        decisions = [record["decision"] for record in guard.records("decision")]
        assert [each["outcome"] for each in decisions] == ["deny", "allow"]
        assert decisions[0]["rule"] == "execute:rm *"


async def test_what_no_rule_decides_is_asked_with_all_that_the_agent_sent(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        params = {"sessionId": "s", **permission(title="T", extra=[1, {"a": None}]), "_meta": {"m": 1}}
        guard.from_agent({"id": "p", "method": "session/request_permission", "params": params})
        asked = await guard.for_editor()
        assert without_words(asked) == without_words({**asked, "params": params})
        assert asked["params"]["toolCall"]["extra"] == [1, {"a": None}]
        answer = {**selected("yes"), "_meta": {"kept": True}}
        guard.from_editor({"id": asked["id"], "result": answer})
        assert await guard.for_agent() == {"jsonrpc": "2.0", "id": "p", "result": answer}


async def test_a_call_is_judged_by_all_that_was_reported_of_it(tmp_path: Path) -> None:
    async with guarded(tmp_path, deny=["execute:rm *"], allow=["execute:ls"]) as guard:
        await guard.open()
        guard.update(
            sessionUpdate="tool_call", toolCallId="c1", title="x", kind="execute", rawInput={"command": "rm a"}
        )
        answer = await guard.asked(
            "session/request_permission", **permission(kind="execute", rawInput={"command": "ls"})
        )
        assert answer == selected("no")


@pytest.mark.parametrize("forged", ["same id", "guessed id"])
async def test_an_editor_cannot_answer_what_it_was_not_asked(forged: str, tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        guard.from_agent(
            {"id": 5, "method": "session/request_permission", "params": {"sessionId": "s", **permission()}}
        )
        asked = await guard.for_editor()
        assert asked["id"] != 5
        number = asked["id"].rpartition("-")[2]
        guard.from_editor({"id": 5 if forged == "same id" else f"dragoman-guard-{number}", "result": selected("yes")})
        assert guard.agent == []
        guard.from_editor({"id": asked["id"], "result": selected("no")})
        assert (await guard.for_agent())["result"] == selected("no")


async def test_an_answer_after_the_cancel_is_too_late(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        guard.from_agent(
            {"id": 5, "method": "session/request_permission", "params": {"sessionId": "s", **permission()}}
        )
        asked = await guard.for_editor()
        guard.from_editor({"method": "session/cancel", "params": {"sessionId": "s"}})
        assert (await guard.for_agent())["method"] == "session/cancel"
        assert (await guard.for_agent())["result"] == {"outcome": {"outcome": "cancelled"}}
        guard.from_editor({"id": asked["id"], "result": selected("yes")})
        assert guard.agent == []


@pytest.mark.parametrize(
    "body",
    [
        {"result": {"outcome": {"outcome": "cancelled"}, "_meta": {"k": 1}}},
        {"error": {"code": -32800, "message": "Request cancelled", "data": {"k": 1.5}}},
        {"result": selected("no")},
    ],
)
async def test_the_agent_withdraws_its_question_and_the_editor_answers(body: dict[str, Any], tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        guard.from_agent(
            {"id": 5, "method": "session/request_permission", "params": {"sessionId": "s", **permission()}}
        )
        asked = await guard.for_editor()
        guard.from_agent({"method": "$/cancel_request", "params": {"requestId": 5}})
        withdrawn = await guard.for_editor()
        assert (withdrawn["method"], withdrawn["params"]) == ("$/cancel_request", {"requestId": asked["id"]})
        assert guard.agent == []
        guard.from_editor({"id": asked["id"], **body})
        assert await guard.for_agent() == {"jsonrpc": "2.0", "id": 5, **body}


async def test_a_withdrawn_request_without_an_editor_to_answer_it_ends_at_once(tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=["execute:sleep *"]) as guard:
        await guard.open()
        made = await guard.asked("terminal/create", command="sleep", args=["600"])
        params = {"sessionId": "s", "terminalId": made["terminalId"]}
        for request_id, is_begun in ((5, True), (6, False)):  # before its task ran, too
            guard.from_agent({"id": request_id, "method": "terminal/wait_for_exit", "params": params})
            if is_begun:
                await asyncio.sleep(0)
            guard.from_agent({"method": "$/cancel_request", "params": {"requestId": request_id}})
            answer = await guard.for_agent()
            assert (answer["id"], answer["error"]["code"]) == (request_id, -32800)
        guard.from_agent({"id": 7, "method": "terminal/create", "params": {"sessionId": "s", "command": "reboot"}})
        asked = await guard.for_editor()  # a question of the guard itself
        guard.from_agent({"method": "$/cancel_request", "params": {"requestId": 7}})
        assert (await guard.for_agent())["error"]["code"] == -32800
        withdrawn = [line for line in guard.editor if asked["id"].encode() in line and b"$/cancel_request" in line]
        assert len(withdrawn) == 1
        assert guard.agent == []


async def test_an_option_that_was_not_offered_selects_none(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        guard.from_agent(
            {"id": 5, "method": "session/request_permission", "params": {"sessionId": "s", **permission()}}
        )
        asked = await guard.for_editor()
        guard.from_editor({"id": asked["id"], "result": selected("allow-everything")})
        assert (await guard.for_agent())["result"] == {"outcome": {"outcome": "cancelled"}}


async def test_without_a_user_what_no_rule_decides_is_refused(tmp_path: Path) -> None:
    async with guarded(tmp_path, asks_editor=False) as guard:
        await guard.open()
        assert await guard.asked("session/request_permission", **permission()) == selected("no")
        answer = await guard.asked("fs/write_text_file", path=f"{guard.folder}/a", content="x")
        assert "Not permitted" in answer["message"]
        assert not (guard.folder / "a").exists()
        assert guard.editor == []


# Lines with more than one meaning


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"session/update","method":"fs/write_text_file","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"fs/write_text_file","method":"_x/y","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"Method":"fs/write_text_file","method":"_x/y","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"meth\\u006fd":"fs/write_text_file","method":"_x/y","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"\\u006d\\u0065thod":"_x/y","method":"fs/write_text_file","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"fs\\/../write_text_file","params":{}}',
        b'{"jsonrpc":"2.0","method":"fs/write_text_file","params":{}}',
        b'{"jsonrpc":"2.0","id":null,"method":"_x/y","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"_x/y","result":{}}',
        b'[{"jsonrpc":"2.0","id":1,"method":"fs/write_text_file","params":{}}]',
        b'{"jsonrpc":"2.0","id":1,"method":"terminal/run_unknown","params":{}}',
        b'{"jsonrpc":"1.0","id":1,"method":"fs/write_text_file","params":{}}',
        b'{"id":1,"method":"fs/write_text_file","params":{}}',
        b'\xff{"jsonrpc":"2.0","id":1,"method":"_x/y"}',
        b"[" * 100_000,
        b"log line",
    ],
)
async def test_nothing_passes_that_the_editor_could_take_for_another_request(line: bytes, tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open(ALL)
        guard.exchange.from_agent(line)
        assert guard.editor == []


async def test_an_id_that_is_in_use_is_refused(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        guard.from_agent({"id": 5, "method": "_x/y", "params": {}})
        guard.from_agent(
            {"id": 5, "method": "session/request_permission", "params": {"sessionId": "s", **permission()}}
        )
        assert (await guard.for_agent())["error"]["code"] == -32600
        assert len(guard.editor) == 1
        guard.from_agent({"id": "5", "method": "_x/y", "params": {}})  # another type is another id
        assert len(guard.editor) == 2
        guard.editor.clear()
        guard.prompt(3)  # runs already
        assert (await guard.for_editor())["error"]["code"] == -32600


async def test_floods_of_requests_are_refused(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        for number in range(5_000):
            guard.from_agent({"id": f"f{number}", "method": "_x/y", "params": {}})
            guard.from_editor({"id": f"f{number}", "method": "_x/y", "params": {}})
        refused = [json.loads(line) for line in guard.agent if b'"error"' in line]
        assert len(refused) == 5_000 - 4_096
        params = {"sessionId": "s", **permission()}
        for number in range(1_000):
            guard.from_agent({"id": f"p{number}", "method": "session/request_permission", "params": params})
        assert sum(b"too many requests are open" in line for line in guard.agent) == 904 + 1_000 - 512


async def test_bad_lines_of_the_editor_are_answered_and_a_bad_response_ends_the_wait(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        guard.exchange.from_editor(b"nonsense")
        assert (await guard.for_editor())["error"]["code"] == -32700
        guard.from_agent({"id": 5, "method": "_x/y", "params": {}})
        guard.exchange.from_editor(b'{"jsonrpc":"2.0","id":5,"result":{},"error":{"code":1,"message":"m"}}')
        assert (await guard.for_agent())["error"]["message"] == (
            'the response could not be read: a response has exactly one of "result" and "error"'
        )
        guard.editor.clear()
        guard.exchange.from_agent(b'{"jsonrpc":"2.0","id":3,"result":')
        assert (await guard.for_editor())["id"] == 3


async def test_a_line_that_is_too_long_ends_the_wait_and_harms_nothing(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        guard.exchange.from_agent(TooLong(b'{"jsonrpc":"2.0","id":3,"result":{"x":"', b'"}}', 1 << 30, 1 << 25))
        assert (await guard.for_editor())["id"] == 3
        guard.exchange.from_agent(
            TooLong(b'{"jsonrpc":"2.0","method":"session/update","params":', b"}", 1 << 30, 1 << 25)
        )
        guard.exchange.from_agent(Truncated(b'{"jsonrpc":"2.0","id":9,"method":"fs/wr', 40))
        assert guard.editor == []


async def test_broken_params_are_refused_and_harm_nothing(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        wrong: list[Any] = [None, [], {}, {"sessionId": 1}, {"sessionId": "s", "options": OPTIONS}]
        for method in ("session/request_permission", "fs/write_text_file", "terminal/create", "terminal/output"):
            for params in wrong:
                guard.from_agent({"id": "w", "method": method, "params": params})
                assert (await guard.for_agent())["error"]["code"] in (-32602, -32002, -32600)
        for method in ("initialize", "session/new", "session/prompt", "session/load"):
            guard.from_editor({"id": "w", "method": method, "params": [1]})
            assert (await guard.for_editor())["error"]["code"] == -32602
        assert guard.agent == []
