"""The AI SDK's own chat clients, versions 5, 6 and 7, read what a host serves: recorded sessions and live ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.schema import decode, v1
from dragoman.uistream.chunks import Chunk, encode_chunk
from dragoman.uistream.from_updates import SdkVersion, UpdateProjector
from tests import machine
from tests.golden.conversations import CORPORA, messages
from tests.interop.support import DRAGOMAN, PEERS, ROOT

SECONDS = 60.0
pytestmark = pytest.mark.skipif(
    machine.program("node") is None or not (ROOT / "node_modules" / "ai7").is_dir(),
    reason="the AI SDK is not installed: npm ci needs Node.js 20 or newer",
)


def clients(version: int, orders: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What the client of a version made of each order."""
    ran = subprocess.run(
        ["node", str(PEERS / "ai_client.mjs"), str(version)],
        input="".join(json.dumps(order) + "\n" for order in orders),
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def as_stream(chunks: list[Chunk]) -> str:
    return "".join(f"data: {encode_chunk(chunk).decode()}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def recorded() -> dict[str, list[Any]]:
    """The updates of each recording. Terminals and all else are as the agents sent them."""
    found: dict[str, list[Any]] = {}
    for folder in CORPORA.values():
        for message in messages(folder) if folder.is_dir() else ():
            if message.method == "session/update" and message.part == "params":
                update = decode(v1.SessionNotification, json.dumps(message.value).encode()).update
                found.setdefault(message.where.partition(":")[0], []).append(update)
    return found


def orders_of(version: SdkVersion, sessions: dict[str, list[Any]]) -> list[dict[str, Any]]:
    orders = []
    for updates in sessions.values():
        projector = UpdateProjector("m", version=version)
        chunks = projector.begin()
        for update in updates:
            chunks += projector.project(update)
        orders.append({"streams": [as_stream([*chunks, *projector.finish("end_turn")])]})
    return orders


def check_recorded(name: str, updates: list[Any], read: dict[str, Any]) -> None:
    assert (name, read["error"], read["status"]) == (name, None, "ready")
    assert read["calls"] == [], "the agent's tools are not tools of the web page"
    parts = [part for message in read["messages"] if message["role"] == "assistant" for part in message["parts"]]
    texts = [each.content.text for each in updates if is_text(each)]
    assert "".join(part["text"] for part in parts if part["type"] == "text") == "".join(texts)
    calls = {each.tool_call_id for each in updates if isinstance(each, v1.ToolCall | v1.ToolCallUpdate)}
    tools = [part for part in parts if part["type"] == "dynamic-tool"]
    assert sorted(part["toolCallId"] for part in tools) == sorted(calls)
    assert all(part["state"] in ("output-available", "output-error") for part in tools)


def is_text(update: Any) -> bool:
    return isinstance(update, v1.AgentMessageChunk) and isinstance(update.content, v1.TextContent)


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str]]:
    """`dragoman serve --ui-stream` with the scripted agent: its address and a token."""
    data = folder / "data"
    command = [
        *DRAGOMAN,
        "serve",
        "--ui-stream",
        "--listen",
        "127.0.0.1:0",
        "--data",
        str(data),
        "--folder",
        str(folder),
    ]
    agent = [sys.executable, "-m", "dragoman.testing.scripted_agent"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, "--", *agent], stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, (folder / "log").read_text()
        address = url.replace("ws://", "http://").replace("/acp", "/ui-stream")
        yield address, (data / "first.token").read_text().strip()
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)


def texts_of(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


@pytest.mark.parametrize("version", [*(pytest.param(old, marks=pytest.mark.soak) for old in (5, 6)), 7])
def test_the_sdk_reads_recorded_sessions_and_talks_to_a_served_agent(version: SdkVersion, tmp_path: Path) -> None:
    """Every recording of a real agent, and chats with a prompt, a stop, an error and, from version 6 on, questions."""
    sessions = recorded()
    with serving(tmp_path) as (url, token):
        chat = {"url": url, "token": token, "body": {"sdkVersion": version, "cwd": str(tmp_path)}}
        story = [{"text": text} for text in ("think hard", "tool", "plan", "diff", "content", "usage", "fail", "error")]
        orders: list[dict[str, Any]] = [
            {**chat, "id": "story", "steps": story},
            {**chat, "id": "stopped", "steps": [{"stop": "slow", "until": "working"}, {"text": "say again"}]},
        ]
        if version > 5:
            answers: list[dict[str, Any]] = [{"text": "permission a"}, {"answer": True}]
            orders.append({**chat, "id": "asked", "steps": [*answers, {"text": "permission b"}, {"answer": False}]})
        story_shown, stopped, *rest = clients(version, [*orders, *orders_of(version, sessions)], tmp_path)
    assert [each["status"] for each in story_shown["shown"]] == ["ready"] * 7 + ["error"]
    assert story_shown["shown"][-1]["error"] == "As you asked"
    assert {tuple(post) for post in story_shown["posts"]} == {("POST", 200, "v1")}
    kinds = {part["type"] for message in story_shown["shown"][-1]["messages"] for part in message["parts"]}
    assert {"text", "reasoning", "dynamic-tool", "step-start", "data-plan", "data-usage", "file"} <= kinds
    assert texts_of(stopped["shown"][-1]["messages"][-1]) == "again "
    if version > 5:
        check_answers(rest.pop(0))
    for (name, updates), read in zip(sessions.items(), rest, strict=True):
        check_recorded(name, updates, read)


def check_answers(asked: dict[str, Any]) -> None:
    first, allowed, _, refused = asked["shown"]
    assert [part["state"] for part in first["messages"][-1]["parts"] if "toolCallId" in part] == ["approval-requested"]
    assert len(allowed["messages"]) == 2, "the answer continues the message"
    assert texts_of(allowed["messages"][-1]) == "allowed (allow)"
    assert texts_of(refused["messages"][-1]) == "not allowed (reject)"
    assert len(refused["messages"]) == 4
    assert len(asked["posts"]) == 4, "the client posts once for each step and does not go on by itself"
    assert refused["status"] == "ready"
