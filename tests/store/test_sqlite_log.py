"""The event log in an SQLite file: its threads, its files, older ones, and what a crash leaves."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import StoreError
from dragoman.store import sqlite_file
from dragoman.store.blob_files import BLOB_BYTES
from dragoman.store.event_log import EventKind, Hole, LogEvent, NewEvent, SessionRecord, StoreUnavailable
from dragoman.store.sessions import Store
from dragoman.store.sqlite_file import MIGRATIONS, connect
from dragoman.store.sqlite_log import SqliteLog
from tests.store.log_engines import record

SECONDS = 30.0


def ignore(events: list[LogEvent]) -> None:
    """Events that a test reads later."""


async def everything(log: SqliteLog, session: str) -> list[LogEvent]:
    events: list[LogEvent] = []
    while page := await log.read(session, events[-1].number if events else 0, 100):
        events += page
    return events


# Threads


async def test_the_thread_of_the_loop_never_uses_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses a connection to every thread but the one that opened it, and the loop's opens none."""
    opened: list[int] = []

    def noted(*given: Any) -> sqlite3.Connection:
        opened.append(threading.get_ident())
        connection = connect(*given)
        with pytest.raises(sqlite3.ProgrammingError):
            in_thread(lambda: connection.execute("SELECT 1"))
        return connection

    monkeypatch.setattr(sqlite_file, "connect", noted)
    log = SqliteLog(tmp_path / "events.db")
    owned = await log.create(record("a"))
    owned.append([NewEvent("update", b"1"), NewEvent("prompt", b"2")], ignore)
    owned.describe(owned.record._replace(facts=b"[]"))
    await owned.settle()
    await log.page("me", limit=10)
    await log.read("a", 0, 10)
    await log.delete("a")
    await log.close()
    assert len(set(opened)) == 2
    assert threading.get_ident() not in opened


def in_thread(work: Any) -> None:
    """Run work in another thread, and raise its error."""
    errors: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


async def test_what_comes_during_a_commit_is_one_commit(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    owned = [await log.create(record(f"s{number}")) for number in range(200)]
    statements: list[str] = []
    log._writer.call(lambda db: db.set_trace_callback(statements.append))
    for _ in range(3):
        for session in owned:
            session.append([NewEvent("update", b"1")], ignore)
        await asyncio.sleep(0)
    await asyncio.gather(*(session.settle() for session in owned))
    log._writer.call(lambda db: db.set_trace_callback(None))
    assert statements.count("COMMIT") <= 3
    assert len(statements) < 60, "many rows in a statement: the interpreter is let go of for each of them"
    assert [len(await everything(log, f"s{number}")) for number in range(200)] == [3] * 200
    await log.close()


@pytest.mark.parametrize("is_filtered", [False, True])
async def test_a_page_reads_only_its_own_rows(tmp_path: Path, is_filtered: bool) -> None:
    """By an index that is in the order of the list: counted in steps of the engine, not in time."""
    log = SqliteLog(tmp_path / "events.db")

    def fill(db: sqlite3.Connection, count: int) -> None:
        rows = [
            (f"{number:06}", "me", "agent", "/work", b"{}", float(number), float(number)) for number in range(count)
        ]
        db.executemany(
            "INSERT OR IGNORE INTO hosted (id, principal, agent, cwd, facts, created_at, updated_at, head, oldest) "
            "VALUES (?,?,?,?,?,?,?,0,1)",
            rows,
        )

    async def steps(limit: int) -> int:
        counted = [0]

        def count() -> int:
            counted[0] += 1
            return 0

        log._reader.call(lambda db: db.set_progress_handler(count, 10))
        page = await log.page("me", cwd="/work" if is_filtered else None, limit=limit)
        log._reader.call(lambda db: db.set_progress_handler(None, 0))
        assert len(page.records) == limit
        assert page.next is not None
        return counted[0]

    found = []
    for count in (100, 5000):
        log._writer.call(lambda db, count=count: fill(db, count))  # type: ignore[misc]  # bound at once
        found.append(await steps(50))
    assert found[1] <= found[0] * 1.5, found
    await log.close()


# Files


async def test_equal_large_bodies_are_one_file_that_stays_while_it_is_named(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    folder = tmp_path / "events.db-blobs"
    body = b'"%b"' % (b"x" * BLOB_BYTES)
    owned = {id: await log.create(record(id)) for id in "ab"}
    for id in "ab":
        owned[id].append([NewEvent("update", b"1"), NewEvent("update", body), NewEvent("update", b"3")], ignore)
        await owned[id].settle()
    assert len(list(folder.iterdir())) == 1
    assert [event.body for event in await log.read("a", 0, 9)] == [b"1", body, b"3"]
    await log.delete("a")
    assert (await log.read("b", 1, 1))[0].body == body
    await owned["b"].replace(2, [])
    assert list(folder.iterdir()) == []
    assert [event.body for event in await log.read("b", 0, 9)] == [b"3"]
    owned["b"].append([NewEvent("update", b"4"), NewEvent("update", body)], ignore)
    await owned["b"].settle()
    await log.surplus("b", before=0.0, size_bytes=1)
    (blob,) = folder.iterdir()
    content = blob.read_bytes()
    blob.unlink()
    lost = await log.read("b", 0, 9)
    assert [(event.number, event.kind) for event in lost] == [(3, "update"), (4, "update"), (5, "notice")]
    assert b"The events 5 to 5 of this session are lost." in lost[2].body
    with pytest.raises(StoreError, match="is missing"):  # nothing is written over what a backup may bring back
        await owned["b"].replace(4, [])
    blob.write_bytes(content[:-1])
    assert [event.kind for event in await log.read("b", 0, 9)] == ["update", "update", "notice"]
    owned["b"].append([NewEvent("update", body)], ignore)  # the same body again mends the file
    await owned["b"].settle()
    await log.surplus("b", before=0.0, size_bytes=1)
    assert [event.body for event in await log.read("b", 0, 9)] == [b"3", b"4", body, body]
    await log.close()


async def test_a_program_that_looks_at_the_file_does_not_take_its_log_away(tmp_path: Path) -> None:
    """As `sqlite3 events.db .backup` does: what is committed after it has gone would be lost with a kill."""
    log = SqliteLog(tmp_path / "events.db")
    stores = [await Store.open(tmp_path / "store.db") for _ in range(2)]
    owned = await log.create(record("a"))
    for name in ("events.db", "store.db"):
        wal = (tmp_path / f"{name}-wal").stat().st_ino
        look = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('PRAGMA user_version'); db.close()"
        words = [sys.executable, "-c", look, str(tmp_path / name)]
        await asyncio.to_thread(subprocess.run, words, check=True)
        assert (tmp_path / f"{name}-wal").stat().st_ino == wal
    owned.append([NewEvent("update", b"1")], ignore)
    await owned.settle()
    for store in stores:
        await store.close()
    await log.close()


async def test_an_event_is_reported_only_when_another_program_can_see_it(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    other = sqlite3.connect(tmp_path / "events.db")
    owned = await log.create(record("a"))
    seen: list[int] = []
    kinds: list[EventKind] = ["update", "prompt", "update"]

    def rows(db: sqlite3.Connection) -> int:
        (found,) = db.execute("SELECT (SELECT count(*) FROM journal) + (SELECT count(*) FROM segments)").fetchone()
        return int(found)

    for kind in kinds:
        owned.append([NewEvent(kind, b"1")], lambda _: seen.append(rows(other)))
        await owned.settle()
    assert seen == [1, 2, 3]
    other.close()
    await log.close()


async def test_only_what_a_client_acts_on_waits_for_the_disk(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    owned = await log.create(record("a"))
    found: dict[str, str] = {}
    kinds: tuple[EventKind, ...] = ("update", "prompt", "update", "question", "answer", "end", "notice")
    for place, kind in enumerate(kinds):
        owned.append([NewEvent(kind, b"1")], ignore)
        await owned.settle()
        level = log._writer.call(lambda db: db.execute("PRAGMA synchronous").fetchone()[0])
        found[f"{place} {kind}"] = {1: "normal", 2: "full"}[level]
    assert [level for name, level in found.items() if name.split()[1] in ("update", "notice")] == ["normal"] * 3
    assert list(found.values()).count("full") == 4
    await log.close()


async def test_events_that_are_missing_are_a_hole_and_never_passed_over(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    owned = await log.create(record("a"))
    for number in range(1, 5):
        owned.append([NewEvent("update", b"%d" % number)] * 2, ignore)
        await owned.settle()
        await log.surplus("a", before=0.0, size_bytes=1)  # puts it in its place, as a segment of its own
    with sqlite3.connect(tmp_path / "events.db") as db:
        db.execute("DELETE FROM segments WHERE first IN (3, 7)")
    db.close()
    assert [event.number for event in await log.read("a", 0, 100, head=8)] == [1, 2]
    with pytest.raises(Hole) as caught:
        await log.read("a", 2, 100, head=8)
    assert (caught.value.first, caught.value.last) == (3, 4)
    assert [event.number for event in await log.read("a", 4, 100, head=8)] == [5, 6]
    with pytest.raises(Hole) as caught:
        await log.read("a", 6, 100, head=8)
    assert (caught.value.first, caught.value.last) == (7, 8)
    await log.close()


async def test_what_was_committed_within_a_second_is_one_segment_and_keeps_its_times(tmp_path: Path) -> None:
    now = [100.0]
    log = SqliteLog(tmp_path / "events.db", clock=lambda: now[0])
    owned = {id: await log.create(record(id)) for id in "ab"}
    for number in range(15):
        for id in "ab":
            owned[id].append([NewEvent("update", b"%d" % number, 1), NewEvent("notice", b"0")], ignore)
        await owned["a"].settle()
        now[0] += 0.1
    found = await log.find("a", "me")
    assert found is not None
    assert found.head == 30, "also of what is in the journal only"
    events = await everything(log, "a")
    assert [event.number for event in events] == list(range(1, 31))
    assert [event.body for event in events[::2]] == [b"%d" % number for number in range(15)]
    assert [event.kind for event in events] == ["update", "notice"] * 15
    assert [round(event.at, 3) for event in events[::2]] == [round(100 + number / 10, 3) for number in range(15)]
    await log.close()
    with sqlite3.connect(tmp_path / "events.db") as db:
        assert db.execute("SELECT count(*) FROM segments WHERE session='a'").fetchone()[0] == 2
        assert db.execute("SELECT count(*) FROM journal").fetchone()[0] == 0
    db.close()


async def test_a_program_that_lost_the_file_does_not_touch_the_journal_of_the_next_one(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    owned = await log.create(record("a"))
    owned.append([NewEvent("update", b"1")], ignore)
    await owned.settle()
    other = SqliteLog(tmp_path / "events.db")
    taken = await other.take("a")
    assert taken.head == 1
    taken.append([NewEvent("update", b"2")], ignore)
    await taken.settle()
    assert [event.body for event in await log.read("a", 0, 10)] == [b"1"]
    await log.close()
    assert [event.body for event in await other.read("a", 0, 10)] == [b"1", b"2"]
    await other.close()


async def test_large_bodies_that_a_killed_program_left_in_the_journal_become_files(tmp_path: Path) -> None:
    killed = SqliteLog(tmp_path / "events.db")
    owned = await killed.create(record("a"))
    body = b'"%b"' % (b"x" * BLOB_BYTES)
    owned.append([NewEvent("update", b"1"), NewEvent("prompt", body, 1), NewEvent("update", b"3", 1)], ignore)
    await owned.settle()
    log = SqliteLog(tmp_path / "events.db")
    assert [(event.kind, event.body) for event in await log.read("a", 0, 9)] == [
        ("update", b"1"),
        ("prompt", body),
        ("update", b"3"),
    ]
    assert len(list((tmp_path / "events.db-blobs").iterdir())) == 1
    await killed.close()
    await log.close()


# Failures


@pytest.mark.parametrize("kind", ["update", "prompt"])
async def test_a_large_body_that_cannot_be_a_file_yet_is_committed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: EventKind
) -> None:
    """The commit is over when its files are made: an error then must not make it a second time."""
    monkeypatch.setattr("dragoman.store.log_writes.RETRY_SECONDS", 0.01)
    log = SqliteLog(tmp_path / "events.db")
    owned = await log.create(record("a"))
    (tmp_path / "events.db-blobs").write_text("in the way of the folder")
    committed: list[LogEvent] = []
    body = b'"%b"' % (b"x" * BLOB_BYTES)
    owned.append([NewEvent(kind, body)], committed.extend)
    await owned.settle()
    assert [event.number for event in committed] == [1]
    assert [event.body for event in await everything(log, "a")] == [body]
    (tmp_path / "events.db-blobs").unlink()
    await log.surplus("a", before=0, size_bytes=1)  # looks at events in their places
    assert len(list((tmp_path / "events.db-blobs").iterdir())) == 1
    assert [(event.number, event.body) for event in await everything(log, "a")] == [(1, body)]
    await log.close()


async def test_the_thread_that_writes_survives_any_failure_behind_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("not foreseen")

    log = SqliteLog(tmp_path / "events.db")
    owned = await log.create(record("a"))
    with monkeypatch.context() as failing:
        failing.setattr("dragoman.store.sqlite_events.distribute", fail)
        kinds: tuple[EventKind, ...] = ("update", "prompt")
        for kind in kinds:
            owned.append([NewEvent(kind, b'"%b"' % (b"x" * BLOB_BYTES))], ignore)
            await owned.settle()
    owned.append([NewEvent("end", b"3")], ignore)
    async with asyncio.timeout(SECONDS):
        await owned.settle()
    assert [event.number for event in await everything(log, "a")] == [1, 2, 3]
    await log.close()


async def test_a_journal_that_cannot_be_emptied_stops_growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.store.log_writes.RETRY_SECONDS", 0.01)
    monkeypatch.setattr("dragoman.store.sqlite_log._MOST_JOURNAL_BYTES", BLOB_BYTES)
    log = SqliteLog(tmp_path / "events.db")
    has_failed = asyncio.Event()
    log.watch(lambda error: has_failed.set())
    owned = await log.create(record("a"))
    (tmp_path / "events.db-blobs").write_text("in the way of the folder")
    owned.append([NewEvent("update", b'"%b"' % (b"x" * BLOB_BYTES))], ignore)
    await owned.settle()
    assert not has_failed.is_set()
    owned.append([NewEvent("update", b"2")], ignore)
    async with asyncio.timeout(SECONDS):
        await has_failed.wait()
        assert owned.head == 1
        (tmp_path / "events.db-blobs").unlink()
        await owned.settle()
    assert [event.number for event in await everything(log, "a")] == [1, 2]
    await log.close()


async def test_a_commit_that_fails_is_reported_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.store.log_writes.RETRY_SECONDS", 0.01)
    reports: list[StoreError | None] = []
    has_failed = asyncio.Event()

    def failed(error: StoreError | None) -> None:
        reports.append(error)
        has_failed.set()

    log = SqliteLog(tmp_path / "events.db", busy_seconds=0.001)
    log.watch(failed)
    owned = await log.create(record("a"))
    blocker = sqlite3.connect(tmp_path / "events.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    committed: list[LogEvent] = []
    owned.append([NewEvent("update", b"1")], committed.extend)
    async with asyncio.timeout(SECONDS):
        await has_failed.wait()
    assert isinstance(reports[0], StoreUnavailable)
    assert "cannot be used" in str(reports[0])
    assert committed == []
    owned.append([NewEvent("update", b"2")], committed.extend)
    with pytest.raises(StoreUnavailable):
        await log.create(record("b"))
    blocker.execute("COMMIT")
    blocker.close()
    async with asyncio.timeout(SECONDS):
        await owned.settle()
    assert [(event.number, event.body) for event in committed] == [(1, b"1"), (2, b"2")]
    assert reports[-1] is None
    assert not owned.lost.done()
    await log.close()


WRITER = """
import asyncio, sys
from pathlib import Path
from dragoman.store.event_log import NewEvent, SessionRecord
from dragoman.store.sqlite_log import SqliteLog

async def main():
    log = SqliteLog(Path(sys.argv[1]))
    owned = await log.create(SessionRecord("a", "me", "agent", None, "/", b"{}", 1.0, 1.0, 0, 1))
    number = 0
    def report(events):
        print(events[-1].number, flush=True)
    while True:
        number += 1
        kind = "prompt" if number % 50 == 0 else "update"
        owned.append([NewEvent(kind, b"%d" % number)], report)
        await asyncio.sleep(0)

asyncio.run(main())
"""


@pytest.mark.parametrize("attempt", range(3))
def test_kill_9_loses_nothing_that_was_reported(tmp_path: Path, attempt: int) -> None:
    path = tmp_path / "events.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        reported = 0
        for _ in range(30 * (attempt + 1)):
            reported = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)

    async def read() -> list[LogEvent]:
        log = SqliteLog(path)
        events = await everything(log, "a")
        await log.close()
        return events

    events = asyncio.run(read())
    assert len(events) >= reported
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert [event.body for event in events] == [b"%d" % number for number in range(1, len(events) + 1)]


# Older files


def test_a_file_of_a_newer_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    asyncio.run(SqliteLog(path).close())
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(StoreError, match="newer dragoman"):
        SqliteLog(path)
    assert path.stat().st_mode & 0o077 == 0


async def test_a_file_of_the_first_format_is_opened_with_everything_in_it(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    with sqlite3.connect(path) as old:
        for statement in MIGRATIONS[0]:
            old.execute(statement)
        facts = b'{"title":"old","name":"n","key":"k"}'
        old.execute(
            "INSERT INTO hosted VALUES (?,?,?,?,?,?,?,?,?,?)", ("a", "me", "agent", "x", "/w", facts, 1.0, 2.0, 3, 1)
        )
        marks, bodies = b'[["update",1],["end",1],["notice",0]]', b'"1"\n"2"\n"3"'
        old.execute("INSERT INTO segments VALUES ('a', 1, 3, 1.0, 1, ?, ?)", (marks, bodies))
        old.execute("PRAGMA user_version=1")
    old.close()
    log = SqliteLog(path)
    kept = SessionRecord("a", "me", "agent", "x", "/w", facts, 1.0, 2.0, 3, 1, ("key:k", "name:n"))
    assert await log.find("a", "me") == kept
    assert [found.id for found in await log.find_keyed("me", "name:n")] == ["a"]
    owned = await log.take("a")
    assert owned.head == 3
    owned.append([NewEvent("update", b"4")], ignore)
    await owned.settle()
    assert [(event.number, event.kind) for event in await everything(log, "a")] == [
        (1, "update"),
        (2, "end"),
        (3, "notice"),
        (4, "update"),
    ]
    await log.close()
