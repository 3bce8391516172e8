"""Answers in the form of OpenAI's chat completions, as servers really send them."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.builtin.models.model import ContextOverflowError, ModelError
from dragoman.builtin.models.wire_forms.chat import ChatForm
from dragoman.uistream.messages import Part, ReasoningPart, TextPart, ToolPart, Usage
from tests.builtin.providers.chat_answers import STREAM, call, ended, piece
from tests.builtin.providers.forms import answer_of, as_bytes, read, target_of


def form(name: str = "openai-compatible:the-model") -> ChatForm:
    return ChatForm(target_of(name))


def failure(*events: Any) -> ModelError:
    with pytest.raises(ModelError) as raised:
        list(read(form(), as_bytes(events)))
    return raised.value


def texts(parts: list[Part]) -> tuple[str, str]:
    thoughts = "".join(part.text for part in parts if isinstance(part, ReasoningPart))
    return thoughts, "".join(part.text for part in parts if isinstance(part, TextPart))


def calls(parts: list[Part]) -> list[tuple[str, Any]]:
    return [(part.tool_call_id, part.input) for part in parts if isinstance(part, ToolPart)]


def test_an_answer_is_read_part_by_part() -> None:
    parts, end = answer_of(form(), *STREAM)
    assert texts(parts) == ("Where is it?", "I look.")
    assert calls(parts) == [("call_1", {"value": "a"}), ("call_2", {"value": "b"})]
    assert end.reason == "tool-calls"
    assert end.usage == Usage(input=100, output=18, reasoning=12, cache_read=40)
    assert end.model == "openai-compatible:the-model"


A, B = '{"value": "a"}', '{"value": "b"}'


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(
            [call(name="look", arguments='{"value":"a"}'), call(name="look", arguments='{"value":"b"}')], id="bare"
        ),
        pytest.param(
            [
                call(index=0, name="look", arguments='{"value":"a"}'),
                call(index=0, name="look", arguments='{"value":"b"}'),
            ],
            id="one index",
        ),
        pytest.param(
            [
                call(index=0, id="x", name="look", arguments={"value": "a"}),
                call(index=0, id="y", name="look", arguments={"value": "b"}),
            ],
            id="objects",
        ),
    ],
)
@pytest.mark.parametrize("is_together", [True, False])
def test_whole_calls_without_index_or_id_are_calls(sent: list[Any], is_together: bool) -> None:
    pieces = [piece(tool_calls=sent)] if is_together else [piece(tool_calls=[each]) for each in sent]
    parts, _ = answer_of(form(), *pieces, *ended("stop"))
    assert [arguments for _, arguments in calls(parts)] == [{"value": "a"}, {"value": "b"}]
    assert len({id for id, _ in calls(parts)}) == 2


def test_a_name_that_every_piece_repeats_begins_no_other_call() -> None:
    pieces = [
        piece(tool_calls=[call(index=0, id="x", name="look", arguments=text)]) for text in ('{"val', 'ue": ', '"a"}')
    ]
    assert calls(answer_of(form(), *pieces, *ended())[0]) == [("x", {"value": "a"})]


def test_a_whole_answer_of_a_server_that_does_not_stream_is_read() -> None:
    message = {"role": "assistant", "content": "hi", "tool_calls": [call(id="x", name="look", arguments="{}")]}
    whole = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 3}}
    parts, end = answer_of(form(), whole)
    assert texts(parts) == ("", "hi")
    assert calls(parts) == [("x", {})]
    assert end.usage == Usage(input=3)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["<think>", "hm", "</think>", "\n\nyes"], ("hm", "yes")),
        (["<th", "ink>h", "m</th", "ink>yes"], ("hm", "yes")),
        (["\n<think>hm</think>yes <think>"], ("hm", "yes <think>")),
        (["a <think> b"], ("", "a <think> b")),
        (["<b>", "bold"], ("", "<b>bold")),
        (["<think>never ended </thi"], ("never ended </thi", "")),
        (["<th"], ("", "<th")),
    ],
)
def test_thoughts_between_tags_at_the_beginning_are_thoughts(pieces: list[str], expected: tuple[str, str]) -> None:
    parts, _ = answer_of(form(), *(piece(content=text) for text in pieces), *ended())
    assert texts(parts) == expected


def test_content_in_parts_is_read() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts, _ = answer_of(form("mistral:m"), piece(content=[thinking]), piece(content=[{"text": "yes"}]), *ended())
    assert texts(parts) == ("hm", "yes")


def test_reasoning_details_of_openrouter_are_put_together() -> None:
    parts, _ = answer_of(
        form("openrouter:a/b"),
        piece(reasoning="Wh", reasoning_details=[{"type": "reasoning.text", "text": "Wh", "index": 0}]),
        piece(reasoning="ere?", reasoning_details=[{"type": "reasoning.text", "text": "ere?", "index": 0}]),
        piece(reasoning_details=[{"type": "reasoning.text", "signature": "c2ln", "index": 0}]),
        piece(reasoning_details=[{"type": "reasoning.encrypted", "data": "xyz", "index": 1}]),
        *ended(),
    )
    (thought,) = parts
    assert isinstance(thought, ReasoningPart)
    assert thought.text == "Where?"
    assert thought.provider_metadata["openrouter"]["details"] == [
        {"type": "reasoning.text", "text": "Where?", "index": 0, "signature": "c2ln"},
        {"type": "reasoning.encrypted", "data": "xyz", "index": 1},
    ]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 30, "prompt_cache_hit_tokens": 40}, Usage(60, 30, 0, 40)),
        ({"prompt_tokens": 100, "completion_tokens": 30, "cached_tokens": 40}, Usage(60, 30, 0, 40)),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 30,
                "total_tokens": 142,
                "completion_tokens_details": {"reasoning_tokens": 12},
            },
            Usage(100, 30, 12),
        ),
        ({"prompt_tokens": "many", "completion_tokens": None}, None),
        ({}, None),
    ],
)
def test_usage_is_counted_as_the_server_means_it(usage: dict[str, Any], expected: Usage | None) -> None:
    assert answer_of(form(), piece(content="hi"), {**piece("stop"), "usage": usage})[1].usage == expected


def test_usage_within_the_choice_and_the_price_of_the_server_are_read() -> None:
    last = piece("stop")
    last["choices"][0]["usage"] = {"prompt_tokens": 7}
    assert answer_of(form("moonshotai:kimi"), last)[1].usage == Usage(input=7)
    usage = {"prompt_tokens": 7, "cost": 0.25}
    assert answer_of(form("openrouter:a/b"), piece("stop"), {"choices": [], "usage": usage})[1].cost_usd == 0.25


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("model_length", "length"),
        ("content_filter", "content-filter"),
        ("model_context_window_exceeded", "context-window"),
        ("something_new", "other"),
    ],
)
def test_why_an_answer_ended(sent: str, reason: str) -> None:
    assert answer_of(form(), *ended(sent))[1].reason == reason


def test_the_end_may_be_stated_in_either_way_but_must_be_stated() -> None:
    assert answer_of(form(), piece(content="hi"), piece("stop"))[1].reason == "stop"
    assert answer_of(form(), piece(content="hi"), "[DONE]")[1].reason == "stop"
    assert failure(piece(content="hi")).is_retryable
    assert failure(piece(content="hi"), piece("insufficient_system_resource")).is_retryable


def test_an_error_within_the_stream_is_an_error() -> None:
    error = failure(piece(content="hi"), {"error": {"message": "upstream is down", "code": 502}})
    assert (error.is_retryable, error.status) == (True, 502)
    assert "upstream is down" in str(error)
    error = failure({"error": {"message": "no", "code": "invalid_request_error"}})
    assert not error.is_retryable
    words = "This endpoint's maximum context length is 4096 tokens. However, you requested about 5000 tokens"
    assert isinstance(failure({"error": {"message": words, "code": 400}}), ContextOverflowError)


@pytest.mark.parametrize("data", ["nonsense", "[]", "7", '{"choices": 7}', '{"choices": [{"delta": {"content": 7}}]}'])
def test_what_is_not_an_event_is_an_error_that_names_the_server(data: str) -> None:
    error = failure(data)
    assert "OpenAI-compatible server sent an unreadable answer" in str(error)
    assert error.is_retryable
