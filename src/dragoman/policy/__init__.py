"""Judges what an agent wants to do by the rules of its user: allow, deny or ask.

Pure: no clock, no files, no protocol. It knows what a rule says, what one shell line really runs and which paths are
never written without asking; it does not know who is asked, nor where rules are kept.
Read `rule.py` first, then `verdict.py`; `commands.py` and `paths.py` hold what is easy to get wrong.
"""

from dragoman.policy.commands import simple_command
from dragoman.policy.paths import is_protected
from dragoman.policy.rule import ACTIONS, KINDS, Action, Request, Rule, Scope, Verdict, ignored_rules, parse_rule
from dragoman.policy.verdict import judge, proposals

__all__ = [
    "ACTIONS",
    "KINDS",
    "Action",
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
