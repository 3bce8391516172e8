"""Folding and reading are linear in the number of chunks. Work is counted, not timed."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable

import pytest

from dragoman.schema.v1 import CompactionSummaryChunk, SessionUpdate, ToolCallUpdate
from dragoman.state import SessionState, fold
from tests.state.make import agent, fold_all, in_turn, text, thought

CHUNK = "forty characters of text in each chunk. "


def calls_made(work: Callable[[], object]) -> int:
    """How many functions, Python's and C's, were called."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


STREAMS: dict[str, Callable[[int], SessionUpdate]] = {
    "one message": lambda number: agent(CHUNK),
    "one message with an id": lambda number: agent(CHUNK, "m"),
    "two interleaved messages": lambda number: agent(CHUNK, "ab"[number % 2]),
    "a message each": lambda number: agent(CHUNK, str(number)),
    "thinking and speaking by turns": lambda number: (agent, thought)[number % 2](CHUNK),
    "updates of one tool call": lambda number: ToolCallUpdate("t", status="in_progress"),
    "many tool calls": lambda number: ToolCallUpdate(str(number)),
    "a compaction's summary": lambda number: CompactionSummaryChunk("c", text(CHUNK)),
}


@pytest.mark.parametrize("stream", STREAMS)
def test_ten_times_the_updates_take_ten_times_the_calls(stream: str) -> None:
    make = STREAMS[stream]
    few, many = [make(number) for number in range(200)], [make(number) for number in range(2_000)]
    few_calls = calls_made(lambda: fold_all(SessionState(), few))
    many_calls = calls_made(lambda: fold_all(SessionState(), many))
    assert 9.5 <= many_calls / few_calls <= 10.5


@pytest.mark.parametrize("stream", ["one message", "one message with an id", "a compaction's summary"])
def test_reading_after_every_update_takes_ten_times_the_calls_too(stream: str) -> None:
    make = STREAMS[stream]

    def fold_and_read(count: int) -> None:
        state = in_turn()
        for number in range(count):
            fold(state, make(number))
            _ = state.text, [one.text for one in state.compactions.values()]

    assert 9.5 <= calls_made(lambda: fold_and_read(2_000)) / calls_made(lambda: fold_and_read(200)) <= 10.5


def test_each_part_of_a_text_is_joined_once() -> None:
    state = in_turn()
    for count in range(1, 101):
        fold_all(state, [agent(CHUNK)] * 10)
        message = state.messages[-1]
        assert len(message._pending) == 10
        assert len(state.text) == count * 10 * len(CHUNK)
        assert message._pending == []


def test_a_message_that_is_no_longer_open_holds_its_text_in_one_piece() -> None:
    state = in_turn(agent(CHUNK, "a"), agent(CHUNK, "a"), agent(CHUNK, "b"))
    assert [len(message._pending) for message in state.turns[0].messages] == [0, 1]
    state.end_turn("end_turn")
    assert [len(message._pending) for message in state.turns[0].messages] == [0, 0]


@pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer switches off the growth of strings in place")
@pytest.mark.parametrize("first", [None, "before"], ids=["one message", "the second message of a turn"])
def test_reading_a_long_text_again_does_not_copy_it(first: str | None) -> None:
    state = in_turn()
    if first is not None:
        fold_all(state, [agent("x", first)])
    fold_all(state, [agent(CHUNK, "m")] * 50_000)
    for _ in range(50):  # the interpreter grows strings in place only once it knows the code is hot
        fold(state, agent(CHUNK, "m"))
        assert state.text
    size_bytes = len(state.text)
    tracemalloc.start()
    try:
        held_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(50):
            fold(state, agent(CHUNK, "m"))
            assert len(state.text) > size_bytes
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The grown string is new to the tracer, so once its size is expected; a copy would need it twice at one moment.
    texts = 1 if first is None else 2
    assert peak_bytes - held_bytes < (texts + 0.5) * size_bytes
