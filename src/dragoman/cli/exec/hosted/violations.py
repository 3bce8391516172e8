"""`--stop-on-violation` in a hosted turn: the calls that the agent shows, judged by the rules of its session.

The host judges what the agent asks for. What an agent did without asking is seen by the client that wants to stop then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.cli.exec.violations import ViolationWatch
from dragoman.host.local.agents import find_entry
from dragoman.policy.decide import Decision
from dragoman.runs.terms import read_terms, rules_for

if TYPE_CHECKING:
    from dragoman.policy import Rule
    from dragoman.runs.result import RunViolation
    from dragoman.schema import v1
    from dragoman.state import SessionState


class _Judged(NamedTuple):
    id: str
    cwd: str
    state: SessionState


class HostedViolations:
    """Watches one turn.

    Args:
        found: the session, as the host describes it.
        state: what was shown of the turn.
    """

    def __init__(self, found: dict[str, Any], state: SessionState) -> None:
        cwd = str(found["cwd"])
        entry, settings = find_entry(str(found["agent"]), cwd)
        self.agent = entry.name
        self.rules: list[Rule] = [*read_terms(found.get("terms")).rules(), *rules_for(cwd)]
        self.decisions: list[Decision] = []
        self.is_found = False
        self._session = _Judged(str(found["sessionId"]), cwd, state)
        self._watch = ViolationWatch(self, cwd if settings.root is None else str(settings.root))

    def get(self) -> HostedViolations:
        """The rules in force: these."""
        return self

    @property
    def found(self) -> list[RunViolation]:
        """What was denied by a rule and done."""
        return self._watch.found

    def decided(self, decision: dict[str, Any]) -> None:
        """A rule decided about a call: one that was refused and is shown as completed was not done."""
        id, is_allowed = decision.get("toolCallId"), decision.get("action") == "allow"
        self.decisions.append(
            Decision(
                action="allow" if is_allowed else "deny",
                decided_by=str(decision.get("rule")),
                tool_call_id=id if isinstance(id, str) else None,
            )
        )

    def look(self, update: v1.SessionUpdate) -> RunViolation | None:
        """The violation that an update shows, if it is a new one."""
        violation = self._watch.look(update, self._session)
        self.is_found = self.is_found or violation is not None
        return violation
