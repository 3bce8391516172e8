"""The inspector: rows, broken rules, filter, search, and recordings that other commands read."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")

from dragoman.trace.inspect.timeline import RecordingTimeline
from dragoman.trace.reader import open_trace
from dragoman.tui.reporting.traffic import MOST_ROWS, TrafficModel, what_of
from dragoman.tui.screen.reporting.inspector import InspectorScreen
from tests.tui.grids import check_grid
from tests.tui.screens_kit import opened, press, sentence, settled, shown, type_in

EVIL = "\x1b]0;evil\x07\x1b[2J\x9b31m\u202e"


def message(direction: str, **members: Any) -> tuple[str, str]:
    return direction, json.dumps({"jsonrpc": "2.0", **members}, ensure_ascii=False)


def update(kind: str, /, **members: Any) -> tuple[str, str]:
    params = {"sessionId": "s", "update": {"sessionUpdate": kind, **members}}
    return message("a2c", method="session/update", params=params)


TALK = [
    message("c2a", id=0, method="initialize", params={"protocolVersion": 1, "clientCapabilities": {}}),
    message("a2c", id=0, result={"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}),
    message("c2a", id=1, method="session/new", params={"cwd": "/p", "mcpServers": []}),
    message("a2c", id=1, result={"sessionId": "s"}),
    message(
        "c2a", id=2, method="session/prompt", params={"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}
    ),
    update("agent_message_chunk", content={"type": "text", "text": "Hello"}),
    update("tool_call", toolCallId="1", title="Run it", kind="execute", status="pending"),
    message(
        "a2c",
        id=31,
        method="session/request_permission",
        params={
            "sessionId": "s",
            "toolCall": {"toolCallId": "1"},
            "options": [{"optionId": "allow-once", "name": "Allow", "kind": "allow_once"}],
        },
    ),
    message("c2a", id=31, result={"outcome": {"outcome": "selected", "optionId": "allow-once"}}),
    update("tool_call_update", toolCallId="1", status="completed"),
    message("a2c", id=2, result={"stopReason": "end_turn"}),
    message("a2c", id=2, result={"stopReason": "end_turn"}),  # a second answer is not allowed
    ("a2c", "this is not JSON"),
]


def answer(conversation: list[tuple[str, str]], *, first: int = 1, connection: int = 1) -> dict[str, Any]:
    """As the host answers `_dragoman/traffic`; each line half a second after the one before."""
    frames = [
        {"n": number, "t": 0.5 * number, "dir": dir, "bytes": len(text.encode()), "text": text}
        for number, (dir, text) in enumerate(conversation, first)
    ]
    return {
        "connection": connection,
        "startedAt": 1_000_000.0,
        "count": first + len(conversation) - 1,
        "frames": frames,
        "stderr": "a warning\n",
        "agent": "claude",
        "command": ["claude", "--acp"],
    }


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no host to ask: the test gives the answers."""

    async def wait(self: InspectorScreen) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(InspectorScreen, "_follow", wait)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_messages_with_the_broken_rules_marked(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    async with shown(monkeypatch, size) as (app, pilot):
        screen = await opened(app, pilot, InspectorScreen(app))
        await screen.feed(answer(TALK))
        await settled(app, pilot)
        await press(app, pilot, "!")
        check_grid("inspector", app)
        if size == (80, 24):
            await press(app, pilot, "enter")
            check_grid("inspector-open", app)


async def test_walking_searching_filtering_and_following(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        screen = await opened(app, pilot, InspectorScreen(app))
        await screen.feed(answer(TALK))
        assert screen.model.at is None
        await press(app, pilot, "k")
        assert screen.model.chosen is not None
        assert screen.model.chosen.number == len(TALK) - 1
        await screen.feed(answer(TALK[5:6], first=len(TALK) + 1))
        assert screen.model.chosen.number == len(TALK) - 1, "what comes does not move the choice"
        lines = await type_in(app, pilot, "/", "allow-once")
        assert "allow-once" in "\n".join(lines)
        assert screen.model.chosen.number == 8
        lines = await press(app, pilot, "n")
        assert screen.model.chosen.number == 9
        lines = await type_in(app, pilot, "f", "<- update")
        assert [screen.model.rows[at].number for at in screen.model.visible] == [6, 7, 10, 14]
        assert "filter: <- update" in lines[0]
        lines = await type_in(app, pilot, "f", "!")
        assert [screen.model.rows[at].number for at in screen.model.visible] == [12, 13]
        await type_in(app, pilot, "f", "")
        lines = await press(app, pilot, "G", "p")
        assert screen.model.at is None
        assert "paused" in lines[0]
        copied: list[str] = []
        monkeypatch.setattr("dragoman.tui.screen.conversation.copy.copy_text", lambda app, text: copied.append(text))
        lines = await press(app, pilot, "y")
        assert '"agent_message_chunk"' in copied[0]
        assert "copied" in sentence(lines)


async def test_the_export_is_a_recording_and_replaces_nothing_without_a_yes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with shown(monkeypatch) as (app, pilot):
        app.conversation.folder = str(tmp_path)
        screen = await opened(app, pilot, InspectorScreen(app))
        await screen.feed(answer(TALK))
        lines = await type_in(app, pilot, "e", "out.jsonl")
        assert "wrote" in sentence(lines)
        path = tmp_path / "out.jsonl"
        assert os.stat(path).st_mode & 0o777 == 0o600
        trace = open_trace(path)
        assert [frame.data.decode() for frame in trace.frames] == [text for _, text in TALK]
        assert trace.header.command == ("claude", "--acp")
        timeline = RecordingTimeline()
        timeline.feed(trace.header)
        for entry in trace.entries:
            timeline.feed(entry)
        assert [row.number for row in timeline.rows if row.findings and row.is_bad][:2] == [12, 13]
        path.write_text("mine")
        await type_in(app, pilot, "e", "out.jsonl")
        await pilot.press(*"no", "enter")
        lines = await settled(app, pilot)
        assert "nothing was written" in sentence(lines)
        assert path.read_text() == "mine"
        await type_in(app, pilot, "e", "out.jsonl")
        await pilot.press(*"yes", "enter")
        await settled(app, pilot)
        assert len(open_trace(path).frames) == len(TALK)


async def test_messages_cannot_act_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = [
        message("a2c", id=EVIL, method=EVIL, params={EVIL: EVIL}),
        ("a2c", f"{EVIL} raw"),
        update(EVIL, content={"type": "text", "text": EVIL}),
    ]
    async with shown(monkeypatch) as (app, pilot):
        screen = await opened(app, pilot, InspectorScreen(app))
        await screen.feed({**answer(conversation), "agent": EVIL})
        for key in ("k", "k", "enter", "j", "j"):
            lines = await press(app, pilot, key)
            assert all(line.isprintable() for line in lines), lines


async def test_keys_that_come_while_lines_are_judged_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        screen = await opened(app, pilot, InspectorScreen(app))
        feeding = asyncio.ensure_future(screen.feed(answer(TALK)))
        await asyncio.sleep(0)
        screen.press("up")
        assert screen._held == ["up"]
        await feeding
        assert screen.model.at == len(TALK) - 2


def test_nothing_is_concluded_from_lines_that_are_not_there() -> None:
    model = TrafficModel()
    model.feed(answer(TALK[3:5], first=4))
    assert model.missed == 3
    assert model.broken == 0, "the answer to a request that was not seen breaks no rule"
    assert model.number(model.rows[0]) == 4
    assert not model.recording().startswith(b'{"trace"'), "a header would say that it is whole"
    model.feed(answer(TALK, connection=2))
    assert (model.missed, len(model.rows)) == (0, len(TALK))
    assert model.recording().startswith(b'{"trace"')


def test_a_long_connection_is_bounded() -> None:
    model = TrafficModel()
    chunk = update("agent_message_chunk", content={"type": "text", "text": "x"})
    model.feed(answer([chunk] * (MOST_ROWS + 1)))
    assert len(model.rows) <= MOST_ROWS // 2 + 1
    assert model.number(model.rows[-1]) == MOST_ROWS + 1
    assert what_of(model.rows[-1]) == "update agent_message_chunk"
