"""AG-UI endpoints: a real one that pydantic-ai serves, and events of every kind."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import ag_ui
from dragoman.adapters.endpoints.ag_ui_events import AGUIEvents, patched
from dragoman.errors import RequestError
from dragoman.schema import v1
from tests.adapters.fixtures import Answers, Forms, ask, on_wire, session_of, statuses, text_of
from tests.adapters.http_server import Prepared, PreparedServer, sse
from tests.adapters.scripted_pydantic import make_agent, served
from tests.adapters.stories import story_of

STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


def says(text: str) -> list[dict[str, Any]]:
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": text},
        {"type": "TEXT_MESSAGE_END", "messageId": "m"},
    ]


async def test_a_real_agent_answers_asks_and_remembers(tmp_path: Path) -> None:
    deleted: list[str] = []
    answers = Answers("allow", "reject", "edit")
    async with served(make_agent(deleted, ends_with_questions=True), "ag_ui") as url:
        options: dict[str, Any] = {"permission": answers, "elicitation": Forms({"path": "other.txt"})}
        async with session_of(ag_ui(url), tmp_path, **options) as session:
            assert text_of(await ask(session, "hello")) == "1: hello"
            assert text_of(await ask(session, "again")) == "2: again"
            updates = await ask(session, "THINK")
            assert (text_of(updates, "agent_thought_chunk"), text_of(updates)) == ("hm, well", "thought")
            updates = await ask(session, "DELETE a.txt")
            assert text_of(updates) == "Tool finished: deleted a.txt"
            assert statuses(updates) == ["pending", "in_progress", "completed"]
            updates = await ask(session, "DELETE b.txt")
            assert statuses(updates) == ["pending", "failed"]
            await ask(session, "DELETE c.txt")
            with pytest.raises(RequestError, match="model down"):
                await ask(session, "FAIL")
            turn = session.prompt("WAIT")
            async with turn:
                async for update in turn:
                    if isinstance(update, v1.AgentMessageChunk):
                        break
                await session.cancel()
                async for _ in turn:
                    pass
            assert turn.result.stop_reason == "cancelled"
            assert text_of(await ask(session, "hello")).endswith(": hello")
    assert deleted == ["a.txt", "other.txt"]


def test_every_kind_of_event_is_mapped_and_others_show_nothing() -> None:
    events = AGUIEvents()
    stream: list[dict[str, Any]] = [
        STARTED,
        {"type": "STEP_STARTED", "stepName": "s"},
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "old "},
        {"type": "THINKING_TEXT_MESSAGE_END"},
        {"type": "REASONING_MESSAGE_CHUNK", "messageId": "r", "delta": "new"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a"},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "b"},
        {"type": "TOOL_CALL_START", "toolCallId": "x", "toolCallName": "read_file"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "x", "delta": '{"path": '},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "x", "delta": '"a"}'},
        {"type": "TOOL_CALL_END", "toolCallId": "x"},
        {"type": "TOOL_CALL_RESULT", "toolCallId": "x", "messageId": "n", "content": "alpha"},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "y", "toolCallName": "write_file", "delta": "{}"},
        {"type": "TOOL_CALL_RESULT", "toolCallId": "y", "messageId": "n", "content": "", "error": "no"},
        {"type": "STATE_SNAPSHOT", "snapshot": {"count": 1}},
        {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/count", "value": 2}]},
        {"type": "HOLOGRAM"},
        *says("c"),
        FINISHED,
    ]
    told = story_of(chunk for event in stream for chunk in events.feed(event))
    assert (told.text, told.thoughts, told.stop_reason) == ("abc", "old new", "end_turn")
    assert told.calls["x"] == ("read_file a", {"path": "a"}, ["pending", "in_progress", "completed"])
    assert told.outcomes["y"] == "failed"
    assert events.state == {"count": 2}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/b", "value": 1}], {"a": [1, 2], "b": 1}),
        ([{"op": "add", "path": "/a/-", "value": 3}], {"a": [1, 2, 3]}),
        ([{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1, 2]}),
        ([{"op": "replace", "path": "/a/1", "value": 9}], {"a": [1, 9]}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ([{"op": "remove", "path": "/a"}], {}),
        ([{"op": "replace", "path": "", "value": 7}], 7),
        ([{"op": "add", "path": "/x~1y", "value": 1}], {"a": [1, 2], "x/y": 1}),
        ([{"op": "replace", "path": "/nope/1", "value": 9}, {"op": "remove", "path": "/nope"}, {}], {"a": [1, 2]}),
        ("nonsense", {"a": [1, 2]}),
    ],
)
def test_the_state_follows_a_json_patch(operations: Any, expected: Any) -> None:
    assert patched({"a": [1, 2]}, operations) == expected


async def test_the_state_is_sent_again_and_own_headers_and_members_too(tmp_path: Path) -> None:
    first = Prepared(sse(STARTED, {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}}, *says("one"), FINISHED, done=False))
    with PreparedServer(first) as server:
        source = ag_ui(server.url, headers={"x-key": "1"}, body={"forwardedProps": {"a": 1}})
        async with session_of(source, tmp_path) as session:
            await ask(session, "first")
            await ask(session, "second")
    one, two = server.bodies()
    assert server.requests[0].headers["x-key"] == "1"
    assert (one["state"], two["state"], two["forwardedProps"]) == (None, {"n": 1}, {"a": 1})
    assert [(each["role"], each["content"]) for each in two["messages"]] == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
    ]
    assert one["threadId"] == two["threadId"] == session.id
    assert one["runId"] != two["runId"]


async def test_an_interrupt_without_a_call_is_a_form(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
    interrupt = {"id": "i", "reason": "input_required", "message": "How large?", "responseSchema": schema}
    asks = Prepared(sse(STARTED, {**FINISHED, "outcome": {"type": "interrupt", "interrupts": [interrupt]}}, done=False))
    goes_on = Prepared(sse(STARTED, *says("done"), FINISHED, done=False))
    with PreparedServer(asks, goes_on) as server:
        forms = Forms({"size": 3})
        async with session_of(ag_ui(server.url), tmp_path, elicitation=forms) as session:
            assert text_of(await ask(session, "go")) == "done"
    assert forms.asked[0].message == "How large?"
    assert server.bodies()[1]["resume"] == [{"interruptId": "i", "status": "resolved", "payload": {"size": 3}}]
    with PreparedServer(asks, goes_on) as server:
        async with session_of(ag_ui(server.url), tmp_path) as session:
            assert text_of(await ask(session, "go")) == "done"
    assert server.bodies()[1]["resume"] == [{"interruptId": "i", "status": "cancelled"}]


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (Prepared(sse(STARTED, *says("half"), done=False)), "broke off; what arrived is kept"),
        (Prepared(sse(STARTED, *says("half"), done=False), breaks=True), "broke off"),
        (Prepared(sse(STARTED, "{nope")), "not an AG-UI event"),
        (Prepared(sse(STARTED, {"type": "RUN_ERROR", "message": "out of paper"})), "out of paper"),
        (Prepared(b"", 404), "status 404; check the path"),
    ],
)
async def test_what_breaks_is_reported(response: Prepared, message: str, tmp_path: Path) -> None:
    with PreparedServer(response) as server:
        async with session_of(ag_ui(server.url), tmp_path) as session:
            with pytest.raises(RequestError, match=message):
                await ask(session, "go")


async def test_an_image_is_sent_as_a_part(tmp_path: Path) -> None:
    with PreparedServer(Prepared(sse(STARTED, *says("seen"), FINISHED, done=False))) as server:
        async with session_of(ag_ui(server.url), tmp_path) as session:
            blocks: list[v1.ContentBlock] = [v1.TextContent("look"), v1.ImageContent("AAAA", "image/png")]
            assert text_of(on_wire([update async for update in session.prompt(blocks)])) == "seen"
    content = server.bodies()[0]["messages"][0]["content"]
    assert content[1] == {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}
