"""The permissions of a subagent are never wider than those of its parent, whatever modes and rules there are."""

import itertools
from collections.abc import Sequence

import pytest

from dragoman.builtin.permission import SessionRules, ToolPermissions
from dragoman.builtin.refusals import UserAnswer
from dragoman.policy import Request, Rule, parse_rule
from dragoman.policy.decide import Option
from dragoman.policy.modes import MODES, Mode
from tests.builtin.test_permission import REQUESTS, ROOT

STRICTNESS = ("allow", "ask", "deny")
RULES = (
    (),
    (("*", "allow"),),
    (("edit", "deny"), ("*", "allow")),
    (("execute:npm *", "allow"), ("read", "ask")),
)


class FixedRules(SessionRules):
    def __init__(self, rules: Sequence[tuple[str, str]]) -> None:
        self._fixed = [parse_rule(text, action, "flag", "a flag") for text, action in rules]

    def of(self, project: str) -> Sequence[Rule]:
        return self._fixed


def permissions(mode: Mode, rules: Sequence[tuple[str, str]] = (), *, has_sandbox: bool = False) -> ToolPermissions:
    return ToolPermissions(FixedRules(rules), lambda: mode, (ROOT,), has_sandbox=has_sandbox)


def strictness(of: ToolPermissions, request: Request) -> int:
    return STRICTNESS.index(of.verdict(request).action)


@pytest.mark.parametrize("rules", RULES)
def test_no_mode_of_a_child_or_grandchild_widens_what_its_parent_may(rules: Sequence[tuple[str, str]]) -> None:
    own: list[Mode | None] = [None, *MODES.values()]
    for mode, child_mode, inner_mode in itertools.product(MODES.values(), own, (None, MODES["full"])):
        parent = permissions(mode, rules, has_sandbox=True)
        child = parent.narrowed(child_mode)
        inner = child.narrowed(inner_mode).for_call()
        for request in REQUESTS.values():
            assert strictness(parent, request) <= strictness(child, request) <= strictness(inner, request)


def test_the_own_mode_of_a_child_takes_away_and_without_one_it_is_as_its_parent() -> None:
    parent = permissions(MODES["full"])
    assert parent.narrowed(None).verdict(REQUESTS["edit inside"]).action == "allow"
    assert parent.narrowed(MODES["ask"]).verdict(REQUESTS["edit inside"]).action == "ask"
    assert parent.narrowed(MODES["plan"]).verdict(REQUESTS["edit inside"]).action == "deny"
    # A grandchild that names a wider mode than its parent has gains nothing.
    assert parent.narrowed(MODES["plan"]).narrowed(MODES["full"]).verdict(REQUESTS["run"]).action == "deny"


def test_a_mode_that_changes_applies_to_the_child_at_once() -> None:
    modes = [MODES["full"]]
    child = ToolPermissions(FixedRules(()), lambda: modes[0], (ROOT,)).narrowed(None)
    assert child.verdict(REQUESTS["run"]).action == "allow"
    modes[0] = MODES["plan"]
    assert child.verdict(REQUESTS["run"]).action == "deny"


async def test_a_command_runs_in_the_sandbox_if_either_mode_wants_that() -> None:
    async def ask(options: Sequence[Option]) -> UserAnswer:
        raise AssertionError("nothing is asked")

    for mode, child_mode in (("auto", "full"), ("full", "auto"), ("auto", None)):
        own = None if child_mode is None else MODES[child_mode]
        child = permissions(MODES[mode], has_sandbox=True).narrowed(own).for_call()
        assert (await child.decide([REQUESTS["run"]], ask)).is_allowed
        assert child.placement.where == "sandbox"


@pytest.mark.parametrize("mode", MODES)
def test_the_rules_for_another_agent_deny_what_the_mode_forbids(mode: str) -> None:
    rules = permissions(MODES[mode], [("*", "allow")]).rules_in_force()
    denied = {rule.text for rule in rules if rule.action == "deny"}
    assert denied >= {"edit", "execute"} if mode == "plan" else not denied
    narrowed = permissions(MODES[mode]).narrowed(MODES["plan"]).rules_in_force()
    assert {"edit", "execute"} <= {rule.text for rule in narrowed if rule.action == "deny"}
    assert not [rule for rule in narrowed if rule.action == "allow"]
