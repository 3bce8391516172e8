"""Results as rows and sentences, for a terminal and for a page. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.evaluation.results import COUNTED
from dragoman.evaluation.solutions import NO_MODEL
from dragoman.evaluation.statistics import rate_of
from dragoman.text.terminal import duration, size
from dragoman.text.visible import label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dragoman.evaluation.results import EvalResults, EvalRun, Measured
    from dragoman.evaluation.statistics import PairedResults

HEADER: Final = ("TASK", "PASSED", "TURNS", "MODEL CALLS", "TOOL CALLS", "TOKENS", "COST", "TIME", "VIOLATIONS", "NOTE")
UNKNOWN: Final = "unknown"
COMPARED: Final = ("TASK", "RUN", "FIRST", "SECOND")
_NOTE_CHARS: Final = 120


class TaskRow(Struct, frozen=True):
    """All runs of one task in one row."""

    task: str
    runs: list[EvalRun]

    @property
    def counted(self) -> list[EvalRun]:
        """The runs that say something about the agent."""
        return [run for run in self.runs if run.outcome in COUNTED]

    def cells(self) -> tuple[str, ...]:
        """Return the row, as `HEADER` names its cells."""
        facts = [run.facts for run in self.runs if run.facts is not None and run.facts.turns]
        if not facts:
            return (self.task, self._passed(), *["-"] * 7, self.note())
        return (
            self.task,
            self._passed(),
            _mean(facts, lambda fact: fact.turns),
            _mean(facts, lambda fact: fact.model_calls),
            _mean(facts, lambda fact: fact.tool_calls),
            _mean(
                facts, lambda fact: None if fact.tokens is None else fact.tokens.total, lambda value: size(round(value))
            ),
            _cost(facts),
            _mean(facts, lambda fact: fact.seconds, duration),
            _mean(facts, _violations),
            self.note(),
        )

    def _passed(self) -> str:
        if not self.counted:
            return "/".join(dict.fromkeys(run.outcome for run in self.runs))
        return f"{sum(run.outcome == 'passed' for run in self.counted)} of {len(self.counted)}"

    def note(self) -> str:
        """Return the first reason why a run did not pass."""
        for run in self.runs:
            failed = [
                f"{check.name}: {check.detail}" if check.detail else check.name
                for check in run.checks
                if not check.is_passed
            ]
            if run.outcome != "passed" and (failed or run.reasons):
                return label((failed + run.reasons)[0], _NOTE_CHARS)
        return ""


def _violations(facts: Measured) -> int | None:
    if facts.protocol_violations is None:
        return None
    return len(facts.protocol_violations) + facts.rule_violations


def _mean(
    facts: Sequence[Measured],
    get: Callable[[Measured], float | None],
    shown: Callable[[float], str] = lambda value: f"{value:.3g}" if value < 999.5 else f"{value:.0f}",
) -> str:
    """Return the mean over runs; unknown if a run does not have the number."""
    values = [get(fact) for fact in facts]
    known = [value for value in values if value is not None]
    return shown(sum(known) / len(known)) if len(known) == len(values) else UNKNOWN


def _cost(facts: Sequence[Measured]) -> str:
    currencies = {fact.currency for fact in facts}
    if len(currencies) != 1 or None in currencies:
        return UNKNOWN
    return f"{_mean(facts, lambda fact: fact.cost, lambda value: f'{value:.4g}')} {currencies.pop()}"


def rows_of(results: EvalResults) -> list[TaskRow]:
    """Return one row for each task, in the order of the runs."""
    names = dict.fromkeys(run.task for run in results.runs)
    return [TaskRow(name, [run for run in results.runs if run.task == name]) for name in names]


def sentences(results: EvalResults) -> list[str]:
    """Return what the results show and what they do not."""
    rate = rate_of(results.runs)
    found = [f"Passed: {rate}."]
    left_out = {
        "skipped": "skipped",
        "interrupted": "interrupted or not begun",
        "error": "ended before the prompt",
        "broken": "with a judge that failed",
    }
    counts = {words: sum(run.outcome == outcome for run in results.runs) for outcome, words in left_out.items()}
    if any(counts.values()):
        found.append(f"Not counted: {', '.join(f'{count} {words}' for words, count in counts.items() if count)}.")
    if results.is_partial:
        found.append("The evaluation was interrupted: these are partial results.")
    if results.is_scripted:
        found.append(NO_MODEL)
    elif rate.counted:
        low, high = rate.interval
        found.append(
            f"The interval is {round((high - low) * 100)} points wide: two agents whose rates differ by less cannot be "
            "told apart by their rates alone. Compare two runs with `dragoman eval compare`, which pairs the tasks."
        )
    return found


def compared_rows(comparison: PairedResults) -> list[tuple[str, ...]]:
    """Return the pairs that differ."""
    words = {True: "passed", False: "failed"}
    return [
        (pair.task, str(pair.number), words[pair.first], words[pair.second])
        for pair in comparison.pairs
        if pair.first != pair.second
    ]


def compared_sentences(first: EvalResults, second: EvalResults, comparison: PairedResults) -> list[str]:
    """Return what a comparison shows."""
    found = [
        f"First: {first.title}: passed {rate_of(first.runs)}.",
        f"Second: {second.title}: passed {rate_of(second.runs)}.",
        f"{len(comparison.pairs)} paired runs: {comparison.only_first} passed only in the first, "
        f"{comparison.only_second} only in the second. Exact McNemar test: p = {comparison.p_value:.3g}.",
        comparison.sentence(),
    ]
    if comparison.unpaired:
        found.append(f"Not compared, because they do not count in both: {_listed(comparison.unpaired)}.")
    if first.is_scripted or second.is_scripted:
        found.append(NO_MODEL)
    return found


def _listed(names: Iterable[str], most: int = 12) -> str:
    all_of_them = list(names)
    rest = len(all_of_them) - most
    return ", ".join(all_of_them[:most]) + (f" and {rest} more" if rest > 0 else "")
