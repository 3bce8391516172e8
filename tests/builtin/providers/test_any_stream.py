"""Streams of every wire form that are cut, mixed up or wrong: each ends in an answer or a clear error, never a hang."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.models.wire_forms.anthropic import AnthropicForm
from dragoman.builtin.models.wire_forms.chat import ChatForm
from dragoman.builtin.models.wire_forms.form import WireForm
from tests.builtin.providers import anthropic_answers, chat_answers, gemini_answers, responses_answers
from tests.builtin.providers.forms import answer_of, as_bytes, check_any_answer, read, target_of

FORMS: Final[dict[str, tuple[Callable[[], WireForm], list[Any]]]] = {
    "anthropic": (lambda: AnthropicForm(target_of("anthropic:claude-sonnet-5-5")), anthropic_answers.STREAM),
    "chat": (lambda: ChatForm(target_of("openai-compatible:a-model")), chat_answers.STREAM),
    "openrouter": (lambda: ChatForm(target_of("openrouter:a/model")), chat_answers.STREAM),
    "responses": (responses_answers.form, responses_answers.STREAM),
    "gemini": (gemini_answers.form, gemini_answers.STREAM),
}
VALUES = st.none() | st.booleans() | st.integers(-2, 9) | st.text(max_size=4) | st.lists(st.integers(), max_size=2)
EACH_FORM = pytest.mark.parametrize("name", FORMS)


@EACH_FORM
def test_the_answer_itself_is_read(name: str) -> None:
    make, stream = FORMS[name]
    parts, end = answer_of(make(), *stream)
    assert len(parts) >= 4
    assert end.usage is not None


@EACH_FORM
def test_a_stream_cut_at_any_byte_ends(name: str) -> None:
    make, stream = FORMS[name]
    data = as_bytes(stream)
    for cut in range(0, len(data), 7):
        check_any_answer(make(), data[:cut])


@EACH_FORM
@given(splits=st.lists(st.integers(0, 10_000), max_size=6))
def test_pieces_of_any_size_give_the_same_answer(name: str, splits: list[int]) -> None:
    make, stream = FORMS[name]
    data = as_bytes(stream)
    places = sorted({0, len(data), *(split % len(data) for split in splits)})
    items = list(read(make(), *(data[start:end] for start, end in pairwise(places))))
    assert list(map(type, items)) == list(map(type, read(make(), data)))


@EACH_FORM
@given(data=st.binary(max_size=200))
def test_any_bytes_end(name: str, data: bytes) -> None:
    make, _ = FORMS[name]
    if data.lstrip()[:1] != b"<":  # a web page is refused before a form sees it
        check_any_answer(make(), data)
    check_any_answer(make(), b"data: " + data + b"\n\n")


@EACH_FORM
@given(data=st.data())
def test_events_with_wrong_types_or_in_a_wrong_order_end(name: str, data: st.DataObject) -> None:
    make, stream = FORMS[name]
    events = json.loads(json.dumps(stream))
    for _ in range(data.draw(st.integers(1, 4))):
        place: Any = data.draw(st.sampled_from(events))
        while isinstance(place, (dict, list)) and place:
            key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if not isinstance(place[key], (dict, list)) or data.draw(st.booleans()):
                place[key] = data.draw(VALUES)
                break
            place = place[key]
    check_any_answer(make(), as_bytes(data.draw(st.permutations(events)) if data.draw(st.booleans()) else events))
