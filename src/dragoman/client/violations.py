"""Violations: what an agent did although a rule denies it, and what it did that cannot be judged.

Rules decide about requests, and some agents act without one. What they did is visible afterwards: a tool call that is
reported as completed is judged as if permission had been requested for it; only a deny counts. What was refused is not
a violation: agents report such a call as completed, with the refusal as its result. A call that cannot be read is not
innocent: if a deny may concern it, and nothing was decided about it before, it is unjudged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.policy.verdict import named, possible_deny, why_unseen
from dragoman.workspace.judging import judge_with_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.client.reading import Evidence
    from dragoman.policy import Request, Rule
    from dragoman.policy.decide import Decision
    from dragoman.workspace.folders import SessionFolders


BY_WORKTREE: Final = "worktree"
"""`decided_by` of a violation of the boundary around a worktree."""


class Violation(Struct, frozen=True, kw_only=True):
    """What happened although a rule denies it. `rule` is None for a protected file, and for one outside a worktree."""

    title: str
    kind: str
    rule: str | None
    decided_by: str
    tool_call_id: str | None = None
    paths: tuple[str, ...] = ()
    command: str | None = None


class Unjudged(Struct, frozen=True, kw_only=True):
    """What happened, of which it cannot be seen whether a rule denies it. `why` is the end of a sentence."""

    title: str
    kind: str
    rule: str
    decided_by: str
    why: str
    tool_call_id: str


def violation_in(
    evidence: Evidence, rules: Sequence[Rule], refused: Sequence[Decision], folders: SessionFolders
) -> Violation | None:
    """Return the violation that a completed tool call shows.

    Args:
        evidence: what the call did, from `read_call`.
        rules: the rules in force.
        refused: the decisions of its session that refused something.
        folders: the folders of its session.
    """
    if any(decision.tool_call_id == evidence.tool_call_id for decision in refused):
        return None
    for request in (*evidence.requests, *evidence.suspected):
        judgement = judge_with_facts(rules, request, folders)
        verdict, rule = judgement.verdict, judgement.verdict.rule
        is_denied = verdict.action == "deny" and (rule is not None or bool(judgement.request.closed))
        if is_denied and not _was_refused(request, refused):
            return Violation(
                title=request.title,
                kind=request.kind,
                rule=None if rule is None else rule.text,
                decided_by=BY_WORKTREE if rule is None else named(rule),
                tool_call_id=evidence.tool_call_id,
                paths=request.paths,
                command=request.command_line,
            )
    return None


def unjudged_in(evidence: Evidence, rules: Sequence[Rule], decisions: Sequence[Decision]) -> Unjudged | None:
    """Return what cannot be judged of a completed tool call that shows no violation.

    Args:
        evidence: what the call did, from `read_call`.
        rules: the rules in force.
        decisions: all decisions of its session: what was decided about is not judged again.
    """
    if any(decision.tool_call_id == evidence.tool_call_id for decision in decisions):
        return None
    for request in evidence.requests:
        line = request.command_line
        if line is not None and any(decision.command == line for decision in decisions):
            continue
        rule = possible_deny(rules, request)
        if rule is not None:
            return Unjudged(
                title=request.title,
                kind=request.kind,
                rule=rule.text,
                decided_by=named(rule),
                why=why_unseen(request),
                tool_call_id=evidence.tool_call_id,
            )
    return None


def _was_refused(request: Request, refused: Sequence[Decision]) -> bool:
    """Whether exactly this was refused when the agent wanted its client to do it, which has no id of a tool call."""
    line = request.command_line
    for decision in refused:
        if decision.kind == request.kind and line is not None and decision.command == line:
            return True
        if decision.kind == request.kind and line is None and set(decision.paths) & set(request.paths):
            return True
    return False
