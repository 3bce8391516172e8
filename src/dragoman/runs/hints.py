"""The rule that would allow a request which was cancelled, for the hint of a result.

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
    from dragoman.process.sandbox.confinement import FinishedCommand


def rule_that_allows(rules: Sequence[Rule], requests: Sequence[Request]) -> str | None:
    """Return the narrowest rule that would allow all requests next to the rules in force; None if there is none."""
    request = requests[0]
    kinds = ("mcp",) if request.mcp is not None else (request.kind,)
    for text in (*proposals(request), *kinds, "execute:*", "*"):
        if all(rule_allows(rules, text, request) for request in requests):
            return text
    return None


def rule_allows(rules: Sequence[Rule], text: str, request: Request) -> bool:
    """Return whether a further `--allow` with this text would allow the request."""
    try:
        rule = parse_rule(text, "allow", "flag", "--allow")
    except ConfigError:
        return False
    return judge((*rules, rule), request).action == "allow"


def hint_for(rules: Sequence[Rule], requests: Sequence[Request]) -> str:
    """Return what the user can do about a tool call that was cancelled because no user could be asked."""
    text = rule_that_allows(rules, requests)
    if text is None:
        return (
            "no rule can allow it: run this at a terminal to be asked, or with --dangerously-allow-all "
            "in a container that you can throw away"
        )
    return f"allow it with --allow {shlex.quote(text)} (see dragoman rules --help), or run this at a terminal"


def hint_outside(rules: Sequence[Rule], command: FinishedCommand, mode: str) -> str | None:
    """Return how to run a command outside of its sandbox; None if the sandbox kept nothing from it."""
    if not command.denials:
        return None
    texts = (text for text in proposals(command.request))
    text = next((text for text in texts if rule_allows(rules, text, command.request)), None)
    if text is None:
        return "no single rule names this line: allow each of its commands, or run it with --sandbox off"
    needed = "" if mode == "auto" else "--sandbox auto and "
    return f"to run it outside: {needed}--allow {shlex.quote(text)}"
