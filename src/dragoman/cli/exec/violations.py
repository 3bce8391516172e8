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
    from collections.abc import Iterator, Sequence

    from dragoman.policy import Request, Rule
    from dragoman.process.sandbox import ProtectedChange
    from dragoman.state import SessionState
    from dragoman.state.tools import ToolCallState


PROTECTED: Final = "protected file"


class DecidedCall(Protocol):
    """A decision about a tool call."""

    @property
    def tool_call_id(self) -> str | None: ...

    @property
    def is_allowed(self) -> bool: ...


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
    def decisions(self) -> Sequence[DecidedCall]: ...


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
        if call is None or call.status != "completed" or self._was_refused(call.id):
            return None
        from dragoman.policy import judge
        from dragoman.policy.verdict import named

        for request in self._requests(call, session):
            verdict = judge(self._permissions.get().rules, request)
            if verdict.action == "deny" and verdict.rule is not None:
                self._known.add(call.id)
                found = RunViolation(
                    title=call.title,
                    kind=request.kind,
                    rule=verdict.rule.text,
                    decided_by=named(verdict.rule),
                    tool_call_id=call.id,
                    paths=list(request.paths),
                )
                self.found.append(found)
                return found
        return None

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

    def _was_refused(self, tool_call_id: str) -> bool:
        # Some agents report a call that was refused as completed: its result is the refusal.
        decisions = (each for each in self._permissions.decisions if each.tool_call_id == tool_call_id)
        return any(not decision.is_allowed for decision in decisions)

    def _requests(self, call: ToolCallState, session: JudgedSession) -> Iterator[Request]:
        """Yield what the call did, as requests: all that is known about it, and each change that it shows."""
        from dragoman.client.permission_request import describe, settle_evidence, settle_paths
        from dragoman.policy import Request

        agent, root = self._permissions.get().agent, self._root
        # Texts of a completed call are its output, not what it was about.
        diffs = [item for item in call.content if isinstance(item, v1.Diff)]
        patch = v1.ToolCallPatch(
            call.id,
            title=call.title,
            kind=call.kind,
            raw_input=call.raw_input,
            content=diffs,
            locations=list(call.locations),
        )
        asked = v1.RequestPermissionRequest(session.id, patch, [])
        evidence = describe(asked, session.state, call, agent=agent, root=root)
        requests = settle_evidence(evidence, session, agent=agent, root=root).requests
        yield from requests
        changed = [diff.path for diff in diffs if diff.old_text != diff.new_text]
        if changed and all(request.kind != "edit" for request in requests):
            edit = Request(agent, "edit", call.title, paths=tuple(changed), root=root)
            yield settle_paths(edit, session, agent=agent, root=root)
