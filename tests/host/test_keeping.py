"""What a log keeps: joined turns, large bodies, and what happens when it cannot be written."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from dragoman.host.history.keeping import JoinedEvents, SlicedJoin
from dragoman.host.host import HostSettings
from dragoman.store.blob_files import BLOB_BYTES
from dragoman.store.event_log import EventLog, LogEvent
from dragoman.store.memory_log import MemoryLog
from dragoman.store.sqlite_log import SqliteLog
from tests.host.kit import OURS, Client, Hosted, OnTheWire, hosted

END = {"stopReason": "end_turn"}


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[EventLog]:
    made: EventLog = MemoryLog(clock) if request.param == "memory" else SqliteLog(tmp_path / "events.db", clock=clock)
    yield made
    asyncio.run(made.close())


async def turn(line: Client, source: OnTheWire, session: str, text: str) -> None:
    """A turn with pieces of a message, a tool call with a terminal of the agent, and a title."""
    id = line.prompt(session, text)
    prompt = await source.agent.prompted()
    agent = source.agent
    for piece in ("a", "b", "c"):
        agent.say(f"{text} {piece} ", messageId="m")
    content = [{"type": "terminal", "terminalId": "t"}]
    agent.update("tool_call", toolCallId=f"call {text}", title="run", status="pending", content=content)
    agent.say("after", messageId="n")
    meta = {"terminal_output": {"terminal_id": "t", "data": f"{text} output"}}
    agent.update("tool_call_update", toolCallId=f"call {text}", status="completed", _meta=meta)
    agent.update("session_info_update", title=text)
    agent.reply(prompt, END)
    while (await line.next()).get("id") != id:
        pass


async def test_old_turns_are_joined_and_replay_the_same(log: EventLog, clock: Clock) -> None:
    source = OnTheWire()
    async with hosted(source, log=log, clock=clock) as host:
        line, session = await host.opened(OURS)
        await turn(line, source, session, "one")
        await turn(line, source, session, "two")
        before, place = await (await host.client(OURS)).load(session)
        await host.host.join_old_events()
        assert host.session(session).log.oldest == 1, "nothing is old yet"
        clock.now += 24 * 3600 + 1
        await turn(line, source, session, "three")
        await host.host.join_old_events()
        found = await host.host.log.find(session, "local")
        assert found is not None
        assert host.session(session).log.oldest == found.oldest > 1
        assert found.head == host.session(session).head
        events = await log.read(session, 0, 10_000)
        numbers = [event.number for event in events]
        assert numbers == sorted(set(numbers))
        joined = [event for event in events if event.number < found.oldest]
        assert sum(event.kind == "update" for event in joined) < 12
        assert {event.version for event in events} == {1}
        after, _ = await (await host.client(OURS)).load(session)
        last = before.pop()
        assert last["sessionUpdate"] == "session_info_update"
        assert after[: len(before)] == before
        assert after[-1]["title"] == "three"
        await check_cursors(host, session, found.oldest, place["_meta"]["dragoman"]["head"])


async def check_cursors(host: Hosted, session: str, oldest: int, expired: int) -> None:
    line = await host.client(OURS)
    error = await line.error(
        "session/resume", sessionId=session, cwd="/tmp", mcpServers=[], _meta={"dragoman": {"after": expired - 3}}
    )
    data = error["data"]
    assert (error["code"], data["reason"], data["oldest"]) == (-32602, "cursor_expired", oldest - 1)
    await line.resume(session, after=oldest - 1)
    assert (await line.until("session/update"))["params"]["_meta"]["dragoman"]["seq"] >= oldest


async def test_joining_is_done_in_a_thread_piece_by_piece_while_other_sessions_work(
    log: EventLog, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop goes on while a session is read and joined, and what is appended meanwhile is not lost."""
    monkeypatch.setattr("dragoman.host.history.keeping.SLICE_BYTES", 1)
    monkeypatch.setattr("dragoman.host.history.keeping._PAGE", 1)
    threads: set[int] = set()
    slices: list[int] = []
    is_joining, may_go_on = threading.Event(), threading.Event()

    join, feed = SlicedJoin.next, JoinedEvents.feed

    def fed(self: JoinedEvents, events: Iterable[LogEvent]) -> None:
        threads.add(threading.get_ident())
        is_joining.set()
        assert may_go_on.wait(30)
        feed(self, events)

    async def joined(self: SlicedJoin) -> tuple[int, list[LogEvent]] | None:
        found = await join(self)
        slices.extend([] if found is None else [found[0]])
        return found

    monkeypatch.setattr(JoinedEvents, "feed", fed)
    monkeypatch.setattr(SlicedJoin, "next", joined)
    source = OnTheWire()
    async with hosted(source, log=log, clock=clock) as host:
        line, session = await host.opened(OURS)
        for text in ("one", "two", "three"):
            await turn(line, source, session, text)
        before, _ = await (await host.client(OURS)).load(session)
        clock.now += 24 * 3600 + 1
        joining = asyncio.ensure_future(host.host.join_old_events())
        assert await asyncio.to_thread(is_joining.wait, 30)
        other = await line.open("/tmp")
        await turn(line, source, other, "meanwhile")
        may_go_on.set()
        async with asyncio.timeout(30):
            await joining
        assert threads
        assert threading.get_ident() not in threads
        assert len(slices) == 3, "each turn is a piece of its own"
        assert slices == sorted(slices)
        after, _ = await (await host.client(OURS)).load(session)
        assert after == before
        found = await log.find(session, "local")
        assert found is not None
        assert found.oldest == host.session(session).log.oldest > 1
        texts = [each.body for each in await log.read(other, 0, 1000) if each.kind == "update"]
        assert any(b"meanwhile" in body for body in texts)


async def test_a_session_with_too_much_in_it_is_joined_sooner(log: EventLog, clock: Clock) -> None:
    source = OnTheWire()
    async with hosted(source, log=log, clock=clock, settings=HostSettings(kept_bytes=800)) as host:
        line, session = await host.opened()
        for text in ("one", "two", "three"):
            await turn(line, source, session, text)
        await host.host.join_old_events()
        found = await log.find(session, "local")
        assert found is not None
        assert 1 < found.oldest <= found.head
        updates, _ = await (await host.client()).load(session)
        assert [each["content"]["text"] for each in updates if each["sessionUpdate"] == "user_message_chunk"] == [
            "one",
            "two",
            "three",
        ]
        ends = [event for event in await log.read(session, 0, 10_000) if event.kind == "end"]
        assert len(ends) == 3, "outcomes stay"


async def test_a_session_in_use_is_left_alone(log: EventLog, clock: Clock) -> None:
    source = OnTheWire()
    async with hosted(source, log=log, clock=clock, settings=HostSettings(kept_bytes=0)) as host:
        line, session = await host.opened()
        await turn(line, source, session, "one")
        id = line.prompt(session)
        prompt = await source.agent.prompted()
        await host.host.join_old_events()
        assert host.session(session).log.oldest == 1
        source.agent.reply(prompt, END)
        await line.answer_to(id)


def test_joining_keeps_what_is_not_finished() -> None:
    joined = JoinedEvents()
    chunk = msgspec.json.encode({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}})
    start = msgspec.json.encode({"promptId": "p", "messageId": "m"})
    joined.feed([LogEvent(1, "start", start, 1, 1.0), LogEvent(2, "update", chunk, 1, 1.0)])
    assert (joined.through, joined.events) == (0, [])
    end = msgspec.json.encode({"promptId": "p"})
    joined.feed([LogEvent(3, "update", chunk, 1, 1.0), LogEvent(4, "end", end, 1, 1.0)])
    joined.feed([LogEvent(5, "update", chunk, 1, 1.0)])
    assert joined.through == 4
    assert [(event.number, event.kind) for event in joined.events] == [(1, "start"), (3, "update"), (4, "end")]


async def test_a_large_body_is_a_file_that_goes_with_its_session(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "host" / "events.db")
    folder = tmp_path / "host" / "events.db-blobs"
    source = OnTheWire()
    async with hosted(source, log=log) as host:
        line, session = await host.opened()
        id = line.prompt(session)
        prompt = await source.agent.prompted()
        picture = {"type": "image", "mimeType": "image/png", "data": "A" * BLOB_BYTES}
        for _ in range(2):
            source.agent.update("agent_message_chunk", content=picture)
        source.agent.reply(prompt, END)
        before, _ = await line.answer_to(id)
        assert [m["params"]["update"]["content"] for m in before] == [picture, picture]
        await log.surplus(session, before=0, size_bytes=1)  # until then they may wait in the journal
        (blob,) = folder.iterdir()  # the same twice
        assert folder.stat().st_mode & 0o077 == 0
        assert blob.stat().st_mode & 0o077 == 0
        assert (tmp_path / "host" / "events.db").stat().st_size < 2 * BLOB_BYTES
        updates, _ = await (await host.client()).load(session)
        assert updates[1]["content"] == picture
        deleting = line.ask("session/delete", sessionId=session)
        assert (await line.answer_to(deleting))[1]["result"] == {}
        assert list(folder.iterdir()) == []
    await log.close()


@pytest.mark.parametrize("is_missing", [True, False])
async def test_a_large_body_that_is_lost_is_a_hole_with_a_notice_for_every_reader(
    tmp_path: Path, is_missing: bool
) -> None:
    log, source = SqliteLog(tmp_path / "host" / "events.db"), OnTheWire()
    large = "large " * BLOB_BYTES
    async with hosted(source, log=log) as host:
        line, session = await host.opened(OURS)
        for text in ("first", large, "third"):  # a prompt, an update and a tool call that are files of their own
            id = line.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])
            prompt = await source.agent.prompted()
            source.agent.say(f"before {text}")
            source.agent.update("tool_call", toolCallId=f"call {text[:5]}", title="Read", rawInput={"text": text})
            source.agent.say("behind it")
            source.agent.reply(prompt, END)
            await line.answer_to(id)
        head = host.session(session).head
        await log.surplus(session, before=0, size_bytes=1)
    blobs = sorted((tmp_path / "host" / "events.db-blobs").iterdir())
    assert len(blobs) == 3
    for blob in blobs:
        if is_missing:
            blob.unlink()
        else:
            blob.write_bytes(blob.read_bytes()[:-100])
    async with hosted(source, log=log) as host:
        for capabilities in ({}, OURS):  # any client, and one that knows the host
            updates, _ = await (await host.client(capabilities)).load(session)
            texts = [update["content"]["text"] for update in updates if "text" in update.get("content", {})]
            assert sum("of this session are lost.]" in text for text in texts) == 3
            assert [text for text in texts if "lost" not in text][-3:] == ["third", "before third", "behind it"]
            assert "before first" in texts
        line = await host.client(OURS)
        page = await line.result("_dragoman/history", sessionId=session, before=head + 1)
        assert sum("are lost" in str(found["update"]) for found in page["updates"]) == 3
        found = await line.result("_dragoman/search", text="before third")
        assert [hit["sessionId"] for hit in found["hits"]] == [session]
        joined = await host.client({**OURS, "_meta": {"dragoman": {"batch": {"ms": 16}}}})
        await joined.resume(session, after=0)  # over its whole log, also over the turn whose prompt is lost
        for _ in range(3):
            assert "are lost" in (await joined.until("_dragoman/notice"))["params"]["text"]
        while "third" not in (await joined.until_update("agent_message_chunk"))["content"]["text"]:
            pass
        await host.host.join_old_events()
        host.host.settings = HostSettings(kept_seconds=-1e12)
        await host.host.join_old_events()  # what is lost stays where it is, and nothing fails
        updates, _ = await (await host.client()).load(session)
        assert sum("are lost" in str(update) for update in updates) == 3
    await log.close()


async def test_a_log_that_cannot_be_written_stops_prompts_and_serves_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.store.log_writes.RETRY_SECONDS", 0.01)
    log = SqliteLog(tmp_path / "events.db", busy_seconds=0.001)
    source = OnTheWire()
    async with hosted(source, log=log) as host:
        line, session = await host.opened(OURS)
        id = line.prompt(session)
        prompt = await source.agent.prompted()
        await host.host.settle()  # the start of the turn
        blocker = sqlite3.connect(tmp_path / "events.db", isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        source.agent.say("cannot be kept")
        assert (await source.agent.next())["method"] == "session/cancel", "the turn that runs is cancelled"
        reader = await host.client(OURS)
        updates, _ = await reader.load(session)
        assert [each["content"]["text"] for each in updates] == ["hi"], "what is not committed is not sent"
        error = await reader.error("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}])
        assert error["data"] == {"reason": "store"}
        error = await reader.error("session/new", cwd="/tmp", mcpServers=[])
        assert error["data"] == {"reason": "store"}
        source.agents[0].reply(prompt, {"stopReason": "cancelled"})
        blocker.execute("COMMIT")
        blocker.close()
        assert (await line.answer_to(id))[1]["result"] == {"stopReason": "cancelled"}
        async with asyncio.timeout(30):
            while host.host.store_error is not None:
                await reader.everything()
        second = line.prompt(session)
        source.agents[0].reply(await source.agents[0].prompted(), END)
        assert (await line.answer_to(second))[1]["result"] == END
    await log.close()


async def test_a_prompt_that_cannot_be_kept_is_refused_and_never_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.store.log_writes.RETRY_SECONDS", 0.01)
    log = SqliteLog(tmp_path / "events.db", busy_seconds=0.001)
    source = OnTheWire()
    async with hosted(source, log=log) as host:
        line, session = await host.opened(OURS)
        blocker = sqlite3.connect(tmp_path / "events.db", isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        _, answer = await line.answer_to(line.prompt(session, "never"))
        assert answer["error"]["data"] == {"reason": "store"}
        blocker.execute("COMMIT")
        blocker.close()
        async with asyncio.timeout(30):
            while host.host.store_error is not None:
                await line.everything()
        second = line.prompt(session, "again")
        prompt = await source.agent.prompted()
        assert prompt["params"]["prompt"][0]["text"] == "again"
        source.agent.reply(prompt, END)
        assert (await line.answer_to(second))[1]["result"] == END
    await log.close()


async def test_folder_and_files_of_a_log_are_closed_to_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        log = SqliteLog(tmp_path / "host" / "events.db")
        await log.close()
    finally:
        os.umask(before)
    assert (tmp_path / "host").stat().st_mode & 0o077 == 0
    assert (tmp_path / "host" / "events.db").stat().st_mode & 0o077 == 0
