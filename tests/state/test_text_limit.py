"""How much text a session state keeps: the beginning up to a limit for each turn, and a count of the rest."""

from __future__ import annotations

import tracemalloc

import pytest

from dragoman.schema import v1
from dragoman.state import SessionState, fold, fold_all


def message(text: str, message_id: str | None = None) -> v1.AgentMessageChunk:
    content = v1.TextContent(text)
    return v1.AgentMessageChunk(content) if message_id is None else v1.AgentMessageChunk(content, message_id=message_id)


def running(text_limit: int | None) -> SessionState:
    state = SessionState(text_limit=text_limit)
    state.begin_turn([v1.TextContent("a prompt is kept whole, however long it is")])
    return state


def test_the_beginning_is_kept_and_the_rest_is_counted() -> None:
    state = running(10)
    for piece in ("hello", " wor", "ld", "!" * 100):
        fold(state, message(piece))
    turn = state.turns[-1]
    assert (state.text, turn.texts, turn.lost_characters) == ("hello worl", ("hello worl",), 101)
    assert state.messages[0].text == "a prompt is kept whole, however long it is"


def test_all_messages_of_a_turn_share_the_limit() -> None:
    state = running(10)
    fold(state, message("12345678", "a"))
    fold(state, v1.AgentThoughtChunk(v1.TextContent("abc")))
    fold(state, message("9", "b"))
    assert [each.text for each in state.messages[1:]] == ["12345678", "ab", ""]
    assert [each.lost_characters for each in state.messages[1:]] == [0, 1, 1]
    assert state.turns[-1].lost_characters == 1, "a thought is not a part of the answer"


def test_each_turn_has_the_whole_limit() -> None:
    state = running(5)
    fold(state, message("1234567"))
    state.end_turn("end_turn")
    state.begin_turn([v1.TextContent("again")])
    fold(state, message("abcdefg"))
    assert [turn.text for turn in state.turns] == ["12345", "abcde"]
    assert [turn.lost_characters for turn in state.turns] == [2, 2]


def test_without_a_limit_everything_is_kept() -> None:
    state = running(None)
    fold_all(state, [message("x" * 1000)] * 100)
    assert len(state.text) == 100_000
    assert state.turns[-1].lost_characters == 0


def test_a_block_that_does_not_fit_is_dropped_and_counted() -> None:
    state = running(100)
    fold(state, message("see: "))
    fold(state, v1.AgentMessageChunk(v1.ImageContent("A" * 60, "image/png")))
    fold(state, v1.AgentMessageChunk(v1.ImageContent("A" * 60, "image/png")))
    fold(state, message("end"))
    [_, answer] = state.messages
    assert [type(block).__name__ for block in answer.blocks] == ["TextContent", "ImageContent", "TextContent"]
    assert (answer.text, answer.lost_characters) == ("see: end", 60)


@pytest.mark.parametrize("size", [4, 4000], ids=["tokens", "pages"])
def test_a_text_without_end_takes_bounded_memory(size: int) -> None:
    limit = 20_000
    state = running(limit)
    tracemalloc.start()
    try:
        for number in range(200_000 // size // 100 + 20):
            # A string of its own for each piece, as a decoder makes them.
            fold_all(state, [message(f"{number:0{size}}") for _ in range(100)])
        assert len(state.text) == limit
        current, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Kept apart, the tokens would take 3 MB and the pages 8 MB.
    assert current < 300_000
    assert peak < 1_500_000
