"""Tool calls in any order."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.schema import UNSET
from dragoman.schema.v1 import Content, Diff, ToolCall, ToolCallLocation, ToolCallPatch, ToolCallUpdate
from dragoman.state import SessionState, ToolCallState
from tests.state.make import agent, folded, in_turn, messages_of, text, tool

DIFF = Diff("/a", "new")
SHOWN = Content(text("out"))
HERE = ToolCallLocation("/a", 3)


@pytest.mark.rule(239, 240, 241)
def test_an_announced_call_has_the_protocols_defaults() -> None:
    call = folded(ToolCall("t", "Read")).tool_calls["t"]
    assert (call.title, call.kind, call.status, call.name) == ("Read", "other", "pending", None)
    assert (call.content, call.locations, call.raw_input, call.raw_output) == ((), (), UNSET, UNSET)
    assert call.is_running


def test_an_announcement_is_taken_whole() -> None:
    full = ToolCall(
        "t",
        "Edit",
        name="edit_file",
        kind="edit",
        status="completed",
        content=[DIFF],
        locations=[HERE],
        raw_input={"a": 1},
        raw_output=None,
        meta={"m": 1},
    )
    call = folded(full).tool_calls["t"]
    assert (call.title, call.name, call.kind, call.status) == ("Edit", "edit_file", "edit", "completed")
    assert (call.content, call.locations) == ((DIFF,), (HERE,))
    assert (call.raw_input, call.raw_output, call.meta) == ({"a": 1}, None, {"m": 1})
    assert call.is_finished
    assert not call.is_running


@pytest.mark.rule(242, 250)
@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("title", "New", "New"),
        ("name", "grep", "grep"),
        ("kind", "search", "search"),
        ("kind", "_vendor", "_vendor"),
        ("status", "in_progress", "in_progress"),
        ("content", [SHOWN], (SHOWN,)),
        ("locations", [], ()),
        ("raw_input", [1], [1]),
        ("raw_output", 0, 0),
        ("meta", {"b": 2}, {"b": 2}),
        # null
        ("title", None, "Edit"),
        ("name", None, "edit_file"),
        ("kind", None, "edit"),
        ("status", None, "pending"),
        ("content", None, (DIFF,)),
        ("locations", None, (HERE,)),
        ("raw_input", None, None),
        ("meta", None, {"m": 1}),
    ],
)
def test_an_update_changes_what_it_names_and_nothing_else(member: str, value: Any, expected: Any) -> None:
    known = ToolCall("t", "Edit", name="edit_file", kind="edit", content=[DIFF], locations=[HERE], raw_input={"a": 1},
                     raw_output="x", meta={"m": 1})  # fmt: skip
    before = folded(known).tool_calls["t"]
    after = folded(known, ToolCallUpdate("t", **{member: value})).tool_calls["t"]
    assert getattr(after, member) == expected
    for name in ToolCallState.__struct_fields__:
        if name not in (member, "revision"):
            assert getattr(after, name) == getattr(before, name)


@pytest.mark.rule(243, 244)
class TestOrder:
    def test_an_update_for_an_unannounced_id_makes_the_call(self) -> None:
        call = folded(ToolCallUpdate("t", status="in_progress")).tool_calls["t"]
        assert (call.title, call.status) == ("", "in_progress")

    def test_an_announcement_after_an_update_adds_to_it(self) -> None:
        state = folded(ToolCallUpdate("t", status="in_progress", content=[DIFF]), ToolCall("t", "Edit", kind="edit"))
        call = state.tool_calls["t"]
        assert (call.title, call.kind, call.status, call.content) == ("Edit", "edit", "in_progress", (DIFF,))
        assert len(state.timeline) == 1

    def test_a_repeated_announcement_is_an_update(self) -> None:
        state = in_turn(
            ToolCall("t", "Run", status="in_progress", raw_input={}),
            agent("x"),
            ToolCall("t", "Run ls", kind="execute"),
        )
        call = state.tool_calls["t"]
        assert (call.title, call.kind, call.status, call.raw_input) == ("Run ls", "execute", "in_progress", {})
        assert list(state.timeline) == [state.messages[0], call, state.messages[1]]

    def test_a_call_named_only_in_a_permission_request_is_known(self) -> None:
        state = in_turn(agent("I will "))
        call = state.note_permission(ToolCallPatch("t", title="Write a", kind="edit", content=[DIFF]))
        assert call is state.tool_calls["t"] is state.timeline[2]
        folded(ToolCallUpdate("t", status="completed"), agent("done"), into=state)
        assert (state.tool_calls["t"].title, state.tool_calls["t"].status) == ("Write a", "completed")
        assert messages_of(state)[1:] == [("agent", "I will "), ("agent", "done")]

    def test_a_permission_request_for_a_known_call_updates_it(self) -> None:
        state = in_turn(tool("t", "Write"))
        before = state.revision
        state.note_permission(ToolCallPatch("t", raw_input={"path": "/a"}))
        assert (state.tool_calls["t"].title, state.tool_calls["t"].raw_input) == ("Write", {"path": "/a"})
        assert state.revision > before

    def test_a_finished_id_announced_again_in_a_later_turn_is_another_call(self) -> None:
        state = in_turn(ToolCall("1", "first", status="completed"))
        state.end_turn("end_turn")
        state.begin_turn([text("again")])
        folded(ToolCall("1", "second"), into=state)
        assert (state.tool_calls["1"].title, state.tool_calls["1"].status) == ("second", "pending")
        titles = [item.title for item in state.timeline if isinstance(item, ToolCallState)]
        assert titles == ["first", "second"]

    def test_a_finished_id_announced_again_in_the_same_turn_is_the_same_call(self) -> None:
        state = in_turn(ToolCall("1", "a", status="completed", raw_output="x"), ToolCall("1", "b", status="completed"))
        assert (state.tool_calls["1"].title, state.tool_calls["1"].raw_output) == ("b", "x")
        assert list(state.timeline) == [state.messages[0], state.tool_calls["1"]]

    def test_an_update_in_a_later_turn_belongs_to_the_old_call(self) -> None:
        state = in_turn(ToolCall("1", "first", status="completed"))
        state.end_turn("end_turn")
        state.begin_turn([text("again")])
        folded(ToolCallUpdate("1", raw_output="more"), into=state)
        assert state.tool_calls["1"].turn == 0
        assert state.timeline[1] is state.tool_calls["1"]

    def test_a_running_call_announced_again_in_a_later_turn_is_the_same(self) -> None:
        state = in_turn(ToolCall("1", "background", status="in_progress"))
        state.end_turn("end_turn")
        state.begin_turn([text("again")])
        folded(ToolCall("1", "background", status="completed"), into=state)
        assert (state.tool_calls["1"].turn, state.tool_calls["1"].status) == (0, "completed")

    def test_a_replay_that_repeats_a_finished_call_has_it_once(self) -> None:
        state = folded(ToolCall("1", "a", status="completed"), ToolCall("1", "a", status="completed"))
        assert len(state.timeline) == 1


@pytest.mark.rule(199)
class TestAfterACancel:
    def cancelled(self) -> SessionState:
        state = in_turn(tool("t"))
        state.end_turn("cancelled")
        return state

    def test_late_updates_still_apply(self) -> None:
        state = folded(ToolCallUpdate("t", status="failed", content=[SHOWN]), into=self.cancelled())
        call = state.tool_calls["t"]
        assert (call.status, call.content, call.is_cancelled) == ("failed", (SHOWN,), True)

    def test_a_late_completed_takes_the_mark_back(self) -> None:
        state = folded(ToolCallUpdate("t", status="completed"), into=self.cancelled())
        assert not state.tool_calls["t"].is_cancelled

    def test_late_progress_does_not_make_it_look_busy(self) -> None:
        state = folded(ToolCallUpdate("t", status="in_progress"), into=self.cancelled())
        assert state.tool_calls["t"].status == "in_progress"
        assert not state.tool_calls["t"].is_running


def test_a_call_is_a_value_and_a_change_makes_another() -> None:
    state = folded(tool("t"))
    before = state.tool_calls["t"]
    folded(ToolCallUpdate("t", status="completed"), into=state)
    after = state.tool_calls["t"]
    assert before.status == "pending"
    assert after.revision > before.revision
    assert state.timeline[0] is after
    with pytest.raises(AttributeError):
        after.status = "failed"  # type: ignore[misc]  # what is shown here


def test_calls_are_in_the_order_of_their_first_update() -> None:
    state = folded(ToolCallUpdate("b"), tool("a"), tool("b"))
    assert list(state.tool_calls) == ["b", "a"]
    assert [call.position for call in state.tool_calls.values()] == [0, 1]
