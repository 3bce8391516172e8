"""Both roles of the dialect 2025.1 as programs: our agent for its client, our client for its agent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.versions.line_client import DRAGOMAN, LineClient, program

AGENT = [sys.executable, str(Path(__file__).parent / "dialect_program.py")]


async def run_exec(tmp_path: Path, prompt: str, *options: str, agent: list[str] | None = None) -> tuple[int, Any, str]:
    words = ["exec", "--protocol", "2025.1", "--output", "json", *options, prompt, "--", *(agent or AGENT)]
    async with program(*DRAGOMAN, *words, cwd=tmp_path) as run:
        code, log = await run.finish()
        assert run.process.stdout is not None
        return code, json.loads(await run.process.stdout.read()), log


# The text is that of the last message: texts that the result has overtaken are one message at the end.
@pytest.mark.parametrize(("habit", "text"), [([], "!"), (["--overtake"], "Hello!")])
async def test_our_client_drives_an_agent_of_the_dialect(habit: list[str], text: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("content")
    prompt = f"think hm;say Hello;read {tmp_path}/a.txt;write {tmp_path}/b.txt new;run echo out;plan one two;say !"
    allowed = ["--allow", "edit:*", "--allow", "execute:echo *"]
    code, result, log = await run_exec(tmp_path, prompt, *allowed, agent=[*AGENT, *habit])
    assert (code, result["text"], result["stop_reason"]) == (0, text, "end_turn")
    assert (tmp_path / "b.txt").read_text() == "new"
    calls = result["tool_calls"]
    assert [(call["kind"], call["status"]) for call in calls] == [
        ("read", "completed"),
        ("edit", "completed"),
        ("execute", "completed"),
    ]
    assert "a cancel counts when the turn ends" in log


async def test_what_the_rules_do_not_allow_reaches_the_agent_as_a_refusal(tmp_path: Path) -> None:
    code, result, _ = await run_exec(tmp_path, f"write {tmp_path}/b.txt new;say done")
    assert not (tmp_path / "b.txt").exists()
    assert result["tool_calls"][0]["status"] == "failed"
    assert code == 5


async def test_a_failed_turn_is_an_error_of_the_agent(tmp_path: Path) -> None:
    code, result, _ = await run_exec(tmp_path, "fail")
    assert (code, result["error"]["code"]) == (1, -32603)


async def start(client: LineClient, folder: Path) -> None:
    offers = {"text_files": False, "terminal": False}
    info = {"name": "test", "version": "1"}
    params = {
        "protocol_version": "2025.1",
        "client_info": info,
        "capabilities": offers,
        "working_directory": str(folder),
    }
    ready = await client.ask("initialize", params)
    assert ready["agent_info"]["name"] == "dragoman"
    assert await client.ask("session/new", {"session_id": "own", "mode": "agent"}) == {"session_id": "own"}


def updates(client: LineClient, kind: str) -> list[Any]:
    return [frame["params"]["data"] for frame in client.seen if frame.get("params", {}).get("type") == kind]


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_our_agent_serves_a_client_of_the_dialect_and_asks_the_rules(is_allowed: bool, tmp_path: Path) -> None:
    settings = tmp_path / "config" / "dragoman" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"rules": {"allow": [f"edit:{tmp_path}/**"]}} if is_allowed else {}))
    words = ["agent", "--protocol", "2025.1", "--model", "scripted", "--store", str(tmp_path / "store.db")]
    async with program(*DRAGOMAN, *words, cwd=tmp_path) as client:
        await start(client, tmp_path)
        content = [{"type": "text", "text": "write new.txt x"}]
        result = await client.ask("session/prompt", {"session_id": "own", "content": content})
        assert result == {"status": "ok", "stop_reason": "end_turn"}
        types = [frame["params"]["type"] for frame in client.seen if "params" in frame]
        assert types[-1] == "done"
        cancelled = await client.ask("session/cancel", {"session_id": "own"})
        assert cancelled is None
        code, log = await client.finish()
    assert code == 0
    assert (tmp_path / "new.txt").exists() is is_allowed
    assert log.count("cannot be asked for permission") == 1


async def test_a_client_of_the_dialect_finds_its_session_on_another_connection(tmp_path: Path) -> None:
    words = ["agent", "--protocol", "2025.1", "--model", "scripted", "--store", str(tmp_path / "store.db")]
    async with program(*DRAGOMAN, *words, cwd=tmp_path) as client:
        await start(client, tmp_path)
        content = [{"type": "text", "text": "say remember me"}]
        await client.ask("session/prompt", {"session_id": "own", "content": content})
        await client.finish()
    async with program(*DRAGOMAN, *words, cwd=tmp_path) as client:
        offers = {"text_files": False, "terminal": False}
        info = {"name": "test", "version": "1"}
        params = {"protocol_version": "2025.1", "client_info": info, "working_directory": str(tmp_path)}
        await client.ask("initialize", {**params, "capabilities": offers})
        assert await client.ask("session/load", {"session_id": "own"}) == {"session_id": "own", "loaded": True}
        assert "remember me" in str(updates(client, "agent_message_chunk"))
        await client.finish()
