"""Rules of which the last that matches wins, resolved: which of them decide something, and which can stand alone.

Here a deny wins over an ask, and an ask over an allow, in any order. So a rule that a later one covers is void; a deny
or an ask with a later, weaker exception cannot be expressed; and an allow is shown only if everything that restricts it
later could be expressed, because otherwise it would allow more than it did. Pure.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.foreign.rules import Action

_STRICT: Final = {"allow": 0, "ask": 1, "deny": 2}
_LONGEST: Final = 120  # of a pattern; keeps the time and the depth of the comparison small


class OrderedRule(NamedTuple):
    """A rule of a list in which the last that matches wins."""

    tool: str
    pattern: str
    action: Action
    name: str
    line: int = 0


class Resolved(NamedTuple):
    """A rule and what became of it: `texts` are rules of ours, or `why` there are none."""

    rule: OrderedRule
    texts: tuple[str, ...] = ()
    why: str = ""
    is_void: bool = False


def resolve(rules: Sequence[OrderedRule], express: Callable[[OrderedRule], tuple[str, ...]]) -> list[Resolved]:
    """Decide about each rule, in their order.

    Args:
        express: the rules of ours that state one of theirs; raises Inexpressible.
    """
    from dragoman.foreign.rules import Inexpressible

    found: list[Resolved] = []
    for at in range(len(rules) - 1, -1, -1):
        rule, later = rules[at], found  # `found` holds the later ones, the last first
        winner = next((other.rule for other in later if covers(other.rule, rule)), None)
        if winner is not None:
            found.append(Resolved(rule, why=f"`{winner.name}` comes later and wins", is_void=True))
            continue
        over = [other for other in later if overlap(other.rule, rule) and other.rule.action != rule.action]
        weaker = next((other.rule for other in over if _STRICT[other.rule.action] < _STRICT[rule.action]), None)
        if weaker is not None:
            why = f"it has an exception, `{weaker.name}`, and rules here have none; without a rule you are asked"
            found.append(Resolved(rule, why=why))
            continue
        # One that was void is covered by a still later one, which is looked at itself.
        unsaid = next((other.rule for other in over if not other.texts and not other.is_void), None)
        if rule.action == "allow" and unsaid is not None:
            found.append(Resolved(rule, why=f"it is restricted by `{unsaid.name}`, which cannot be expressed"))
            continue
        try:
            found.append(Resolved(rule, express(rule)))
        except Inexpressible as error:
            found.append(Resolved(rule, why=str(error)))
    return found[::-1]


def covers(wide: OrderedRule, narrow: OrderedRule) -> bool:
    """Whether one rule matches everything that the other does; False if that would take long to find out."""
    return _covers(wide.tool, narrow.tool) and all(
        any(_covers(one, other) for one in _meanings(wide.pattern)) for other in _meanings(narrow.pattern)
    )


def overlap(one: OrderedRule, other: OrderedRule) -> bool:
    """Whether something is matched by both rules; True if that would take long to find out."""
    return _meet(one.tool, other.tool) and any(
        _meet(a, b) for a in _meanings(one.pattern) for b in _meanings(other.pattern)
    )


def _meanings(pattern: str) -> tuple[str, ...]:
    """Return what a pattern stands for: `git *` also for `git` alone."""
    return (pattern, pattern[:-2]) if pattern.endswith(" *") else (pattern,)


@lru_cache(maxsize=4096)
def _covers(wide: str, narrow: str) -> bool:
    if wide == "*" or wide == narrow:
        return True
    if len(wide) > _LONGEST or len(narrow) > _LONGEST:
        return False

    @cache
    def covered(a: int, b: int) -> bool:
        if a == len(wide):
            return b == len(narrow)
        if wide[a] == "*":
            return covered(a + 1, b) or (b < len(narrow) and covered(a, b + 1))
        if b == len(narrow) or narrow[b] == "*":
            return False
        return wide[a] in ("?", narrow[b]) and covered(a + 1, b + 1)

    return covered(0, 0)


@lru_cache(maxsize=4096)
def _meet(one: str, other: str) -> bool:
    if "*" in (one, other) or len(one) > _LONGEST or len(other) > _LONGEST:
        return True

    @cache
    def meet(a: int, b: int) -> bool:
        if a == len(one) and b == len(other):
            return True
        if a < len(one) and one[a] == "*":
            return meet(a + 1, b) or (b < len(other) and meet(a, b + 1))
        if b < len(other) and other[b] == "*":
            return meet(a, b + 1) or (a < len(one) and meet(a + 1, b))
        if a == len(one) or b == len(other):
            return False
        return (one[a] == other[b] or "?" in (one[a], other[b])) and meet(a + 1, b + 1)

    return meet(0, 0)
