"""Sessions as rows: what was committed is there again, in order, whoever died meanwhile."""

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.errors import StoreError
from dragoman.store.ids import new_id
from dragoman.store.sessions import MessageRow, PartRow, SessionRow, Store, UsageRow

PART = PartRow("text", b'{"type":"text","text":"hi"}')


@asynccontextmanager
async def opened(path: Path, *, busy_seconds: float = 5.0) -> AsyncIterator[Store]:
    store = await Store.open(path, busy_seconds=busy_seconds)
    try:
        yield store
    finally:
        await store.close()


async def new_session(store: Store, cwd: str = "/w", **members: object) -> SessionRow:
    return await store.create_session(SessionRow(new_id("ses"), "dragoman", cwd, **members))  # type: ignore[arg-type]


def test_ids_sort_in_the_order_they_were_made_and_never_repeat() -> None:
    made = [new_id("msg") for _ in range(5000)]
    assert made == sorted(made)
    assert len(set(made)) == 5000
    assert all(len(each) == 4 + 12 + 14 and each.startswith("msg_") for each in made)


async def test_a_session_is_found_again_after_the_store_was_closed(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as store:
        row = await new_session(store, directories=("/a", "/b"), mode="ask", metadata={"k": [1]})
    async with opened(tmp_path / "s.db") as store:
        assert await store.session(row.id) == row
        assert await store.session("ses_none") is None


async def test_the_list_goes_page_by_page_newest_change_first_and_by_folder(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as store:
        rows = [await new_session(store, f"/w{number % 2}") for number in range(7)]
        for number, row in enumerate(rows):
            await store.update_session(row.id, updated_at=f"2026-01-0{number + 1}T00:00:00.000Z")
        await store.update_session(rows[0].id, title="again", updated_at="2026-02-01T00:00:00.000Z")
        seen, cursor = list[str](), None
        while True:
            page = await store.sessions(cursor=cursor, limit=3)
            seen += [row.id for row in page.sessions]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == [rows[0].id, *(row.id for row in reversed(rows[1:]))]
        folder = await store.sessions(cwd="/w1")
        assert {row.cwd for row in folder.sessions} == {"/w1"}
        assert folder.next_cursor is None


async def test_a_cursor_from_elsewhere_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as store:
        for cursor in ("!", "eA", "bm8", "W10"):
            with pytest.raises(StoreError, match="cursor"):
                await store.sessions(cursor=cursor)


async def test_a_log_becomes_parts_in_one_step(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as store:
        session = await new_session(store)
        user, reply = new_id("msg"), new_id("msg")
        await store.begin_turn(session.id, MessageRow(user, "user", (PART,)), reply)
        await store.append_log(reply, 0, [b"1", b"2"])
        await store.append_log(reply, 2, [b"3"])
        log = await store.live_log(session.id)
        assert log is not None
        assert (log.message_id, log.chunks, log.is_alive) == (reply, (b"1", b"2", b"3"), True)
        assert [message.id for message in await store.messages(session.id)] == [user]
        usage = [UsageRow("m", 1, 2, 3, 4, 5, 0.5), UsageRow("m", 10, 0, 0, 0, 0, None)]
        call = PartRow("tool-read", b"{}", "call_1", "output-available")
        await store.finish_message(session.id, MessageRow(reply, "assistant", (PART, call), {"k": 1}), usage)
        assert await store.live_log(session.id) is None
        stored = await store.messages(session.id)
        assert [message.id for message in stored] == [user, reply]
        assert stored[1].parts == (PART, call)
        assert stored[1].metadata == {"k": 1}
        assert await store.usage(session.id) == UsageRow("", 11, 2, 3, 4, 5, 0.5)


async def test_queued_prompts_wait_in_order_and_follow_messages_added_while_they_waited(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as store:
        session = await new_session(store)
        first, second = new_id("msg"), new_id("msg")
        await store.enqueue(session.id, MessageRow(first, "user", (PART,)))
        await store.enqueue(session.id, MessageRow(second, "user", (PART,)))
        added = new_id("msg")
        await store.add_message(session.id, MessageRow(added, "assistant"))
    async with opened(tmp_path / "s.db") as store:
        assert [message.id for message in await store.queued(session.id)] == [first, second]
        fired = new_id("msg")
        await store.dequeue(first, new_id=fired)
        await store.drop_queued(second)
        assert await store.queued(session.id) == ()
        stored = await store.messages(session.id)
        assert [message.id for message in stored] == [added, fired]
        assert stored[1].parts == (PART,)


async def test_deleting_a_session_takes_everything_of_it_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as store:
        kept, gone = await new_session(store), await new_session(store)
        for session in (kept, gone):
            await store.add_rule(session.id, "execute:ls", "allow")
            message = new_id("msg")
            await store.begin_turn(session.id, MessageRow(new_id("msg"), "user"), message)
            await store.append_log(message, 0, [b"1"])
            await store.finish_message(session.id, MessageRow(message, "assistant", (PART,)), [UsageRow()])
            await store.begin_turn(session.id, MessageRow(new_id("msg"), "user"), new_id("msg"))
        assert await store.delete_session(gone.id)
        assert not await store.delete_session(gone.id)
        assert await store.rules(kept.id) == (("execute:ls", "allow"),)
        assert await store.rules(gone.id) == ()
    with sqlite3.connect(path) as db:
        for table in ("messages", "live", "usage", "rules"):
            column = "session_id"
            assert {row[0] for row in db.execute(f"SELECT {column} FROM {table}")} == {kept.id}, table
        assert db.execute("SELECT count(*) FROM parts").fetchone() == (1,)
    db.close()


async def test_one_failed_change_does_not_take_its_neighbours_with_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as store:
        session = await new_session(store)
        messages = [MessageRow("msg_same" if number in (3, 7) else new_id("msg"), "user") for number in range(10)]
        results = await asyncio.gather(
            *(store.add_message(session.id, message) for message in messages), return_exceptions=True
        )
        assert [index for index, result in enumerate(results) if result is not None] == [7]
        assert isinstance(results[7], StoreError)
        assert len(await store.messages(session.id)) == 9


async def test_a_cancelled_caller_does_not_disturb_other_callers(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as store:
        session = await new_session(store)
        gone = asyncio.ensure_future(store.add_message(session.id, MessageRow(new_id("msg"), "user")))
        await asyncio.sleep(0)
        gone.cancel()
        await store.add_message(session.id, MessageRow(new_id("msg"), "user"))
        assert len(await store.messages(session.id)) in (1, 2)


async def test_a_turn_of_another_live_program_is_not_taken_for_a_dead_one(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as mine, opened(tmp_path / "s.db") as other:
        session = await new_session(mine)
        await other.begin_turn(session.id, MessageRow(new_id("msg"), "user"), new_id("msg"))
        log = await mine.live_log(session.id)
        assert log is not None
        assert log.is_alive
        with pytest.raises(StoreError, match="another program"):
            await mine.begin_turn(session.id, MessageRow(new_id("msg"), "user"), new_id("msg"))


WRITER = """
import asyncio, sys
from pathlib import Path
from dragoman.store.ids import new_id
from dragoman.store.sessions import MessageRow, SessionRow, Store

async def main():
    store = await Store.open(Path(sys.argv[1]))
    session = await store.create_session(SessionRow(new_id("ses"), "a", "/w"))
    message = new_id("msg")
    await store.begin_turn(session.id, MessageRow(new_id("msg"), "user"), message)
    print(session.id, flush=True)
    position = 0
    while True:
        await store.append_log(message, position, [b"%d" % position, b"x"])
        position += 2
        print(position, flush=True)

asyncio.run(main())
"""


async def test_what_was_acknowledged_survives_kill_9_and_its_writer_is_known_dead(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(path), stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    session_id = (await process.stdout.readline()).decode().strip()
    acknowledged = 0
    while acknowledged < 40:
        acknowledged = int(await process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    rest = await process.stdout.read()
    await process.wait()
    acknowledged = max([acknowledged, *(int(line) for line in rest.split(b"\n")[:-1])])
    async with opened(path) as store:
        log = await store.live_log(session_id)
        assert log is not None
        assert not log.is_alive
        assert len(log.chunks) >= acknowledged
        assert log.chunks[::2] == tuple(b"%d" % number for number in range(0, len(log.chunks), 2))
        await store.begin_turn(session_id, MessageRow(new_id("msg"), "user"), new_id("msg"))
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
