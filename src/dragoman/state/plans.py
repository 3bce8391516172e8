"""The agent's plan, and the named plans of the unstable schema.

`plan` replaces the whole list each time (rule 266). In the timeline a prompt has its own plan, at the place where it
was first told; a later prompt's plan does not rewrite history. Plans with an id keep one place for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from dragoman.schema.v1 import Plan, PlanItems
from dragoman.state.messages import close_open

if TYPE_CHECKING:
    from typing import TypeAlias

    from dragoman.schema import Unknown
    from dragoman.schema.v1 import PlanEntry, PlanFile, PlanMarkdown, PlanRemoved, PlanUpdate
    from dragoman.state.session import SessionState

    PlanBody: TypeAlias = Plan | PlanItems | PlanFile | PlanMarkdown | Unknown


class PlanState(Struct, frozen=True):
    """A plan as last told; `id` is None for the plan of the stable protocol."""

    id: str | None
    body: PlanBody
    position: int  # in the timeline
    turn: int | None = None
    is_removed: bool = False
    revision: int = 1

    @property
    def entries(self) -> tuple[PlanEntry, ...]:
        """The steps; empty for a plan that is a text or a file."""
        return tuple(self.body.entries) if isinstance(self.body, (Plan, PlanItems)) else ()


def fold_plan(state: SessionState, plan: Plan) -> None:
    known = state._plan if state._plan_is_open else None
    state._plan = _put(state, None, plan, known)
    state._plan_is_open = True


def fold_plan_update(state: SessionState, update: PlanUpdate) -> None:
    plan_id = getattr(update.plan, "plan_id", None)
    if plan_id is None:  # a form of plan this version does not know
        raw = getattr(update.plan, "raw", {})
        plan_id = raw.get("planId")
    if isinstance(plan_id, str):
        state._plans[plan_id] = _put(state, plan_id, update.plan, state._plans.get(plan_id))
    else:
        state._unknown.append(update)


def fold_plan_removed(state: SessionState, update: PlanRemoved) -> None:
    known = state._plans.pop(update.plan_id, None)
    if known is not None:
        state._timeline[known.position] = replace(known, is_removed=True, revision=known.revision + 1)


def _put(state: SessionState, plan_id: str | None, body: PlanBody, known: PlanState | None) -> PlanState:
    if known is None:
        close_open(state)
        plan = PlanState(plan_id, body, len(state._timeline), state._turn_index)
        state._timeline.append(plan)
        return plan
    plan = replace(known, body=body, revision=known.revision + 1)
    state._timeline[plan.position] = plan
    return plan
