"""A judgement for a user at a terminal: what is wrong first, with its evidence, then the counts.

Owns the words and their order; whether colour is allowed is the caller's decision.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from dragoman.conformance.report.excerpt import excerpt
from dragoman.text.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dragoman.conformance.case import Status
    from dragoman.conformance.report.model import ConformanceReport, ReportLine


_STYLES: Final[dict[Status, str]] = {
    "fail": "1;31",
    "error": "1;35",
    "warn": "33",
    "inconclusive": "36",
    "skipped": "2",
    "note": "2",
    "pass": "32",
}
_LOUD: Final[tuple[Status, ...]] = ("fail", "error", "warn", "note")
_QUIET: Final[tuple[Status, ...]] = ("inconclusive", "skipped")
_HEADINGS: Final[dict[Status, str]] = {
    "fail": "Broken (MUST)",
    "error": "Errors of the judge itself; please report them",
    "warn": "Warnings (SHOULD, and habits peers rely on)",
    "note": "Notes: seen, and not proven to be wrong",
    "inconclusive": "Inconclusive: the program did not do what would show it",
    "skipped": "Skipped: not offered",
}
# What differs between two findings of one cause: numbers, and what was quoted.
_VARYING: Final = re.compile(r"\d+(\.\d+)?|: [{\[].*|'[^']*'")
_NAMED: Final = 6


def write_report(report: ConformanceReport, paint: Callable[[str, str], str], *, width: int = 100) -> Iterator[str]:
    """Yield the report, line by line; `paint(text, style)` colours."""
    command = one_line(" ".join(report.subject.command))
    yield paint(one_line(report.subject.name), "1") + f"  ({report.subject.role}: {command})"
    if report.subject.role == "trace":
        yield report.summary.removeprefix(f"ACP v{report.version}: ")
    if report.stopped:
        yield paint(f"Stopped: {one_line(report.stopped)}. {report.not_run} cases were not run.", "1;33")
    for status in _LOUD:
        causes = by_cause(report.lines(status))
        if causes:
            yield ""
            yield paint(_HEADINGS[status], _STYLES[status])
        for lines in causes:
            yield from _finding(lines, paint, width)
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


def by_cause(lines: Iterable[ReportLine]) -> list[list[ReportLine]]:
    """Group findings that say the same but for numbers and quotations, in the order of the first of each group."""
    groups: dict[tuple[str, str | None], list[ReportLine]] = {}
    for line in lines:
        groups.setdefault((_VARYING.sub("#", line.message), line.side), []).append(line)
    return list(groups.values())


def _finding(lines: list[ReportLine], paint: Callable[[str, str], str], width: int) -> Iterator[str]:
    line, *others = lines
    numbers = ", ".join(map(str, line.rules))
    shown = f"  {paint(f'rule {numbers}', '2')}" if numbers else ""
    yield f"  {paint(line.id, _STYLES[line.status])}{shown}"
    yield f"      expected  {line.about}"
    yield f"      seen      {one_line(line.message)}"
    if others:
        named = ", ".join(other.id for other in others[:_NAMED])
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        yield f"      also in   {len(others)} other{'s' if len(others) > 1 else ''}: {named}{more}"
    texts = excerpt(line.evidence, width=max(40, width - 16), first=line.first, about=line.message)
    yield from (paint(f"        {one_line(text)}", "2") for text in texts)
