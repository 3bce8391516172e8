"""Descriptors of every kind, and ends of every kind."""

from __future__ import annotations

import asyncio
import gc
import os
import time
import tracemalloc
import warnings
from pathlib import Path

import pytest

from dragoman.transports.fd import READ_BYTES, FdTransport
from tests.process.kit import open_fds, settled_fds
from tests.transports.kit import Inbox, settle


class Pipes:
    """A transport and the raw far ends of its two pipes."""

    def __init__(self, **options: float) -> None:
        read_fd, self.write_end = os.pipe()
        self.read_end, write_fd = os.pipe()
        self.transport = FdTransport(read_fd, write_fd, **options)  # type: ignore[arg-type]
        self.inbox = Inbox()

    def close(self, *ends: str) -> None:
        for end in ends:
            os.close(getattr(self, end))

    async def finish(self) -> None:
        self.transport.close()
        await asyncio.wait_for(self.transport.wait_closed(), 5)


async def test_a_regular_file_is_read_to_its_end(tmp_path: Path) -> None:
    content = os.urandom(1_000_000)
    (tmp_path / "input").write_bytes(content)
    transport = FdTransport(os.open(tmp_path / "input", os.O_RDONLY), os.open(os.devnull, os.O_WRONLY))
    inbox = Inbox()
    transport.start(inbox)
    await inbox.end_reason()
    assert inbox.data == content
    transport.close()
    await transport.wait_closed()


async def test_a_regular_file_honours_a_pause(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"x" * 10 * READ_BYTES)
    transport = FdTransport(os.open(tmp_path / "input", os.O_RDONLY), os.open(os.devnull, os.O_WRONLY))
    inbox = Inbox()
    inbox.on_feed = transport.pause_reading
    transport.start(inbox)
    await settle()
    assert inbox.feeds == 1
    for feeds in range(2, 11):
        transport.resume_reading()
        transport.pause_reading()
        transport.resume_reading()
        await settle()
        assert inbox.feeds == feeds
    transport.resume_reading()
    await inbox.end_reason()
    transport.close()


async def test_dev_null_is_an_end_at_once_and_swallows_writes() -> None:
    transport = FdTransport(os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY))
    inbox = Inbox()
    transport.start(inbox)
    transport.write(b"x" * 1_000_000)
    assert transport.unsent_bytes == 0
    await inbox.end_reason()
    transport.close()


async def test_a_regular_file_can_be_written(tmp_path: Path) -> None:
    transport = FdTransport(
        os.open(os.devnull, os.O_RDONLY), os.open(tmp_path / "output", os.O_WRONLY | os.O_CREAT, 0o600)
    )
    transport.start(Inbox())
    transport.write(b"one ")
    transport.write(b"two")
    transport.close()
    assert (tmp_path / "output").read_bytes() == b"one two"


async def test_after_the_peer_closed_its_output_it_can_still_be_answered() -> None:
    pipes = Pipes()
    pipes.transport.start(pipes.inbox)
    os.write(pipes.write_end, b"question")
    pipes.close("write_end")
    assert str(await pipes.inbox.end_reason()) == "the peer closed the connection"
    assert pipes.inbox.data == b"question"
    pipes.transport.write(b"answer")
    assert os.read(pipes.read_end, 100) == b"answer"
    await pipes.finish()
    assert os.read(pipes.read_end, 100) == b""
    pipes.close("read_end")


async def test_when_the_peer_reads_no_more_its_last_words_are_fed_and_then_it_is_over() -> None:
    pipes = Pipes()
    pipes.transport.start(pipes.inbox)
    pipes.close("read_end")
    pipes.transport.write(b"anybody there?")
    pipes.transport.write(b"hello?")
    assert pipes.transport.unsent_bytes == 0
    os.write(pipes.write_end, b"last words")
    await pipes.inbox.holds(b"last words")
    assert pipes.inbox.ends == []
    assert "reads no more" in str(await pipes.inbox.end_reason())
    pipes.close("write_end")
    await pipes.finish()


async def test_a_sender_that_waits_for_room_is_woken_when_the_pipe_breaks() -> None:
    pipes = Pipes()
    pipes.transport.start(pipes.inbox)
    pipes.transport.write(b"x" * 1_000_000)
    assert pipes.transport.unsent_bytes > 0
    pipes.close("read_end")
    await pipes.inbox.until(lambda inbox: inbox.drains)
    assert pipes.transport.unsent_bytes == 0
    pipes.close("write_end")
    assert "closed" in str(await pipes.inbox.end_reason())
    await pipes.finish()


async def test_a_broken_pipe_while_paused_ends_with_everything_fed() -> None:
    pipes = Pipes()
    pipes.transport.start(pipes.inbox)
    pipes.transport.pause_reading()
    os.write(pipes.write_end, b"last words")
    pipes.close("read_end")
    pipes.transport.write(b"anybody there?")
    await pipes.inbox.end_reason()
    assert pipes.inbox.data == b"last words"
    pipes.close("write_end")
    await pipes.finish()


async def test_a_terminal_that_hangs_up_is_an_end() -> None:
    controller, terminal = os.openpty()
    transport = FdTransport(controller, os.open(os.devnull, os.O_WRONLY))
    inbox = Inbox()
    transport.start(inbox)
    os.write(terminal, b"typed")
    await inbox.holds(b"typed")
    os.close(terminal)
    assert "is gone" in str(await inbox.end_reason())
    transport.close()


async def test_close_does_not_wait_forever_for_a_peer_that_does_not_read() -> None:
    pipes = Pipes(flush_seconds=0.2)
    pipes.transport.start(pipes.inbox)
    pipes.transport.write(b"x" * 1_000_000)
    started = time.monotonic()
    await pipes.finish()
    assert 0.1 < time.monotonic() - started < 2
    pipes.close("read_end", "write_end")


async def test_one_read_is_made_for_each_turn_and_none_is_larger_than_a_pipe() -> None:
    pipes = Pipes()
    sizes: list[int] = []
    pipes.inbox.on_feed = lambda: sizes.append(len(pipes.inbox.data))
    os.set_blocking(pipes.write_end, False)
    pipes.transport.start(pipes.inbox)
    for turn in range(1, 4):
        os.write(pipes.write_end, b"x" * READ_BYTES)
        await pipes.inbox.until(lambda inbox, turn=turn: inbox.feeds == turn)  # type: ignore[misc]
    assert sizes == [READ_BYTES, 2 * READ_BYTES, 3 * READ_BYTES]
    pipes.close("read_end", "write_end")
    await pipes.finish()


async def test_a_huge_message_waits_without_being_copied() -> None:
    pipes = Pipes()
    message = bytes(50_000_000)
    pipes.transport.start(pipes.inbox)

    def read_all() -> int:
        total = 0
        while total < len(message):
            total += len(os.read(pipes.read_end, 1 << 16))
        return total

    tracemalloc.start()
    try:
        pipes.transport.write(message)
        assert await asyncio.to_thread(read_all) == len(message)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000
    pipes.close("read_end", "write_end")
    await pipes.finish()


def test_an_abandoned_transport_warns_and_gives_its_descriptors_back() -> None:
    before = settled_fds()

    async def abandon() -> None:
        pipes = Pipes()
        pipes.transport.start(pipes.inbox)
        pipes.close("read_end", "write_end")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(abandon())
        gc.collect()
    assert any("unclosed FdTransport" in str(warning.message) for warning in caught)
    assert open_fds() == before


def test_close_works_after_the_loop_is_gone() -> None:
    before = settled_fds()
    kept: list[Pipes] = []

    async def abandon() -> None:
        kept.append(Pipes())
        kept[0].transport.start(kept[0].inbox)
        kept[0].transport.write(b"x" * 1_000_000)

    asyncio.run(abandon())
    kept[0].transport.close()
    kept[0].close("read_end", "write_end")
    assert open_fds() == before


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 65535, 65536, 65537, 200_000])
async def test_any_size_is_followed_by_the_drained_call_it_needs(size: int) -> None:
    """Whatever was left unsent, a writer that waits for room hears of it."""
    pipes = Pipes()
    pipes.transport.start(pipes.inbox)
    pipes.transport.write(b"x" * 65536)
    pipes.transport.write(b"y" * size)
    assert pipes.transport.unsent_bytes == size
    reader = asyncio.create_task(asyncio.to_thread(_read_exactly, pipes.read_end, 65536 + size))
    await pipes.inbox.until(lambda inbox: inbox.drains and not pipes.transport.unsent_bytes)
    await reader
    pipes.close("read_end", "write_end")
    await pipes.finish()


def _read_exactly(fd: int, size: int) -> None:
    while size:
        size -= len(os.read(fd, size))
