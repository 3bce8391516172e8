"""A judgement for programs: one JSON document, and JUnit XML for test servers.

Both are contracts: members are added, never renamed. Evidence is complete, in the form of a recording's lines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape, quoteattr

from dragoman._version import __version__
from dragoman.conformance.report.excerpt import excerpt
from dragoman.conformance.report.model import entry_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.conformance.case import Binds
    from dragoman.conformance.report.model import ConformanceReport, ReportLine

SCHEMA: Final = "dragoman.check/1"
# XML has no way to write these, escaped or not.
_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def report_document(report: ConformanceReport) -> dict[str, Any]:
    """Return the whole report; evidence only where something went wrong."""
    return {
        "schema": SCHEMA,
        "by": f"dragoman {__version__}",
        "protocol": 1,
        "subject": {
            "role": report.subject.role,
            "command": list(report.subject.command),
            "info": report.subject.info,
        },
        "summary": report.summary,
        "ok": not report.has_failed,
        "counts": report.counts,
        **_recording(report),
        "stopped": report.stopped or None,
        "not_run": report.not_run,
        "seconds": round(report.seconds, 3),
        "results": [_line_document(line) for line in report.lines()],
    }


def _recording(report: ConformanceReport) -> dict[str, Any]:
    """Return what only the report of a recording has: the counts of each side, and how much was merely noted."""
    if report.subject.role != "trace":
        return {}
    sides: tuple[Binds, ...] = ("agent", "client")
    return {"sides": {side: report.side_counts(side) for side in sides}, "notes": report.notes}


def _line_document(line: ReportLine) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": line.id,
        "status": line.status,
        "level": line.level,
        "rules": list(line.rules),
        "about": line.about,
        "message": line.message,
        "seconds": round(line.seconds, 3),
        "count": line.count,
    }
    if line.side is not None:
        document["side"] = line.side
    if line.status not in ("pass", "skipped"):
        document["evidence"] = [entry_document(entry) for entry in line.evidence]
    return document


def junit_xml(report: ConformanceReport) -> str:
    """Return the report as one test suite per area.

    A warning is a passed test with a text; what needs a model is skipped.
    """
    areas: dict[str, list[ReportLine]] = {}
    for line in report.lines():
        areas.setdefault(line.area, []).append(line)
    body = "\n".join(text for area, lines in areas.items() for text in _suite(report, area, lines))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<testsuites name={_attribute(report.summary)} {_totals(list(report.lines()))}>\n{body}\n</testsuites>\n"
    )


def _totals(lines: list[ReportLine]) -> str:
    def count(*statuses: str) -> int:
        return sum(line.status in statuses for line in lines)

    seconds = sum(line.seconds for line in lines)
    return (
        f'tests="{len(lines)}" failures="{count("fail")}" errors="{count("error")}" '
        f'skipped="{count("skipped", "inconclusive")}" time="{seconds:.3f}"'
    )


def _suite(report: ConformanceReport, area: str, lines: list[ReportLine]) -> Iterator[str]:
    yield f"  <testsuite name={_attribute(f'{report.subject.role}.{area}')} {_totals(lines)}>"
    for line in lines:
        opening = f"    <testcase classname={_attribute(f'acp.{area}')} name={_attribute(line.id)}"
        inner = "".join(_outcome(line))
        yield f'{opening} time="{line.seconds:.3f}"' + (f">{inner}\n    </testcase>" if inner else "/>")
    yield "  </testsuite>"


def _outcome(line: ReportLine) -> Iterator[str]:
    rules = ", ".join(map(str, line.rules))
    details = "\n".join([f"expected: {line.about}", f"rules: {rules}", *_evidence(line)])
    match line.status:
        case "fail":
            yield f"\n      <failure message={_attribute(line.message)}>{_text(details)}</failure>"
        case "error":
            yield f"\n      <error message={_attribute(line.message)}>{_text(details)}</error>"
        case "skipped" | "inconclusive":
            yield f"\n      <skipped message={_attribute(f'{line.status}: {line.message}')}/>"
        case "warn":
            yield f"\n      <system-out>{_text(f'warning: {line.message}')}\n{_text(details)}</system-out>"


def _evidence(line: ReportLine) -> list[str]:
    return excerpt(line.evidence, lines=20, width=400, first=line.first, about=line.message)


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text))


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))
