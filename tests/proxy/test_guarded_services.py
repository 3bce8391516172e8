"""Files, terminals, violations, limits and additions of the guard."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.proxy.guard.additions import Additions
from dragoman.proxy.guard.conduct import Conduct, SeenConduct
from tests.proxy.kit import ALL, Guarded, guarded, permission, selected

FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}


# Files


async def test_files_are_read_and_written_on_the_disk_for_an_editor_without_files(tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=["edit"], deny=["edit:secret/**", "read:secret/**"]) as guard:
        await guard.open()
        (guard.folder / "secret").mkdir()
        (guard.folder / "secret/key").write_text("k")
        path = f"{guard.folder}/a.txt"
        assert await guard.asked("fs/write_text_file", path=path, content="one\ntwo\n") == {}
        assert await guard.asked("fs/read_text_file", path=path, line=2, limit=1) == {"content": "two\n"}
        for method, more in (("fs/read_text_file", {}), ("fs/write_text_file", {"content": "x"})):
            answer = await guard.asked(method, path=f"{guard.folder}/secret/key", **more)
            assert "secret/**" in answer["message"]
        assert guard.editor == []
        assert (guard.folder / "secret/key").read_text() == "k"
        files = [record["file"] for record in guard.records("file")]
        assert [(each["op"], each["added"], os.path.basename(each["path"])) for each in files] == [
            ("create", 2, "a.txt"),
            ("read", 0, "a.txt"),
        ]


async def test_the_editors_files_are_used_so_that_unsaved_changes_count(tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=["edit"], deny=["edit:secret", "read:secret"]) as guard:
        await guard.open(FILES)
        path = f"{guard.folder}/new.txt"
        params = {"sessionId": "s", "path": path, "_meta": {"x": 1}}
        guard.from_agent({"id": 1, "method": "fs/read_text_file", "params": params})
        asked = await guard.for_editor()
        assert (asked["method"], asked["params"]) == ("fs/read_text_file", params)
        guard.from_editor({"id": asked["id"], "result": {"content": "unsaved", "_meta": {"y": 2}}})
        assert (await guard.for_agent())["result"] == {"content": "unsaved", "_meta": {"y": 2}}
        guard.from_agent({"id": 2, "method": "fs/write_text_file", "params": {**params, "content": "new"}})
        asked = await guard.for_editor()
        assert asked["params"] == {**params, "content": "new"}
        guard.from_editor({"id": asked["id"], "error": {"code": -32603, "message": "the disk is full"}})
        assert (await guard.for_agent())["error"]["message"] == "the disk is full"
        answer = await guard.asked("fs/read_text_file", path=f"{guard.folder}/secret")
        assert "Not permitted" in answer["message"]
        assert guard.editor == []
        assert [record["run_by"] for record in guard.records("file")] == ["editor"]


@pytest.mark.parametrize("capabilities", [{}, FILES])
async def test_no_path_leads_out_of_the_folders_of_the_session(capabilities: dict[str, Any], tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=["edit", "read"]) as guard:
        await guard.open(capabilities)
        (tmp_path / "outside").write_text("outside")
        (guard.folder / "link").symlink_to(tmp_path / "outside")
        (guard.folder / "up").symlink_to("..")
        for path in ("link", "up/outside", "../outside", "up/new"):
            for method, more in (("fs/read_text_file", {}), ("fs/write_text_file", {"content": "x"})):
                answer = await guard.asked(method, path=f"{guard.folder}/{path}", **more)
                assert answer["code"] in (-32602, -32603, -32002), (path, method)
        assert (await guard.asked("fs/read_text_file", path="relative"))["code"] == -32602
        assert guard.editor == []
        assert (tmp_path / "outside").read_text() == "outside"


async def test_a_deny_of_files_holds_for_commands_through_links(tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=["*"], deny=["edit:secret/**", "read:secret/**"]) as guard:
        await guard.open()
        (guard.folder / "secret").mkdir()
        (guard.folder / "secret/key").write_text("k")
        (guard.folder / "l").symlink_to("secret/key")
        (guard.folder / "up").symlink_to(".")
        for line in ("echo x > l", "cat < l", "echo x >> up/secret/key", "cd up && cat < up/l"):
            answer = await guard.asked("terminal/create", command="sh", args=["-c", line])
            assert "secret/**" in answer["message"], line
        assert guard.editor == []
        assert (guard.folder / "secret/key").read_text() == "k"


async def test_a_write_without_a_rule_is_asked_about_and_the_answer_is_remembered(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        params = {"sessionId": "s", "path": f"{guard.folder}/a", "content": "x"}
        guard.from_agent({"id": 1, "method": "fs/write_text_file", "params": params})
        asked = await guard.for_editor()
        call = asked["params"]["toolCall"]
        assert call["content"][0]["newText"] == "x"
        guard.from_editor({"id": asked["id"], "result": selected("allow-project")})
        ended = (await guard.for_editor())["params"]["update"]
        assert (ended["toolCallId"], ended["status"]) == (call["toolCallId"], "completed")
        assert (await guard.for_agent())["result"] == {}
        assert await guard.asked("fs/write_text_file", path=f"{guard.folder}/a", content="y") == {}


async def test_a_permission_covers_the_write_that_was_shown_and_no_other(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        path = f"{guard.folder}/a"
        diff = {"type": "diff", "path": path, "newText": "shown"}
        params = {"sessionId": "s", **permission(kind="edit", title="Write", content=[diff])}
        guard.from_agent({"id": 1, "method": "session/request_permission", "params": params})
        asked = await guard.for_editor()
        guard.from_editor({"id": asked["id"], "result": selected("yes")})
        assert (await guard.for_agent())["result"] == selected("yes")
        assert await guard.asked("fs/write_text_file", path=path, content="shown") == {}
        assert guard.editor == []
        write = {"sessionId": "s", "path": path, "content": "other"}
        guard.from_agent({"id": 2, "method": "fs/write_text_file", "params": write})
        assert (await guard.for_editor())["method"] == "session/request_permission"


async def test_a_rule_with_an_absolute_path_lets_the_editor_read_outside(tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=[f"read:{tmp_path}/lib/**"]) as guard:
        await guard.open(FILES)
        guard.from_agent(
            {"id": 1, "method": "fs/read_text_file", "params": {"sessionId": "s", "path": f"{tmp_path}/lib/a"}}
        )
        assert (await guard.for_editor())["method"] == "fs/read_text_file"
        answer = await guard.asked("fs/read_text_file", path=f"{tmp_path}/other")
        assert "no rule names it" in answer["message"]


# Terminals


async def _run(guard: Guarded, command: str, *args: str) -> Any:
    created = await guard.asked("terminal/create", command=command, args=list(args))
    ended = await guard.asked("terminal/wait_for_exit", terminalId=created["terminalId"])
    return created["terminalId"], ended


async def test_commands_run_here_for_an_editor_without_terminals_and_their_output_is_shown(tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=["execute:echo *"], deny=["execute:rm *"]) as guard:
        await guard.open()
        terminal, ended = await _run(guard, "echo", "hello")
        assert ended["exitCode"] == 0
        content = [{"type": "terminal", "terminalId": terminal}, {"type": "terminal", "terminalId": "of-the-editor"}]
        guard.update(sessionUpdate="tool_call_update", toolCallId="t", content=content)
        shown = (await guard.for_editor())["params"]["update"]["content"]
        assert shown[0]["content"]["text"] == "```console\n$ echo hello\nhello\n```"
        assert shown[1] == content[1]
        refused = await guard.asked("terminal/create", command="rm", args=["-rf", "x"])
        assert "execute:rm *" in refused["message"]
        assert (await guard.asked("terminal/release", terminalId=terminal)) == {}
        assert guard.records("command")[0]["command"] == "echo hello"
        assert guard.records("command_end")[0]["exit"] == 0


async def test_the_editor_is_asked_once_about_code_of_the_project(tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=["*"], deny=["execute:rm -rf *"]) as guard:
        await guard.open()
        (guard.folder / "x.sh").write_text("#!/bin/sh\nexit 3\n")
        (guard.folder / "x.sh").chmod(0o755)
        params = {"sessionId": "s", "command": "./x.sh"}
        guard.from_agent({"id": 1, "method": "terminal/create", "params": params})
        asked = await guard.for_editor()
        assert "it runs `./x.sh`, code of the project, and rule execute:rm -rf *" in str(asked["params"]["toolCall"])
        assert [option["optionId"] for option in asked["params"]["options"]][:3] == [
            "allow-once",
            "allow-session",
            "allow-project",
        ]
        guard.from_editor({"id": asked["id"], "result": selected("allow-once")})
        assert (await guard.for_agent())["result"]["terminalId"]
        _, ended = await _run(guard, "./x.sh", "again")
        assert ended["exitCode"] == 3


async def test_the_output_follows_when_the_command_ends(tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=["execute:cat go"]) as guard:
        await guard.open()
        os.mkfifo(guard.folder / "go")
        created = await guard.asked("terminal/create", command="cat", args=["go"])
        terminal = created["terminalId"]
        guard.update(
            sessionUpdate="tool_call", toolCallId="t", title="x", content=[{"type": "terminal", "terminalId": terminal}]
        )
        assert (await guard.for_editor())["params"]["update"]["content"][0]["type"] == "content"
        await asyncio.to_thread((guard.folder / "go").write_text, "the output\n")
        later = (await guard.for_editor())["params"]["update"]
        assert later["toolCallId"] == "t"
        assert "the output" in later["content"][0]["content"]["text"]


async def test_the_editors_terminals_are_used_if_it_has_them(tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=["execute:echo *"], deny=["execute:rm *"]) as guard:
        await guard.open(ALL)
        refused = await guard.asked("terminal/create", command="rm", args=["x"])
        assert "execute:rm *" in refused["message"]
        assert guard.editor == []
        params = {"sessionId": "s", "command": "echo", "args": ["a"], "outputByteLimit": 10}
        guard.from_agent({"id": 1, "method": "terminal/create", "params": params})
        asked = await guard.for_editor()
        assert (asked["method"], asked["params"]) == ("terminal/create", params)
        guard.from_editor({"id": asked["id"], "result": {"terminalId": "e1"}})
        assert (await guard.for_agent())["result"] == {"terminalId": "e1"}
        named = b'{"sessionId":"s", "terminalId":"e1"}'
        line = b'{"jsonrpc": "2.0", "id":2, "method":"terminal/wait_for_exit","params":%b}' % named
        guard.exchange.from_agent(line)
        assert guard.editor == [line]
        guard.from_editor({"id": 2, "result": {"exitCode": 3}})
        assert (await guard.for_agent())["result"] == {"exitCode": 3}
        assert guard.records("command_end")[0]["exit"] == 3
        # A terminal of another session, or one that was never created, is not passed on.
        answer = await guard.asked("terminal/kill", terminalId="e2")
        assert answer["code"] == -32002


async def test_the_editor_gets_the_very_command_that_was_judged(tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=["execute:echo *"], deny=["execute:rm *"]) as guard:
        await guard.open(ALL)
        for names in (b'"command":"rm","command":"echo"', b'"Command":"rm","command":"echo","COMMAND":"rm"'):
            line = b'{"jsonrpc":"2.0","id":1,"method":"terminal/create","params":{"sessionId":"s","args":["x"],%b}}'
            guard.exchange.from_agent(line % names)
            asked = await guard.for_editor()
            assert asked["params"] == {"sessionId": "s", "command": "echo", "args": ["x"]}
            guard.from_editor({"id": asked["id"], "error": {"code": -32603, "message": "no"}})
            await guard.for_agent()


# Violations


async def test_what_a_rule_denies_and_happened_unasked_is_reported(tmp_path: Path) -> None:
    async with guarded(tmp_path, deny=["execute:git push *", "edit:secret/**"]) as guard:
        await guard.open()
        call: dict[str, Any] = {"toolCallId": "t", "title": "push", "kind": "execute"}
        call["rawInput"] = {"command": "git push origin"}
        guard.update(sessionUpdate="tool_call", status="in_progress", **call)
        guard.update(sessionUpdate="tool_call_update", toolCallId="t", status="completed")
        guard.update(sessionUpdate="tool_call_update", toolCallId="t", status="completed")
        texts = [json.loads(line)["params"]["update"] for line in guard.editor]
        reports = [each["content"]["text"] for each in texts if each["sessionUpdate"] == "agent_message_chunk"]
        assert len(reports) == 1
        assert "git push" in reports[0]
        assert guard.agent == []
        found = guard.records("violation")[0]["violation"]
        assert (found["rule"], found["action"]) == ("execute:git push *", "reported")
        assert Conduct("agent", tmp_path / "state").seen == SeenConduct(unasked={"execute"})


async def test_a_violation_cancels_the_turn_if_that_is_wanted(tmp_path: Path) -> None:
    async with guarded(tmp_path, deny=["edit:secret/**"], cancels_on_violation=True) as guard:
        await guard.open({"session": {"notices": {}}})
        diff = {"type": "diff", "path": f"{guard.folder}/secret/x", "oldText": "a", "newText": "b"}
        guard.update(
            sessionUpdate="tool_call", toolCallId="t", title="E", kind="edit", status="completed", content=[diff]
        )
        cancel = await guard.for_agent()
        assert (cancel["method"], cancel["params"]) == ("session/cancel", {"sessionId": "s"})
        assert json.loads(guard.editor[1])["params"]["update"]["sessionUpdate"] == "notice"
        assert guard.records("violation")[0]["violation"]["action"] == "cancelled"


async def test_what_cannot_be_read_is_unjudged_and_cancels_the_turn_if_that_is_wanted(tmp_path: Path) -> None:
    async with guarded(tmp_path, deny=["execute:git push *"], cancels_on_violation=True) as guard:
        await guard.open()
        guard.editor.clear()
        call = {"toolCallId": "t", "title": "Tidy up", "kind": "execute"}
        guard.update(sessionUpdate="tool_call", **call, status="in_progress")
        guard.update(sessionUpdate="tool_call_update", toolCallId="t", status="completed")
        guard.update(sessionUpdate="tool_call_update", toolCallId="t", status="completed")
        [found] = guard.records("unjudged")
        assert found["unjudged"]["rule"] == "execute:git push *"
        assert (found["unjudged"]["title"], found["unjudged"]["action"]) == ("Tidy up", "cancelled")
        assert "unjudged: the agent did this without asking: Tidy up" in guard.sentences[-1]
        assert any(json.loads(line).get("method") == "session/cancel" for line in guard.agent)
        assert guard.records("violation") == []


@pytest.mark.parametrize(
    ("is_built_in", "kind", "count"), [(True, "other", 0), (True, "execute", 1), (False, "other", 1)]
)
async def test_a_question_or_a_list_of_the_built_in_agent_is_not_unjudged(
    tmp_path: Path, is_built_in: bool, kind: str, count: int
) -> None:
    async with guarded(tmp_path, deny=["execute:git push *"], is_built_in=is_built_in) as guard:
        await guard.open()
        call: dict[str, Any] = {"toolCallId": "t", "title": "Ask", "kind": kind, "rawInput": {"question": "Which?"}}
        guard.update(sessionUpdate="tool_call", **call, status="completed")
        assert len(guard.records("unjudged")) == count


async def test_a_command_that_is_only_shown_before_the_output_replaces_it_is_judged(tmp_path: Path) -> None:
    """The form of Hermes 0.19."""
    async with guarded(tmp_path, deny=["execute:git push *"]) as guard:
        await guard.open()
        for number, line in enumerate(("git push", "ls")):
            shown, output = (
                [{"type": "content", "content": {"type": "text", "text": text}}] for text in (f"$ {line}", "ok")
            )
            call = {"toolCallId": f"tc-{number}", "kind": "execute"}
            guard.update(sessionUpdate="tool_call", title=f"terminal: {line}", content=shown, **call)
            guard.update(sessionUpdate="tool_call_update", status="completed", content=output, **call)
        assert [each["violation"]["command"] for each in guard.records("violation")] == ["git push"]
        assert guard.records("unjudged") == []


async def test_what_the_guard_refused_is_not_a_violation(tmp_path: Path) -> None:
    async with guarded(tmp_path, deny=["execute:rm *"]) as guard:
        await guard.open()
        await guard.asked("terminal/create", command="rm", args=["x"])
        guard.update(
            sessionUpdate="tool_call",
            toolCallId="t",
            title="rm",
            kind="execute",
            status="completed",
            rawInput={"command": "rm x"},
        )
        assert len(guard.editor) == 1
        assert guard.records("violation") == []


async def test_a_session_with_too_many_calls_gets_no_further_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.proxy.guard.session.MOST_CALLS", 5)
    async with guarded(tmp_path, allow=["execute:ls"]) as guard:
        await guard.open()
        for number in range(8):
            guard.update(sessionUpdate="tool_call", toolCallId=f"t{number}", title="x")
        answer = await guard.asked(
            "session/request_permission", **permission("t7", kind="execute", rawInput={"command": "ls"})
        )
        assert "too many tool calls" in answer["message"]


# Limits


def _end(guard: Guarded, request_id: int, **result: Any) -> None:
    guard.from_agent({"id": request_id, "result": {"stopReason": "end_turn", **result}})


async def test_a_limit_of_turns_refuses_the_next_prompt_with_a_clear_sentence(tmp_path: Path) -> None:
    async with guarded(tmp_path, limits=["session.turns=1"]) as guard:
        await guard.open()
        _end(guard, 3)
        guard.editor.clear()
        guard.prompt(4)
        answer = await guard.for_editor()
        assert "limit reached: 1 of 1 turns in this session (--limit session.turns=1)" in answer["error"]["message"]
        assert guard.agent == []
        assert guard.records("limit")[0]["action"] == "refused"


async def test_tokens_of_the_day_count_for_all_guards(tmp_path: Path) -> None:
    async with guarded(tmp_path, limits=["day.tokens=100"]) as guard:
        await guard.open()
        _end(guard, 3, usage={"totalTokens": 150, "inputTokens": 100, "outputTokens": 50})
    async with guarded(tmp_path, limits=["day.tokens=100"]) as guard:
        await guard.open()  # the prompt of `open` is refused
        guard.prompt(9)
        assert "150 of 100 tokens today" in (await guard.for_editor())["error"]["message"]


async def test_cost_that_grows_during_a_turn_cancels_it(tmp_path: Path) -> None:
    async with guarded(tmp_path, limits=["session.cost=1"]) as guard:
        await guard.open()
        for amount in (0.4, 0.9):
            guard.update(sessionUpdate="usage_update", used=1, size=2, cost={"amount": amount, "currency": "USD"})
        assert guard.agent == []
        guard.update(sessionUpdate="usage_update", used=1, size=2, cost={"amount": 1.2, "currency": "USD"})
        assert (await guard.for_agent())["method"] == "session/cancel"
        assert "limit reached: 1.2 of 1 cost" in json.loads(guard.editor[-1])["params"]["update"]["content"]["text"]


async def test_time_that_is_over_cancels_the_turn(tmp_path: Path) -> None:
    async with guarded(tmp_path, limits=["session.seconds=0.05"]) as guard:
        await guard.open()
        assert (await guard.for_agent())["method"] == "session/cancel"
        assert guard.records("limit")[0]["action"] == "cancelled"


async def test_only_so_many_files_may_be_changed(tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=["edit"], limits=["session.files=1"]) as guard:
        await guard.open()
        assert await guard.asked("fs/write_text_file", path=f"{guard.folder}/a", content="1") == {}
        assert await guard.asked("fs/write_text_file", path=f"{guard.folder}/a", content="2") == {}
        answer = await guard.asked("fs/write_text_file", path=f"{guard.folder}/b", content="3")
        assert "1 of 1 files" in answer["message"]
        assert not (guard.folder / "b").exists()


# Additions


async def test_servers_and_instructions_are_added_to_every_session(tmp_path: Path) -> None:
    server = {"name": "team", "command": "/bin/team", "args": [], "env": []}
    web = {"type": "http", "name": "web", "url": "https://x.example", "headers": []}
    additions = Additions(servers=(server, web), instructions="Be brief.")
    async with guarded(tmp_path, additions=additions) as guard:
        await guard.open()
        given = [{"name": "team", "command": "/bin/other", "args": [], "env": []}, {"name": "own", "command": "/o"}]
        params = {"cwd": str(guard.folder), "mcpServers": given, "_meta": {"a": 1}}
        guard.from_editor({"id": 7, "method": "session/new", "params": params})
        sent = (await guard.for_agent())["params"]
        assert sent == {**params, "mcpServers": [given[1], server]}
        assert any("'web'" in each for each in guard.sentences)
        guard.from_agent({"id": 7, "result": {"sessionId": "t"}})
        for number, texts in ((8, ["Be brief.", "do it"]), (9, ["do it"])):
            guard.prompt(number, "t")
            sent = (await guard.for_agent())["params"]["prompt"]
            assert [block["text"] for block in sent] == texts


@pytest.mark.parametrize("offered", [{}, {**FILES, "terminal": True}])
async def test_what_the_agent_does_not_handle_is_withheld_also_if_the_editor_offers_it(
    offered: dict[str, Any], tmp_path: Path
) -> None:
    for withheld, expected in (
        ({"fs.readTextFile"}, {"fs": {"writeTextFile": True}, "terminal": True}),
        ({"fs.writeTextFile", "terminal"}, {"fs": {"readTextFile": True}}),
        (set(), {**FILES, "terminal": True}),
    ):
        async with guarded(tmp_path, additions=Additions(withheld=frozenset(withheld))) as guard:
            params = {"protocolVersion": 1, "clientCapabilities": offered}
            guard.from_editor({"id": 1, "method": "initialize", "params": params})
            assert (await guard.for_agent())["params"]["clientCapabilities"] == expected


async def test_an_agent_with_a_system_prompt_gets_the_instructions_there(tmp_path: Path) -> None:
    async with guarded(tmp_path, additions=Additions(instructions="Be brief.")) as guard:
        guard.from_editor({"id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
        capabilities: dict[str, Any] = {"sessionCapabilities": {"systemPrompt": {}}}
        guard.from_agent({"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": capabilities}})
        guard.agent.clear()
        guard.from_editor({"id": 2, "method": "session/new", "params": {"cwd": str(guard.folder), "mcpServers": []}})
        sent = (await guard.for_agent())["params"]
        assert sent["systemPrompt"]["content"] == [{"type": "text", "text": "Be brief."}]
        guard.from_agent({"id": 2, "result": {"sessionId": "s"}})
        guard.prompt(3)
        assert len((await guard.for_agent())["params"]["prompt"]) == 1


async def test_a_session_outside_of_the_sandbox_is_refused(tmp_path: Path) -> None:
    async with guarded(tmp_path, roots=(str(tmp_path / "project"),)) as guard:
        guard.from_editor({"id": 1, "method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}})
        assert "--add-dir" in (await guard.for_editor())["error"]["message"]
        assert guard.agent == []


async def test_no_prompt_passes_while_the_log_cannot_be_written(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        guard.log.problem = "the disk is full"
        guard.prompt(4)
        assert "the disk is full" in (await guard.for_editor())["error"]["message"]
        assert guard.agent == []
        guard.log.problem = ""


async def test_the_history_of_a_loaded_session_is_not_judged(tmp_path: Path) -> None:
    async with guarded(tmp_path, deny=["execute:git push *"], limits=["session.cost=1"]) as guard:
        await guard.open()
        params = {"cwd": str(guard.folder), "mcpServers": [], "sessionId": "old"}
        guard.from_editor({"id": 7, "method": "session/load", "params": params})
        call = {"toolCallId": "t", "title": "x", "kind": "execute", "status": "completed"}
        guard.update("old", sessionUpdate="tool_call", rawInput={"command": "git push a"}, **call)
        guard.update("old", sessionUpdate="usage_update", used=1, size=2, cost={"amount": 5, "currency": "USD"})
        guard.from_agent({"id": 7, "result": {}})
        guard.update("old", sessionUpdate="tool_call", rawInput={"command": "git push b"}, **call)  # some replay late
        assert guard.records("violation") == []
        guard.prompt(8, "old")
        guard.update("old", sessionUpdate="tool_call", rawInput={"command": "git push c"}, **call | {"toolCallId": "u"})
        assert [each["violation"]["command"] for each in guard.records("violation")] == ["git push c"]
        assert guard.records("limit") == []


async def test_a_protected_file_that_changes_during_a_turn_is_reported(tmp_path: Path) -> None:
    hooks = tmp_path / "project/.git/hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("old")
    async with guarded(tmp_path) as guard:
        await guard.open()
        guard.from_agent({"id": 3, "result": {"stopReason": "end_turn"}})
        assert guard.records("violation") == []
        (hooks / "pre-commit").write_text("changed by the user between two turns")
        guard.prompt(4)
        (hooks / "pre-push").write_text("made by the agent")
        guard.editor.clear()
        guard.from_agent({"id": 4, "result": {"stopReason": "end_turn"}})
        assert "pre-push was created while the agent worked" in guard.editor[-1].decode()
        paths = [each["violation"]["paths"] for each in guard.records("violation")]
        assert paths == [[str(hooks / "pre-push")]]


async def test_a_permitted_command_covers_a_protected_file_by_its_path_and_not_by_its_bare_name(tmp_path: Path) -> None:
    hooks = tmp_path / "project/.git/hooks"
    hooks.mkdir(parents=True)
    async with guarded(tmp_path) as guard:
        await guard.open()
        line = "touch x/pre-push .git/hooks/pre-commit"
        asked = permission(kind="execute", title="Run", rawInput={"command": line})
        guard.from_agent({"id": 7, "method": "session/request_permission", "params": {"sessionId": "s", **asked}})
        guard.from_editor({"id": (await guard.for_editor())["id"], "result": selected("yes")})
        assert (await guard.for_agent())["result"] == selected("yes")
        for name in ("pre-commit", "pre-push"):
            (hooks / name).write_text("made by the agent")
        guard.from_agent({"id": 3, "result": {"stopReason": "end_turn"}})
        paths = [each["violation"]["paths"] for each in guard.records("violation")]
        assert paths == [[str(hooks / "pre-push")]]


async def test_a_session_is_recorded_with_its_repository(tmp_path: Path) -> None:
    git = tmp_path / "project/.git"
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs/heads/main").write_text("a" * 40 + "\n")
    (git / "config").write_text('[core]\n\tbare = false\n[remote "origin"]\n\turl = https://me:secret@host.example/x\n')
    async with guarded(tmp_path) as guard:
        await guard.open()
        expected = {"branch": "main", "commit": "a" * 40, "remote": "https://host.example/x"}
        assert guard.records("session")[0]["repository"] == expected


async def test_a_mode_without_questions_is_stated(tmp_path: Path) -> None:
    async with guarded(tmp_path, asking_mode="default") as guard:
        await guard.open()
        guard.from_editor({"id": 7, "method": "session/new", "params": {"cwd": str(guard.folder), "mcpServers": []}})
        modes = {
            "currentModeId": "yolo",
            "availableModes": [{"id": "yolo", "name": "Y"}, {"id": "default", "name": "D"}],
        }
        guard.from_agent({"id": 7, "result": {"sessionId": "t", "modes": modes}})
        assert "the agent is in its mode yolo" in guard.sentences[-1]


async def test_a_child_session_works_in_the_folders_of_its_parent(tmp_path: Path) -> None:
    async with guarded(tmp_path, allow=["edit"]) as guard:
        await guard.open()
        guard.update(sessionUpdate="subagent_update", sessionId="child", cwd="/")
        answer = await guard.asked("fs/write_text_file", sessionId="child", path=f"{guard.folder}/a", content="x")
        assert answer == {}
        answer = await guard.asked("fs/write_text_file", sessionId="child", path="/a", content="x")
        assert answer["code"] == -32602
