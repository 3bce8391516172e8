"""OpenAI's Responses form: what is read in an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.models.model import ContextOverflowError, ModelError
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import ReasoningPart, TextPart, ToolPart, Usage
from tests.builtin.providers.forms import (
    agent,
    answer_of,
    as_bytes,
    body_of,
    check_any_answer,
    conversation,
    read,
    user,
)
from tests.builtin.providers.responses_answers import STREAM, call, completed, event, form, speech


def test_an_answer_is_read_part_by_part() -> None:
    parts, end = answer_of(form(), *STREAM)
    first, second, text, one, two = parts
    assert isinstance(first, ReasoningPart)
    assert isinstance(second, ReasoningPart)
    assert isinstance(text, TextPart)
    assert (first.text, second.text, text.text) == ("Where is it?", "Perhaps here.", "I look.")
    assert isinstance(one, ToolPart)
    assert isinstance(two, ToolPart)
    assert (one.tool_call_id, one.name, one.input) == ("call_1", "look", {"value": "a"})
    assert (two.tool_call_id, two.input) == ("call_2", {"value": "b"})
    assert (end.reason, end.model) == ("tool-calls", "openai:gpt-5-2025")
    assert end.usage == Usage(input=90, output=18, reasoning=12, cache_read=40, cache_write=10)


def test_deltas_arrive_one_by_one() -> None:
    items = list(read(form(), as_bytes(STREAM)))
    assert [item.delta for item in items if isinstance(item, c.TextDelta)] == ["I ", "look."]
    pieces = [item.input_text_delta for item in items if isinstance(item, c.ToolInputDelta)]
    assert len(pieces) == 4
    assert "".join(pieces) == '{"value":"a"}{"value":"b"}'


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (completed(), "stop"),
        (completed("incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
        (completed("incomplete", incomplete_details={"reason": "content_filter"}), "content-filter"),
        (completed("incomplete", incomplete_details={"reason": "steered"}), "other"),
        (completed("incomplete"), "other"),
    ],
)
def test_why_an_answer_ended(last: dict[str, Any], reason: str) -> None:
    assert answer_of(form(), *speech("hi"), last)[1].reason == reason


def test_a_refusal_is_shown_and_ends_the_answer() -> None:
    item = {"type": "message", "id": "msg_1", "role": "assistant"}
    parts, end = answer_of(
        form(),
        event("output_item.added", output_index=0, item={**item, "content": []}),
        event("refusal.delta", output_index=0, content_index=0, delta="I will not."),
        event(
            "output_item.done",
            output_index=0,
            item={**item, "content": [{"type": "refusal", "refusal": "I will not."}]},
        ),
        completed(),
    )
    assert [part.text for part in parts if isinstance(part, TextPart)] == ["I will not."]
    assert end.reason == "content-filter"


def test_a_free_text_call_is_read_as_a_call_with_one_argument_and_goes_back_as_it_came() -> None:
    patch = '*** Begin Patch\n*** Add File: "a"\n+x\n*** End Patch'
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "apply_patch"}
    parts, _ = answer_of(
        form(),
        event("output_item.added", output_index=0, item={**item, "input": ""}),
        event("custom_tool_call_input.delta", output_index=0, delta=patch[:20]),
        event("custom_tool_call_input.delta", output_index=0, delta=patch[20:]),
        event("output_item.done", output_index=0, item={**item, "input": patch}),
        completed(),
    )
    (called,) = parts
    assert isinstance(called, ToolPart)
    assert called.input == {"input": patch}
    sent = body_of(form(), conversation(user(TextPart("go")), agent(*parts)))["input"]
    assert sent[1] == {"type": "custom_tool_call", "call_id": "call_1", "name": "apply_patch", "input": patch} | {
        "id": "ctc_1"
    }
    assert (sent[2]["type"], sent[2]["call_id"]) == ("custom_tool_call_output", "call_1")


# Servers that differ


def test_an_item_that_comes_only_when_it_is_complete_is_read() -> None:
    ends = [each for each in STREAM if each["type"] in ("response.output_item.done", "response.completed")]
    assert answer_of(form(), *ends)[0] == answer_of(form(), *STREAM)[0]


def test_items_that_come_only_with_the_end_of_the_response_are_read() -> None:
    items = [each["item"] for each in STREAM if each["type"] == "response.output_item.done"]
    parts, _ = answer_of(form(), completed(output=items))
    assert parts == answer_of(form(), *STREAM)[0]


def test_items_may_all_have_one_index_and_ids_that_change() -> None:
    def changed(number: int, each: dict[str, Any]) -> dict[str, Any]:
        return {**each, "output_index": 0, "item_id": f"random_{number}"} if "output_index" in each else each

    parts, _ = answer_of(form(), *(changed(number, each) for number, each in enumerate(STREAM)))
    assert parts == answer_of(form(), *STREAM)[0]


def test_arguments_that_the_end_writes_with_other_blanks_are_not_added_to_the_streamed_ones() -> None:
    events = call(1, '{"value":"a","n":1}')
    events[-1]["item"]["arguments"] = '{"value": "a", "n": 1}'
    (part,), _ = answer_of(form(), *events, completed())
    assert isinstance(part, ToolPart)
    assert part.input == {"value": "a", "n": 1}


def test_a_delta_of_null_and_unknown_events_are_skipped() -> None:
    unknown = [
        {"type": "response.new_thing.delta", "delta": {"x": 1}, "output_index": "first"},
        event("output_text.delta", output_index=0, delta=None),
        event("output_item.added", output_index=7, item={"type": "new_thing", "id": "n"}),
        event("output_item.done", output_index=7, item={"type": "new_thing", "id": "n"}),
    ]
    parts, _ = answer_of(form(), *unknown, *speech("hi"), completed(), "[DONE]")
    assert [part.text for part in parts if isinstance(part, TextPart)] == ["hi"]


# What goes wrong


def failure(*events: Any) -> ModelError:
    with pytest.raises(ModelError) as raised:
        answer_of(form(), *events)
    return raised.value


def test_an_answer_that_ends_early_is_asked_for_again() -> None:
    for length in range(len(STREAM)):
        error = failure(*STREAM[:length])
        assert error.is_retryable
        assert "broke off" in str(error)


@pytest.mark.parametrize("shape", ["response.failed", "error", "nested"])
@pytest.mark.parametrize(
    ("code", "status", "is_retryable"),
    [("rate_limit_exceeded", 429, True), ("server_error", 500, True), ("insufficient_quota", 429, False)],
)
def test_an_error_within_the_stream_states_whether_to_try_again(
    shape: str, code: str, status: int, is_retryable: bool
) -> None:
    told = {"code": code, "message": "it went wrong"}
    shapes = {
        "response.failed": completed("failed", error=told),
        "error": {"type": "error", "param": None, **told},
        "nested": {"type": "error", "error": {"type": code, **told}},
    }
    error = failure(*speech("hi"), shapes[shape])
    assert (error.status, error.is_retryable) == (status, is_retryable)
    assert "it went wrong" in str(error)


def test_the_wait_that_an_error_names_is_kept() -> None:
    told = {"code": "rate_limit_exceeded", "message": "Rate limit reached for gpt-5. Please try again in 1m2.5s."}
    error = failure(completed("failed", error=told))
    assert error.retry_after_seconds == 62.5


@pytest.mark.parametrize("type", ["error", "response.failed"])
def test_a_full_window_is_recognised_within_the_stream(type: str) -> None:
    told = {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}
    events = {"error": {"type": "error", **told}, "response.failed": completed("failed", error=told)}
    assert isinstance(failure(events[type]), ContextOverflowError)


def test_an_image_that_cannot_be_read_is_not_sent_again() -> None:
    told = {"code": "invalid_image_format", "message": "The image is not one."}
    error = failure(completed("failed", error=told))
    assert not error.is_retryable


@pytest.mark.parametrize("data", ["nonsense", "[]", "7", '{"type": 7}', '{"no": "type"}'])
def test_what_is_not_an_event_is_an_error_that_names_the_provider(data: str) -> None:
    error = failure(data)
    assert "OpenAI sent an unreadable answer" in str(error)
    assert error.is_retryable


@given(st.integers(0, 4000), st.lists(st.integers(0, 10_000), max_size=5))
def test_a_stream_cut_anywhere_ends_in_an_answer_or_an_error(cut: int, splits: list[int]) -> None:
    check_any_answer(form(), as_bytes(STREAM)[:cut], splits)


VALUES = st.none() | st.booleans() | st.integers(-2, 9) | st.text(max_size=4) | st.lists(st.integers(), max_size=2)


@given(st.data())
def test_wrong_types_anywhere_end_in_an_answer_or_an_error(data: st.DataObject) -> None:
    events = json.loads(json.dumps(STREAM))
    for _ in range(data.draw(st.integers(1, 4))):
        place: Any = data.draw(st.sampled_from(events))
        while isinstance(place, dict) and place:
            name = data.draw(st.sampled_from(sorted(place)))
            if not isinstance(place[name], dict) or data.draw(st.booleans()):
                place[name] = data.draw(VALUES)
                break
            place = place[name]
    check_any_answer(form(), as_bytes(data.draw(st.permutations(events)) if data.draw(st.booleans()) else events))
