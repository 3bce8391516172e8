"""The rest of the state, and the promise that nobody changes it from outside."""

from __future__ import annotations

from typing import get_args

import pytest

from dragoman.schema import Unknown, v1
from dragoman.schema.v1 import (
    AvailableCommand,
    AvailableCommandsUpdate,
    Cost,
    Notice,
    SessionInfoUpdate,
    SessionUpdate,
    ToolCallPatch,
    UsageUpdate,
)
from dragoman.state import SessionState, fold
from tests.state.make import agent, folded, in_turn, text, thought, tool

PLAN = AvailableCommand("plan", "Plan it")
TEST = AvailableCommand("test", "Run the tests")


def test_there_is_a_step_for_every_variant_of_the_schema() -> None:
    assert {*get_args(v1.SessionUpdate), Unknown} == set(SessionState()._steps)


@pytest.mark.rule(270)
def test_commands_are_replaced_as_a_whole() -> None:
    first = folded(AvailableCommandsUpdate([PLAN, TEST]))
    assert first.commands == (PLAN, TEST)
    second = folded(AvailableCommandsUpdate([TEST]), into=first)
    assert second.commands == (TEST,)


@pytest.mark.rule(217)
@pytest.mark.parametrize(
    ("update", "title", "updated_at", "meta"),
    [
        (SessionInfoUpdate(), "t", "u", {"m": 1}),
        (SessionInfoUpdate(title="new"), "new", "u", {"m": 1}),
        (SessionInfoUpdate(title=None), None, "u", {"m": 1}),
        (SessionInfoUpdate(updated_at="later"), "t", "later", {"m": 1}),
        (SessionInfoUpdate(updated_at=None), "t", None, {"m": 1}),
        (SessionInfoUpdate(meta={"n": 2}), "t", "u", {"n": 2}),
        (SessionInfoUpdate(meta=None), "t", "u", None),
    ],
)
def test_session_info_is_a_patch(
    update: SessionInfoUpdate, title: str | None, updated_at: str | None, meta: dict[str, int] | None
) -> None:
    state = folded(SessionInfoUpdate(title="t", updated_at="u", meta={"m": 1}), update)
    assert (state.title, state.updated_at, state.meta) == (title, updated_at, meta)


@pytest.mark.rule(214, 215, 216)
def test_usage_is_the_last_report_and_the_cost_stays_known() -> None:
    cost = Cost(0.5, "USD")
    assert (SessionState().usage, SessionState().cost) == (None, None)
    state = folded(UsageUpdate(1, 10, cost), UsageUpdate(2, 10))
    assert (state.usage, state.cost) == (UsageUpdate(2, 10), cost)
    folded(UsageUpdate(3, 10, None), into=state)
    assert (state.usage, state.cost) == (UsageUpdate(3, 10, None), cost)
    folded(UsageUpdate(3, 10, Cost(0.75, "USD")), into=state)
    assert state.cost == Cost(0.75, "USD")


@pytest.mark.rule(219, 221)
def test_notices_are_kept_in_the_timeline_whatever_their_severity() -> None:
    notices = [Notice("info", "a"), Notice("_odd", "b", "more")]
    state = folded(notices[0], agent("x"), notices[1])
    assert list(state.notices) == notices
    assert [item for item in state.timeline if isinstance(item, Notice)] == notices


@pytest.mark.rule(225)
def test_unknown_updates_are_kept_in_their_place() -> None:
    odd = Unknown("_odd", {"sessionUpdate": "_odd", "x": [1]})
    state = folded(agent("a"), odd, tool("t"))
    assert list(state.unknown) == [odd]
    assert list(state.timeline) == [state.messages[0], odd, state.tool_calls["t"]]


@pytest.mark.parametrize("thing", [None, {}, "agent_message_chunk", ToolCallPatch("t"), text("a")])
def test_a_value_that_is_not_an_update_is_refused(thing: object) -> None:
    state = SessionState()
    with pytest.raises(TypeError, match="not a session update"):
        fold(state, thing)  # type: ignore[arg-type]  # what is shown here
    assert state.revision == 0


def test_the_revision_grows_with_every_change() -> None:
    state = SessionState()
    seen = [state.revision]

    def note() -> None:
        seen.append(state.revision)

    state.open()
    note()
    state.begin_turn([text("go")])
    note()
    updates: list[SessionUpdate] = [agent("a"), agent("b"), thought("c"), tool("t"), UsageUpdate(1, 2)]
    for update in updates:
        fold(state, update)
        note()
    state.cancel_turn()
    note()
    state.end_turn("cancelled")
    note()
    assert seen == sorted(set(seen))
    assert state.text == "ab"
    assert state.revision == seen[-1]


def test_nothing_can_be_changed_from_outside() -> None:
    state = in_turn(agent("a"), tool("t"))
    public = [name for name in dir(SessionState) if not name.startswith("_")]
    for name in public:
        with pytest.raises(AttributeError):
            setattr(state, name, None)
    with pytest.raises(AttributeError):
        state.extra = 1  # type: ignore[attr-defined]  # what is shown here
    for views in (state.messages, state.thoughts, state.timeline, state.turns, state.notices, state.unknown):
        assert not hasattr(views, "append")
        with pytest.raises(TypeError):
            views[0] = None  # type: ignore[index]  # what is shown here
    for mapping in (state.tool_calls, state.plans, state.compactions, state.subagents, state.session_messages):
        with pytest.raises(TypeError):
            mapping["x"] = None  # type: ignore[index]  # what is shown here
    for item in (state.messages[0], state.turns[0], state.tool_calls["t"]):
        with pytest.raises(AttributeError):
            setattr(item, "turn" if hasattr(item, "turn") else "index", 9)


def test_a_view_follows_the_state_and_its_slices_do_not() -> None:
    state = folded(agent("a"))
    view = state.timeline
    sliced = view[:]
    folded(tool("t"), into=state)
    assert (len(view), len(sliced)) == (2, 1)
    assert view[-1] is state.tool_calls["t"]
    assert state.tool_calls["t"] in view
    assert [*reversed(view)] == [view[1], view[0]]
    assert repr(view).startswith("View([Message(")


def test_a_state_says_what_it_is() -> None:
    assert repr(in_turn(agent("a"))) == "SessionState(revision=2, turns=1, timeline=2)"
