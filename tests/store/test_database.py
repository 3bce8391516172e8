"""What can be wrong with the file gives a clear error, and never makes it worse."""

import asyncio
import os
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.errors import StoreError
from dragoman.store.database import MIGRATIONS, Database
from dragoman.store.ids import new_id
from dragoman.store.sessions import MessageRow, PartRow, SessionRow, Store
from dragoman.store.sqlite_log import SqliteLog


async def test_a_new_file_has_the_newest_shape_and_a_rollback_journal_that_readers_can_share(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "deep" / "er" / "s.db")
    await store.close()
    with sqlite3.connect(tmp_path / "deep" / "er" / "s.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match=r"newer dragoman .* update dragoman"):
        Database(path)


def test_a_file_that_is_not_a_database_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_text("these are not the rows you are looking for" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="was not changed"):
        Database(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", [Database, SqliteLog])
@pytest.mark.parametrize("is_newer", [False, True], ids=["not a database", "newer"])
def test_a_file_that_is_refused_is_closed(tmp_path: Path, kind: type[Database | SqliteLog], is_newer: bool) -> None:
    """Closed at once, not when memory is next cleaned up: Python 3.13 and newer warn of that."""
    path = tmp_path / "s.db"
    if is_newer:
        db = sqlite3.connect(path)
        db.execute("PRAGMA user_version = 99")
        db.close()
    else:
        path.write_text("these are not the rows you are looking for" * 100)
    with pytest.raises(StoreError) as refusal:
        kind(path)
    assert refusal.value.__traceback__ is not None  # it keeps everything alive that was not closed
    assert [name for name in open_files() if name.startswith(str(path))] == []


def open_files() -> list[str]:
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one of the listing itself
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return names


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file.*s\.db cannot be used"):
        await Store.open(tmp_path / "file" / "s.db")


async def test_a_busy_file_is_an_error_that_says_so_and_the_next_try_works(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = await Store.open(path, busy_seconds=0.05)
    try:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"busy.*retry"):
            await store.create_session(SessionRow(new_id("ses"), "a", "/w"))
        assert (await store.sessions()).sessions == ()  # reading goes on
        holder.execute("ROLLBACK")
        holder.close()
        row = await store.create_session(SessionRow(new_id("ses"), "a", "/w"))
        assert await store.session(row.id) == row
    finally:
        await store.close()


async def test_a_full_disk_is_an_error_that_says_so_and_nothing_is_damaged(tmp_path: Path) -> None:
    """SQLite's own bound on the file's size stands for the disk's; a real small disk is used below where allowed."""
    path = tmp_path / "s.db"
    store = await Store.open(path)
    try:
        row = await store.create_session(SessionRow(new_id("ses"), "a", "/w"))
        pages = await store._database.write(lambda db: db.execute("PRAGMA page_count").fetchone()[0])
        await store._database.write(lambda db: db.execute(f"PRAGMA max_page_count={pages + 4}").fetchone())
        part = PartRow("text", b"x" * 200_000)
        with pytest.raises(StoreError, match=r"disk is full; nothing was lost"):
            await store.add_message(row.id, MessageRow(new_id("msg"), "user", (part,)))
        assert await store.session(row.id) == row
        await store._database.write(lambda db: db.execute("PRAGMA max_page_count=100000").fetchone())
        await store.add_message(row.id, MessageRow(new_id("msg"), "user", (part,)))
        assert len(await store.messages(row.id)) == 1
    finally:
        await store.close()


async def run(*command: str | Path) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode().strip()


async def fill(store: Store, session_id: str) -> tuple[int, str]:
    """Adds messages until that fails: how many there are then, and why."""
    for number in range(100):
        try:
            part = PartRow("text", b"x" * 100_000)
            await store.add_message(session_id, MessageRow(new_id("msg"), "user", (part,)))
        except StoreError as error:
            return number, str(error)
    pytest.fail("the disk never filled up")


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk can be mounted by root only")
async def test_a_disk_that_is_really_full_loses_nothing_and_recovers(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    code, why = await run("mount", "-t", "tmpfs", "-o", "size=2m", "none", disk)
    if code != 0:
        pytest.skip(f"this machine mounts no small disk: {why}")
    try:
        store = await Store.open(disk / "s.db")
        try:
            row = await store.create_session(SessionRow(new_id("ses"), "a", "/w"))
            committed, why = await fill(store, row.id)
            assert committed > 3
            assert "disk is full" in why
            assert len(await store.messages(row.id)) == committed
            assert (await run("mount", "-o", "remount,size=16m", disk))[0] == 0
            await store.add_message(row.id, MessageRow(new_id("msg"), "user"))
            assert len(await store.messages(row.id)) == committed + 1
        finally:
            await store.close()
        with sqlite3.connect(disk / "s.db") as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()
    finally:
        await run("umount", "-l", disk)


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.sessions()


def test_programs_that_open_a_new_store_at_the_same_moment_wait_for_each_other(tmp_path: Path) -> None:
    failed: list[StoreError] = []

    def open_one(path: Path, together: threading.Barrier) -> None:
        together.wait()
        try:
            Database(path, busy_seconds=60).close()
        except StoreError as error:
            failed.append(error)

    for number in range(60):
        together = threading.Barrier(4)
        threads = [threading.Thread(target=open_one, args=(tmp_path / f"{number}.db", together)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []
