"""Sessions of subagents for clients that know them, and a process that dies in the middle of a run."""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from dragoman.client import spawn
from dragoman.errors import ConnectionClosed
from dragoman.store.sessions import Store
from tests.builtin.client_kinds import KindClient, kind_client
from tests.builtin.http_service import Service
from tests.builtin.subagents.test_runs import calls, task, text_of
from tests.project.sources import ROOT

SCHEMA = json.loads((ROOT / "tools" / "schema" / "acp-v1-unstable.json").read_text())
NOTIFICATION = Draft202012Validator({"$defs": SCHEMA["$defs"], "$ref": "#/$defs/SessionNotification"})


async def received(client: KindClient, request_id: int) -> list[dict[str, Any]]:
    """The params of every update before the answer to a request."""
    found: list[dict[str, Any]] = []
    while True:
        message = await asyncio.wait_for(client.next(), 30)
        if "method" not in message:
            assert "result" in message, message
            return found
        assert message["method"] == "session/update", message
        assert [error.message for error in NOTIFICATION.iter_errors(message["params"])] == []
        found.append(message["params"])


def kinds(updates: list[dict[str, Any]], session_id: str) -> list[str]:
    return [each["update"]["sessionUpdate"] for each in updates if each["sessionId"] == session_id]


async def test_a_client_that_knows_them_is_shown_the_sessions_of_subagents(tmp_path: Path) -> None:
    service = Service(tmp_path, unstable=True)
    (service.project / "a.txt").write_text("A")
    async with kind_client(service, {"subagents": {}}) as client:
        session_id = await client.start()
        prompt = client.prompt(session_id, "\n".join([task("explore", "read a.txt", "say found it"), "say done"]))
        updates = await received(client, prompt)
        shown = [each["update"] for each in updates if each["update"]["sessionUpdate"] == "subagent_update"]
        first, last = shown[0], shown[-1]
        child = first["sessionId"]
        assert first["title"] == "explore: the task"
        assert first["state"]["state"] == "running"
        assert (last["sessionId"], last["state"]) == (child, {"state": "idle", "stopReason": "end_turn"})
        # It is announced before anything of its own, and its updates have its own id.
        order = [each["sessionId"] if each["update"]["sessionUpdate"] != "subagent_update" else "!" for each in updates]
        assert order.index("!") < order.index(child)
        assert {"tool_call", "tool_call_update", "agent_message_chunk"} <= set(kinds(updates, child))
        assert kinds(updates, session_id).count("tool_call") == 1
    async with kind_client(service, {"subagents": {}}) as client:
        params = {"sessionId": session_id, "cwd": str(service.project), "mcpServers": []}
        again = await received(client, client.ask("session/load", **params))
        assert {"tool_call", "agent_message_chunk", "user_message_chunk"} <= set(kinds(again, child))
        assert "subagent_update" in kinds(again, session_id)
        error = await client.error("session/load", **{**params, "sessionId": child})
        assert error["message"] == "Session not found"


async def test_other_clients_and_a_stable_agent_send_none_of_it(tmp_path: Path) -> None:
    cases: list[tuple[str, dict[str, Any], bool]] = [("a", {}, True), ("b", {"subagents": {}}, False)]
    for name, capabilities, unstable in cases:
        service = Service(tmp_path / name, unstable=unstable)
        async with kind_client(service, capabilities) as client:
            session_id = await client.start()
            updates = await received(client, client.prompt(session_id, task("explore", "say found it")))
            assert {each["sessionId"] for each in updates} == {session_id}
            assert "subagent_update" not in kinds(updates, session_id)


async def test_a_loaded_session_shows_the_run_again_with_its_answer(tmp_path: Path) -> None:
    service = Service(tmp_path)
    async with service.session() as session:
        await session.prompt(task("explore", "glob x", "say the answer"))
        shown = text_of(calls(session)[0])
    async with service.client() as agent:
        again = await agent.load_session(session.id, service.project)
        (call,) = calls(again)
        assert text_of(call) == shown
        assert "the answer" in shown


async def test_a_process_that_dies_in_a_run_leaves_nothing_open(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dragoman", "agent", "--model", "scripted", "--mode", "full"]
    command += ["--store", str(tmp_path / "s.db")]
    env = {"DRAGOMAN_HOME": str(tmp_path / "home")}
    async with spawn(*command, cwd=tmp_path, env=env) as agent:
        session = await agent.new_session(tmp_path)
        with suppress(ConnectionClosed):
            async for _ in session.prompt(task("build", f"say {'words ' * 50}", "write a.txt A", "run sleep 60")):
                if any("sleep 60" in text_of(call) for call in calls(session)):
                    os.kill(agent._connection.peer._transport.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        assert session.lost_by is not None
    async with spawn(*command, cwd=tmp_path, env=env) as agent:
        again = await agent.load_session(session.id, tmp_path)
        (call,) = calls(again)
        assert call.status == "failed"
        response = await again.prompt(task("", "say it goes on", id="task_1") + "\nsay {result}")
        assert response.stop_reason == "end_turn"
        assert "it goes on" in again.state.text
    store = await Store.open(tmp_path / "s.db")
    (child,) = await store.children(session.id)
    prompt, reply, *_ = await store.messages(child.id)
    assert (prompt.role, reply.metadata["interrupted"]) == ("user", True)
    assert await store.live_log(child.id) is None
    assert (await store.usage(session.id)).output > 60  # with what the run had used when it died
    await store.close()
