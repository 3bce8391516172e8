"""Turns: what one prompt brought."""

from __future__ import annotations

import pytest

from dragoman.errors import LocalProtocolError
from dragoman.schema import UNSET
from dragoman.schema.v1 import (
    AgentMessageChunk,
    ContentBlock,
    ImageContent,
    Notice,
    TextContent,
    ToolCall,
    ToolCallUpdate,
    Usage,
)
from dragoman.state import SessionState, fold
from tests.state.make import agent, folded, in_turn, messages_of, text, thought, tool, user

USAGE = Usage(120, 100, 20)


def test_a_new_state_has_no_turn_and_no_text() -> None:
    state = SessionState()
    assert (state.text, state.stop_reason, state.is_running, tuple(state.turns)) == ("", None, False, ())


def test_the_prompt_is_a_user_message() -> None:
    state = SessionState()
    prompt: list[ContentBlock] = [text("look"), ImageContent("AA==", "image/png")]
    turn = state.begin_turn(prompt)
    assert turn.prompt == tuple(prompt)
    assert messages_of(state) == [("user", "look")]
    assert state.messages[0].blocks == tuple(prompt)
    assert (turn.index, turn.is_running, turn.stop_reason, turn.usage) == (0, True, None, None)
    assert state.is_running


def test_text_is_the_agents_text_of_the_last_turn() -> None:
    state = in_turn(thought("hm"), agent("a"), tool("t"), agent("b"), user("x"), agent("c"))
    assert state.text == "abc"
    assert [message.text for message in state.turns[-1].messages] == ["a", "b", "c"]
    state.end_turn("end_turn")
    assert state.text == "abc"
    state.begin_turn([text("again")])
    assert state.text == ""
    folded(agent("d"), into=state)
    assert [turn.text for turn in state.turns] == ["abc", "d"]


@pytest.mark.rule(181)
@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "_vendor"])
def test_the_answer_is_kept_with_its_turn(reason: str) -> None:
    state = in_turn(agent("a"))
    turn = state.end_turn(reason, USAGE)
    assert turn is state.turns[0]
    assert (turn.stop_reason, turn.usage, turn.is_running) == (reason, USAGE, False)
    assert state.stop_reason == reason
    assert not state.is_running


@pytest.mark.rule(191)
@pytest.mark.parametrize("usage", [None, UNSET])
def test_an_answer_without_usage_has_none(usage: None) -> None:
    assert in_turn().end_turn("end_turn", usage).usage is None


def test_a_turn_that_breaks_off_has_no_stop_reason() -> None:
    state = in_turn(agent("a"))
    turn = state.end_turn(None)
    assert (state.stop_reason, turn.is_running, state.text) == (None, False, "a")


@pytest.mark.rule(183)
def test_after_a_refusal_the_turn_is_known_to_be_out_of_the_context() -> None:
    state = in_turn(agent("a"))
    assert state.turns[0].is_in_context
    state.end_turn("refusal")
    state.begin_turn([text("again")])
    folded(agent("b"), into=state)
    state.end_turn("end_turn")
    assert [turn.is_in_context for turn in state.turns] == [False, True]
    lost = [message.text for message in state.messages if message.turn == 0]
    assert lost == ["go", "a"]


def test_a_turn_is_a_slice_of_the_timeline() -> None:
    notice = Notice("info", "n")
    state = folded(agent("before"))
    turn = state.begin_turn([text("go")])
    folded(agent("a"), tool("t"), notice, into=state)
    assert turn.end is None
    state.end_turn("end_turn")
    folded(agent("after"), into=state)
    items = state.timeline[turn.start : turn.end]
    assert items == (state.messages[1], state.messages[2], state.tool_calls["t"], notice)


@pytest.mark.rule(187)
def test_a_second_turn_cannot_begin_while_one_runs() -> None:
    state = in_turn()
    with pytest.raises(LocalProtocolError, match="running"):
        state.begin_turn([text("again")])
    assert len(state.turns) == 1
    assert messages_of(state) == [("user", "go")]


def test_no_turn_can_end_that_has_not_begun() -> None:
    state = SessionState()
    with pytest.raises(LocalProtocolError, match="begin_turn"):
        state.end_turn("end_turn")
    state.begin_turn([])
    state.end_turn("end_turn")
    with pytest.raises(LocalProtocolError):
        state.end_turn("end_turn")


@pytest.mark.rule(186)
def test_text_that_arrives_between_turns_belongs_to_no_turn() -> None:
    state = in_turn(agent("a"))
    state.end_turn("end_turn")
    folded(agent("late"), agent("new", "n"), into=state)
    assert state.text == "a"
    assert messages_of(state)[-2:] == [("agent", "late"), ("agent", "new")]


def test_a_late_tail_under_its_id_still_counts_for_its_turn() -> None:
    state = in_turn(agent("a", "1"), agent("b", "2"))
    assert state.text == "ab"
    state.end_turn("end_turn")
    folded(agent("!", "1"), into=state)
    assert state.text == "a!b"


class TestTextWhileMessagesInterleave:
    def test_is_in_the_order_in_which_the_messages_began(self) -> None:
        state = in_turn(agent("a", "1"), agent("b", "2"), agent("c", "1"), agent("d", "2"))
        assert state.text == "acbd"

    def test_is_right_at_every_moment(self) -> None:
        state = in_turn()
        one = two = ""
        for number, message_id in enumerate("1122121121222111"):
            folded(agent(str(number), message_id), into=state)
            if message_id == "1":
                one += str(number)
            else:
                two += str(number)
            assert state.text == one + two
            assert state.text == one + two

    def test_is_right_when_read_only_now_and_then(self) -> None:
        state = in_turn(agent("a", "1"), agent("b", "2"), agent("c", "1"))
        assert state.text == "acb"
        folded(agent("d", "1"), agent("e", "2"), agent("f", "3"), into=state)
        assert state.text == "acdbef"
        folded(agent("g", "3"), into=state)
        assert state.text == "acdbefg"


def test_an_id_that_comes_again_in_a_later_turn_continues_the_message_and_counts_for_that_turn() -> None:
    state = in_turn(agent("one", "m"))
    state.end_turn("end_turn")
    state.begin_turn([text("again")])
    folded(agent(" two", "m"), into=state)
    assert state.text == " two"
    folded(agent("!", "m"), agent("x", "n"), into=state)
    assert [turn.text for turn in state.turns] == ["one", " two!x"]
    assert messages_of(state) == [("user", "go"), ("agent", "one two!"), ("user", "again"), ("agent", "x")]


def test_blocks_that_are_not_text_do_not_disturb_the_text() -> None:
    image = ImageContent("AA==", "image/png")
    state = in_turn(agent("a"), agent(image), agent(TextContent("b", meta={"x": 1})), tool("t"), agent("c"))
    assert state.text == "abc"


@pytest.mark.rule(193, 241)
class TestACancelledTurn:
    def test_marks_unfinished_tool_calls_without_making_up_a_status(self) -> None:
        state = in_turn(tool("open"), tool("done"), ToolCallUpdate("done", status="completed"))
        state.end_turn("cancelled")
        assert (state.tool_calls["open"].is_cancelled, state.tool_calls["open"].status) == (True, "pending")
        assert not state.tool_calls["open"].is_running
        assert not state.tool_calls["done"].is_cancelled
        assert state.timeline[1] is state.tool_calls["open"]

    def test_marks_them_at_once_when_the_cancel_goes_out(self) -> None:
        state = in_turn(tool("t"))
        before = state.revision
        state.cancel_turn()
        assert state.tool_calls["t"].is_cancelled
        assert state.is_running
        assert state.revision > before

    def test_marks_what_came_after_the_cancel_at_its_end(self) -> None:
        state = in_turn()
        state.cancel_turn()
        folded(tool("t"), into=state)
        assert not state.tool_calls["t"].is_cancelled
        state.end_turn("cancelled")
        assert state.tool_calls["t"].is_cancelled

    def test_leaves_the_calls_of_earlier_turns_alone(self) -> None:
        state = in_turn(tool("background"))
        state.end_turn("end_turn")
        state.begin_turn([text("again")])
        state.end_turn("cancelled")
        assert state.tool_calls["background"].is_running

    def test_can_be_cancelled_when_nothing_runs(self) -> None:
        state = in_turn(tool("t"))
        state.end_turn("end_turn")
        before = state.revision
        state.cancel_turn()
        assert state.revision == before
        assert state.tool_calls["t"].is_running


def test_a_turn_that_breaks_off_leaves_no_tool_call_looking_busy() -> None:
    state = in_turn(tool("t"))
    state.end_turn(None)
    assert not state.tool_calls["t"].is_running


def test_a_turn_that_ends_otherwise_leaves_its_tool_calls_as_they_are() -> None:
    state = in_turn(tool("t"))
    state.end_turn("max_tokens")
    assert state.tool_calls["t"].is_running


def test_a_turn_says_what_it_is() -> None:
    assert repr(in_turn().turns[0]) == "TurnState(0, stop_reason=None, is_running=True)"


def test_what_a_lost_agent_worked_on_has_failed() -> None:
    state = SessionState()
    state.begin_turn([text("go")])
    fold(state, ToolCall("a", "A", status="in_progress"))
    fold(state, ToolCall("b", "B", status="completed"))
    state.lose_agent()
    assert [call.status for call in state.tool_calls.values()] == ["failed", "completed"]
    assert state.turns[0].is_lost
    assert not state.is_running
    state.begin_turn([text("again")])
    state.end_turn("end_turn")
    assert not state.turns[1].is_lost


def test_a_lost_agent_takes_its_background_work_along_and_leaves_cancelled_calls_as_they_are() -> None:
    state = SessionState()
    state.begin_turn([text("go")])
    fold(state, ToolCall("cancelled", "C", status="in_progress"))
    state.cancel_turn()
    state.end_turn("cancelled")
    state.begin_turn([text("go")])
    fold(state, ToolCall("background", "B", status="in_progress"))
    state.end_turn("end_turn")
    state.lose_agent()
    assert state.tool_calls["background"].status == "failed"
    assert state.tool_calls["cancelled"].is_cancelled
    assert state.tool_calls["cancelled"].status == "in_progress"
    assert not any(turn.is_lost for turn in state.turns)


def test_what_comes_after_a_cancel_belongs_to_the_cancelled_turn_until_the_next_begins() -> None:
    state = SessionState()
    state.begin_turn([text("go")])
    fold(state, AgentMessageChunk(text("half a ")))
    state.end_turn("cancelled")
    assert state.is_after_cancel
    fold(state, AgentMessageChunk(text("word")))
    fold(state, ToolCall("late", "L"))
    assert state.turns[0].text == "half a word"
    assert state.tool_calls["late"].turn == 0
    assert not state.tool_calls["late"].is_running
    state.begin_turn([text("go")])
    fold(state, AgentMessageChunk(text("new")))
    assert state.turns[0].text == "half a word"
    assert state.text == "new"
    state.end_turn("end_turn")
    assert state.is_after_cancel is False
