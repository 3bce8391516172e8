"""What only the pair in memory can show: exact turns and exact numbers."""

from __future__ import annotations

from dragoman.transports.memory import memory_pair
from tests.transports.kit import Inbox, settle


async def test_nothing_is_fed_inside_write() -> None:
    one, two = memory_pair()
    inbox = Inbox()
    two.start(inbox)
    one.write(b"later")
    assert inbox.data == b""
    assert one.unsent_bytes == 5
    await settle()
    assert inbox.data == b"later"
    assert one.unsent_bytes == 0


async def test_unsent_bytes_are_exactly_what_the_other_end_was_not_fed() -> None:
    one, two = memory_pair()
    ours, theirs = Inbox(), Inbox()
    one.start(ours)
    two.start(theirs)
    two.pause_reading()
    for _ in range(3):
        one.write(b"x" * 100_000)
    await settle()
    assert one.unsent_bytes == 300_000
    theirs.on_feed = two.pause_reading
    two.resume_reading()
    await settle()
    assert one.unsent_bytes == 200_000
    assert ours.drains == 0
    theirs.on_feed = None
    two.resume_reading()
    await settle()
    assert one.unsent_bytes == 0
    assert ours.drains == 1


async def test_a_closed_other_end_drops_what_it_was_sent_and_frees_its_writer() -> None:
    one, two = memory_pair()
    ours = Inbox()
    one.start(ours)
    two.start(Inbox())
    two.pause_reading()
    one.write(b"x" * 100_000)
    two.close()
    assert one.unsent_bytes == 0
    await settle()
    assert ours.drains == 1
    assert str(await ours.end_reason()) == "the peer closed the connection"
    one.write(b"nobody")
    assert one.unsent_bytes == 0


async def test_both_ends_closing_at_once_is_not_reported_to_either() -> None:
    one, two = memory_pair()
    ours, theirs = Inbox(), Inbox()
    one.start(ours)
    two.start(theirs)
    one.write(b"x")
    two.write(b"y")
    one.close()
    two.close()
    await settle()
    assert (ours.feeds, theirs.feeds, ours.ends, theirs.ends) == (0, 0, [], [])
