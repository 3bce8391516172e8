"""The event log: numbers without gaps, order, pages, and what survives."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.errors import StoreError
from dragoman.store.blob_files import BLOB_BYTES
from dragoman.store.event_log import EventKind, EventLog, LogEvent, MemoryLog, NewEvent, SessionRecord
from dragoman.store.sqlite_log import SqliteLog


def record(id: str, principal: str = "me", at: float = 1.0) -> SessionRecord:
    return SessionRecord(id, principal, "agent", None, "/work", b"{}", at, at, 0, 1)


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventLog]:
    ticks = iter(range(10, 10_000_000))
    made: EventLog
    if request.param == "memory":
        made = MemoryLog(lambda: float(next(ticks)))
    else:
        made = SqliteLog(tmp_path / "log" / "events.db", clock=lambda: float(next(ticks)))
    yield made
    made.close()


async def test_events_are_numbered_and_reported_in_the_order_they_came(log: EventLog) -> None:
    log.create(record("a"))
    log.create(record("b"))
    seen: list[tuple[str, int]] = []
    for number in range(100):
        session = "ab"[number % 2]
        kind: EventKind = "prompt" if number % 7 == 0 else "update"

        def note(events: list[LogEvent], session: str = session) -> None:
            seen.extend((session, event.number) for event in events)

        log.append(session, [NewEvent(kind, b"%d" % number)], note)
        if number % 10 == 0:
            await asyncio.sleep(0)
    await log.settle()
    assert seen == [("ab"[number % 2], number // 2 + 1) for number in range(100)]
    assert [event.number for event in log.read("a", 0, 1000)] == list(range(1, 51))
    assert [event.body for event in log.read("b", 48, 1000)] == [b"97", b"99"]
    found = log.find("a")
    assert found is not None
    assert found.head == 50


async def test_pages_go_through_the_whole_log(log: EventLog) -> None:
    log.create(record("a"))
    for _ in range(20):
        log.append("a", [NewEvent("update", b'{"a":"\xc3\xa4"}', turn=3)] * 50, lambda events: None)
        await log.settle()
    events: list[LogEvent] = []
    while page := log.read("a", len(events), 64):
        events += page
    assert [event.number for event in events] == list(range(1, 1001))
    assert {(event.kind, event.turn, event.body) for event in events} == {("update", 3, b'{"a":"\xc3\xa4"}')}


async def test_sessions_are_listed_by_their_last_change_and_deleted_with_their_events(log: EventLog) -> None:
    for id, principal in (("a", "me"), ("b", "other"), ("c", "me")):
        log.create(record(id, principal))
    log.append("a", [NewEvent("update", b"1")], lambda events: None)
    await log.settle()
    log.describe("a", agent_session="x", facts=b'{"title":"t"}')
    assert [each.id for each in log.sessions(principal="me")] == ["a", "c"]
    assert {each.id for each in log.sessions()} == {"a", "b", "c"}
    found = log.find("a")
    assert found is not None
    assert (found.agent_session, found.facts) == ("x", b'{"title":"t"}')
    log.delete("a")
    assert log.find("a") is None
    log.create(record("a"))
    assert log.read("a", 0, 10) == []


async def test_joined_events_take_the_place_of_old_ones_and_the_head_stays(log: EventLog) -> None:
    log.create(record("a"))
    for number in range(4):  # each is committed in one piece
        bodies = [b"%d" % (3 * number + place) for place in range(3)]
        log.append("a", [NewEvent("update", body) for body in bodies], lambda events: None)
        await log.settle()
    joined = [LogEvent(2, "update", b"first", 1, 5.0), LogEvent(7, "end", b"second", 1, 6.0)]
    await log.replace("a", 7, joined)  # in the middle of the third piece
    found = log.find("a")
    assert found is not None
    assert (found.oldest, found.head) == (8, 12)
    events = log.read("a", 0, 100)
    assert [event.number for event in events] == [2, 7, 8, 9, 10, 11, 12]
    assert [event.body for event in events[:3]] == [b"first", b"second", b"7"]
    assert [event.number for event in log.read("a", 2, 100)] == [7, 8, 9, 10, 11, 12]
    seen: list[LogEvent] = []
    log.append("a", [NewEvent("update", b"new")], seen.extend)
    await log.settle()
    assert [event.number for event in seen] == [13]
    await log.replace("a", 9, [LogEvent(9, "update", b"third", 2, 7.0)])
    assert [event.number for event in log.read("a", 0, 100)] == [2, 7, 9, 10, 11, 12, 13]


async def test_the_surplus_of_a_session_is_what_is_too_old_or_too_much(log: EventLog) -> None:
    log.create(record("a"))
    reader = log.open_reader()
    assert reader.surplus("a", before=1e9, size_bytes=0) == 0
    for _ in range(4):
        log.append("a", [NewEvent("update", b"x" * 100)], lambda events: None)
        await log.settle()
    times = [event.at for event in log.read("a", 0, 100)]
    assert reader.surplus("a", before=0.0, size_bytes=1000) == 0
    assert reader.surplus("a", before=times[2], size_bytes=1000) == 2
    assert reader.surplus("a", before=0.0, size_bytes=150) == 2
    await log.replace("a", 2, [])
    assert reader.surplus("a", before=0.0, size_bytes=150) == 0
    assert [event.number for event in reader.read("a", 0, 100)] == [3, 4]
    reader.close()


async def test_equal_large_bodies_are_one_file_that_stays_while_it_is_named(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    folder = tmp_path / "events.db-blobs"
    body = b'"%b"' % (b"x" * BLOB_BYTES)
    for id in ("a", "b"):
        log.create(record(id))
        log.append(id, [NewEvent("update", b"1"), NewEvent("update", body), NewEvent("update", b"3")], lambda _: None)
        await log.settle()
    assert len(list(folder.iterdir())) == 1
    assert [event.body for event in log.read("a", 0, 9)] == [b"1", body, b"3"]
    log.delete("a")
    assert next(event.body for event in log.read("b", 1, 1)) == body
    await log.replace("b", 2, [])
    assert list(folder.iterdir()) == []
    assert [event.body for event in log.read("b", 0, 9)] == [b"3"]
    log.append("b", [NewEvent("update", body)], lambda _: None)
    await log.settle()
    (blob,) = folder.iterdir()
    blob.unlink()
    with pytest.raises(StoreError, match="is missing"):
        log.read("b", 0, 9)
    log.close()


async def test_an_event_is_reported_only_when_another_reader_can_see_it(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    other = SqliteLog(tmp_path / "events.db")
    log.create(record("a"))
    seen: list[int] = []
    kinds: list[EventKind] = ["update", "prompt", "update"]
    for kind in kinds:
        log.append("a", [NewEvent(kind, b"1")], lambda _: seen.append(len(other.read("a", 0, 10))))
        await log.settle()
    assert seen == [1, 2, 3]
    log.close()
    other.close()


async def test_a_commit_that_fails_is_reported_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.store.sqlite_log._RETRY_SECONDS", 0.01)
    reports: list[StoreError | None] = []
    has_failed = asyncio.Event()

    def failed(error: StoreError | None) -> None:
        reports.append(error)
        has_failed.set()

    log = SqliteLog(tmp_path / "events.db", failed=failed)
    log._writer.execute("PRAGMA busy_timeout=1")
    log.create(record("a"))
    blocker = sqlite3.connect(tmp_path / "events.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    committed: list[LogEvent] = []
    log.append("a", [NewEvent("update", b"1")], committed.extend)
    async with asyncio.timeout(10):
        await has_failed.wait()
    assert "cannot be used" in str(reports[0])
    assert committed == []
    blocker.execute("COMMIT")
    blocker.close()
    await log.settle()
    assert [event.number for event in committed] == [1]
    assert reports[-1] is None
    log.close()


WRITER = """
import asyncio, sys
from pathlib import Path
from dragoman.store.event_log import NewEvent, SessionRecord
from dragoman.store.sqlite_log import SqliteLog

async def main():
    log = SqliteLog(Path(sys.argv[1]))
    log.create(SessionRecord("a", "me", "agent", None, "/", b"{}", 1.0, 1.0, 0, 1))
    number = 0
    while True:
        number += 1
        kind = "prompt" if number % 50 == 0 else "update"
        log.append("a", [NewEvent(kind, b"%d" % number)], lambda events: print(events[-1].number, flush=True))
        await asyncio.sleep(0)

asyncio.run(main())
"""


@pytest.mark.parametrize("attempt", range(3))
def test_kill_9_loses_nothing_that_was_reported(tmp_path: Path, attempt: int) -> None:
    path = tmp_path / "events.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        reported = [int(writer.stdout.readline()) for _ in range(100 * (attempt + 1))][-1]
        os.kill(writer.pid, signal.SIGKILL)
    log = SqliteLog(path)
    events: list[LogEvent] = []
    while page := log.read("a", len(events), 100):
        events += page
    log.close()
    assert len(events) >= reported
    assert [event.body for event in events] == [b"%d" % number for number in range(1, len(events) + 1)]


def test_a_file_of_a_newer_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    SqliteLog(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(StoreError, match="newer dragoman"):
        SqliteLog(path)
    assert path.stat().st_mode & 0o077 == 0
