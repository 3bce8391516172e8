"""Plans, with and without an id."""

from __future__ import annotations

import pytest

from dragoman.schema import Unknown
from dragoman.schema.v1 import Plan, PlanEntry, PlanFile, PlanItems, PlanMarkdown, PlanRemoved, PlanUpdate
from dragoman.state import PlanState, SessionState
from tests.state.make import agent, folded, in_turn, text, user

ONE = PlanEntry("one", "high", "pending")
TWO = PlanEntry("two", "low", "completed")


def shown(state: SessionState) -> list[tuple[PlanEntry, ...]]:
    return [item.entries for item in state.timeline if isinstance(item, PlanState)]


def test_there_is_no_plan_at_first() -> None:
    assert folded(agent("a")).plan == ()


@pytest.mark.rule(265, 266, 267)
def test_each_plan_replaces_the_one_before() -> None:
    state = in_turn(Plan([ONE]), agent("x"), Plan([ONE, TWO]))
    assert list(state.plan) == [ONE, TWO]
    folded(Plan([TWO]), into=state)
    assert list(state.plan) == [TWO]
    assert shown(state) == [(TWO,)]
    assert isinstance(state.timeline[1], PlanState)
    folded(Plan([]), into=state)
    assert list(state.plan) == []


def test_a_turn_has_its_own_plan_in_the_timeline() -> None:
    state = in_turn(Plan([ONE]))
    state.end_turn("end_turn")
    assert state.plan == (ONE,)
    state.begin_turn([text("again")])
    assert state.plan == (ONE,)
    folded(Plan([TWO]), into=state)
    assert state.plan == (TWO,)
    assert shown(state) == [(ONE,), (TWO,)]
    assert [item.turn for item in state.timeline if isinstance(item, PlanState)] == [0, 1]


def test_a_replayed_prompt_has_its_own_plan_in_the_timeline() -> None:
    state = folded(user("a"), Plan([ONE]), Plan([TWO]), user("b"), Plan([ONE]))
    assert shown(state) == [(TWO,), (ONE,)]


def test_plans_with_an_id_are_kept_by_it_in_any_form() -> None:
    items, file, prose = PlanItems("i", [ONE]), PlanFile("f", "file:///p.md"), PlanMarkdown("m", "# plan")
    state = folded(PlanUpdate(items), PlanUpdate(file), PlanUpdate(prose))
    assert {plan_id: plan.body for plan_id, plan in state.plans.items()} == {"i": items, "f": file, "m": prose}
    assert [plan.entries for plan in state.plans.values()] == [(ONE,), (), ()]
    assert state.plan == ()
    assert list(state.timeline) == list(state.plans.values())


def test_an_update_of_a_plan_keeps_its_place() -> None:
    state = folded(PlanUpdate(PlanItems("i", [ONE])), agent("x"), PlanUpdate(PlanMarkdown("i", "text")))
    assert state.plans["i"].body == PlanMarkdown("i", "text")
    assert state.timeline[0] is state.plans["i"]
    assert len(state.timeline) == 2


def test_a_removed_plan_is_gone_and_its_place_says_so() -> None:
    state = folded(PlanUpdate(PlanItems("i", [ONE])))
    before = state.plans["i"].revision
    folded(PlanRemoved("i"), PlanRemoved("never"), into=state)
    assert dict(state.plans) == {}
    [left] = state.timeline
    assert isinstance(left, PlanState)
    assert left.is_removed
    assert left.revision > before


def test_a_plan_in_an_unknown_form_is_kept_by_its_id() -> None:
    graph = Unknown("graph", {"type": "graph", "planId": "g"})
    state = folded(PlanUpdate(graph))
    assert state.plans["g"].body == graph
    assert state.plans["g"].entries == ()


@pytest.mark.parametrize("raw", [{"type": "graph"}, {"type": "graph", "planId": 3}])
def test_a_plan_in_an_unknown_form_without_id_is_kept_as_unknown(raw: dict[str, object]) -> None:
    update = PlanUpdate(Unknown("graph", raw))
    state = folded(update)
    assert dict(state.plans) == {}
    assert list(state.unknown) == [update]
