"""Answers in Anthropic's form."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.builtin.models.model import ContextOverflowError, ModelAuthError, ModelError
from dragoman.builtin.models.wire_forms.anthropic import AnthropicForm
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import ReasoningPart, TextPart, ToolPart, Usage
from tests.builtin.providers.anthropic_answers import BEGUN, STREAM, delta, ended, start, stop
from tests.builtin.providers.forms import answer_of, as_bytes, read, target_of


def form() -> AnthropicForm:
    return AnthropicForm(target_of("anthropic:claude-sonnet-5-5"))


def failure(*events: Any) -> ModelError:
    with pytest.raises(ModelError) as raised:
        list(read(form(), as_bytes(events)))
    return raised.value


def test_an_answer_is_read_part_by_part() -> None:
    parts, end = answer_of(form(), *STREAM)
    thought, hidden, text, first, second = parts
    assert isinstance(thought, ReasoningPart)
    assert (thought.text, thought.provider_metadata) == ("Where is it?", {"anthropic": {"signature": "c2ln"}})
    assert isinstance(hidden, ReasoningPart)
    assert (hidden.text, hidden.provider_metadata) == ("", {"anthropic": {"redacted": "xyz"}})
    assert isinstance(text, TextPart)
    assert text.text == "I look."
    assert isinstance(first, ToolPart)
    assert isinstance(second, ToolPart)
    assert [(call.tool_call_id, call.input) for call in (first, second)] == [
        ("toolu_1", {"value": "a"}),
        ("toolu_2", {"value": "b"}),
    ]
    assert end.reason == "tool-calls"
    assert end.usage == Usage(input=100, output=18, reasoning=12, cache_read=40, cache_write=10)
    assert end.model == "anthropic:claude-sonnet-5-5-20260901"


def test_deltas_arrive_one_by_one() -> None:
    events = (BEGUN, start(0, type="text", text=""), delta(0, text="a"), delta(0, text="b"), stop(0), *ended())
    items = list(read(form(), as_bytes(events)))
    assert [item.delta for item in items if isinstance(item, c.TextDelta)] == ["a", "b"]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "content-filter"),
        ("model_context_window_exceeded", "context-window"),
        ("pause_turn", "other"),
        ("something_new", "other"),
    ],
)
def test_why_an_answer_ended(sent: str, reason: str) -> None:
    assert answer_of(form(), BEGUN, *ended(sent))[1].reason == reason


def test_a_refusal_is_explained() -> None:
    last, end = ended("refusal")
    last["delta"]["stop_details"] = {"type": "refusal", "category": "cyber", "explanation": "This was blocked."}
    (text,), step = answer_of(form(), BEGUN, last, end)
    assert isinstance(text, TextPart)
    assert (text.text, step.reason) == ("This was blocked.", "content-filter")


def test_arguments_that_come_with_the_start_of_a_call_are_read() -> None:
    events = (BEGUN, start(0, type="tool_use", id="t", name="look", input={"value": "x"}), stop(0), *ended("tool_use"))
    (call,), _ = answer_of(form(), *events)
    assert isinstance(call, ToolPart)
    assert call.input == {"value": "x"}


def test_arguments_that_are_cut_off_are_an_error_of_the_call_alone() -> None:
    cut = delta(0, partial_json='{"value": "half')
    events = (BEGUN, start(0, type="tool_use", id="t", name="look", input={}), cut, stop(0), *ended("max_tokens"))
    (call,), end = answer_of(form(), *events)
    assert isinstance(call, ToolPart)
    assert (call.state, end.reason) == ("output-error", "length")
    assert "not a JSON object" in str(call.error_text)


def test_unknown_events_blocks_and_deltas_are_skipped() -> None:
    events = (
        BEGUN,
        {"type": "something_new", "index": 0, "more": [1]},
        start(0, type="server_tool_use", id="x", name="y"),
        delta(0, type="citations_delta", citation={}),
        stop(0),
        start(1, type="text", text="hi"),
        *ended(),
        "[DONE]",
    )
    parts, _ = answer_of(form(), *events)
    assert [part.text for part in parts if isinstance(part, TextPart)] == ["hi"]
    assert len(parts) == 1


def test_an_end_without_the_last_event_counts_if_the_reason_is_known() -> None:
    assert answer_of(form(), BEGUN, start(0, type="text", text="hi"), ended()[0])[1].reason == "stop"
    assert failure(BEGUN, start(0, type="text", text="hi")).is_retryable


@pytest.mark.parametrize(
    ("type", "kind", "is_retryable"),
    [
        ("overloaded_error", ModelError, True),
        ("api_error", ModelError, True),
        ("rate_limit_error", ModelError, True),
        ("something_new", ModelError, True),
        ("invalid_request_error", ModelError, False),
        ("authentication_error", ModelAuthError, False),
    ],
)
def test_an_error_within_the_stream_states_whether_to_try_again(
    type: str, kind: type[ModelError], is_retryable: bool
) -> None:
    error = failure(BEGUN, {"type": "error", "error": {"type": type, "message": "what happened"}})
    assert error.__class__ is kind
    assert error.is_retryable == is_retryable
    assert "what happened" in str(error)


def test_a_full_window_is_recognised_within_the_stream() -> None:
    words = "prompt is too long: 210000 tokens > 200000 maximum"
    error = failure(BEGUN, {"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    assert isinstance(error, ContextOverflowError)
    assert error.window == 200_000


@pytest.mark.parametrize("data", ["nonsense", "[]", "7", '{"type": 7}', '{"type": "message_delta", "usage": 3}'])
def test_what_is_not_an_event_is_an_error_that_names_the_provider(data: str) -> None:
    error = failure(BEGUN, data)
    assert "Anthropic sent an unreadable answer" in str(error)
    assert error.is_retryable
