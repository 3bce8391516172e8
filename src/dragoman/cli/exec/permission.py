"""The permission decisions of a run, with what the built-in agent needs to report them to its model.

The protocol's answer to a permission request is an option or nothing, so an agent cannot distinguish the user's answer
from a rule, or a user who does not answer from one who does not exist. The reason is therefore added in `_meta`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.client.permission import ClientPermissions
from dragoman.policy.decide import USER
from dragoman.schema import v1

if TYPE_CHECKING:
    from dragoman.client.session import Session
    from dragoman.policy.decide import Decision


class RunPermissions(ClientPermissions):
    """Decides as `ClientPermissions` does, and states why a request was refused.

    Args:
        is_built_in: the agent is the built-in one. It gets a refusal where other agents get `cancelled`, because
            `cancelled` has no place for a reason.
    """

    def __init__(self, *args: Any, is_built_in: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_built_in = is_built_in

    async def permission(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> v1.SelectedPermissionOutcome | None:
        outcome = await super().permission(request, session)
        decision = self._decision_about(request, session)
        if decision is None or decision.is_allowed or decision.decided_by == USER:
            return outcome
        chosen = outcome.option_id if outcome is not None else self._refusing_option(request)
        if chosen is None:
            return None
        reported = {"decidedBy": decision.decided_by, "reason": decision.reason}
        return v1.SelectedPermissionOutcome(chosen, meta={"dragoman": reported})

    def _decision_about(self, request: v1.RequestPermissionRequest, session: Session) -> Decision | None:
        call = request.tool_call.tool_call_id
        decisions = (each for each in reversed(self.decisions) if each.tool_call_id == call)
        return next((each for each in decisions if each.session_id == session.id), None)

    def _refusing_option(self, request: v1.RequestPermissionRequest) -> str | None:
        refusing = (option.option_id for option in request.options if option.kind == "reject_once")
        return next(refusing, None) if self._is_built_in else None
