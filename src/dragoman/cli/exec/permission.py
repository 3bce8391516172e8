"""The permission decisions of a run, and what the run reports about them.

Owns what `exec` adds to the client's decisions: the session mode of the built-in agent counts as rules of the user,
`--dangerously-allow-all` answers in the user's place, and the questions that no user could be asked are kept for hints.
The protocol's answer to a permission request is an option or nothing, so an agent cannot distinguish the user's answer
from a rule, or a user who does not answer from one who does not exist. The reason is therefore added in `_meta`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.client.permission import ClientPermissions
from dragoman.policy.decide import ASKING_FAILED, NO_USER, USER, Selection, is_allowing, is_clear
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.client.permission import Question
    from dragoman.client.session import Session
    from dragoman.policy import Request, Rule
    from dragoman.policy.decide import Decision, Option

ALLOW_ALL: Final = "--dangerously-allow-all"


class RunPermissions(ClientPermissions):
    """Decides as `ClientPermissions` does, and states why a request was refused.

    Args:
        reads_reasons: whether the agent states that it is a built-in agent. It gets a refusal where other agents get
            `cancelled`, because `cancelled` has no place for a reason.
        allows_all: everything that would be asked is allowed. Deny rules hold.
    """

    def __init__(self, *args: Any, reads_reasons: Callable[[], bool], allows_all: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self._reads_reasons = reads_reasons
        self._allows_all = allows_all
        self.unasked: list[tuple[Request, ...]] = []
        """What no user could be asked about, in the order of the decisions."""

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

    async def select(self, question: Question, options: Sequence[Option], session: Session) -> Selection:
        if self._allows_all:
            allowing = [option for option in options if is_allowing(option.kind) and is_clear(option, options)]
            # "Once" first: an "always" would be remembered for later requests of this run.
            allowing.sort(key=lambda option: option.kind != "allow_once")
            return Selection(next(iter(allowing), None), ALLOW_ALL)
        selection = await super().select(question, options, session)
        if selection.decided_by in (NO_USER, ASKING_FAILED):
            self.unasked.append((question.request, *question.also))
        return selection

    def _decision_about(self, request: v1.RequestPermissionRequest, session: Session) -> Decision | None:
        call = request.tool_call.tool_call_id
        decisions = (each for each in reversed(self.decisions) if each.tool_call_id == call)
        return next((each for each in decisions if each.session_id == session.id), None)

    def _refusing_option(self, request: v1.RequestPermissionRequest) -> str | None:
        refusing = (option.option_id for option in request.options if option.kind == "reject_once")
        return next(refusing, None) if self._reads_reasons() else None


def mode_rules(session: Session | None, roots: Sequence[str]) -> Sequence[Rule]:
    """Return the rules of the mode that a session of the built-in agent is in: choosing a mode is the user's decision.

    The agent does not ask about what its mode allows; without these rules its files and commands, which run through the
    client, would be asked about a second time.
    """
    from dragoman.builtin.modes import MODES
    from dragoman.cli.exec.settings import current_mode

    mode = None if session is None else MODES.get(current_mode(session) or "")
    return () if mode is None else mode.rules(roots)
