"""Joined deltas fold into the same message and say the same."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.uistream import chunks as c
from dragoman.uistream.fold import Reducer
from dragoman.uistream.join import LETTERS, joined
from dragoman.uistream.messages import UIMessage

IDS = st.sampled_from(["a", "b"])
DELTAS = st.one_of(
    st.builds(c.TextDelta, IDS, st.text(max_size=3)),
    st.builds(c.ReasoningDelta, IDS, st.text(max_size=3)),
    st.builds(c.ToolInputDelta, IDS, st.text(max_size=3)),
    st.builds(c.TextDelta, IDS, st.text(max_size=3), st.just({"p": 1})),
    st.just(c.Data("notice", {"title": "x"}, transient=True)),
)
BEGINNING: list[c.Chunk] = [
    c.Start("m"),
    c.StartStep(),
    *(kind(id) for kind in (c.TextStart, c.ReasoningStart) for id in "ab"),
    *(c.ToolInputStart(id, "write") for id in "ab"),
]


def folded(chunks: list[c.Chunk]) -> UIMessage:
    reducer = Reducer(UIMessage("m", "assistant", []))
    for chunk in chunks:
        reducer.feed(chunk)
    return reducer.message


@given(st.lists(DELTAS, max_size=20))
def test_joined_chunks_fold_into_the_same_message(chunks: list[c.Chunk]) -> None:
    assert folded([*BEGINNING, *joined(chunks)]) == folded([*BEGINNING, *chunks])


@given(st.lists(DELTAS, max_size=20))
def test_nothing_that_can_be_joined_is_left_apart(chunks: list[c.Chunk]) -> None:
    result = joined(chunks)
    assert joined(result) == result


def test_only_neighbours_of_one_text_are_joined() -> None:
    chunks: list[c.Chunk] = [
        c.TextDelta("a", "1"),
        c.TextDelta("a", "2"),
        c.TextDelta("b", "3"),
        c.ReasoningDelta("b", "4"),
        c.TextDelta("b", "5", {"signature": "s"}),
        c.TextDelta("b", "6"),
        c.TextEnd("b"),
        c.TextDelta("b", "7"),
    ]
    assert joined(chunks) == [c.TextDelta("a", "12"), *chunks[2:]]


def test_a_long_text_that_waited_is_shown_in_pieces_and_arguments_are_joined_into_one() -> None:
    for length in (LETTERS + 1, 3 * LETTERS, 100 * LETTERS):
        texts = [chunk.delta for chunk in joined([c.TextDelta("a", "x")] * length) if isinstance(chunk, c.TextDelta)]
        assert 2 <= len(texts) <= 3
        assert "".join(texts) == "x" * length
        assert joined([c.ToolInputDelta("a", "x")] * length) == [c.ToolInputDelta("a", "x" * length)]
    assert joined([c.TextDelta("a", "x")] * LETTERS) == [c.TextDelta("a", "x" * LETTERS)]
