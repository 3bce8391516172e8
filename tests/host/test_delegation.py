"""Files and terminals that the client of a session serves, and what happens while it is away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.host.host import HostSettings, Visitor
from dragoman.host.services import HostServices
from dragoman.policy import parse_rule
from tests.host.kit import Client, Hosted, OnTheWire, hosted

END = {"stopReason": "end_turn"}
ALLOWED = HostServices(rules=[parse_rule("*", "allow", "flag", "test")])
QUICK = HostSettings(away_seconds=0.05)


def serving(client: str | None = "editor-1", **capabilities: Any) -> dict[str, Any]:
    able = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True, **capabilities}
    return {**able, "_meta": {"dragoman": {"client": client}}, "session": {"notices": {}}}


class Editor:
    """A session whose files and terminals are those of the client that opened it, in the middle of a turn."""

    def __init__(self, source: OnTheWire, host: Hosted, line: Client, session: str, cwd: str) -> None:
        self.source = source
        self.host = host
        self.line = line
        self.session = session
        self.cwd = cwd
        self.prompt: dict[str, Any] = {}

    @property
    def agent(self) -> Any:
        return self.source.agent

    async def back(self, capabilities: dict[str, Any], visitor: Visitor | None = None) -> Client:
        line = await self.host.client(capabilities, visitor=visitor)
        await line.resume(self.session, self.cwd)
        return line


async def begin(
    host: Hosted, source: OnTheWire, cwd: Path, capabilities: dict[str, Any] | None = None, **options: Any
) -> Editor:
    line = await host.client(capabilities or serving(), **options)
    session = await line.open(str(cwd), _meta={"dragoman": {"delegate": True}})
    line.prompt(session)
    editor = Editor(source, host, line, session, str(cwd))
    editor.prompt = await source.agent.prompted()
    return editor


async def test_the_host_serves_files_below_the_roots_by_itself(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = OnTheWire()
    async with hosted(source, services=ALLOWED) as host:
        line = await host.client(serving())
        session = await line.open(str(tmp_path / "in"))
        line.prompt(session)
        prompt = await source.agent.prompted()
        path = str(tmp_path / "in" / "a.txt")
        assert await source.agent.ask("fs/write_text_file", path=path, content="text") == {}
        assert await source.agent.ask("fs/read_text_file", path=path) == {"content": "text"}
        error = await source.agent.ask("fs/read_text_file", path=str(tmp_path / "outside"))
        assert error["code"] == -32602
        error = await source.agent.ask("fs/read_text_file", path=str(tmp_path / "in" / "missing"))
        assert error["code"] == -32002
        source.agent.reply(prompt, END)


async def test_calls_go_to_the_client_that_opened_the_session_with_its_ids(tmp_path: Path) -> None:
    source = OnTheWire()
    async with hosted(source, services=ALLOWED) as host:
        editor = await begin(host, source, tmp_path)
        line, agent = editor.line, editor.agent
        read = agent.call("fs/read_text_file", path="/elsewhere/x", line=2)
        asked = await line.until("fs/read_text_file")
        assert asked["params"] == {"sessionId": editor.session, "path": "/elsewhere/x", "line": 2}
        line.send(line.result_of(asked, {"content": "unsaved"}))
        assert await agent.answer(read) == {"content": "unsaved"}
        written = agent.call("fs/write_text_file", path="/elsewhere/x", content="y")
        asked = await line.until("fs/write_text_file")
        line.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32050, "message": "read only"}})
        assert (await agent.answer(written))["code"] == -32050
        agent.reply(editor.prompt, END)


async def test_a_terminal_of_the_client_is_shown_to_it_by_its_own_id_and_to_others_as_text(tmp_path: Path) -> None:
    source = OnTheWire()
    async with hosted(source, services=ALLOWED) as host:
        editor = await begin(host, source, tmp_path)
        line, agent = editor.line, editor.agent
        other = await editor.back(serving("other"))
        created = agent.call("terminal/create", command="make")
        asked = await line.until("terminal/create")
        line.send(line.result_of(asked, {"terminalId": "T1"}))
        terminal = (await agent.answer(created))["terminalId"]
        assert terminal != "T1"
        content = [{"type": "terminal", "terminalId": terminal}]
        agent.update("tool_call", toolCallId="t", title="make", content=content)
        waiting = agent.call("terminal/wait_for_exit", terminalId=terminal)
        shown: dict[str, Any] | None = None
        waited: dict[str, Any] | None = None
        while shown is None or waited is None:
            message = await line.next()
            if message.get("method") == "session/update":
                shown = message["params"]["update"]
            elif message.get("method") == "terminal/wait_for_exit":
                waited = message
            elif message.get("method") == "terminal/output":
                line.send(line.result_of(message, {"output": "so far", "truncated": False}))
        assert shown["content"] == [{"type": "terminal", "terminalId": "T1"}]
        assert waited["params"] == {"sessionId": editor.session, "terminalId": "T1"}
        assert (await other.until_update("tool_call"))["content"][0]["type"] == "content"
        line.send(line.result_of(waited, {"exitCode": 2}))
        assert (await agent.answer(waiting))["exitCode"] == 2
        released = agent.call("terminal/release", terminalId=terminal)
        while (message := await line.next()).get("method") != "terminal/release":
            if message.get("method") == "terminal/output":
                output = {"output": "done", "truncated": False, "exitStatus": {"exitCode": 2}}
                line.send(line.result_of(message, output))
        line.send(line.result_of(message, {}))
        assert await agent.answer(released) == {}
        assert "done" in str((await other.until_update("tool_call_update"))["content"])
        agent.reply(editor.prompt, END)


async def test_what_the_client_lacks_is_served_by_the_host(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("on disk")
    source = OnTheWire()
    async with hosted(source, services=ALLOWED) as host:
        lacking = serving(fs={"readTextFile": False, "writeTextFile": False}, terminal=False)
        editor = await begin(host, source, tmp_path, lacking)
        assert await editor.agent.ask("fs/read_text_file", path=str(tmp_path / "a.txt")) == {"content": "on disk"}
        created = await editor.agent.ask("terminal/create", command="true")
        ended = await editor.agent.ask("terminal/wait_for_exit", terminalId=created["terminalId"])
        assert ended["exitCode"] == 0
        editor.agent.reply(editor.prompt, END)


async def test_a_request_waits_for_the_return_of_the_client_and_is_sent_again(tmp_path: Path) -> None:
    source = OnTheWire()
    async with hosted(source, services=ALLOWED, settings=HostSettings(away_seconds=60.0)) as host:
        editor = await begin(host, source, tmp_path)
        read = editor.agent.call("fs/read_text_file", path="/x")
        await editor.line.until("fs/read_text_file")
        await host.leave(editor.line)
        await editor.back(serving("another-program"))  # is not asked
        line = await editor.back(serving())
        asked = await line.until("fs/read_text_file")
        line.send(line.result_of(asked, {"content": "again"}))
        assert await editor.agent.answer(read) == {"content": "again"}
        editor.agent.reply(editor.prompt, END)


async def test_without_the_client_a_host_on_the_same_machine_serves_from_disk_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("on disk")
    source = OnTheWire()
    async with hosted(source, services=ALLOWED, settings=QUICK) as host:
        editor = await begin(host, source, tmp_path)
        await host.leave(editor.line)
        watching = await editor.back(serving("other"))
        for _ in range(2):
            assert await editor.agent.ask("fs/read_text_file", path=str(tmp_path / "a.txt")) == {"content": "on disk"}
        assert "unsaved" in (await watching.until_update("notice"))["title"]
        assert not [m for m in await watching.everything() if "unsaved" in str(m)], "said once"
        created = await editor.agent.ask("terminal/create", command="true")
        assert created["terminalId"]
        editor.agent.reply(editor.prompt, END)


async def test_without_the_client_on_another_machine_there_are_no_files(tmp_path: Path) -> None:
    source = OnTheWire()
    visitor = Visitor(is_local=False)
    async with hosted(source, services=ALLOWED, settings=QUICK) as host:
        editor = await begin(host, source, tmp_path, visitor=visitor)
        await host.leave(editor.line)
        for method, params in (
            ("fs/read_text_file", {"path": "/x"}),
            ("fs/write_text_file", {"path": "/x", "content": ""}),
            ("terminal/create", {"command": "true"}),
        ):
            error = await editor.agent.ask(method, **params)
            assert error["code"] == -32603
            assert "another machine" in error["message"]
        editor.agent.reply(editor.prompt, END)


async def test_waiting_for_a_terminal_of_a_client_that_stays_away_ends_with_not_found(tmp_path: Path) -> None:
    source = OnTheWire()
    async with hosted(source, services=ALLOWED, settings=QUICK) as host:
        editor = await begin(host, source, tmp_path)
        created = editor.agent.call("terminal/create", command="make")
        asked = await editor.line.until("terminal/create")
        editor.line.send(editor.line.result_of(asked, {"terminalId": "T1"}))
        terminal = (await editor.agent.answer(created))["terminalId"]
        waiting = editor.agent.call("terminal/wait_for_exit", terminalId=terminal)
        await editor.line.until("terminal/wait_for_exit")
        await host.leave(editor.line)
        assert (await editor.agent.answer(waiting))["code"] == -32002
        editor.agent.reply(editor.prompt, END)


async def test_another_client_serves_only_after_it_took_over(tmp_path: Path) -> None:
    source = OnTheWire()
    async with hosted(source, services=ALLOWED) as host:
        editor = await begin(host, source, tmp_path)
        other = await editor.back(serving("other"))
        _, took = await other.answer_to(other.ask("_dragoman/take", sessionId=editor.session))
        assert took["result"] == {}
        read = editor.agent.call("fs/read_text_file", path="/x")
        asked = await other.until("fs/read_text_file")
        other.send(other.result_of(asked, {"content": "from the other"}))
        assert await editor.agent.answer(read) == {"content": "from the other"}
        editor.agent.reply(editor.prompt, END)
        await other.until("_dragoman/turn_ended")
        plain = await other.open(str(tmp_path))
        _, answer = await other.answer_to(other.ask("_dragoman/take", sessionId=plain))
        assert answer["error"]["code"] == -32600


@pytest.mark.parametrize("setting", [True, False])
async def test_a_host_may_delegate_by_default_and_a_client_may_decline(tmp_path: Path, setting: bool) -> None:
    source = OnTheWire()
    async with hosted(source, services=ALLOWED, settings=HostSettings(delegates=setting)) as host:
        line = await host.client(serving())
        session = await line.open(str(tmp_path))
        assert (host.session(session).delegate is not None) is setting
        session = await line.open(str(tmp_path), _meta={"dragoman": {"delegate": False}})
        assert host.session(session).delegate is None
