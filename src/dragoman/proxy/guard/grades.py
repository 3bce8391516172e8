"""How far each rule binds an agent: enforced, confined, or only observed.

*Enforced*: what the rule is about goes through the guard, because the agent asks for permission or has it done by its
client. *Confined*: the agent does it itself, inside a sandbox. *Observed*: the agent does it itself; a violation is
seen afterwards at best. Known facts about the agent decide, and what was seen of its conduct decides before them. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.policy.rule import SAFE, read_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy import Rule
    from dragoman.proxy.guard.conduct import SeenConduct
    from dragoman.registry.facts import AgentFacts

Grade: TypeAlias = Literal["enforced", "confined", "observed"]

_ORDER: Final[tuple[Grade, ...]] = ("observed", "confined", "enforced")  # weakest first
_EVERYTHING: Final = ("edit", "execute", "read", "fetch")
_SANDBOXED: Final = frozenset({"edit", "delete", "move", "execute"})


class GradedRule(Struct, frozen=True):
    """A rule, how far it binds the agent, and why."""

    rule: Rule
    grade: Grade
    why: str


def grade_rules(
    rules: Sequence[Rule], facts: AgentFacts | None, seen: SeenConduct, *, is_agent_confined: bool
) -> list[GradedRule]:
    """Return the grade of each rule with one agent.

    Args:
        facts: what is known about the agent.
        seen: what was seen of it.
        is_agent_confined: the agent itself runs in a sandbox.
    """
    graded = []
    for rule in rules:
        pattern = read_pattern(rule.text)
        kinds = _EVERYTHING if pattern.kind == "*" else ("execute" if pattern.kind == SAFE else pattern.kind,)
        found = [_grade(kind, facts, seen, is_agent_confined=is_agent_confined) for kind in kinds]
        grade, why = min(found, key=lambda grade_and_why: _ORDER.index(grade_and_why[0]))
        graded.append(GradedRule(rule, grade, why))
    return graded


def _grade(kind: str, facts: AgentFacts | None, seen: SeenConduct, *, is_agent_confined: bool) -> tuple[Grade, str]:
    why = None if kind in seen.unasked else _why_enforced(kind, facts, seen)
    if why is not None:
        return "enforced", why
    unasked = kind in seen.unasked
    if is_agent_confined and kind in _SANDBOXED:
        return (
            "confined",
            f"the agent {'was seen doing this' if unasked else 'may do this'} without asking, in a sandbox",
        )
    if unasked:
        return "observed", "the agent was seen doing this without asking"
    if facts is not None and facts.unasked and kind in _SANDBOXED:
        return "observed", f"{facts.name} {facts.unasked}"
    return "observed", "it is not known whether the agent asks before it does this, and it was not seen yet"


def _why_enforced(kind: str, facts: AgentFacts | None, seen: SeenConduct) -> str | None:
    if kind in seen.delegated:
        return "the agent has this done through the guard"
    if kind in seen.asked:
        return "the agent asks before it does this"
    if facts is not None and kind == "execute" and facts.runs_in_terminals:
        return f"{facts.name} runs commands through its client"
    if facts is not None and kind in _SANDBOXED and facts.asking_mode and not facts.unasked:
        return f"{facts.name} asks before it does this in its mode {facts.asking_mode}"
    return None


def summarize(graded: Sequence[GradedRule], agent: str) -> list[str]:
    """Return sentences for the start: how many rules bind the agent, and which ones do not."""
    restricting = [graded_rule for graded_rule in graded if graded_rule.rule.action != "allow"]
    if not restricting:
        return []
    counts = {grade: sum(graded_rule.grade == grade for graded_rule in restricting) for grade in reversed(_ORDER)}
    parts = ", ".join(f"{count} {grade}" for grade, count in counts.items() if count)
    notes = [f"rules that deny or ask, with {agent}: {parts} (dragoman guard --explain)"]
    notes += [
        f"only observed: {graded_rule.rule.action} {graded_rule.rule.text}: {graded_rule.why}"
        for graded_rule in restricting
        if graded_rule.grade == "observed"
    ]
    return notes
