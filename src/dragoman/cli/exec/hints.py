"""Finds a rule that would allow a request which was cancelled, for the hint of a result.

A candidate counts only if the engine confirms it, so that a hint is never wrong: what is protected, or what an ask rule
of the user is about, is allowed by no rule. Pure.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dragoman.errors import ConfigError
from dragoman.policy import judge, parse_rule, proposals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy import Request, Rule


def rule_that_allows(rules: Sequence[Rule], requests: Sequence[Request]) -> str | None:
    """Return the narrowest rule that would allow all requests next to the rules in force; None if there is none."""
    request = requests[0]
    kinds = ("mcp",) if request.mcp is not None else (request.kind,)
    for text in (*proposals(request), *kinds, "execute:*", "*"):
        try:
            rule = parse_rule(text, "allow", "flag", "--allow")
        except ConfigError:
            continue
        if all(judge((*rules, rule), each).action == "allow" for each in requests):
            return text
    return None


def hint_for(rules: Sequence[Rule], requests: Sequence[Request]) -> str:
    """Return what the user can do about a tool call that was cancelled because no user could be asked."""
    text = rule_that_allows(rules, requests)
    if text is None:
        return (
            "no rule can allow it: run this at a terminal to be asked, or with --dangerously-allow-all "
            "in a container that you can throw away"
        )
    return f"allow it with --allow {shlex.quote(text)} (see dragoman rules --help), or run this at a terminal"
