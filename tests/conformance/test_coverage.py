"""Cases, rules, reasons and the documentation say the same."""

from __future__ import annotations

import re

import pytest

from dragoman.conformance.case import Binds, load_cases
from dragoman.conformance.coverage import HARDENED, SOFTENED, UNSEEN, coverage, is_strict
from dragoman.conformance.passive import SEEN
from dragoman.trace.checks.rules import RULES
from tests.conformance.mutants_passive import PASSIVE

ENTRIES = coverage()
# What they permit is a MAY, but how it has to be done is a MUST.
MAY_AND_MUST = {198, 318}
SIDES: tuple[Binds, Binds] = ("agent", "client")


@pytest.mark.parametrize("side", SIDES)
def test_every_rule_has_a_case_or_a_reason(side: Binds) -> None:
    missing = [
        entry.rule.number for entry in ENTRIES if entry.side == side and not entry.is_covered and not entry.reason
    ]
    assert not missing, f"neither seen nor excused: {missing}"


@pytest.mark.parametrize("side", SIDES)
def test_no_rule_is_excused_that_is_seen_or_binds_the_other_side(side: Binds) -> None:
    bound = {entry.rule.number: entry for entry in ENTRIES if entry.side == side}
    stale = [rule for rule in UNSEEN[side] if rule not in bound or bound[rule].is_covered]
    assert not stale


def test_what_is_watched_of_agents_is_shown_by_a_wrong_agent_each() -> None:
    assert SEEN["agent"] == set(PASSIVE)


@pytest.mark.parametrize("side", SIDES)
def test_cases_say_what_they_are_about(side: Binds) -> None:
    for case in load_cases(side):
        assert re.fullmatch(rf"{side}/[a-z-]+/[a-z0-9-]+", case.id)
        assert case.rules
        assert all(rule in RULES for rule in case.rules), case.id
        assert len(case.about.split()) > 3, case.id
        assert case.steps.endswith("."), f"{case.id}: its docstring states what is sent and expected"


def test_a_case_that_fails_cites_a_rule_that_demands() -> None:
    mild = [
        case.id
        for case in load_cases("agent")
        if case.level == "MUST"
        and not any(is_strict(RULES[rule]) or rule in MAY_AND_MUST or rule in HARDENED for rule in case.rules)
    ]
    assert not mild


def test_a_rule_that_demands_is_judged_so_or_has_a_reason_to_be_lenient() -> None:
    softened = {
        entry.rule.number
        for entry in ENTRIES
        if entry.side == "agent"
        and is_strict(entry.rule)
        and entry.rule.who != "client"
        and entry.cases
        and not entry.is_watched
        and all(case.level != "MUST" for case in entry.cases)
    }
    assert softened == set(SOFTENED["agent"])


@pytest.mark.parametrize("side", SIDES)
def test_every_explanation_is_a_sentence_of_its_own(side: Binds) -> None:
    sentences = [case.about for case in load_cases(side)]
    twice = {sentence for sentence in sentences if sentences.count(sentence) > 1}
    assert not twice
