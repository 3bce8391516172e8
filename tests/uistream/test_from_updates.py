"""ACP updates as UI-message streams: every row of the mapping, and that any turn gives a stream that clients take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.schema import UNSET, Unknown, decode, v1
from dragoman.uistream import chunks as c
from dragoman.uistream.from_updates import SDK_VERSIONS, SdkVersion, UpdateProjector, prompt_blocks
from dragoman.uistream.updates import Projector
from tests.golden.conversations import CORPORA, messages
from tests.uistream.chunk_reader import StrictReader

OPTIONS = [v1.PermissionOption("yes", "Allow", "allow_once"), v1.PermissionOption("no", "Reject", "reject_once")]
WORDS = st.sampled_from(["", "Hello", " there", "\x1b[31mred", "é漢\u2028"])
IDS = st.sampled_from(["c1", "c2", "c3"])
CONTENTS = st.lists(
    st.one_of(
        WORDS.map(lambda text: v1.Content(v1.TextContent(text))),
        st.just(v1.Diff("/w/a.py", "new", "old")),
        st.just(v1.Terminal("t1")),
        st.just(Unknown("odd", {"type": "odd"})),
    ),
    max_size=2,
)
STATUSES = st.sampled_from([UNSET, "pending", "in_progress", "completed", "failed"])
INPUTS = st.sampled_from([UNSET, None, {}, {"path": "a"}, "text", 3])
UPDATES = st.one_of(
    st.builds(v1.AgentMessageChunk, WORDS.map(v1.TextContent), message_id=st.sampled_from([UNSET, "m1", "m2"])),
    st.builds(v1.AgentThoughtChunk, WORDS.map(v1.TextContent)),
    st.sampled_from([v1.AgentMessageChunk, v1.AgentThoughtChunk]).flatmap(
        lambda kind: st.sampled_from(
            [
                kind(v1.ImageContent("aGk=", "image/png")),
                kind(v1.ResourceLink("a.py", "file:///w/a.py")),
                kind(v1.EmbeddedResource(v1.TextResourceContents("x", "file:///w/x"))),
                kind(Unknown("odd", {"type": "odd"})),
            ]
        )
    ),
    st.builds(
        v1.ToolCall,
        IDS,
        WORDS,
        status=STATUSES,
        raw_input=INPUTS,
        raw_output=INPUTS,
        content=CONTENTS,
        kind=st.just("read"),
    ),
    st.builds(v1.ToolCallUpdate, IDS, status=STATUSES, raw_input=INPUTS, raw_output=INPUTS, content=CONTENTS),
    st.sampled_from(
        [
            v1.Plan([v1.PlanEntry("Look", "high", "pending")]),
            v1.UsageUpdate(1, 2, v1.Cost(0.5, "USD")),
            v1.SessionInfoUpdate(title="A title"),
            v1.CurrentModeUpdate("code"),
            v1.AvailableCommandsUpdate([v1.AvailableCommand("test", "runs", v1.UnstructuredCommandInput("what"))]),
            v1.Notice("info", "Look out"),
            v1.UserMessageChunk(v1.TextContent("hi")),
            Unknown("odd", {"sessionUpdate": "odd"}),
        ]
    ),
)
QUESTIONS = st.tuples(st.just("ask"), IDS)
ANSWERS = st.tuples(st.just("answer"), st.booleans())
ENDS = st.sampled_from(["end_turn", "cancelled", "max_tokens", "refusal", "max_turn_requests", "odd", None])


def text_of(updates: list[Any], kind: Any) -> str:
    texts = [
        each.content.text for each in updates if isinstance(each, kind) and isinstance(each.content, v1.TextContent)
    ]
    return "".join(texts)


def ended(version: SdkVersion, updates: list[Any], stop_reason: str = "end_turn") -> StrictReader:
    projector, reader = UpdateProjector("m", version=version), StrictReader(version)
    found = projector.begin()
    for update in updates:
        found += projector.project(update)
    reader.stream([*found, *projector.finish(stop_reason)])
    return reader


@given(st.sampled_from(SDK_VERSIONS), st.lists(UPDATES, max_size=25), ENDS)
def test_any_updates_make_a_stream_that_clients_of_that_version_take(version: Any, updates: Any, end: Any) -> None:
    projector, reader = UpdateProjector("m", version=version), StrictReader(version)
    found = projector.begin()
    for update in updates:
        found += projector.project(update)
    reader.stream([*found, *(projector.finish(end) if end else projector.fail("it broke"))])
    assert "".join(reader.texts["text"]) == text_of(updates, v1.AgentMessageChunk)
    assert "".join(reader.texts["reasoning"]) == text_of(updates, v1.AgentThoughtChunk)
    calls = {each.tool_call_id for each in updates if isinstance(each, v1.ToolCall | v1.ToolCallUpdate)}
    assert set(reader.tools) == calls
    assert all(tool["state"] in ("output", "error") for tool in reader.tools.values())


@given(st.lists(st.one_of(UPDATES, QUESTIONS, ANSWERS), max_size=25), st.sampled_from(["end_turn", "cancelled"]))
def test_any_turn_with_questions_makes_streams_of_one_message(steps: Any, end: Any) -> None:
    projector, reader = UpdateProjector("m"), StrictReader()
    found, open_questions, asked = projector.begin(), list[str](), 0
    for step in steps:
        if isinstance(step, tuple) and step[0] == "answer":
            if open_questions:
                question = open_questions.pop(0)
                projector.answer(question, allows=step[1])
                reader.tools[reader.asked[question]]["state"] = "answered"
        elif isinstance(step, tuple):
            asked += 1
            open_questions.append(f"q{asked}")
            found += projector.ask(f"q{asked}", v1.ToolCallPatch(step[1]), OPTIONS)
            assert projector.has_questions
            reader.stream([*found, *projector.pause()])
            assert reader.finished == "tool-calls"
            found = projector.begin()
        else:
            found += projector.project(step)
    reader.stream([*found, *projector.finish(end)])
    assert all(tool["state"] in ("output", "error", "denied") for tool in reader.tools.values())


@given(st.lists(UPDATES, max_size=15))
def test_the_projection_reads_its_inverse(updates: Any) -> None:
    projector, back = UpdateProjector("m"), Projector()
    found: list[Any] = []
    for update in updates:
        for chunk in projector.project(update):
            found += back.project(chunk)
    for chunk in projector.finish("end_turn"):
        found += back.project(chunk)
    for kind in (v1.AgentMessageChunk, v1.AgentThoughtChunk):
        assert text_of(found, kind) == text_of(updates, kind)
    assert [each for each in found if isinstance(each, v1.Plan)] == [
        each for each in updates if isinstance(each, v1.Plan)
    ]
    assert back.stop_reason == "end_turn"


def test_a_call_shows_its_input_its_growing_output_and_its_end() -> None:
    projector = UpdateProjector("m")
    made = projector.project(v1.ToolCall("c1", "Run\x1b[2J\n tests", kind="execute", status="pending"))
    assert made == [c.StartStep(), c.ToolInputStart("c1", "execute", "Run tests", True, True)]
    made = projector.project(v1.ToolCallUpdate("c1", status="in_progress", raw_input={"command": "make"}))
    assert made == [c.ToolInputAvailable("c1", "execute", {"command": "make"}, "Run tests", True, True)]
    made = projector.project(v1.ToolCallUpdate("c1", content=[v1.Content(v1.TextContent("1 of 2"))]))
    output: Any = {
        "kind": "execute",
        "status": "in_progress",
        "text": "1 of 2",
        "content": [{"type": "content", "content": {"type": "text", "text": "1 of 2"}}],
    }
    assert made == [c.ToolOutputAvailable("c1", output, True, True, True)]
    made = projector.project(v1.ToolCallUpdate("c1", status="completed", raw_output=0))
    assert made == [c.ToolOutputAvailable("c1", output | {"status": "completed", "rawOutput": 0}, UNSET, True, True)]
    assert projector.project(v1.ToolCallUpdate("c1", status="completed")) == []


def test_text_behind_a_call_begins_a_new_step_and_text_between_calls_does_not() -> None:
    call = v1.ToolCall("c1", "Read", status="completed")
    reader = ended(6, [v1.AgentMessageChunk(v1.TextContent("a")), call, v1.AgentMessageChunk(v1.TextContent("b"))])
    assert (reader.step, reader.texts["text"]) == (2, ["a", "b"])
    running = v1.ToolCall("c1", "Read", status="in_progress")
    assert ended(6, [running, v1.AgentMessageChunk(v1.TextContent("b"))]).step == 1


def test_a_client_answers_by_itself_also_while_another_call_runs() -> None:
    projector, reader = UpdateProjector("m"), StrictReader()
    found = projector.begin()
    for id in ("c1", "c2"):
        found += projector.project(v1.ToolCall(id, id, status="in_progress"))
    found += projector.ask("q1", v1.ToolCallPatch("c2"), OPTIONS)
    reader.stream([*found, *projector.pause()])
    assert reader.answers_by_itself()
    projector.answer("q1", allows=True)
    reader.tools["c2"]["state"] = "answered"
    rest = projector.begin()
    for id in ("c1", "c2"):
        rest += projector.project(v1.ToolCallUpdate(id, status="completed", raw_output=id))
    reader.stream([*rest, *projector.finish("end_turn")])
    assert [tool["output"]["rawOutput"] for tool in reader.tools.values()] == ["c1", "c2"]


@pytest.mark.parametrize("status", ["failed", "pending"])
def test_a_refused_call_is_shown_as_refused(status: str) -> None:
    projector, reader = UpdateProjector("m"), StrictReader()
    first = [*projector.begin(), *projector.ask("q1", v1.ToolCallPatch("c1", title="Delete"), OPTIONS)]
    reader.stream([*first, *projector.pause()])
    (name, permission), *_ = reader.data
    assert name == "data-permission"
    assert [option["optionId"] for option in permission["options"]] == ["yes", "no"]
    projector.answer("q1", allows=False)
    rest = [*projector.begin(), *projector.project(v1.ToolCallUpdate("c1", status=status))]
    reader.stream([*rest, *projector.finish("end_turn")])
    assert reader.tools["c1"]["state"] == "denied"


def test_a_failed_call_shows_what_the_agent_reported() -> None:
    failed = v1.ToolCall("c1", "Read", status="failed", content=[v1.Content(v1.TextContent("no \x1b[1msuch file"))])
    assert ended(5, [failed]).tools["c1"]["error"] == "no such file"
    assert ended(6, [v1.ToolCall("c1", "Read", status="failed", raw_output="gone")]).tools["c1"]["error"] == "gone"


def test_a_failed_turn_keeps_its_text_and_closes_its_calls_with_the_reason() -> None:
    projector, reader = UpdateProjector("m"), StrictReader()
    found = [*projector.begin(), *projector.project(v1.AgentMessageChunk(v1.TextContent("a")))]
    found += projector.project(v1.ToolCall("c1", "Read", status="in_progress"))
    reader.stream([*found, *projector.fail("the agent ended")])
    assert (reader.error, reader.texts["text"], reader.tools["c1"]["error"]) == (
        "the agent ended",
        ["a"],
        "the agent ended",
    )


def test_a_posted_message_becomes_the_blocks_of_a_prompt() -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk="},
        {"type": "file", "mediaType": "text/plain", "filename": "a.txt", "url": "https://example.test/a.txt"},
        {"type": "data-own", "data": 1},
        {"type": "text", "text": 3},
        "odd",
    ]
    image, link = (
        v1.ImageContent("aGk=", "image/png"),
        v1.ResourceLink("a.txt", "https://example.test/a.txt", mime_type="text/plain"),
    )
    assert prompt_blocks(parts) == [v1.TextContent("What is this?"), image, link]
    assert prompt_blocks(None) == []


@pytest.mark.parametrize("version", SDK_VERSIONS)
@pytest.mark.parametrize("corpus", list(CORPORA))
def test_recorded_sessions_of_real_agents_make_streams_that_clients_take(corpus: str, version: SdkVersion) -> None:
    if not CORPORA[corpus].is_dir():
        pytest.skip(f"no recordings in {CORPORA[corpus]}")
    sessions: dict[str, list[Any]] = {}
    for message in messages(CORPORA[corpus]):
        if message.method == "session/update" and message.part == "params":
            update = decode(v1.SessionNotification, json.dumps(message.value).encode()).update
            sessions.setdefault(message.where.partition(":")[0], []).append(update)
    assert sessions
    for updates in sessions.values():
        reader = ended(version, updates)
        assert "".join(reader.texts["text"]) == text_of(updates, v1.AgentMessageChunk)
