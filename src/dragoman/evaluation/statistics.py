"""What a few runs can show: intervals for a pass rate, and a test for two sets of paired tasks. Pure."""

from __future__ import annotations

from math import comb, sqrt
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.evaluation.results import COUNTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.evaluation.results import EvalResults, EvalRun

_Z: Final = 1.959963984540054  # the 97.5 % point of the normal distribution
_LEVEL: Final = 0.05


class Rate(Struct, frozen=True):
    """A pass rate with its 95 % interval."""

    passed: int
    counted: int

    @property
    def share(self) -> float | None:
        """None if no run counts."""
        return self.passed / self.counted if self.counted else None

    @property
    def interval(self) -> tuple[float, float]:
        """The Wilson interval; everything is possible without runs."""
        return wilson(self.passed, self.counted)

    def __str__(self) -> str:
        if not self.counted:
            return "no run counts"
        low, high = self.interval
        return (
            f"{self.passed} of {self.counted} ({self.passed / self.counted:.0%}, 95 % interval {low:.0%} to {high:.0%})"
        )


def wilson(passed: int, counted: int) -> tuple[float, float]:
    """Return the Wilson score interval of a share at 95 %."""
    if counted == 0:
        return 0.0, 1.0
    share, square = passed / counted, _Z * _Z
    scale = 1 + square / counted
    middle = (share + square / (2 * counted)) / scale
    half = _Z * sqrt(share * (1 - share) / counted + square / (4 * counted * counted)) / scale
    return max(0.0, middle - half), min(1.0, middle + half)


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the exact two-sided p-value for pairs of which so many differ in each direction."""
    differing = only_first + only_second
    if differing == 0:
        return 1.0
    tail = sum(comb(differing, count) for count in range(min(only_first, only_second) + 1))
    return min(1.0, 2.0 * tail / 2.0**differing)


def rate_of(runs: Sequence[EvalRun]) -> Rate:
    """Return the pass rate of the runs that say something about the agent."""
    counted = [run for run in runs if run.outcome in COUNTED]
    return Rate(sum(run.outcome == "passed" for run in counted), len(counted))


class Pair(Struct, frozen=True):
    """One run of a task in both results."""

    task: str
    number: int
    first: bool
    second: bool


class PairedResults(Struct, frozen=True):
    """Two results, by the runs that both of them have."""

    pairs: list[Pair]
    unpaired: list[str]
    """Runs that only one of them has, or that do not count in one."""

    @property
    def only_first(self) -> int:
        return sum(pair.first and not pair.second for pair in self.pairs)

    @property
    def only_second(self) -> int:
        return sum(pair.second and not pair.first for pair in self.pairs)

    @property
    def p_value(self) -> float:
        return mcnemar(self.only_first, self.only_second)

    def sentence(self) -> str:
        """Return what the numbers can show."""
        total = len(self.pairs)
        if not total:
            return "No run is in both results, so nothing can be compared."
        differing = self.only_first + self.only_second
        needed = smallest_difference()
        if differing < needed:
            return (
                f"{differing} of {total} paired runs differ. With fewer than {needed} differing runs no "
                "result can be distinguished from chance, whichever way they point: run more tasks, or more runs."
            )
        if self.p_value < _LEVEL:
            better = "first" if self.only_first > self.only_second else "second"
            return (
                f"The {better} passed more of the paired runs than chance explains (p = {self.p_value:.3g}). "
                "That holds for these tasks; runs of one task are alike, so the evidence is weaker than it looks."
            )
        return (
            f"The difference is within what chance explains (p = {self.p_value:.3g}). That does not show that both are "
            "equally good: with so few runs only large differences can be seen."
        )


def smallest_difference() -> int:
    """Return how many runs have to differ, all in one direction, before a difference can be shown at all."""
    count = 1
    while mcnemar(0, count) >= _LEVEL:
        count += 1
    return count


def compare(first: EvalResults, second: EvalResults) -> PairedResults:
    """Pair the runs of two results by task and number."""
    ones = {(run.task, run.number): run for run in first.runs if run.outcome in COUNTED}
    others = {(run.task, run.number): run for run in second.runs if run.outcome in COUNTED}
    known = {(run.task, run.number) for run in (*first.runs, *second.runs)}
    both = sorted(ones.keys() & others.keys())
    pairs = [Pair(*key, ones[key].outcome == "passed", others[key].outcome == "passed") for key in both]
    return PairedResults(pairs, [f"{task} ({number})" for task, number in sorted(known - set(both))])
