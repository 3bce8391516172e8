"""Violations in guarded sessions: each completed tool call is judged once for each turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.client.reading import read_call
from dragoman.client.violations import violation_in
from dragoman.workspace.folders import SessionFolders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.client.violations import Violation
    from dragoman.policy import Rule
    from dragoman.policy.decide import Decision
    from dragoman.proxy.guard.session import GuardedSession
    from dragoman.state import ToolCallState

_MOST_KNOWN: Final = 10_000


class GuardViolations:
    """Judges completed tool calls."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._known: set[tuple[str, int, str]] = set()

    def look(
        self,
        call: ToolCallState,
        session: GuardedSession,
        rules: Sequence[Rule],
        decisions: Sequence[Decision],
        root: str,
    ) -> Violation | None:
        """The violation that a tool call shows, if it is a new one."""
        key = (session.id, session.turn, call.id)
        if call.status != "completed" or key in self._known:
            return None
        refused = [each for each in decisions if not each.is_allowed and each.session_id == session.id]
        evidence = read_call(call, session, SessionFolders(session.cwd, project=root), agent=self._agent)
        found = violation_in(evidence, rules, refused)
        if found is not None and len(self._known) < _MOST_KNOWN:
            self._known.add(key)
        return found
