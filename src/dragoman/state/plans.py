"""The agent's plan, and the named plans of the unstable schema.

`plan` replaces the whole list each time (rule 266). In the timeline each prompt has its own plan, at the place where
the plan was first reported; the plan of a later prompt does not replace it. Plans with an id keep one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from dragoman.schema import Unknown
from dragoman.schema.v1 import Plan, PlanItems

if TYPE_CHECKING:
    from typing import TypeAlias

    from dragoman.schema.v1 import PlanEntry, PlanFile, PlanMarkdown, PlanRemoved, PlanUpdate
    from dragoman.state.messages import Messages
    from dragoman.state.timeline import Timeline, UnfoldedUpdates
    from dragoman.state.turns import Turns

    PlanBody: TypeAlias = Plan | PlanItems | PlanFile | PlanMarkdown | Unknown


class PlanState(Struct, frozen=True):
    """A plan as last reported; `id` is None for the plan of the stable protocol."""

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


class Plans:
    """The current plan, and the plans that have an id."""

    __slots__ = ("_messages", "_prompt", "_timeline", "_turns", "_unfolded", "by_id", "current")

    def __init__(self, timeline: Timeline, messages: Messages, turns: Turns, unfolded: UnfoldedUpdates) -> None:
        self._timeline = timeline
        self._messages = messages
        self._turns = turns
        self._unfolded = unfolded
        self.by_id: dict[str, PlanState] = {}
        self.current: PlanState | None = None
        self._prompt = 0  # the user message that the current plan follows, counted

    def fold(self, plan: Plan) -> None:
        """Replace the current plan; in the timeline, only if it follows the same user message."""
        prompt = self._messages.user_count
        self.current = self._put(None, plan, self.current if self._prompt == prompt else None)
        self._prompt = prompt

    def fold_update(self, update: PlanUpdate) -> None:
        """Add or replace a plan that has an id."""
        plan = update.plan
        plan_id = plan.raw.get("planId") if isinstance(plan, Unknown) else plan.plan_id
        if isinstance(plan_id, str):
            self.by_id[plan_id] = self._put(plan_id, plan, self.by_id.get(plan_id))
        else:
            self._unfolded.keep(update)

    def fold_removed(self, update: PlanRemoved) -> None:
        """Remove a plan that has an id; the timeline shows it as removed."""
        known = self.by_id.pop(update.plan_id, None)
        if known is not None:
            self._timeline.put(known.position, replace(known, is_removed=True, revision=known.revision + 1))

    def _put(self, plan_id: str | None, body: PlanBody, earlier: PlanState | None) -> PlanState:
        if earlier is None:
            self._messages.close()
            plan = PlanState(plan_id, body, len(self._timeline), self._turns.current_index)
            self._timeline.append(plan)
        else:
            plan = replace(earlier, body=body, revision=earlier.revision + 1)
            self._timeline.put(plan.position, plan)
        return plan
