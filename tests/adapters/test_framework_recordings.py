"""Every recorded run of a framework projects to valid updates that tell what the recording itself tells.

What is expected is read from another part of the same recording: final messages, run items, node updates.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import AskAnswer
from dragoman.adapters.frameworks.graph_events import GraphEvents, decisions_for
from dragoman.adapters.frameworks.openai_runs import OpenAIEvents
from dragoman.adapters.frameworks.pydantic_events import PydanticEvents
from dragoman.uistream import chunks as c
from dragoman.uistream.updates import Projector
from tests.adapters.fixtures import RECORDINGS
from tests.adapters.stories import Story, story_of


def recorded(*folders: str) -> list[Any]:
    """The recordings of these folders, or one that is skipped with the reason."""
    files = [path for folder in folders for path in sorted((RECORDINGS / folder).glob("*.jsonl"))]
    if not files:
        reason = f"no recordings in {RECORDINGS}"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no recordings")]
    return [pytest.param(path, id=f"{path.parent.name}-{path.stem}") for path in files]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# pydantic-ai


def pydantic_story(path: Path) -> Story:
    events = PydanticEvents()
    return story_of(
        chunk for line in lines(path) if isinstance(line["event"], dict) for chunk in events.feed(line["event"])
    )


PYDANTIC = [case for case in recorded("pydantic-ai") if "own-vercel" not in str(case.id)]


@pytest.mark.parametrize("path", PYDANTIC)
def test_a_recorded_run_of_pydantic_ai(path: Path) -> None:
    told = pydantic_story(path)
    events = lines(path)
    result = next((each["event"]["result"] for each in events if each["type"] == "AgentRunResultEvent"), None)
    if result is None:  # the run raised, or was cancelled
        assert events[-1]["type"] == "raised"
        assert told.stop_reason is None
        assert set(told.outcomes.values()) <= {"pending", "in_progress"}
        deltas = [each["event"] for each in events if each["type"] == "PartDeltaEvent"]
        assert all(
            delta["delta"]["content_delta"] in told.text for delta in deltas if "content_delta" in delta["delta"]
        )
        return
    parts = [part for message in result["_state"]["message_history"] for part in message["parts"]]
    started = {each["event"]["part"]["tool_call_id"] for each in events if each["type"] == "FunctionToolCallEvent"}
    returned = {part["tool_call_id"]: part for part in parts if part["part_kind"] == "tool-return"}
    texts = [
        each["event"]["part"]["content"]
        for each in events
        if each["type"] == "PartEndEvent" and each["event"]["part"]["part_kind"] == "text"
    ]
    thoughts = [
        each["event"]["part"]["content"]
        for each in events
        if each["type"] == "PartEndEvent" and each["event"]["part"]["part_kind"] == "thinking"
    ]
    assert told.text == "".join(texts)
    assert told.thoughts == "".join(thoughts)
    assert started <= told.calls.keys()
    for call in told.calls:
        expected = {"success": "completed", "denied": "failed"}
        if call in returned:
            assert told.outcomes[call] == expected[returned[call]["outcome"]]
        else:
            assert told.outcomes[call] == "pending"
    asked = result["output"]["approvals"] if isinstance(result["output"], dict) else []
    assert told.questions == [part["tool_call_id"] for part in asked]
    assert told.stop_reason == (None if asked else "end_turn")


@pytest.mark.parametrize("path", [case for case in recorded("pydantic-ai") if "own-vercel" in str(case.id)])
def test_the_chunks_of_pydantic_ais_own_encoder(path: Path) -> None:
    told = story_of(c.decode_chunk(line) for line in path.read_text().splitlines())
    if "approval" in path.stem:
        assert told.questions == ["call_2"]
        assert told.outcomes == {"call_2": "pending"}
    else:
        assert told == pydantic_story(path.with_name("tool.jsonl"))


# LangGraph, LangChain agents and deep agents


def graph_runs(path: Path) -> list[dict[str, Any]]:
    return [line for line in lines(path) if "mode" in line]


@pytest.mark.parametrize(
    "path", [case for case in recorded("langgraph", "deepagents") if "events-v2" not in str(case.id)]
)
def test_a_recorded_run_of_a_graph(path: Path) -> None:
    events = GraphEvents()
    items = graph_runs(path)
    told = story_of(
        [chunk for line in items for chunk in events.feed(line["ns"], line["mode"], line["chunk"])]
        + list(events.close())
    )
    nodes = [
        update
        for line in items
        if line["mode"] == "updates"
        for name, update in line["chunk"].items()
        if name != "__interrupt__" and isinstance(update, dict)
    ]
    own = [
        message
        for line in items
        if line["mode"] == "updates" and not line["ns"]
        for name, update in line["chunk"].items()
        if name == "model" and isinstance(update, dict)
        for message in update.get("messages", ())
    ]
    if "raised" not in lines(path)[-1]:
        assert told.text == "".join(message.get("content", "") for message in own if message["type"] == "ai")
    returned = {
        message["tool_call_id"]: message["status"]
        for update in nodes
        for message in _messages(update)
        if message.get("type") == "tool"
    }
    for call, status in returned.items():
        if call in told.calls:
            assert told.outcomes[call] == {"success": "completed", "error": "failed"}[status]
    called = {
        call["id"]: call
        for update in nodes
        for message in _messages(update)
        if message.get("type") == "ai"
        for call in message.get("tool_calls", ())
        if call["name"] != "write_todos"
    }
    assert called.keys() <= told.calls.keys()
    begun = {
        piece["id"]
        for line in items
        if line["mode"] == "messages"
        for piece in line["chunk"][0].get("tool_call_chunks", ())
    }
    for id, call in called.items():
        if id in begun:  # others began in the recording before
            assert told.calls[id][1] == call["args"]
    interrupts = [
        each for line in items if line["mode"] == "updates" for each in line["chunk"].get("__interrupt__", ())
    ]
    asked = [action for each in interrupts for action in each["value"]["action_requests"]]
    assert len(told.questions) == len(asked) == len(events.questions)
    for call in told.questions:
        assert told.outcomes[call] == "pending"
    todos = [update["todos"] for update in nodes if "todos" in update]
    if todos:
        assert told.plan == [(todo["content"], todo["status"]) for todo in todos[-1]]


ANSWERED = {
    "approval-asked": ("approval-granted", "completed"),
    "approval-asked-2": ("approval-rejected", "failed"),
    "approval-asked-3": ("approval-edited", "completed"),
    "two-approvals": ("two-approvals-answered", "failed"),
}


@pytest.mark.parametrize(
    "path", [case for case in recorded("langgraph", "deepagents") if str(case.id).split("-", 1)[-1] in ANSWERED]
)
def test_a_recorded_run_that_is_continued_with_the_answers_is_one_story(path: Path) -> None:
    answered, outcome = ANSWERED[path.stem]
    events = GraphEvents()
    projector = Projector()
    asked = [chunk for line in graph_runs(path) for chunk in events.feed(line["ns"], line["mode"], line["chunk"])]
    before = story_of(asked, projector)
    questions = events.questions
    events.begin_run()
    if outcome == "failed":
        assert questions[-1].call_id is not None
        events.refused.add(questions[-1].call_id)
    answers = [c.ToolApprovalResponse(each.id, each.call_id not in events.refused) for each in questions]
    rest = [
        chunk
        for line in graph_runs(path.with_name(f"{answered}.jsonl"))
        for chunk in events.feed(line["ns"], line["mode"], line["chunk"])
    ]
    after = story_of([*answers, *rest], projector)
    assert before.questions
    assert after.questions == []
    assert after.text
    for call in before.questions[:-1]:
        assert after.outcomes[call] == "completed"
    assert after.outcomes[before.questions[-1]] == outcome
    if answered == "approval-edited":
        edited = decisions_for(questions, {each.id: AskAnswer(True, input={"path": "c"}) for each in questions})
        assert [each["decisions"][0]["type"] for each in edited.values()] == ["edit"]


def _messages(update: dict[str, Any]) -> list[dict[str, Any]]:
    found = update.get("messages", ())
    found = found.get("value", ()) if isinstance(found, dict) else found
    return [message for message in found if isinstance(message, dict)]


@pytest.mark.parametrize("path", [case for case in recorded("deepagents") if "subagent" in str(case.id)])
def test_a_sub_agents_text_is_the_output_of_its_call_and_not_the_answer(path: Path) -> None:
    events = GraphEvents()
    chunks = [chunk for line in graph_runs(path) for chunk in events.feed(line["ns"], line["mode"], line["chunk"])]
    told = story_of(chunks)
    assert told.text == "Tool finished: Hello from the model."
    shown = [chunk.output for chunk in chunks if isinstance(chunk, c.ToolOutputAvailable)]
    assert shown == ["Hello ", "Hello from ", "Hello from the model.", "Hello from the model."]
    assert told.outcomes == {"call_7": "completed"}


# openai-agents


@pytest.mark.parametrize("path", recorded("openai-agents"))
def test_a_recorded_run_of_openai_agents(path: Path) -> None:
    mapper = OpenAIEvents()
    events = lines(path)
    told = story_of([chunk for event in events for chunk in mapper.feed(event)] + list(mapper.close()))
    items = [event for event in events if event.get("type") == "run_item_stream_event"]
    texts = [
        "".join(part["text"] for part in each["raw_item"]["content"])
        for each in items
        if each["name"] == "message_output_created"
    ]
    if "raised" not in events[-1] and path.stem != "cancel":
        assert told.text == "".join(texts)
    called = {each["raw_item"]["call_id"]: each["raw_item"] for each in items if each["name"] == "tool_called"}
    outputs = {each["raw_item"]["call_id"]: each["output"] for each in items if each["name"] == "tool_output"}
    assert called.keys() | outputs.keys() == told.calls.keys()
    for call, raw in called.items():
        assert told.calls[call][1] == json.loads(raw["arguments"])
    assert {call for call, outcome in told.outcomes.items() if outcome == "completed"} == outputs.keys()


def test_thoughts_of_a_graph_and_of_openai_agents_are_thoughts() -> None:
    events = GraphEvents()
    content = [{"type": "thinking", "thinking": "hm, "}, {"type": "reasoning", "reasoning": "well"}]
    message = {"type": "AIMessageChunk", "id": "m", "content": [*content, {"type": "text", "text": "yes"}]}
    told = story_of([*events.feed((), "messages", (message, {})), *events.close()])
    assert (told.thoughts, told.text) == ("hm, well", "yes")
    mapper = OpenAIEvents()
    raw = [
        {"type": "response.created"},
        {"type": "response.reasoning_summary_text.delta", "item_id": "r", "delta": "hm"},
        {"type": "response.output_text.delta", "item_id": "m", "delta": "yes"},
    ]
    told = story_of(chunk for data in raw for chunk in mapper.feed({"type": "raw_response_event", "data": data}))
    assert (told.thoughts, told.text) == ("hm", "yes")


def test_interruptions_become_questions_about_calls_that_were_shown() -> None:
    mapper = OpenAIEvents()
    raw = {"type": "function_call", "call_id": "x", "name": "delete_file", "arguments": '{"path": "a"}'}
    called = {"type": "run_item_stream_event", "name": "tool_called", "raw_item": raw}
    projector = Projector()
    told = story_of([*mapper.feed(called), *mapper.questions([{"raw_item": raw}])], projector)
    assert told.questions == ["x"]
    assert told.calls["x"] == ("delete_file a", {"path": "a"}, ["pending"])
