"""The decision about what an agent may do, by the rules of its user: allow, deny or ask.

Pure: no clock, no files, no protocol types. It holds what a rule states, what a shell line really runs, which paths are
never written without asking, the options a user is offered and what an answer means. It does not ask the user, and
does not depend on where rules are kept.
Read `request.py` and `rule.py` first, then `verdict.py`; `decide.py` (options, answers, decisions) is imported by its
own name.
A command line passes through `shell.py` and `parts.py`; `commands.py` and `paths.py` compare it with rules.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.policy.commands import simple_command
    from dragoman.policy.paths import is_protected
    from dragoman.policy.request import Command, Request
    from dragoman.policy.rule import ACTIONS, KINDS, Action, Rule, Scope, ignored_rules, parse_rule
    from dragoman.policy.verdict import Verdict, judge, proposals

__all__ = [
    "ACTIONS",
    "KINDS",
    "Action",
    "Command",
    "Request",
    "Rule",
    "Scope",
    "Verdict",
    "ignored_rules",
    "is_protected",
    "judge",
    "parse_rule",
    "proposals",
    "simple_command",
]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    # Many modules need only `paths`; the others take longer to load than all tools of the built-in agent.
    __getattr__ = lazy_exports(
        globals(),
        {
            ".commands": ("simple_command",),
            ".paths": ("is_protected",),
            ".request": ("Command", "Request"),
            ".rule": ("ACTIONS", "KINDS", "Action", "Rule", "Scope", "ignored_rules", "parse_rule"),
            ".verdict": ("Verdict", "judge", "proposals"),
        },
    )
