"""Rules that can be checked in any traffic, without provoking anything.

Owns turning the findings of the passive checker into results, one per broken rule and side. The checks themselves
belong to `trace/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.conformance.case import Binds, CaseResult, Status
from dragoman.conformance.conversation import WireMessage
from dragoman.conformance.report.model import ConformanceReport, Subject, describe
from dragoman.trace.entry import Frame
from dragoman.trace.violations import Finding, PassiveChecker

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dragoman.conformance.case import Case
    from dragoman.trace.entry import Direction, Entry, Header
    from dragoman.trace.reader import Trace


def _numbers(text: str) -> frozenset[int]:
    return frozenset(map(int, text.split()))


SIDES: Final[dict[Direction, Binds]] = {"a2c": "agent", "c2a": "client"}
SEEN: Final[dict[Binds, frozenset[int]]] = {
    "agent": _numbers(
        "1 6 10 19 20 21 22 23 24 25 26 28 35 37 40 42 45 46 53 57 58 61 62 63 64 69 74 76 85 102 107 109 112 "
        "117 119 125 126 127 136 137 147 148 149 150 151 152 157 163 164 166 167 170 172 173 174 181 185 196 "
        "197 198 201 204 210 211 215 216 217 218 219 220 222 223 224 228 230 231 232 233 234 235 239 240 241 "
        "242 243 245 246 248 250 251 253 254 263 269 272 273 274 275 282 283 284 298 302 303 304 316 318 320 "
        "327 329 331 337 340 342 343 "
    ),
    "client": _numbers(
        "7 10 19 20 22 23 25 26 28 33 34 37 44 46 58 67 68 79 84 86 87 96 98 99 104 105 110 111 114 122 124 129 135 "
        "140 141 162 171 177 178 187 194 235 255 256 258 259 277 288 289 294 329 331 340 343 "
    ),
}
"""Rules that show in any traffic, by the side that breaks them. A test has a wrong program for each."""
_INVENTED: Final = "no-such-"
"""How every value begins that cases make up, such as the name of a mode."""
# How many frames before the one at fault go into the evidence.
_CONTEXT: Final = 4


def passive_id(rule: int) -> str:
    return f"passive/{rule}"


class Stretch(NamedTuple):
    """The part of a connection that belongs to one case."""

    case: Case
    start: int
    stop: int


class Watch:
    """Checks connections one after the other and collects what the judged side broke."""

    def __init__(self, binds: Binds | None) -> None:
        """Prepare to judge the side `binds`; None judges both, for a recording of two other programs."""
        self.provoked: set[str] = set()
        """Sessions that exist only because the judge sent what no client may send."""
        self.notes = 0
        """How many observations were made that prove nothing broken."""
        self.version = 1
        """The version of the protocol that the last connection agreed on."""
        self.has_notes = False
        """Whether observations become results, too."""
        self._binds = binds
        self._results: dict[tuple[int, Binds, Status], CaseResult] = {}
        self._cases: dict[tuple[int, Binds, Status], set[str]] = {}

    def look(
        self, entries: Sequence[Entry], *, header: Header | None = None, stretches: Collection[Stretch] = ()
    ) -> None:
        """Check one connection from its first line to its end.

        Args:
            entries: What was exchanged.
            header: Of a recording; it states whether the recording is complete.
            stretches: Which part of the connection belongs to which case.
        """
        checker = PassiveChecker(is_whole=header is None)
        if header is not None:
            checker.begin(header)
        for entry in entries:
            for finding in checker.feed(entry):
                self._add(finding, entries, stretches)
        for finding in checker.finish():
            self._add(finding, entries, stretches)
        self.version = checker.exchange.version

    def results(self, shown: Mapping[str, CaseResult] | None = None) -> list[CaseResult]:
        """Return one result per broken rule, failures first; what was not broken has none.

        Args:
            shown: Results of cases by id. A rule that was broken only where such a case fails for that rule is left
                out: it would be the same finding twice.
        """
        for result in self._results.values():
            if result.count > 1:
                result.message = f"{result.message.partition(' (and ')[0]} (and {result.count - 1} more)"
        found = [
            result for key, result in self._results.items() if not (shown and self._is_shown(key, result.status, shown))
        ]
        return sorted(found, key=lambda result: (result.status != "fail", int(result.id[8:])))

    def _is_shown(self, key: tuple[int, Binds, Status], status: Status, shown: Mapping[str, CaseResult]) -> bool:
        return all(
            (result := shown.get(id)) is not None
            and (result.status == status or result.status == "fail")
            and key[0] in describe(result).rules
            for id in self._cases[key]
        )

    def _add(self, finding: Finding, entries: Sequence[Entry], stretches: Collection[Stretch]) -> None:
        side = SIDES[finding.dir]
        status = status_of_finding(finding)
        if self._binds not in (None, side):
            return
        if status is None:
            self.notes += 1
            if not self.has_notes:
                return
            status = "note"
        at = finding.index
        case = next((stretch.case for stretch in stretches if stretch.start < at <= stretch.stop), None)
        if status == "fail" and self._is_provoked(finding, entries[at - 1], case):
            status = "warn"
        key = (finding.rule, side, status)
        self._cases.setdefault(key, set()).add("" if case is None else case.id)
        if key in self._results:
            self._results[key].count += 1
            return
        first = max(0, at - _CONTEXT)
        who = f"the {side}: " if self._binds is None else ""
        message = f"{who}message {at}: {finding.message}"
        self._results[key] = CaseResult(
            passive_id(finding.rule), status, message, 0.0, list(entries[first:at]), first + 1, side
        )

    def _is_provoked(self, finding: Finding, entry: Entry, case: Case | None) -> bool:
        """Whether the judge itself brought this about, by a message that no client may send."""
        if case is not None and case.provokes and case.level != "MUST":
            return True
        if _INVENTED in finding.message:
            return True
        return isinstance(entry, Frame) and any(f'"{id}"'.encode() in entry.data for id in self.provoked)


def judge_trace(name: str, trace: Trace, side: Binds | None = None, *, has_notes: bool = False) -> ConformanceReport:
    """Judge both sides of a recording, or one."""
    return judge_entries(name, trace.entries, trace.header, side, has_notes=has_notes)


def judge_entries(
    name: str, entries: Sequence[Entry], header: Header, side: Binds | None, *, has_notes: bool = False
) -> ConformanceReport:
    """Judge a recording that was read already."""
    watch = Watch(side)
    watch.has_notes = has_notes
    watch.look(entries, header=header)
    info = next((found for entry in entries if (found := _agent_info(entry))), None)
    subject = Subject("trace", (name,), info)
    messages = sum(isinstance(entry, Frame) for entry in entries)
    return ConformanceReport(
        subject, [], watch.results(), messages=messages, notes=watch.notes, side=side, version=watch.version
    )


def _agent_info(entry: Entry) -> Any:
    """Return what the agent states about itself, if this is its answer to `initialize`, in either version."""
    if not isinstance(entry, Frame) or entry.dir != "a2c" or b'"protocolVersion"' not in entry.data:
        return None
    fields = WireMessage(0, 0.0, entry.data).fields
    return fields.get("agentInfo") or fields.get("info")


def status_of_finding(finding: Finding) -> Status | None:
    """Return what a finding counts as; None for an observation that proves nothing broken."""
    if finding.is_failure:
        return "fail"
    return "warn" if finding.is_warning or finding.level == "EXTRA" else None
