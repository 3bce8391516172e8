"""Violations: what the agent did although a rule denies it, and without having asked.

A tool call that is reported as completed is judged as if permission had been requested for it; only a deny counts. What
the guard itself refused is not a violation: agents report such a call as completed, with the refusal as its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.client.permission_request import describe, settle_evidence, settle_paths
from dragoman.policy import Request, judge
from dragoman.policy.decide import command_line
from dragoman.policy.verdict import named
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.policy import Rule
    from dragoman.policy.decide import Decision
    from dragoman.proxy.guard.session import GuardedSession
    from dragoman.state import ToolCallState

_MOST_KNOWN: Final = 10_000


class Violation(Struct, frozen=True, kw_only=True):
    """What happened although a rule denies it. `rule` is None for a protected file that was changed."""

    title: str
    kind: str
    rule: str | None
    decided_by: str
    tool_call_id: str | None = None
    paths: tuple[str, ...] = ()
    command: str | None = None


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
        if any(each.tool_call_id == call.id for each in refused):
            return None
        for request in self._requests(call, session, root):
            verdict = judge(rules, request)
            if verdict.action != "deny" or verdict.rule is None or _was_refused(request, refused):
                continue
            if len(self._known) < _MOST_KNOWN:
                self._known.add(key)
            return Violation(
                title=call.title,
                kind=request.kind,
                rule=verdict.rule.text,
                decided_by=named(verdict.rule),
                tool_call_id=call.id,
                paths=request.paths,
                command=command_line(request),
            )
        return None

    def _requests(self, call: ToolCallState, session: GuardedSession, root: str) -> Iterator[Request]:
        """What the call did: all that is known about it, and each change that it shows."""
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
        evidence = describe(asked, session.state, call, agent=self._agent, root=root)
        requests = settle_evidence(evidence, session, agent=self._agent, root=root).requests
        yield from requests
        changed = [diff.path for diff in diffs if diff.old_text != diff.new_text]
        if changed and all(request.kind != "edit" for request in requests):
            edit = Request(self._agent, "edit", call.title, paths=tuple(changed), root=root)
            yield settle_paths(edit, session, agent=self._agent, root=root)


def _was_refused(request: Request, refused: Sequence[Decision]) -> bool:
    """Whether exactly this was refused when the agent wanted the guard to do it."""
    line = command_line(request)
    for decision in refused:
        if decision.kind == request.kind and line is not None and decision.command == line:
            return True
        if decision.kind == request.kind and line is None and set(decision.paths) & set(request.paths):
            return True
    return False
