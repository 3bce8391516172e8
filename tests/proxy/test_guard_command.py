"""`dragoman guard` as a program: an editor's and a team's view of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import main
from dragoman.process.sandbox import available
from dragoman.proxy.audit.files import list_files
from dragoman.proxy.audit.verify import read_records, verify
from tests import machine
from tests.host.local.kit import wait_for
from tests.proxy.audit_kit import append
from tests.proxy.kit import without_words
from tests.versions.line_client import AGENTS, DRAGOMAN, SECONDS, LineClient, one_turn, program

STEPS = str(Path(__file__).parents[1] / "cli" / "step_agent.py")
PUPPET = [sys.executable, str(Path(__file__).parent / "puppet.py")]
WORDS = (
    *("say hello world", "think", "plan", "tool", "fail", "diff", "terminal", "fs", "permission", "tour"),
    *("elicitation", "usage", "modes", "config", "commands", "title", "notice", "compaction", "content", "unknown"),
    *("extension", "flood 20", "stop", "error -32001", "exception", "big 100000"),
)
RULES = ("--allow", "edit:scripted.txt", "--allow", "execute:echo *", "--allow", "execute:cat greeting.txt")


@pytest.fixture(autouse=True)
def _project(tmp_path: Path) -> None:
    """Make the folder a project, so that no folder above it is one."""
    (tmp_path / ".git").mkdir()


class Editor:
    """An editor with files, terminals and a user who chooses the first option."""

    def __init__(self, client: LineClient) -> None:
        self.client = client
        self.files: dict[str, str] = {}
        self.seen: list[Any] = []

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The response to a request; requests of the agent are answered meanwhile."""
        self.client.send({"id": "e", "method": method, "params": params})
        while True:
            frame = await self.client.read()
            if frame.get("id") == "e" and "method" not in frame:
                self.seen.append({name: value for name, value in frame.items() if name != "id"})
                return frame.get("result")
            self.seen.append({name: value for name, value in frame.items() if name != "id"})
            if "id" in frame and "method" in frame:
                self.client.send({"id": frame["id"], **self._answer(frame["method"], frame["params"])})

    def _answer(self, method: str, params: Any) -> dict[str, Any]:
        if method == "fs/write_text_file":
            self.files[params["path"]] = params["content"]
            return {"result": {}}
        if method == "fs/read_text_file" and params["path"] in self.files:
            lines = self.files[params["path"]].splitlines(keepends=True)
            start = (params.get("line") or 1) - 1
            return {"result": {"content": "".join(lines[start : start + (params.get("limit") or len(lines))])}}
        answers: dict[str, dict[str, Any]] = {
            "session/request_permission": {"outcome": {"outcome": "selected", "optionId": "allow"}},
            "terminal/create": {"terminalId": "t1"},
            "terminal/wait_for_exit": {"exitCode": 0},
            "terminal/output": {"output": "out", "truncated": False},
            "terminal/release": {},
            "elicitation/create": {"action": "decline"},
        }
        if method == "session/request_permission":
            answers[method]["outcome"]["optionId"] = params["options"][0]["optionId"]
        if method in answers:
            return {"result": answers[method]}
        return {"error": {"code": -32601, "message": "no"}}


# Gemini CLI reads a file before it creates it, and treats every error as a failure. It reads the disk if it cannot ask.
CREATOR = f"""#!{sys.executable}
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request.get("method") == "initialize":
        files = request["params"]["clientCapabilities"]["fs"]
        answer = {{"protocolVersion": 1, "agentCapabilities": {{}}}}
    elif request.get("method") == "session/new":
        answer, folder = {{"sessionId": "s"}}, request["params"]["cwd"]
    elif request.get("method") == "session/prompt":
        prompt, method = request["id"], "fs/read_text_file" if files.get("readTextFile") else "fs/write_text_file"
        params = {{"sessionId": "s", "path": folder + "/new.txt", "content": "one"}}
        print(json.dumps({{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}}), flush=True)
        continue
    else:
        request, answer = {{"id": prompt}}, {{"stopReason": "refusal" if "error" in request else "end_turn"}}
    print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": answer}}), flush=True)
"""


@machine.needs_sandbox("bubblewrap")
@pytest.mark.parametrize("words", [(), ("--sandbox", "off")])
async def test_files_that_rules_deny_are_closed_to_commands_of_the_guard(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / ".env").write_text("canary")
    (tmp_path / "make.sh").write_text("echo later >.env.later; cat .e*v >first")
    (tmp_path / "copy.sh").write_text("cat .e* >second")
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"tries": [[["command", "sh", "make.sh"], ["command", "sh", "copy.sh"]]]}))
    rules = ("--deny", "read:.env*", "--allow", "execute", "--no-audit", "--ask", "deny", *words)
    async with program(*DRAGOMAN, "guard", *rules, "--", sys.executable, STEPS, str(script), cwd=tmp_path) as client:
        editor = Editor(client)  # which offers no terminals
        await editor.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        await editor.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await editor.ask("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "x"}]})
    assert (tmp_path / "first").read_text() == ("canary" if words else "")
    assert (tmp_path / "second").read_text() == ("canarylater\n" if words else "")


async def test_an_agent_that_cannot_create_files_if_it_may_read_them_creates_one(tmp_path: Path) -> None:
    agent = tmp_path / "gemini"
    agent.write_text(CREATOR)
    agent.chmod(0o755)
    command = (*DRAGOMAN, "guard", "--allow", "edit:new.txt", "--no-audit", "--", str(agent))
    async with program(*command, cwd=tmp_path) as client:
        editor = Editor(client)
        capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}}
        await editor.ask("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
        session = (await editor.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []}))["sessionId"]
        prompt = [{"type": "text", "text": "create new.txt"}]
        answer = await editor.ask("session/prompt", {"sessionId": session, "prompt": prompt})
    assert answer == {"stopReason": "end_turn"}
    assert editor.files == {f"{tmp_path}/new.txt": "one"}


async def _conversation(command: list[str], folder: Path) -> list[str]:
    async with program(*command, cwd=folder) as client:
        editor = Editor(client)
        capabilities = {
            "fs": {"readTextFile": True, "writeTextFile": True},
            "terminal": True,
            "elicitation": {"form": {}},
            "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
        }
        await editor.ask("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
        session = (await editor.ask("session/new", {"cwd": str(folder), "mcpServers": []}))["sessionId"]
        for word in WORDS:
            block = {"type": "text", "text": word}
            await editor.ask("session/prompt", {"sessionId": session, "prompt": [block]})
        code, _ = await client.finish()
        assert code == 0
    text = json.dumps(editor.seen).replace(session, "SESSION").replace(str(folder), "FOLDER")
    return [json.dumps(without_words(frame)) for frame in json.loads(re.sub(r"[0-9a-f]{8,}", "#", text))]


async def test_an_agent_behind_the_guard_behaves_as_without_it(tmp_path: Path) -> None:
    for name in ("plain", "guarded"):
        (tmp_path / name / ".git").mkdir(parents=True)
        (tmp_path / name / "greeting.txt").write_text("Hello.\n")
    guard = [*DRAGOMAN, "guard", *RULES, "--", *AGENTS["1"]]
    plain, guarded = await asyncio.gather(
        _conversation(AGENTS["1"], tmp_path / "plain"), _conversation(guard, tmp_path / "guarded")
    )
    assert guarded == plain
    assert verify(tmp_path / "guarded/state/dragoman/audit").is_intact


async def _open(client: LineClient, folder: Path) -> int:
    answer = await client.ask("initialize", {"protocolVersion": 1})
    await client.ask("session/new", {"cwd": str(folder), "mcpServers": []})
    return int(answer["agentInfo"]["version"])


async def _prompt(client: LineClient, steps: dict[str, Any]) -> Any:
    blocks = [{"type": "text", "text": json.dumps(steps)}]
    return await client.ask("session/prompt", {"sessionId": "SESSION", "prompt": blocks})


async def test_rules_of_the_user_and_of_the_command_line_hold(tmp_path: Path) -> None:
    rules = tmp_path / "config/dragoman/rules.json"
    rules.parent.mkdir(parents=True)
    done = await asyncio.create_subprocess_exec(
        *DRAGOMAN, "rules", "add", "--deny", "--everywhere", "execute:curl *",
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert await done.wait() == 0
    words = ["guard", "--deny", "execute:rm *", "--allow", "edit:*.txt", "--ask", "deny", "--", *PUPPET]
    async with program(*DRAGOMAN, *words, cwd=tmp_path) as client:
        await _open(client, tmp_path)
        requests: list[Any] = [
            ("terminal/create", {"command": "curl", "args": ["x"]}),
            ("terminal/create", {"command": "rm", "args": ["x"]}),
            ("terminal/create", {"command": "make"}),
            ("fs/write_text_file", {"path": f"{tmp_path}/a.txt", "content": "x"}),
        ]
        send = [
            {"id": number, "method": method, "params": {"sessionId": "SESSION", **params}}
            for number, (method, params) in enumerate(requests)
        ]
        answer = await _prompt(client, {"send": send, "wait": 4})
        seen = {each["id"]: each.get("error", each.get("result")) for each in answer["_meta"]["seen"]}
        assert "execute:curl *" in seen[0]["message"]
        assert "execute:rm *" in seen[1]["message"]
        assert "Not permitted" in seen[2]["message"]
        assert seen[3] == {}
        _, log = await client.finish()
    assert (tmp_path / "a.txt").read_text() == "x"
    assert "rules that deny or ask, with" in log
    folder = tmp_path / "state/dragoman/audit"
    kinds = [record.fields["kind"] for record in read_records(folder)]
    assert kinds[0] == "start"
    assert kinds[-1] == "exit"
    assert kinds.count("decision") == 4
    assert verify(folder).is_intact


async def test_a_guard_prints_the_hash_to_keep_when_it_begins_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    append(folder, 1, 2, time="2026-01-01T00:00:00.000Z").close()
    kept = verify(folder).last_hash
    async with program(*DRAGOMAN, "guard", "--audit", "log", "--", *PUPPET, cwd=tmp_path) as client:
        await _open(client, tmp_path)
        _, log = await client.finish()
    assert f"keep the hash of the record before it elsewhere: {kept}" in log
    assert verify(folder, anchor=kept).is_intact


async def test_a_guard_says_that_the_log_was_changed_and_it_stays_so(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    append(folder, 1, 2, 3).close()
    (path,) = list_files(folder)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    async with program(*DRAGOMAN, "guard", "--audit", "log", "--", *PUPPET, cwd=tmp_path) as client:
        await _open(client, tmp_path)
        _, log = await client.finish()
    assert "the audit log was changed: record 3, which head.json named, was not there" in log
    assert "records 2 to 3 are missing" in verify(folder).faults[0].what


async def _gone(pid: int) -> None:
    watch = os.pidfd_open(pid)
    is_gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(watch, is_gone.set)
    try:
        async with asyncio.timeout(SECONDS):
            await is_gone.wait()
    finally:
        asyncio.get_running_loop().remove_reader(watch)
        os.close(watch)


async def test_a_killed_guard_leaves_neither_agent_nor_command_and_a_log_that_verifies(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    line = "echo $$ > pid; exec sleep 600"
    words = [
        "guard",
        "--allow",
        "execute:echo *",
        "--allow",
        "execute:sleep 600",
        "--allow",
        "edit:pid",
        "--allow",
        "*",
    ]
    async with program(*DRAGOMAN, *words, "--", *PUPPET, cwd=tmp_path) as client:
        agent = await _open(client, tmp_path)
        params = {"sessionId": "SESSION", "command": "/bin/sh", "args": ["-c", line]}
        steps = {"send": [{"id": 1, "method": "terminal/create", "params": params}], "wait": 99}
        blocks = [{"type": "text", "text": json.dumps(steps)}]
        client.send({"id": 9, "method": "session/prompt", "params": {"sessionId": "SESSION", "prompt": blocks}})
        command = int(await asyncio.to_thread((tmp_path / "pid").read_text))
        ends = [asyncio.ensure_future(_gone(pid)) for pid in (agent, command)]
        folder = tmp_path / "state/dragoman/audit"
        # A thread of the guard writes the log: a record may come behind what it is about.
        await asyncio.to_thread(wait_for, lambda: "decision" in {one.fields["kind"] for one in read_records(folder)})
        client.process.kill()
        await asyncio.gather(*ends)
    found = verify(folder)
    assert found.is_intact
    async with program(*DRAGOMAN, "guard", "--", *PUPPET, cwd=tmp_path) as client:  # the next one goes on with it
        await _open(client, tmp_path)
        await client.finish()
    assert verify(folder).is_intact
    assert verify(folder).last_seq > found.last_seq


async def test_a_killed_agent_fails_the_open_request_with_the_reason(tmp_path: Path) -> None:
    async with program(*DRAGOMAN, "guard", "--", *PUPPET, cwd=tmp_path) as client:
        agent = await _open(client, tmp_path)
        blocks = [{"type": "text", "text": json.dumps({"wait": 1})}]
        client.send({"id": 9, "method": "session/prompt", "params": {"sessionId": "SESSION", "prompt": blocks}})
        os.kill(agent, signal.SIGKILL)
        answer = await client.until(lambda frame: frame.get("id") == 9)
        assert "SIGKILL" in answer["error"]["message"] or "signal" in answer["error"]["message"]
        async with asyncio.timeout(SECONDS):
            assert await client.process.wait() == 128 + signal.SIGKILL
    folder = tmp_path / "state/dragoman/audit"
    assert verify(folder).is_intact
    assert [record.fields["kind"] for record in read_records(folder)][-2:] == ["turn_end", "exit"]


@pytest.mark.parametrize("number", [signal.SIGTERM, None])
async def test_an_editor_that_goes_ends_the_agent(number: signal.Signals | None, tmp_path: Path) -> None:
    async with program(*DRAGOMAN, "guard", "--grace", "0", "--", *PUPPET, cwd=tmp_path) as client:
        agent = await _open(client, tmp_path)
        end = asyncio.ensure_future(_gone(agent))
        await asyncio.sleep(0)
        assert client.process.stdin is not None
        if number is None:
            client.process.stdin.close()
        else:
            client.process.send_signal(number)
        await end
        async with asyncio.timeout(SECONDS):
            assert await client.process.wait() == (0 if number is None else 128 + number)


async def test_an_editor_of_version_2_is_translated_and_the_agent_is_asked_for_version_1(tmp_path: Path) -> None:
    guard = [*DRAGOMAN, "guard", "--record", str(tmp_path / "recording.jsonl"), "--", *AGENTS["1"]]
    async with program(*guard, cwd=tmp_path) as client:
        assert "Hello" in await one_turn(client, "2", tmp_path, "say Hello")
        await client.finish()
    recorded = [json.loads(line) for line in (tmp_path / "recording.jsonl").read_text().splitlines()]
    first = next(each["msg"] for each in recorded if each.get("dir") == "c2a")
    assert first["params"]["protocolVersion"] == 1
    assert first["params"]["clientCapabilities"]["terminal"] is True
    assert recorded[-1] == {"t": recorded[-1]["t"], "exit": {"code": 0}}


async def test_an_editor_of_version_2_is_asked_for_permission(tmp_path: Path) -> None:
    async with program(*DRAGOMAN, "guard", "--", *PUPPET, cwd=tmp_path) as client:
        await client.ask(
            "initialize", {"protocolVersion": 2, "info": {"name": "e", "version": "1"}, "capabilities": {}}
        )
        await client.ask("session/new", {"cwd": str(tmp_path)})
        params: dict[str, Any] = {
            "sessionId": "SESSION",
            "toolCall": {"toolCallId": "c", "title": "T", "kind": "execute"},
        }
        params["options"] = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        send = [{"id": 1, "method": "session/request_permission", "params": params}]
        blocks = [{"type": "text", "text": json.dumps({"send": send, "wait": 1})}]
        client.send({"id": 9, "method": "session/prompt", "params": {"sessionId": "SESSION", "prompt": blocks}})
        asked = await client.until(lambda frame: frame.get("method") == "session/request_permission")
        client.send({"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}})
        await client.until(lambda frame: frame.get("params", {}).get("update", {}).get("state") == "idle")
        await client.finish()
    decisions = [each.fields for each in read_records(tmp_path / "state/dragoman/audit") if "decision" in each.fields]
    assert [each["decision"]["outcome"] for each in decisions] == ["allow"]


async def test_additions_and_a_repaired_environment_reach_the_agent(tmp_path: Path) -> None:
    servers = {"mcpServers": {"team": {"command": "/bin/cat"}}}
    (tmp_path / "mcp.json").write_text(json.dumps(servers))
    (tmp_path / "team.md").write_text("Be brief.")
    words = ["guard", "--mcp-config", "mcp.json", "--instructions", "@team.md", "--env", "ADDED=1"]
    words += ["--env-allow", "WANTED_*"]
    broken = {"PATH": "/usr/bin", "ELECTRON_RUN_AS_NODE": "1", "UNWANTED": "1", "WANTED_1": "1"}
    async with program(*DRAGOMAN, *words, "--", *PUPPET, cwd=tmp_path, env=broken) as client:
        asked = await client.ask("initialize", {"protocolVersion": 1})
        assert asked["_meta"]["asked"]["clientCapabilities"]["fs"] == {"readTextFile": True, "writeTextFile": True}
        opened = await client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert [each["name"] for each in opened["_meta"]["asked"]["mcpServers"]] == ["team"]
        environment = opened["_meta"]["env"]
        assert environment["ADDED"] == "1"
        assert "ELECTRON_RUN_AS_NODE" not in environment
        assert "UNWANTED" not in environment
        assert environment["WANTED_1"] == "1"
        assert "/bin" in environment["PATH"].split(":")
        await client.finish()


async def test_what_floods_from_a_hostile_agent_harms_nothing(tmp_path: Path) -> None:
    update = {"method": "session/update", "params": {"sessionId": "SESSION", "update": {"sessionUpdate": "tool_call"}}}
    calls = []
    for number in range(3_000):
        one = json.loads(json.dumps(update))
        one["params"]["update"] |= {"toolCallId": f"t{number}", "title": "x" * 100, "status": "completed"}
        calls.append(one)
    noise = ["not json", "{" * 1_000, '{"jsonrpc":"2.0","id":{},"method":"x"}', "\x00", "x" * 100_000] * 50
    async with program(*DRAGOMAN, "guard", "--", *PUPPET, cwd=tmp_path) as client:
        await _open(client, tmp_path)
        answer = await _prompt(client, {"send": [*calls, *noise]})
        assert answer["stopReason"] == "end_turn"
        assert sum(frame.get("method") == "session/update" for frame in client.seen) == 3_000
        code, log = await client.finish()
        assert code == 0
    assert log.count("not passed on:") == 20
    assert verify(tmp_path / "state/dragoman/audit").records > 3_000


@pytest.mark.parametrize("options", [(), ("--bodies",), ("--digest-key", "key")])
async def test_the_log_has_texts_only_if_asked_and_keys_never(options: tuple[str, ...], tmp_path: Path) -> None:
    key = "sk-ant-0123456789abcdef"
    (tmp_path / "key").write_text("k" * 32)
    words = ["guard", "--audit", "log", *options, "--", *PUPPET]
    blocks = [{"type": "text", "text": json.dumps({"text": f"a remarkable prompt with {key}"})}]
    params = {"sessionId": "SESSION", "prompt": blocks}
    async with program(*DRAGOMAN, *words, cwd=tmp_path, env={"ANTHROPIC_API_KEY": key}) as client:
        await _open(client, tmp_path)
        await client.ask("session/prompt", params)
        await client.finish()
    assert verify(tmp_path / "log").is_intact
    records = [each.fields for each in read_records(tmp_path / "log")]
    assert key not in json.dumps(records)
    assert ("remarkable" in json.dumps(records)) == (options == ("--bodies",))
    prompt = next(each["prompt"] for each in records if each["kind"] == "prompt")
    plain = hashlib.sha256(json.dumps(params).encode()).hexdigest()
    assert (prompt["sha256"] == plain) == ("--digest-key" not in options)
    assert ("[ANTHROPIC_API_KEY]" in prompt.get("body", "")) == ("--bodies" in options)


# Starts that fail


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["guard", "--", "/nothing/here"], "/nothing/here"),
        (["guard", "--deny", "nonsense", "--", *PUPPET], "nonsense"),
        (["guard", "--audit", "/proc/nothing", "--", *PUPPET], "the audit log cannot be written"),
        (["guard", "--ask", "terminal", "--", *PUPPET], "not a terminal"),
    ],
)
async def test_a_failed_start_is_what_the_editor_gets_for_an_answer(words: list[str], why: str, tmp_path: Path) -> None:
    async with program(*DRAGOMAN, *words, cwd=tmp_path) as client:
        answer = await client.ask("initialize", {"protocolVersion": 1})
        assert why in answer["message"]
        code, log = await client.finish()
    assert code in (2, 4)
    assert why in log


@pytest.mark.parametrize(
    "words",
    [
        ["guard"],
        ["guard", "-a", "x", "--", "y"],
        ["guard", "--limit", "cost=5", "--", "x"],
        ["guard", "--limit", "day.cost=much", "--", "x"],
        ["guard", "--no-audit", "--bodies", "--", "x"],
        ["guard", "--sandbox", "off", "--sandbox-agent", "--", "x"],
        ["guard", "--env", "NAME", "--", "x"],
        ["guard", "--grace", "-1", "--", "x"],
        ["guard", "--keep-days", "0", "--", "x"],
        ["guard", "--digest-key", "/nothing", "--", "x"],
    ],
)
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("dragoman: ")


def test_settings_for_editors_contain_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["guard", "--deny", "execute:rm *", "--sandbox-agent", "--print-settings", "zed", "--", "gemini", "--acp"]
    assert main(words) == 0
    entry = json.loads(capsys.readouterr().out)["agent_servers"]["gemini (guarded)"]
    assert (entry["command"], entry["args"]) == (
        "dragoman",
        ["guard", "--deny", "execute:rm *", "--sandbox-agent", "--", "gemini", "--acp"],
    )


def test_each_rule_is_shown_with_how_far_it_binds_the_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    words = ["guard", "--explain", "--deny", "edit:secret/**", "--deny", "fetch", "--", "gemini", "--acp"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert re.search(r"enforced +deny edit:secret/\*\* +gemini asks", out)
    assert re.search(r"observed +deny fetch", out)


async def test_commands_of_the_agent_run_in_the_sandbox_and_the_editor_sees_their_output(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    if not available((str(project),)).backends:
        pytest.skip("no sandbox works on this machine")
    places = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state")}
    words = ["guard", "--sandbox", "require", "--ask", "deny", "--deny", "execute:rm *", "--", *PUPPET]
    async with program(*DRAGOMAN, *words, cwd=project, env=places) as client:
        await client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {"terminal": True}})
        await client.ask("session/new", {"cwd": str(project), "mcpServers": []})
        line = f"echo inside > a; echo outside > {tmp_path}/b; cat a"
        run = {"sessionId": "SESSION", "command": "/bin/sh", "args": ["-c", line]}
        denied = {"sessionId": "SESSION", "command": "rm", "args": ["a"]}
        send = [
            {"id": 1, "method": "terminal/create", "params": run},
            {"id": 2, "method": "terminal/create", "params": denied},
        ]
        seen = (await _prompt(client, {"send": send, "wait": 2}))["_meta"]["seen"]
        answers = {each["id"]: each for each in seen}
        assert "execute:rm *" in answers[2]["error"]["message"]
        terminal = {"sessionId": "SESSION", "terminalId": answers[1]["result"]["terminalId"]}
        shown: dict[str, Any] = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"}
        shown["content"] = [{"type": "terminal", "terminalId": terminal["terminalId"]}]
        send = [{"id": 3, "method": "terminal/wait_for_exit", "params": terminal}]
        await _prompt(client, {"send": send, "wait": 1})
        update = {"method": "session/update", "params": {"sessionId": "SESSION", "update": shown}}
        await _prompt(client, {"send": [update]})
        frame = next(each for each in reversed(client.seen) if each.get("method") == "session/update")
        assert "inside" in frame["params"]["update"]["content"][0]["content"]["text"]
        await client.finish()
    assert (project / "a").read_text() == "inside\n"
    assert not (tmp_path / "b").exists()
    commands = [
        each.fields for each in read_records(tmp_path / "state/dragoman/audit") if each.fields["kind"] == "command"
    ]
    assert [each["grade"] for each in commands] == ["confined"]


@pytest.mark.parametrize("options", [("--sandbox-agent",), ("--sandbox", "require")])
def test_a_log_that_what_is_in_the_sandbox_could_write_is_refused(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not available((str(tmp_path),)).backends:
        pytest.skip("no sandbox works on this machine")
    monkeypatch.chdir(tmp_path)
    assert main(["guard", *options, "--audit", "log", "--", *PUPPET]) == 2
    assert "what runs in the sandbox can write there" in capsys.readouterr().err
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("folder", [None, "elsewhere"])
async def test_an_agent_in_the_sandbox_cannot_change_the_log(folder: str | None, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    if not available((str(project),)).backends:
        pytest.skip("no sandbox works on this machine")
    places = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state")}
    log = tmp_path / (folder or "state/dragoman/audit")
    words = [] if folder is None else ["--audit", str(log)]
    attack = f'for file in "{log}"/*; do (: > "$file"); done; rm -rf "{log}"; exec "$@"'
    agent = ["/bin/sh", "-c", attack, "sh", *PUPPET]
    async with program(*DRAGOMAN, "guard", "--sandbox-agent", *words, "--", *agent, cwd=project, env=places) as client:
        await _open(client, project)
        await client.finish()
    found = verify(log)
    assert (found.is_intact, found.first_seq) == (True, 1)
    assert [record.fields["kind"] for record in read_records(log)][::3] == ["start", "exit"]
