"""Terminals: run by the host, shown as text or in `_meta` to clients that do not run them, logged, and ended."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.host.clients import attachment
from dragoman.host.history.terminal_items import SHOWN_CHARACTERS, ShownTerminals
from dragoman.host.services import HostServices
from dragoman.host.working import served_terminals
from dragoman.policy import parse_rule
from tests.host.kit import Client, Hosted, OnTheWire, hosted

END = {"stopReason": "end_turn"}
ALLOWED = HostServices(rules=[parse_rule("execute:*", "allow", "flag", "test")])
ABLE: dict[str, Any] = {"_meta": {"terminal_output": True}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_terminals, "LOOK_SECONDS", 0.02)


async def turn(host: Hosted, source: OnTheWire, capabilities: dict[str, Any] | None = None) -> tuple[Client, str, int]:
    line, session = await host.opened(capabilities)
    id = line.prompt(session)
    source.prompt = await source.agent.prompted()  # type: ignore[attr-defined]
    return line, session, id


def end(source: OnTheWire) -> None:
    source.agent.reply(source.prompt, END)  # type: ignore[attr-defined]


async def run(source: OnTheWire, script: str) -> str:
    """A terminal that the host runs, shown in a tool call."""
    created = await source.agent.ask("terminal/create", command="sh", args=["-c", script])
    id: str = created["terminalId"]
    show(source, id)
    return id


def show(source: OnTheWire, id: str) -> None:
    content = [{"type": "terminal", "terminalId": id}]
    source.agent.update("tool_call", toolCallId="t", title="run", status="in_progress", content=content)


def text_of(update: dict[str, Any]) -> str:
    (item,) = update["content"]
    assert item["type"] == "content", "never a terminal that the client does not have"
    text: str = item["content"]["text"]
    return text


async def until_text(line: Client, wanted: str) -> dict[str, Any]:
    while True:
        message = await line.until("session/update")
        update: dict[str, Any] = message["params"]["update"]
        if "content" in update and wanted in str(update["content"]):
            return update


async def test_a_terminal_of_the_host_is_text_for_a_client_and_comes_again_with_its_output() -> None:
    source = OnTheWire()
    async with hosted(source, services=ALLOWED) as host:
        line, session, id = await turn(host, source)
        terminal = await run(source, "echo hello; exit 3")
        shown = await line.until_update("tool_call")
        assert text_of(shown).startswith("```")
        ended = await source.agent.ask("terminal/wait_for_exit", terminalId=terminal)
        assert ended["exitCode"] == 3
        update = await until_text(line, "hello")
        assert update["sessionUpdate"] == "tool_call_update"
        assert text_of(update) == "```\nhello\n```"
        output = await source.agent.ask("terminal/output", terminalId=terminal)
        assert "hello" in output["output"]
        await source.agent.ask("terminal/release", terminalId=terminal)
        end(source)
        await line.answer_to(id)
        logged = await host.events(session, "terminal")
        assert "".join(each.get("data", "") for each in logged).split() == ["hello"]
        assert logged[-1]["exit"] == {"exitCode": 3, "signal": None}
        updates, _ = await (await host.client()).load(session)
        call = next(each for each in updates if each["sessionUpdate"] == "tool_call")
        assert text_of(call) == "```\nhello\n```", "a replay has the output too"


async def test_a_client_that_asks_for_it_gets_output_in_meta() -> None:
    source = OnTheWire()
    async with hosted(source, services=ALLOWED) as host:
        line, _, id = await turn(host, source, ABLE)
        terminal = await run(source, "echo hello")
        shown = await line.until_update("tool_call")
        assert shown["content"] == [{"type": "terminal", "terminalId": terminal}]
        assert shown["_meta"]["terminal_info"]["terminal_id"] == terminal
        text, ended = "", None
        while ended is None:
            meta = (await line.until_update("tool_call_update"))["_meta"]
            text += meta.get("terminal_output", {}).get("data", "")
            ended = meta.get("terminal_exit")
        assert text.split() == ["hello"]
        assert ended == {"terminal_id": terminal, "exit_code": 0, "signal": None}
        await source.agent.ask("terminal/release", terminalId=terminal)
        end(source)
        await line.answer_to(id)


async def test_what_is_not_released_ends_with_the_turn() -> None:
    source = OnTheWire()
    async with hosted(source, services=ALLOWED) as host:
        line, session, id = await turn(host, source)
        terminal = await run(source, "echo started; sleep 1000")
        await until_text(line, "started")
        end(source)
        await line.answer_to(id)
        assert (await host.events(session, "terminal"))[-1]["exit"]
        id = line.prompt(session)
        source.prompt = await source.agent.prompted()  # type: ignore[attr-defined]
        error = await source.agent.ask("terminal/output", terminalId=terminal)
        assert error["code"] == -32002
        end(source)
        await line.answer_to(id)


async def test_what_an_agent_that_died_left_running_is_ended(tmp_path: Path) -> None:
    source = OnTheWire()
    async with hosted(source, services=ALLOWED) as host:
        line, session, id = await turn(host, source)
        await run(source, f"echo $$ > {tmp_path}/pid; echo started; sleep 1000")
        await until_text(line, "started")
        source.die()
        _, answer = await line.answer_to(id)
        assert answer["error"]["data"]["reason"] == "agent_exited"
        pid = int((tmp_path / "pid").read_text())
        async with asyncio.timeout(30):
            while os.path.exists(f"/proc/{pid}"):  # noqa: ASYNC240 - it is not a file
                await line.everything()
        assert (await host.events(session, "terminal"))[-1]["exit"]


async def test_a_command_needs_the_permission_of_a_client() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, _, id = await turn(host, source)
        asked = source.agent.call("terminal/create", command="touch", args=["/tmp/x"])
        question = await line.until("session/request_permission")
        reject = next(each for each in question["params"]["options"] if each["kind"] == "reject_once")
        line.answer_with(question, reject["optionId"])
        assert "code" in await source.agent.answer(asked)
        end(source)
        await line.answer_to(id)


async def test_output_beyond_the_limit_is_not_logged_and_the_end_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_terminals, "LOGGED_CHARACTERS", 1000)
    source = OnTheWire()
    async with hosted(source, services=ALLOWED) as host:
        line, session, id = await turn(host, source)
        terminal = await run(source, "for i in 1 2 3 4 5 6 7 8 9; do seq 100000 100100; sleep 0.03; done; echo last")
        await source.agent.ask("terminal/wait_for_exit", terminalId=terminal)
        await source.agent.ask("terminal/release", terminalId=terminal)
        end(source)
        await line.answer_to(id)
        logged = await host.events(session, "terminal")
        assert sum(len(each.get("data", "")) for each in logged) <= 1000
        assert logged[-1]["text"].split()[-1] == "last"
        updates, _ = await (await host.client()).load(session)
        assert "last" in text_of(updates[-1])


META = {"terminal_output": {"terminal_id": "t", "data": "mine\n"}}


async def test_terminals_of_the_agent_itself_are_text_for_clients_that_did_not_ask_for_them() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        plain, session, id = await turn(host, source)
        able = await host.client(ABLE)
        await able.resume(session)
        content = [{"type": "terminal", "terminalId": "t"}]
        info = {"terminal_info": {"terminal_id": "t", "cwd": "/tmp"}, "vendor": 1}
        source.agent.update("tool_call", toolCallId="t", title="run", content=content, _meta=info)
        source.agent.update("tool_call_update", toolCallId="t", _meta=META)
        exit = {"terminal_exit": {"terminal_id": "t", "exit_code": 0, "signal": None}}
        source.agent.update("tool_call_update", toolCallId="t", status="completed", _meta=exit)
        end(source)
        before, _ = await plain.answer_to(id)
        updates = [m["params"]["update"] for m in before]
        assert updates[0]["_meta"] == {"vendor": 1}
        assert all("terminal" not in str(update.get("content")) for update in updates)
        assert [text_of(each) for each in updates if "content" in each][-1] == "```\nmine\n```"
        assert [each.get("status") for each in updates].count("completed") == 1
        shown = [await able.until_update("tool_call"), *[await able.until_update("tool_call_update") for _ in "12"]]
        assert shown[0]["content"] == content
        assert shown[1]["_meta"] == META
        assert shown[2]["_meta"] == exit


async def test_output_that_waits_for_its_time_is_sent_before_the_turn_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may leave with the answer to its prompt, and nothing belongs to a turn behind its end."""
    monkeypatch.setattr(attachment, "LOOK_SECONDS", 1000.0)
    source = OnTheWire()
    async with hosted(source) as host:
        line, _, id = await turn(host, source)
        show(source, "t")
        source.agent.update("tool_call_update", toolCallId="t", _meta=META)
        await until_text(line, "mine")
        source.agent.update("tool_call_update", toolCallId="t", _meta=META)
        end(source)
        before, _ = await line.answer_to(id)
        assert text_of(before[-1]["params"]["update"]) == "```\nmine\nmine\n```"


async def test_a_question_about_a_call_with_a_terminal_shows_text() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, _, id = await turn(host, source)
        call = {"toolCallId": "t", "title": "x", "content": [{"type": "terminal", "terminalId": "t"}]}
        options = [{"optionId": "y", "name": "Y", "kind": "allow_once"}]
        asked = source.agent.call("session/request_permission", toolCall=call, options=options)
        question = await line.until("session/request_permission")
        assert question["params"]["toolCall"]["content"][0]["type"] == "content"
        line.answer_with(question, "y")
        await source.agent.answer(asked)
        end(source)
        await line.answer_to(id)


def test_shown_output_is_bounded_and_its_fence_cannot_be_closed_from_inside() -> None:
    shown = ShownTerminals()
    shown.note_event(msgspec.json.encode({"terminalId": "a", "data": "```\n" + "x" * 2 * SHOWN_CHARACTERS}))
    shown.note_event(msgspec.json.encode({"terminalId": "a", "data": "\n````\nend"}))
    (item,) = shown.as_text([{"type": "terminal", "terminalId": "a"}])
    text: str = item["content"]["text"]
    assert text.startswith("`````\n…\n")
    assert text.endswith("\n````\nend\n`````")
    assert len(text) < SHOWN_CHARACTERS + 100
    (unknown,) = shown.as_text([{"type": "terminal", "terminalId": "never seen"}])
    assert unknown["content"]["text"] == "```\n\n```"
