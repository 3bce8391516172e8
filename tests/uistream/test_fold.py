"""Chunks add up to messages, and messages give their chunks back."""

import json

import pytest

from dragoman.errors import StoreError
from dragoman.store.messages import decode_part, encode_part
from dragoman.uistream import chunks as c
from dragoman.uistream.chunks import Chunk, ChunkError
from dragoman.uistream.fold import Reducer
from dragoman.uistream.messages import (
    DataPart,
    FilePart,
    OtherPart,
    StepStartPart,
    TextPart,
    ToolPart,
    UIMessage,
    Usage,
)
from dragoman.uistream.unfold import replay
from tests.builtin.streams import FILES, STREAMS, stream

needs_streams = pytest.mark.skipif(not FILES, reason=f"no recorded streams in {STREAMS}")


def reduce(chunks: list[Chunk], message: UIMessage | None = None, *, is_tolerant: bool = False) -> Reducer:
    reducer = Reducer(message or UIMessage("m", "assistant", []), is_tolerant=is_tolerant)
    for chunk in chunks:
        reducer.feed(chunk)
    return reducer


def texts(message: UIMessage) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, TextPart)]


def tools(message: UIMessage) -> dict[str, ToolPart]:
    return {part.tool_call_id: part for part in message.parts if isinstance(part, ToolPart)}


@needs_streams
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_recorded_stream_reduces_and_survives_the_store(path) -> None:  # type: ignore[no-untyped-def]
    continues = "granted" in path.stem or "denied" in path.stem or path.stem.endswith("toolapproval_user")
    reducer = reduce(stream(path.stem.removeprefix("aisdk_")), is_tolerant=continues)
    reducer.close()
    stored = [decode_part(encode_part(part)) for part in reducer.message.parts]
    again = reduce(replay(UIMessage(reducer.message.id, "assistant", stored)), is_tolerant=continues).message
    assert [json.loads(encode_part(part)) for part in again.parts] == [
        json.loads(encode_part(part)) for part in reducer.message.parts
    ]


@needs_streams
def test_a_turn_with_tools_has_each_call_once_with_its_outcome() -> None:
    message = reduce(stream("v6_tools")).message
    calls = tools(message)
    assert {id: part.state for id, part in calls.items()} == {
        "call_read": "output-available",
        "call_bash": "output-available",
        "call_bad": "output-error",
        "call_mcp": "output-available",
        "call_invalid": "output-error",
        "call_unknown": "output-error",
    }
    assert calls["call_bash"].output["exitCode"] == 0
    assert not calls["call_bash"].is_preliminary
    assert calls["call_bad"].error_text == "disk is on fire"
    assert calls["call_mcp"].is_dynamic
    assert texts(message) == ["Reading. ", "All done."]


@needs_streams
def test_a_permitted_tool_call_continues_in_the_next_stream_of_the_same_message() -> None:
    message = reduce(stream("v6_approval_request")).message
    assert [call.state for call in tools(message).values()] == ["approval-requested"]
    reduce(stream("v6_approval_granted"), message)
    assert [call.state for call in tools(message).values()] == ["output-available"]
    assert texts(message)[-1] == "Written."


@needs_streams
def test_data_with_the_same_id_replaces_and_transient_data_is_not_kept() -> None:
    message = reduce(stream("v6_data_parts")).message
    (plan,) = [part for part in message.parts if isinstance(part, DataPart)]
    assert plan.data["entries"][0]["status"] == "completed"
    assert message.metadata == {"a": 1, "b": 2}


def test_an_abort_leaves_parts_open_and_closing_ends_each_once() -> None:
    reducer = reduce(
        [
            c.StartStep(),
            c.TextStart("t"),
            c.TextDelta("t", "one "),
            c.ToolInputStart("a", "read"),
            c.ToolInputDelta("a", '{"path":"/x'),
            c.ToolInputAvailable("b", "bash", {"command": "ls"}),
            c.ToolOutputAvailable("b", {"text": "so far"}, True),
            c.Abort(),
        ]
    )
    assert [part.tool_call_id for part in reducer.open_tools] == ["a", "b"]
    ends = reducer.close("cancelled")
    assert ends == [c.TextEnd("t"), c.ToolOutputError("a", "cancelled"), c.ToolOutputError("b", "cancelled")]
    assert reducer.close() == []
    calls = tools(reducer.message)
    assert calls["a"].input == {"path": "/x"}
    assert calls["b"].is_over


def test_a_delta_without_a_beginning_is_refused_unless_a_cut_log_is_read() -> None:
    for chunk in (c.TextDelta("t", "x"), c.ReasoningDelta("r", "x"), c.ToolOutputAvailable("a", 1), c.TextEnd("t")):
        with pytest.raises(ChunkError, match="never began"):
            reduce([chunk])
    message = reduce([c.TextDelta("t", "x"), c.ToolOutputDenied("a")], is_tolerant=True).message
    assert texts(message) == ["x"]
    assert tools(message)["a"].state == "output-denied"


def test_a_reset_step_takes_back_what_the_step_did_and_nothing_before_it() -> None:
    message = reduce(
        [
            c.StartStep(),
            c.TextStart("1"),
            c.TextDelta("1", "kept"),
            c.FinishStep(),
            c.StartStep(),
            c.TextStart("1"),
            c.TextDelta("1", "void"),
            c.ToolInputAvailable("a", "read", {}),
            c.ResetStep(),
            c.TextStart("1"),
            c.TextDelta("1", "again"),
        ]
    ).message
    assert texts(message) == ["kept", "again"]
    assert not tools(message)
    assert len([part for part in message.parts if isinstance(part, StepStartPart)]) == 2


def test_the_answer_to_a_permission_request_is_stored_before_the_tool_runs() -> None:
    message = reduce(
        [
            c.ToolInputAvailable("a", "bash", {"command": "ls"}),
            c.ToolApprovalRequest("q", "a"),
            c.ToolApprovalResponse("q", False, "too risky"),
        ]
    ).message
    (call,) = tools(message).values()
    assert call.state == "approval-responded"
    assert call.permission == {"id": "q", "approved": False, "reason": "too risky"}


def test_words_that_steered_a_turn_are_kept_and_replayed() -> None:
    words = c.SteeringMessage("u1", [{"type": "text", "text": "use tabs"}])
    message = reduce([c.StartStep(), words]).message
    assert words in replay(message)


def test_a_part_of_an_unknown_kind_survives_the_store_and_garbage_does_not() -> None:
    raw = {"type": "hologram", "data": [1]}
    assert decode_part(json.dumps(raw)) == OtherPart(raw)
    assert json.loads(encode_part(OtherPart(raw))) == raw
    for garbage in ("", "[]", "{}", '{"type":"text"}'):
        with pytest.raises(StoreError, match="cannot be read"):
            decode_part(garbage)


def test_files_replay_as_what_they_were() -> None:
    message = UIMessage("m", "assistant", [FilePart("u", "image/png"), FilePart("v", "image/png", is_reasoning=True)])
    assert replay(message)[1:] == [c.File("u", "image/png"), c.ReasoningFile("v", "image/png")]


def test_usage_adds_up_in_five_parts() -> None:
    total = Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50)
    assert total == Usage(11, 22, 33, 44, 55)
    assert total.context == 165
