"""A session's end of the log: after a restart, behind the tail, at a hole, and of an owner that lost it."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.environment import collect_rarely
from dragoman.host.session_log import SessionLog
from dragoman.store.event_log import LogEvent, NewEvent, SessionRecord
from dragoman.store.memory_log import MemoryLog
from dragoman.store.sqlite_log import SqliteLog
from tests.host.kit import OURS, Client, OnTheWire, hosted, make_log

END = {"stopReason": "end_turn"}


def ask(line: Client, session: str, id: str) -> int:
    own = {"dragoman": {"promptId": id}}
    return line.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": id}], _meta=own)


async def test_a_prompt_whose_outcome_is_no_longer_kept_is_refused_and_never_runs_again() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        for number in range(70):  # of the last 64 the outcome is kept
            asked = ask(line, session, f"p{number}")
            source.agent.reply(await source.agent.prompted(), END)
            await line.answer_to(asked)
        _, answer = await line.answer_to(ask(line, session, "p0"))
        assert answer["error"]["data"]["reason"] == "outcome_expired"
        _, answer = await line.answer_to(ask(line, session, "p69"))
        assert answer["result"] == END, "a recent one gets its outcome"
        asked = ask(line, session, "new")
        prompt = await source.agent.prompted()
        assert prompt["params"]["prompt"][0]["text"] == "new", "p0 did not run a second time"
        source.agent.reply(prompt, END)
        await line.answer_to(asked)


async def test_a_cancel_right_behind_a_prompt_finds_it_in_a_session_that_is_not_in_memory(tmp_path: Path) -> None:
    log, source = SqliteLog(tmp_path / "log.db"), OnTheWire()
    async with hosted(source, log=log) as host:
        _, session = await host.opened(OURS)
    async with hosted(source, log=log) as host:
        line = await host.client(OURS)
        asked = ask(line, session, "p")
        line.notify("session/cancel", sessionId=session)
        _, answer = await line.answer_to(asked)
        assert answer["result"] == {"stopReason": "cancelled"}
    await log.close()


async def test_requests_for_a_session_that_is_being_read_get_one_session(tmp_path: Path) -> None:
    log, source = SqliteLog(tmp_path / "log.db"), OnTheWire()
    async with hosted(source, log=log) as host:
        _, session = await host.opened(OURS)
    async with hosted(source, log=log) as host:
        lines = [await host.client(OURS) for _ in range(4)]
        asked = [line.ask("session/resume", sessionId=session, cwd="/tmp", mcpServers=[]) for line in lines]
        for line, id in zip(lines, asked, strict=True):
            assert "result" in (await line.answer_to(id))[1]
        assert len(host.session(session).attachments) == 4
    await log.close()


async def test_a_host_whose_log_was_opened_by_another_program_shows_nothing_more(tmp_path: Path) -> None:
    log, source = SqliteLog(tmp_path / "log.db"), OnTheWire()
    async with hosted(source, log=log) as host:
        line, session = await host.opened(OURS)
        line.prompt(session)
        await source.agent.prompted()
        await host.host.settle()
        other = SqliteLog(tmp_path / "log.db")
        source.agent.say("of a host that lost its log")
        async with asyncio.timeout(30):
            await line.ended
        seen = []
        while not line.lines.empty():
            seen.append(str(line.lines.get_nowait()))
        assert not any("lost its log" in message for message in seen)
        assert host.host.live(session) is None
        kept = await other.read(session, 0, 100)
        assert not any(b"lost its log" in event.body for event in kept)
        await other.close()
    await log.close()


async def test_a_client_that_resumes_over_lost_events_gets_a_notice(tmp_path: Path) -> None:
    log, source = SqliteLog(tmp_path / "log.db"), OnTheWire()
    async with hosted(source, log=log) as host:
        line, session = await host.opened(OURS)
        for text in ("first", "second", "third"):
            source.agent.say(text)
            await line.until_update("agent_message_chunk")
            await log.surplus(session, before=0.0, size_bytes=1)  # puts it in its place, as a segment of its own
    with sqlite3.connect(tmp_path / "log.db") as db:
        (number,) = db.execute("SELECT first FROM segments WHERE CAST(bodies AS TEXT) LIKE '%second%'").fetchone()
        db.execute("DELETE FROM segments WHERE first=?", (number,))
    db.close()
    async with hosted(source, log=log) as host:
        line = await host.client(OURS)
        await line.resume(session, after=0)
        assert (await line.until_update("agent_message_chunk"))["content"]["text"] == "first"
        notice = await line.until("_dragoman/notice")
        assert notice["params"]["text"] == f"The events {number} to {number} of this session are lost."
        assert (await line.until_update("agent_message_chunk"))["content"]["text"] == "third"
    await log.close()


async def test_a_list_is_not_reordered_by_a_restart_or_a_notice(tmp_path: Path) -> None:
    now = [1000.0]
    log, source = SqliteLog(tmp_path / "log.db", clock=lambda: now[0]), OnTheWire()

    async def order(line: Client) -> list[str]:
        _, answer = await line.answer_to(line.ask("session/list"))
        return [found["sessionId"] for found in answer["result"]["sessions"]]

    async with hosted(source, log=log, clock=lambda: now[0]) as host:
        line, first = await host.opened(OURS)
        now[0] += 1
        second = await line.open("/tmp")
        now[0] += 1
        host.session(first).notice("nothing that matters")
        await host.host.settle()
        assert await order(line) == [second, first]
    now[0] += 1
    async with hosted(source, log=log, clock=lambda: now[0]) as host:
        line = await host.client(OURS)
        await line.resume(first)
        assert await order(line) == [second, first]
        asked = line.prompt(first)
        agent = await source.started(3)
        prompt = await agent.prompted()
        agent.update("session_info_update", title="named")
        agent.reply(prompt, END)
        await line.answer_to(asked)
        await host.host.settle()
        assert await order(line) == [first, second]
    await log.close()


# The tail


def session_record() -> SessionRecord:
    return SessionRecord("s", "local", "test", None, "/tmp", b"{}", 1.0, 1.0, 0, 1)


async def owned_log(log: MemoryLog | Any) -> tuple[SessionLog, list[LogEvent]]:
    published: list[LogEvent] = []
    made = SessionLog(log, session_record(), published.extend, lambda record: record._replace(facts=b"[1]"))
    made.append(NewEvent("notice", b'"while it was opened"'))
    made.own(await log.create(session_record()))
    return made, published


async def test_what_was_appended_while_a_session_was_opened_comes_first() -> None:
    log, published = await owned_log(make_log())
    log.append(NewEvent("update", b"1"))
    await log.settle()
    assert [(event.number, event.kind) for event in published] == [(1, "notice"), (2, "update")]


@pytest.mark.parametrize("size", [10, 2000])
async def test_a_reader_joins_the_tail_without_a_gap_and_without_a_repetition(size: int) -> None:
    """Pages and the tail together are every number once, wherever a reader begins, while events are committed."""
    log, published = await owned_log(make_log())
    chunk = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%b"}}' % (b"x" * size)
    seen: list[int] = []
    for _ in range(60):
        for _ in range(25):
            log.append(NewEvent("update", chunk, 1))
        await log.settle()
        cursor = seen[-1] if seen else 0
        if len(published) % 4:  # a reader that is sometimes away
            continue
        while cursor < log.head:
            events = log.tail(cursor)
            if events is None:
                events = await log.read(cursor)
            seen += [event.number for event in events]
            cursor = seen[-1]
    assert log.tail(log.head) == []
    while (cursor := seen[-1]) < log.head:
        seen += [event.number for event in log.tail(cursor) or await log.read(cursor)]
    assert seen == list(range(1, 1502))


async def test_many_descriptions_in_one_turn_of_the_loop_are_one() -> None:
    kept = make_log()
    log, _ = await owned_log(kept)
    made = 0

    def described(record: SessionRecord) -> SessionRecord:
        nonlocal made
        made += 1
        return record._replace(facts=b"[%d]" % made)

    log._described = described
    for _ in range(5):
        log.append(NewEvent("update", b"1"))
        log.describe()
    await log.settle()
    found = await kept.find("s", "local")
    assert found is not None
    assert (made, found.facts, found.head) == (1, b"[1]", 6)


async def test_the_collector_of_cycles_does_not_go_through_the_events_in_memory() -> None:
    """It stops the loop, for longer with each object that it has to look at."""
    log, published = await owned_log(make_log())
    chunk = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}'
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(20):
        for _ in range(25):
            log.append(NewEvent("update", chunk, 1))
        await log.settle()
        run = log.shared_run(published[-1].number - 25, with_number=True)
        assert run is not None
        assert run.last == log.head
    gc.collect()
    assert len(log.tail(1) or ()) == 500
    assert len(gc.get_objects()) - before < 100


def test_a_program_that_is_a_host_collects_cycles_rarely() -> None:
    """Young objects are looked at after thousands of updates, not after a hundred."""
    before = gc.get_threshold()
    try:
        collect_rarely()
        gc.collect()
        collections = gc.get_stats()[0]["collections"]
        kept = [[number] for number in range(10_000)]
        assert gc.get_stats()[0]["collections"] == collections
        assert len(kept) == 10_000
    finally:
        gc.set_threshold(*before)
