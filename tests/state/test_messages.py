"""Which chunk belongs to which message."""

from __future__ import annotations

import pytest

from dragoman.schema import Unknown
from dragoman.schema.v1 import (
    AgentMessageChunk,
    AvailableCommandsUpdate,
    CompactionUpdate,
    ImageContent,
    Notice,
    Plan,
    PlanMarkdown,
    PlanUpdate,
    SessionMessage,
    SessionUpdate,
    TextContent,
    ToolCallUpdate,
    UsageUpdate,
)
from dragoman.state import Message, SessionState
from tests.state.make import agent, folded, in_turn, messages_of, text, thought, tool, user

IMAGE = ImageContent("AA==", "image/png")


@pytest.mark.rule(211, 213)
def test_chunks_without_an_id_continue_the_message_before_them() -> None:
    state = folded(agent("Hel"), agent("lo", None), agent(" you"))
    assert messages_of(state) == [("agent", "Hello you")]
    assert state.messages[0].message_id is None


@pytest.mark.rule(212)
@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        ([agent("a", "1"), agent("b", "1")], [("agent", "ab")]),
        ([agent("a", "1"), agent("b", "2")], [("agent", "a"), ("agent", "b")]),
        ([agent("a", "1"), agent("b", "2"), agent("c", "1"), agent("d", "2")], [("agent", "ac"), ("agent", "bd")]),
        ([agent("a", "1"), tool("t"), agent("b", "1")], [("agent", "ab")]),
        ([thought("a", "1"), agent("b", "1"), thought("c", "1")], [("thought", "ac"), ("agent", "b")]),
        ([agent("a", "1"), agent("b")], [("agent", "a"), ("agent", "b")]),
        ([agent("a"), agent("b", "1")], [("agent", "a"), ("agent", "b")]),
        ([agent("a"), agent("b", "1"), agent("c")], [("agent", "a"), ("agent", "b"), ("agent", "c")]),
        ([agent("a", ""), agent("b")], [("agent", "a"), ("agent", "b")]),
    ],
    ids=[
        "same id",
        "changed id",
        "interleaved ids",
        "same id across a tool call",
        "an id is an id within its role",
        "no id after an id",
        "an id after no id",
        "no id does not reach back across an id",
        "the empty id is an id",
    ],
)
def test_the_id_decides_where_there_is_one(updates: list[SessionUpdate], expected: list[tuple[str, str]]) -> None:
    assert messages_of(folded(*updates)) == expected


@pytest.mark.rule(213)
@pytest.mark.parametrize(
    ("between", "splits"),
    [
        (thought("hm"), True),
        (user("hi"), True),
        (tool("t"), True),
        (ToolCallUpdate("unannounced"), True),
        (CompactionUpdate("c", "in_progress"), True),
        (SessionMessage("m"), True),
        (ToolCallUpdate("known", status="completed"), False),
        (Plan([]), True),
        (PlanUpdate(PlanMarkdown("p", "x")), True),
        (PlanUpdate(PlanMarkdown("known", "x")), False),
        (Notice("info", "n"), False),
        (UsageUpdate(1, 2), False),
        (AvailableCommandsUpdate([]), False),
        (Unknown("_x", {"sessionUpdate": "_x"}), False),
    ],
)
def test_without_ids_only_another_speaker_or_new_work_ends_a_message(between: SessionUpdate, splits: bool) -> None:
    known: list[SessionUpdate] = [tool("known"), PlanUpdate(PlanMarkdown("known", ""))]
    state = folded(*known, agent("a"), between, agent("b"))
    spoken = [words for role, words in messages_of(state) if role == "agent"]
    assert spoken == (["a", "b"] if splits else ["ab"])


def test_a_turn_ends_a_message_without_id_and_not_one_with_id() -> None:
    state = in_turn(agent("a"), agent("b", "1"))
    state.end_turn("end_turn")
    folded(agent("[mode changed]"), agent("c", "1"), into=state)
    assert messages_of(state) == [("user", "go"), ("agent", "a"), ("agent", "bc"), ("agent", "[mode changed]")]


def test_a_prompt_ends_a_message_that_came_between_turns() -> None:
    state = folded(agent("a"))
    state.begin_turn([text("go")])
    folded(agent("b"), into=state)
    assert messages_of(state) == [("agent", "a"), ("user", "go"), ("agent", "b")]


def test_messages_know_their_turn() -> None:
    state = folded(agent("before"))
    state.begin_turn([text("one")])
    folded(agent("first"), into=state)
    state.end_turn("end_turn")
    folded(agent("between"), into=state)
    state.begin_turn([text("two")])
    assert [message.turn for message in state.messages] == [None, 0, 0, None, 1]


@pytest.mark.rule(237)
def test_blocks_keep_their_order_and_neighbouring_plain_texts_are_one() -> None:
    unknown = Unknown("hologram", {"type": "hologram"})
    marked = TextContent("!", meta={"x": 1})
    state = folded(agent("a"), agent("b"), agent(IMAGE), agent("c"), agent(marked), agent(unknown), agent("d"))
    message = state.messages[0]
    assert message.blocks == (text("ab"), IMAGE, text("c"), marked, unknown, text("d"))
    assert message.text == "abc!d"


def test_blocks_of_a_message_without_text_are_only_what_came() -> None:
    assert folded(agent(IMAGE)).messages[0].blocks == (IMAGE,)
    assert folded(agent("")).messages[0].blocks == ()


def test_thoughts_are_messages_of_their_own_role() -> None:
    state = folded(user("q"), thought("hm"), agent("a"), thought("so"))
    assert [message.text for message in state.thoughts] == ["hm", "so"]
    assert [role for role, _ in messages_of(state)] == ["user", "thought", "agent", "thought"]


def test_the_last_meta_of_a_message_is_kept() -> None:
    state = folded(agent("a"), AgentMessageChunk(text("b"), meta={"k": 1}), agent("c"))
    assert state.messages[0].meta == {"k": 1}
    assert state.messages[0].text == "abc"


def test_a_message_revision_grows_with_each_chunk_and_not_by_reading() -> None:
    state = folded(agent("a"), agent("b"))
    message = state.messages[0]
    before = message.revision
    assert message.text == "ab"
    assert message.blocks == (text("ab"),)
    assert message.revision == before
    for chunk in (agent("c"), agent(IMAGE)):
        folded(chunk, into=state)
        assert message.revision > before
        before = message.revision


class TestAnAgentThatRepeatsThePrompt:
    def test_names_the_message_that_is_there(self) -> None:
        state = SessionState()
        state.begin_turn([text("look"), IMAGE])
        before = state.messages[0].revision
        folded(user("look", "u1"), user(IMAGE, "u1"), agent("ok"), into=state)
        assert messages_of(state) == [("user", "look"), ("agent", "ok")]
        assert state.messages[0].message_id == "u1"
        assert state.messages[0].blocks == (text("look"), IMAGE)
        assert state.messages[0].revision > before

    def test_adds_nothing_without_an_id_either(self) -> None:
        state = in_turn(user("go"), agent("ok"))
        assert messages_of(state) == [("user", "go"), ("agent", "ok")]

    def test_and_then_says_more_under_that_id_extends_it(self) -> None:
        state = in_turn(user("go", "u1"), user(" on", "u1"))
        assert messages_of(state) == [("user", "go on")]

    def test_twice_adds_the_second_one(self) -> None:
        assert messages_of(in_turn(user("go"), user("go"))) == [("user", "go"), ("user", "go")]

    def test_is_distinguished_from_one_with_another_text(self) -> None:
        assert messages_of(in_turn(user("stop"))) == [("user", "go"), ("user", "stop")]

    def test_is_believed_between_turns(self) -> None:
        state = in_turn()
        state.end_turn("end_turn")
        folded(user("go"), into=state)
        assert messages_of(state) == [("user", "go"), ("user", "go")]


def test_a_message_says_what_it_is() -> None:
    assert repr(folded(agent("hi", "m")).messages[0]) == "Message('agent', 'm', 'hi')"
    assert isinstance(folded(agent("hi")).messages[0], Message)
