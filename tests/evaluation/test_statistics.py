"""Intervals and the test for paired runs, against values computed elsewhere; and what is said about them."""

from __future__ import annotations

import pytest

from dragoman.evaluation.results import EvalResults, EvalRun, Outcome
from dragoman.evaluation.statistics import compare, mcnemar, rate_of, smallest_difference, wilson


def results(**outcomes: Outcome) -> EvalResults:
    runs = [EvalRun(task=task, number=1, outcome=outcome) for task, outcome in outcomes.items()]
    return EvalResults(title="some agent", runs=runs)


def all_of(names: str, outcome: Outcome) -> EvalResults:
    return results(**dict.fromkeys(names, outcome))


@pytest.mark.parametrize(
    ("passed", "counted", "low", "high"),
    [(0, 0, 0.0, 1.0), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_wilson_interval(passed: int, counted: int, low: float, high: float) -> None:
    assert wilson(passed, counted) == pytest.approx((low, high), abs=5e-4)


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [(0, 0, 1.0), (0, 5, 0.0625), (0, 6, 0.03125), (3, 9, 0.1460), (5, 5, 1.0), (9, 3, 0.1460)],
)
def test_exact_mcnemar(first: int, second: int, p: float) -> None:
    assert mcnemar(first, second) == pytest.approx(p, abs=1e-4)


def test_only_judged_runs_count() -> None:
    rate = rate_of(results(a="passed", b="failed", c="skipped", d="error", e="broken", f="interrupted").runs)
    assert (rate.passed, rate.counted) == (1, 2)
    assert str(rate).startswith("1 of 2 (50%, 95 % interval ")
    assert str(rate_of([])) == "no run counts"


def test_few_differences_are_reported_to_show_nothing() -> None:
    found = compare(results(a="passed", b="passed", c="passed"), results(a="failed", b="failed", c="passed"))
    assert (found.only_first, found.only_second) == (2, 0)
    assert f"fewer than {smallest_difference()} differing runs" in found.sentence()


def test_a_clear_difference_names_the_better_one() -> None:
    names = "abcdefgh"
    won, lost = all_of(names, "passed"), all_of(names, "failed")
    assert compare(won, lost).sentence().startswith("The first passed more")
    assert compare(lost, won).sentence().startswith("The second passed more")


def test_a_difference_within_chance_is_not_called_equality() -> None:
    first = results(**{name: "passed" if name in "abcde" else "failed" for name in "abcdefgh"})
    second = results(**{name: "failed" if name in "abcde" else "passed" for name in "abcdefgh"})
    assert "does not show that both are equally good" in compare(first, second).sentence()


def test_runs_that_do_not_count_in_both_are_not_paired() -> None:
    found = compare(results(a="passed", b="error", c="passed"), results(a="passed", b="passed"))
    assert [pair.task for pair in found.pairs] == ["a"]
    assert found.unpaired == ["b (1)", "c (1)"]
    assert compare(results(), results()).sentence().startswith("No run is in both")
