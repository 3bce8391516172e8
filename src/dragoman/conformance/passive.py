"""Rules that can be checked in any traffic, without provoking anything.

Owns turning the findings of the passive checker into results, one per broken rule and side. The checks themselves
belong to `trace/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.conformance.case import Binds, CaseResult, Status
from dragoman.conformance.conversation import WireMessage
from dragoman.conformance.report.model import ConformanceReport, Subject
from dragoman.trace.entry import Frame
from dragoman.trace.violations import Finding, PassiveChecker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.trace.entry import Direction, Entry, Header
    from dragoman.trace.reader import Trace


def _numbers(text: str) -> frozenset[int]:
    return frozenset(map(int, text.split()))


SIDES: Final[dict[Direction, Binds]] = {"a2c": "agent", "c2a": "client"}
SEEN: Final[dict[Binds, frozenset[int]]] = {
    "agent": _numbers(
        "1 6 10 19 20 21 22 23 24 25 26 35 37 40 42 45 46 53 57 58 61 62 63 64 69 74 76 85 102 107 109 112 "
        "117 119 125 126 127 136 137 147 148 149 150 151 152 157 163 164 166 167 170 172 173 174 181 185 196 "
        "197 198 201 208 210 211 215 216 217 218 219 220 222 223 224 228 230 231 232 233 234 235 239 240 241 "
        "242 243 245 246 248 250 251 253 254 263 269 272 273 274 275 282 283 284 298 302 303 304 316 318 320 "
        "327 329 340 342 343 "
    ),
    "client": _numbers(
        "7 10 19 20 22 23 26 33 34 37 44 46 58 67 68 79 84 86 87 96 98 99 104 105 110 111 114 122 124 129 135 140 "
        "141 162 171 177 178 187 194 235 255 256 258 259 277 288 289 294 329 340 343 "
    ),
}
"""Rules that show in any traffic, by the side that breaks them. A test has a wrong program for each."""
# How many frames before the one at fault go into the evidence.
_CONTEXT: Final = 4


def passive_id(rule: int) -> str:
    return f"passive/{rule}"


class Watch:
    """Checks connections one after the other and collects what the judged side broke."""

    def __init__(self, binds: Binds | None) -> None:
        """`binds` is the side to judge; None judges both, for a recording of two other programs."""
        self._binds = binds
        self._results: dict[tuple[int, Binds, Status], CaseResult] = {}
        self._counts: dict[tuple[int, Binds, Status], int] = {}

    def look(self, entries: Sequence[Entry], *, header: Header | None = None) -> None:
        """Checks one connection from its first line to its end; a recording's header states whether it is complete."""
        checker = PassiveChecker(is_whole=header is None)
        if header is not None:
            checker.begin(header)
        for entry in entries:
            for finding in checker.feed(entry):
                self._add(finding, entries)
        for finding in checker.finish():
            self._add(finding, entries)

    def results(self) -> list[CaseResult]:
        """One result per broken rule, failures first; what was not broken has none."""
        for key, result in self._results.items():
            if self._counts[key] > 1:
                result.message = f"{result.message.partition(' (and ')[0]} (and {self._counts[key] - 1} more)"
        return sorted(self._results.values(), key=lambda result: (result.status != "fail", int(result.id[8:])))

    def _add(self, finding: Finding, entries: Sequence[Entry]) -> None:
        side = SIDES[finding.dir]
        status = status_of_finding(finding)
        if status is None or self._binds not in (None, side):
            return
        key = (finding.rule, side, status)
        self._counts[key] = self._counts.get(key, 0) + 1
        if key not in self._results:
            at = finding.index
            who = "" if self._binds is not None else f"the {side}: "
            evidence = list(entries[max(0, at - _CONTEXT) : at])
            self._results[key] = CaseResult(passive_id(finding.rule), status, who + finding.message, 0.0, evidence)


def judge_trace(name: str, trace: Trace) -> ConformanceReport:
    """Judges both sides of a recording."""
    watch = Watch(None)
    header = trace.header
    watch.look(trace.entries, header=header)
    info = next((found for entry in trace.entries if (found := _agent_info(entry))), None)
    subject = Subject("trace", (name,), info)
    return ConformanceReport(
        subject, [], watch.results(), messages=sum(isinstance(entry, Frame) for entry in trace.entries)
    )


def _agent_info(entry: Entry) -> Any:
    if not isinstance(entry, Frame) or entry.dir != "a2c" or b'"agentInfo"' not in entry.data:
        return None
    return WireMessage(0, 0.0, entry.data).fields.get("agentInfo")


def status_of_finding(finding: Finding) -> Status | None:
    """What a finding counts as; None for an observation that proves nothing broken."""
    if finding.is_failure:
        return "fail"
    return "warn" if finding.is_warning or finding.level == "EXTRA" else None
