"""Every rule of the protocol is shown by a test, or is listed with the reason why not."""

from __future__ import annotations

from types import ModuleType

from tests.project.rules import citations, cited_rules, excused_rules, known_rules

HOW = "run `python -m tests.project.rules --write` and fill in reasons"


def test_rules_are_numbered_without_a_gap() -> None:
    numbers = list(known_rules())
    assert numbers == list(range(1, 346))


def test_tests_cite_only_rules_that_exist() -> None:
    unknown = {number: where for number, where in cited_rules().items() if number not in known_rules()}
    assert not unknown


def test_every_rule_has_a_test_or_a_reason() -> None:
    missing = known_rules().keys() - cited_rules().keys() - excused_rules().keys()
    assert not missing, f"neither cited nor excused: {sorted(missing)}; {HOW}"


def test_no_rule_is_excused_that_has_a_test_or_does_not_exist() -> None:
    stale = excused_rules().keys() - (known_rules().keys() - cited_rules().keys())
    assert not stale, f"excused without need: {sorted(stale)}; {HOW}"


def test_every_excuse_is_a_reason() -> None:
    empty = [number for number, reason in excused_rules().items() if len(reason.split()) < 3]
    assert not empty, f"rules without a reason: {empty}"


def test_citations_are_found_on_modules_classes_functions_and_parameters() -> None:
    module = ModuleType("sample")
    source = """
import pytest

pytestmark = [pytest.mark.rule(1)]

@pytest.mark.rule(2, 3)
def test_function(): ...

@pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.rule(4))])
def test_parameter(x): ...

@pytest.mark.rule(5)
class TestClass:
    @pytest.mark.rule(6)
    def test_method(self): ...

@pytest.mark.rule(7)
def helper(): ...
"""
    exec(source, module.__dict__)
    found = [(1, "*"), (2, "test_function"), (3, "test_function"), (4, "test_parameter")]
    assert list(citations(module)) == [*found, (5, "TestClass."), (6, "TestClass.test_method")]
