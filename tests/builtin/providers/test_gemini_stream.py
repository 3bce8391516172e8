"""Google's Gemini form: what is read in an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.models.model import ContextOverflowError, ModelError, StepEnd
from dragoman.builtin.models.wire_forms.failures import failure_of
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import FilePart, ReasoningPart, TextPart, ToolPart, Usage
from tests.builtin.providers.forms import (
    HELLO,
    PNG,
    answer_of,
    as_bytes,
    check_any_answer,
    read,
    target_of,
)
from tests.builtin.providers.gemini_answers import NEW, STOP, STREAM, call, form, piece, sent_back


def test_an_answer_is_read_part_by_part() -> None:
    parts, end = answer_of(form(), *STREAM)
    thought, text, one, two, _ = parts
    assert isinstance(thought, ReasoningPart)
    assert isinstance(text, TextPart)
    assert (thought.text, text.text) == ("Where is it?", "I look.")
    assert isinstance(one, ToolPart)
    assert isinstance(two, ToolPart)
    assert (one.tool_call_id, one.name, one.input) == ("c1", "look", {"value": "a"})
    assert (two.tool_call_id, two.input) == ("c2", {"value": "b"})
    assert (end.reason, end.model) == ("tool-calls", "google:gemini-3.8-flash-001")
    assert end.usage == Usage(input=105, output=18, reasoning=12, cache_read=40)


def test_deltas_arrive_one_by_one() -> None:
    items = list(read(form(), as_bytes(STREAM)))
    assert [item.delta for item in items if isinstance(item, c.TextDelta)] == ["I ", "look."]
    assert [item.delta for item in items if isinstance(item, c.ReasoningDelta)] == ["Where ", "is it?"]


def test_parallel_calls_without_ids_get_ids_of_ours() -> None:
    parts, _ = answer_of(form(), piece(call("a"), call("a")), STOP)
    ids = {part.tool_call_id for part in parts if isinstance(part, ToolPart)}
    assert len(ids) == 2
    first, second = sent_back(parts)
    assert {first["functionCall"]["id"], second["functionCall"]["id"]} == ids


def test_a_count_that_a_later_event_leaves_out_is_kept() -> None:
    first = piece({"text": "hi"}, usageMetadata={"promptTokenCount": 50, "cachedContentTokenCount": 30})
    last = piece(reason="STOP", usageMetadata={"promptTokenCount": 50, "candidatesTokenCount": 2})
    assert answer_of(form(), first, last)[1].usage == Usage(input=20, output=2, cache_read=30)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content-filter"),
        ("RECITATION", "content-filter"),
        ("PROHIBITED_CONTENT", "content-filter"),
        ("OTHER", "other"),
        ("A_NEW_REASON", "other"),
    ],
)
def test_why_an_answer_ended(reason: str, expected: str) -> None:
    assert answer_of(form(), piece({"text": "hi"}, reason=reason))[1].reason == expected


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"])
def test_a_call_that_the_model_wrote_wrongly_is_asked_for_again(reason: str) -> None:
    error = failure(piece({"text": "hi"}), piece(reason=reason))
    assert error.is_retryable
    assert reason in str(error)


def test_an_answer_longer_than_a_response_is_continued() -> None:
    reader = form().reader(HELLO)
    first = piece({"text": "one "}, reason="CONTINUATION", usageMetadata={"promptTokenCount": 9})
    first["candidates"][0]["continuationToken"] = "dG9r"
    items = [*reader.feed("", json.dumps(first).encode()), *reader.end()]
    assert not any(isinstance(item, StepEnd) for item in items)
    assert reader.continuation() == {"continuationToken": "dG9r"}
    last = piece({"text": "two"}, reason="STOP", usageMetadata={"promptTokenCount": 10, "candidatesTokenCount": 2})
    items += [*reader.feed("", json.dumps(last).encode()), *reader.end()]
    assert [item.delta for item in items if isinstance(item, c.TextDelta)] == ["one ", "two"]
    assert sum(isinstance(item, c.TextStart) for item in items) == 1
    end = items[-1]
    assert isinstance(end, StepEnd)
    assert (end.reason, end.usage) == ("stop", Usage(input=19, output=2))


def test_an_answer_that_cannot_be_continued_ends_with_its_length() -> None:
    assert answer_of(form(), piece({"text": "hi"}, reason="CONTINUATION"))[1].reason == "length"


def test_a_prompt_that_google_blocks_ends_the_answer() -> None:
    _, end = answer_of(form(), {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {}})
    assert end.reason == "content-filter"


def test_an_image_of_the_model_is_a_file() -> None:
    (part,), _ = answer_of(form(), piece({"inlineData": {"mimeType": "image/png", "data": PNG}}), STOP)
    assert isinstance(part, FilePart)
    assert part.url == f"data:image/png;base64,{PNG}"


def test_unknown_parts_and_members_are_skipped() -> None:
    strange = piece({"newThing": {"x": 1}}, {"executableCode": {"code": "1"}}, {"text": "hi", "more": 1}, news=[1])
    parts, _ = answer_of(form(), {"keepAlive": True}, strange, STOP)
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


EXHAUSTED = {
    "error": {
        "code": 429,
        "message": "You exceeded your current quota. Please retry in 32.5s.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "32s"}],
    }
}
TOO_LONG = {
    "error": {
        "code": 400,
        "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "status": "INVALID_ARGUMENT",
    }
}


@pytest.mark.parametrize("is_list", [False, True])
def test_an_error_within_the_stream_names_the_wait(is_list: bool) -> None:
    error = failure(piece({"text": "hi"}), [EXHAUSTED] if is_list else EXHAUSTED)
    assert (error.status, error.is_retryable, error.retry_after_seconds) == (429, True, 32.0)


@pytest.mark.parametrize("is_list", [False, True])
def test_an_error_instead_of_a_stream_names_the_wait(is_list: bool) -> None:
    body = json.dumps([EXHAUSTED] if is_list else EXHAUSTED)
    error = failure_of(target_of(NEW), 429, body, {})
    assert (error.is_retryable, error.retry_after_seconds) == (True, 32.0)


def test_a_full_window_is_recognised() -> None:
    for error in (failure(TOO_LONG), failure_of(target_of(NEW), 400, json.dumps([TOO_LONG]), {})):
        assert isinstance(error, ContextOverflowError)
        assert (error.window, error.used) == (1_048_576, 1_200_000)


@pytest.mark.parametrize("data", ["nonsense", "7", '{"candidates": 7}', '[{"candidates": "x"}]'])
def test_what_is_not_an_event_is_an_error_that_names_the_provider(data: str) -> None:
    error = failure(data)
    assert "Google Gemini sent an unreadable answer" in str(error)
    assert error.is_retryable


@given(st.integers(0, 2500), st.lists(st.integers(0, 10_000), max_size=5))
def test_a_stream_cut_anywhere_ends_in_an_answer_or_an_error(cut: int, splits: list[int]) -> None:
    check_any_answer(form(), as_bytes(STREAM)[:cut], splits)


VALUES = st.none() | st.booleans() | st.integers(-2, 9) | st.text(max_size=4) | st.lists(st.integers(), max_size=2)


@given(st.data())
def test_wrong_types_anywhere_end_in_an_answer_or_an_error(data: st.DataObject) -> None:
    events = json.loads(json.dumps(STREAM))
    for _ in range(data.draw(st.integers(1, 4))):
        place: Any = data.draw(st.sampled_from(events))
        while isinstance(place, (dict, list)) and place:
            name = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if not isinstance(place[name], (dict, list)) or data.draw(st.booleans()):
                place[name] = data.draw(VALUES)
                break
            place = place[name]
    check_any_answer(form(), as_bytes(data.draw(st.permutations(events)) if data.draw(st.booleans()) else events))
