"""A judgement for a user at a terminal: what is wrong first, with its evidence, then the counts.

Owns the words and their order; whether colour is allowed is the caller's decision.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from dragoman.conformance.report.excerpt import excerpt
from dragoman.text.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dragoman.conformance.case import Status
    from dragoman.conformance.report.model import ConformanceReport, ReportLine


_STYLES: Final[dict[Status, str]] = {
    "fail": "1;31",
    "error": "1;35",
    "warn": "33",
    "inconclusive": "36",
    "skipped": "2",
    "pass": "32",
}
_LOUD: Final[tuple[Status, ...]] = ("fail", "error", "warn")
_QUIET: Final[tuple[Status, ...]] = ("inconclusive", "skipped")
_HEADINGS: Final[dict[Status, str]] = {
    "fail": "Broken (MUST)",
    "error": "Errors of the judge itself; please report them",
    "warn": "Warnings (SHOULD, and habits peers rely on)",
    "inconclusive": "Inconclusive: the program did not do what would show it",
    "skipped": "Skipped: not offered",
}


def write_report(report: ConformanceReport, paint: Callable[[str, str], str], *, width: int = 100) -> Iterator[str]:
    """The report, line by line; `paint(text, style)` colours."""
    command = one_line(" ".join(report.subject.command))
    yield paint(one_line(report.subject.name), "1") + f"  ({report.subject.role}: {command})"
    for status in _LOUD:
        lines = list(report.lines(status))
        if lines:
            yield ""
            yield paint(_HEADINGS[status], _STYLES[status])
        for line in lines:
            yield from _finding(line, paint, width)
    for status in _QUIET:
        lines = list(report.lines(status))
        if lines:
            yield ""
            yield paint(_HEADINGS[status], _STYLES[status])
            reasons = Counter(line.message for line in lines)
            for reason in reasons:
                named = [line.id for line in lines if line.message == reason]
                yield f"  {one_line(reason)}"
                yield from (f"    {name}" for name in named)
    yield ""
    yield paint(report.summary, _STYLES["fail" if report.has_failed else "pass"]) + f"  ({report.seconds:.1f} s)"


def _finding(line: ReportLine, paint: Callable[[str, str], str], width: int) -> Iterator[str]:
    numbers = ", ".join(map(str, line.rules))
    yield f"  {paint(line.id, _STYLES[line.status])}  {paint(f'rule {numbers}', '2')}"
    yield f"      expected  {line.about}"
    yield f"      seen      {one_line(line.message)}"
    yield from (paint(f"        {one_line(text)}", "2") for text in excerpt(line.evidence, width=max(40, width - 12)))
