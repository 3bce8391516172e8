"""What every transport promises, shown over each of them."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress

import pytest

from dragoman.transports import LOW_MARK_BYTES
from tests.transports.kit import CLOSE, KINDS, STALL, link, settle

pytestmark = pytest.mark.parametrize("kind", KINDS)

LARGE = bytes(range(32, 127)) * 88_000  # 8 MiB and no order in it


async def test_bytes_arrive_complete_and_in_order(kind: str) -> None:
    dice = random.Random(7)
    pieces = [b"%d:%s\n" % (number, b"x" * dice.choice([0, 1, 80, 5000, 70_000])) for number in range(300)]
    async with link(kind) as near:
        for piece in pieces:
            near.transport.write(piece)
            if dice.random() < 0.1:
                await asyncio.sleep(0)
        await near.inbox.holds(b"".join(pieces))


async def test_a_large_write_is_taken_whole_and_reported_as_drained(kind: str) -> None:
    async with link(kind) as near:
        near.transport.write(LARGE)
        assert near.transport.unsent_bytes > LOW_MARK_BYTES
        await near.inbox.holds(LARGE)
        assert near.transport.unsent_bytes == 0
        assert near.inbox.drains


async def test_an_empty_write_is_nothing(kind: str) -> None:
    async with link(kind) as near:
        near.transport.write(b"")
        near.transport.write(b"a")
        await near.inbox.holds(b"a")


async def test_nothing_is_fed_while_reading_is_paused_and_nothing_is_lost(kind: str) -> None:
    async with link(kind) as near:
        near.transport.write(b"one\n")
        await near.inbox.holds(b"one\n")
        near.transport.pause_reading()
        near.transport.pause_reading()
        near.transport.write(LARGE)
        with suppress(TimeoutError):
            await near.inbox.until(lambda inbox: len(inbox.data) > 4, 0.2)
        assert near.inbox.data == b"one\n"
        near.transport.resume_reading()
        near.transport.resume_reading()
        await near.inbox.holds(b"one\n" + LARGE)


async def test_a_pause_inside_feed_holds_from_the_next_read_on(kind: str) -> None:
    async with link(kind) as near:
        near.inbox.on_feed = near.transport.pause_reading
        near.transport.write(LARGE)
        near.transport.write(LARGE)
        async with asyncio.timeout(60):
            while len(near.inbox.data) < 2 * len(LARGE):
                before = near.inbox.feeds
                near.transport.resume_reading()
                await near.inbox.until(lambda inbox, before=before: inbox.feeds > before)  # type: ignore[misc]
                assert near.inbox.feeds == before + 1
        assert near.inbox.data == LARGE + LARGE


async def test_what_the_far_end_does_not_read_counts_as_unsent(kind: str) -> None:
    async with link(kind) as near:
        near.transport.write(STALL)
        await near.inbox.holds(STALL)
        near.transport.write(LARGE)
        await asyncio.sleep(0)
        assert near.transport.unsent_bytes > len(LARGE) // 2
        drains = near.inbox.drains
        await near.inbox.holds(STALL + LARGE)
        assert near.inbox.drains > drains
        assert near.transport.unsent_bytes == 0


async def test_the_end_comes_once_and_after_the_last_byte(kind: str) -> None:
    async with link(kind) as near:
        near.transport.write(LARGE + CLOSE)
        reason = await near.inbox.end_reason()
        assert near.inbox.data == LARGE + CLOSE
        assert reason.reason
        near.transport.resume_reading()
        await settle()
        assert len(near.inbox.ends) == 1


async def test_the_far_ends_end_is_noticed_while_paused_and_what_arrived_is_fed_first(kind: str) -> None:
    last_words = b"last words " * 2000  # less than any pipe holds, so that the far end can be done with it
    async with link(kind) as near:
        near.transport.write(b"first")
        await near.inbox.holds(b"first")
        near.transport.pause_reading()
        near.transport.write(last_words + CLOSE)
        await near.inbox.end_reason()
        assert near.inbox.data == b"first" + last_words + CLOSE


async def test_writing_after_the_end_or_after_close_does_nothing(kind: str) -> None:
    async with link(kind) as near:
        near.transport.write(CLOSE)
        await near.inbox.end_reason()
        for _ in range(3):
            near.transport.write(b"too late")
            await asyncio.sleep(0)
        assert near.transport.unsent_bytes == 0
        near.transport.close()
        near.transport.write(b"too late")
        assert near.transport.unsent_bytes == 0
        await asyncio.wait_for(near.transport.wait_closed(), 10)


async def test_what_was_written_before_close_still_arrives_and_our_receiver_is_not_called_again(kind: str) -> None:
    async with link(kind) as near:
        near.transport.write(b"hello")
        await near.inbox.holds(b"hello")
        drains = near.inbox.drains
        near.transport.write(LARGE)
        near.transport.close()
        near.transport.write(b"not this")
        assert await near.far_total() == len(b"hello") + len(LARGE)
        assert near.inbox.data == b"hello"
        assert (near.inbox.ends, near.inbox.drains) == ([], drains)


async def test_close_inside_feed_is_the_last_feed(kind: str) -> None:
    async with link(kind) as near:
        near.inbox.on_feed = near.transport.close
        near.transport.write(LARGE)
        await near.inbox.until(lambda inbox: inbox.data)
        await asyncio.wait_for(near.transport.wait_closed(), 10)
        assert near.inbox.feeds == 1
        assert near.inbox.ends == []


async def test_close_is_idempotent_and_can_be_waited_for_by_many_of_whom_some_give_up(kind: str) -> None:
    async with link(kind) as near:
        waiting = [asyncio.create_task(near.transport.wait_closed()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        waiting[0].cancel()
        near.transport.close()
        near.transport.close()
        results = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
        assert [type(result) for result in results] == [asyncio.CancelledError, type(None), type(None)]
        await near.transport.wait_closed()


async def test_a_transport_that_was_never_started_can_be_closed(kind: str) -> None:
    async with link(kind, start=False) as near:
        near.transport.close()
        await asyncio.wait_for(near.transport.wait_closed(), 10)


async def test_what_came_before_the_start_is_fed_after_it(kind: str) -> None:
    async with link(kind, start=False) as near:
        near.transport.write(b"early")
        await settle()
        near.transport.start(near.inbox)
        await near.inbox.holds(b"early")


async def test_other_callbacks_run_while_a_large_message_moves(kind: str) -> None:
    turns = 0
    async with link(kind) as near:
        near.transport.write(LARGE)
        near.transport.write(LARGE)

        def turn() -> None:
            nonlocal turns
            turns += 1
            if len(near.inbox.data) < 2 * len(LARGE):
                asyncio.get_running_loop().call_soon(turn)

        turn()
        await near.inbox.holds(LARGE + LARGE)
    assert turns >= 2


async def test_a_receiver_that_fails_still_gets_the_end(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context.get("exception")))

    def fail() -> None:
        raise ZeroDivisionError

    async with link(kind) as near:
        near.inbox.on_feed = fail
        near.transport.pause_reading()
        near.transport.write(b"x" + CLOSE)
        with caplog.at_level(logging.CRITICAL, "dragoman"):
            await near.inbox.end_reason()
        assert near.inbox.data == b"x" + CLOSE
