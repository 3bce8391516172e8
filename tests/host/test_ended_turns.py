"""How earlier turns ended is in the log: a client that loads the session gets it, also after the end of the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dragoman.schema import decode, v1
from dragoman.state import Message, SessionState, fold
from dragoman.store.sqlite_log import SqliteLog
from dragoman.tui.local_host.loaded_turns import turns_in
from dragoman.view.build import turn_end
from dragoman.view.watched import WatchedSession
from tests.host.kit import OURS, Client, OnTheWire, hosted

ENDS: list[dict[str, Any]] = [
    {"result": {"stopReason": "end_turn", "usage": {"totalTokens": 7, "inputTokens": 3, "outputTokens": 4}}},
    {"result": {"stopReason": "cancelled"}},
    {"error": {"code": -32603, "message": "the model failed"}},
]


def folded(updates: list[dict[str, Any]], answer: Any) -> tuple[list[str], list[Any]]:
    """The texts of a session, and the ends of its turns, as the terminal client has them."""
    state, watched = SessionState(), WatchedSession()
    for update in updates:
        fold(state, decode(v1.SessionUpdate, msgspec.json.encode(update)))
    turns_in(answer).note_in(state, watched)
    texts = [item.text for item in state.timeline if isinstance(item, Message)]
    return texts, [turn_end(turn, watched) for turn in state.turns]


async def test_the_ends_of_turns_come_with_the_history_and_survive_the_host(tmp_path: Path) -> None:
    now = [1000.0]
    log = SqliteLog(tmp_path / "log.db", clock=lambda: now[0])
    source = OnTheWire()
    async with hosted(source, log=log) as host:
        line, session = await host.opened(OURS)
        for number, end in enumerate(ENDS):
            asked = line.prompt(session, f"prompt {number}")
            prompt = await source.agent.prompted()
            await line.until("_dragoman/turn_started")
            now[0] += 2.5
            source.agent.say(f"answer {number}", messageId=f"a{number}")
            source.agent.send({"jsonrpc": "2.0", "id": prompt["id"], **end})
            await line.answer_to(asked)
            now[0] += 100.0
        line.prompt(session, "it runs")
        _ = await source.agent.prompted()
        await line.until("_dragoman/turn_started")
        other = await host.client(OURS)
        updates, _ = await other.load(session)
        answer = await other.result("_dragoman/turns", sessionId=session)
        assert answer["running"] is not None
        check(*folded(updates, answer), last="it runs")
        assert (await other.result("_dragoman/turns", sessionId=session))["ended"] == [], "once for each history"
        await host.host.settle()
        copy_of(tmp_path)  # as `kill -9` would leave it
    left = SqliteLog(tmp_path / "left.db", clock=lambda: 9_000.0)
    async with hosted(OnTheWire(), log=left) as host:
        _ = await (await host.client(OURS)).load(session)
        await host.host.settle()
        line = await host.client(OURS)
        updates, _ = await line.load(session)
        answer = await line.result("_dragoman/turns", sessionId=session)
        assert answer["running"] is None
        texts, ends = folded(updates, answer)
        check(texts, ends[:3], last="it runs")
        assert (ends[3].stop_reason, ends[3].seconds) == (None, None), "when the host was killed is not known"
    await left.close()
    await log.close()


def copy_of(folder: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        if (folder / f"log.db{ending}").exists():
            (folder / f"left.db{ending}").write_bytes((folder / f"log.db{ending}").read_bytes())


def check(texts: list[str], ends: list[Any], *, last: str) -> None:
    assert texts == ["prompt 0", "answer 0", "prompt 1", "answer 1", "prompt 2", "answer 2", last]
    assert [(end.position, end.stop_reason, end.seconds, end.output_tokens) for end in ends] == [
        (2, "end_turn", 2.5, 4),
        (4, "cancelled", 2.5, None),
        (6, None, 2.5, None),
    ]


async def test_a_page_of_an_older_part_has_the_ends_of_its_turns() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        for number in range(4):
            asked = line.prompt(session, f"prompt {number}")
            prompt = await source.agent.prompted()
            for piece in range(10):
                source.agent.update("tool_call", toolCallId=f"{number}.{piece}", title="x", status="completed")
            source.agent.reply(prompt, {"stopReason": "end_turn"})
            await line.answer_to(asked)
        other = await host.client(OURS)
        meta = {"dragoman": {"tail": 20}}
        updates = await loaded(other, session, meta)
        _, ends = folded(updates, await other.result("_dragoman/turns", sessionId=session))
        page = await other.result("_dragoman/history", sessionId=session)
        _, older = folded(page["updates"], page)
        assert [each.position for each in older] == [11, 22]
        assert [each.position for each in ends] == [33 - len(page["updates"]), len(updates)], (
            "one turn is in both parts"
        )


async def loaded(line: Client, session: str, meta: dict[str, Any]) -> list[dict[str, Any]]:
    before, _ = await line.answer_to(line.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[], _meta=meta))
    return [message["params"]["update"] for message in before]
