"""Violations: what an agent did although a rule denies it.

Rules decide about requests, and some agents act without one. What they did is visible afterwards: a tool call that is
reported as completed is judged as if permission had been requested for it, and so is every file that it shows as
changed. Only a deny counts. Protected files that changed without a permission are violations as well. Does not stop
anything: `run.py` does, if the user wants that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from dragoman.runs.result import RunViolation
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy import Rule
    from dragoman.policy.decide import Decision
    from dragoman.process.sandbox import ProtectedChange
    from dragoman.state import SessionState


PROTECTED: Final = "protected file"


class RulesInForce(Protocol):
    """What calls are judged by."""

    @property
    def agent(self) -> str: ...

    @property
    def rules(self) -> Sequence[Rule]: ...


class RunDecisions(Protocol):
    """The rules of a run, and what was decided in it."""

    def get(self) -> RulesInForce: ...

    @property
    def decisions(self) -> Sequence[Decision]: ...


class JudgedSession(Protocol):
    """The session whose calls are judged."""

    @property
    def id(self) -> str: ...

    @property
    def cwd(self) -> str: ...

    @property
    def state(self) -> SessionState: ...


class ViolationWatch:
    """Judges the tool calls of one run after the fact."""

    def __init__(self, permissions: RunDecisions, root: str) -> None:
        self.found: list[RunViolation] = []
        self._permissions = permissions
        self._root = root
        self._known: set[str] = set()

    def look(self, update: v1.SessionUpdate, session: JudgedSession) -> RunViolation | None:
        """Return the violation that this update shows, if it is a new one."""
        if not isinstance(update, v1.ToolCall | v1.ToolCallUpdate) or update.tool_call_id in self._known:
            return None
        call = session.state.tool_calls.get(update.tool_call_id)
        if call is None or call.status != "completed":
            return None
        from dragoman.client.reading import read_call
        from dragoman.client.violations import violation_in
        from dragoman.workspace.folders import SessionFolders

        made = self._permissions.get()
        evidence = read_call(call, session, SessionFolders(session.cwd, project=self._root), agent=made.agent)
        refused = [decision for decision in self._permissions.decisions if not decision.is_allowed]
        violation = violation_in(evidence, made.rules, refused)
        if violation is None:
            return None
        self._known.add(call.id)
        found = RunViolation(
            title=violation.title,
            kind=violation.kind,
            rule=violation.rule,
            decided_by=violation.decided_by,
            tool_call_id=violation.tool_call_id,
            paths=list(violation.paths),
        )
        self.found.append(found)
        return found

    def changed(self, changes: Sequence[ProtectedChange], command: str | None = None) -> list[RunViolation]:
        """Return the violations for changed protected files; `command` is what changed them, if that is known."""
        found = [
            RunViolation(
                title=f"{change.path} was {change.happened}",
                kind="delete" if change.happened == "deleted" else "edit",
                rule=None,
                decided_by=PROTECTED,
                tool_call_id=None,
                paths=[change.path],
                command=command,
                kept=change.kept,
                is_restored=change.is_restored,
            )
            for change in changes
        ]
        self.found.extend(found)
        return found
