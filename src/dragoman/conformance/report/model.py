"""A judgement as data: who was judged, how each case ended, what that adds up to.

Owns the counts, the order of importance and what a case id stands for. Does not know how any of it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dragoman.conformance.case import CASES, REMOTE_CASES, STATUSES, VERSION2_CASES, Binds, CaseResult, Level, Status
from dragoman.trace.checks.rules import rule_of
from dragoman.trace.entry import Entry, Frame, Stderr

if TYPE_CHECKING:
    from collections.abc import Iterator


class Subject(msgspec.Struct):
    """Who was judged."""

    role: Literal["agent", "client", "trace"]
    command: Sequence[str]
    info: Any = None
    """What the program states about itself in the handshake: name, title, version."""

    @property
    def name(self) -> str:
        """What to call it in a heading."""
        if isinstance(self.info, dict) and isinstance(self.info.get("name"), str):
            return f"{self.info.get('title') or self.info['name']} {self.info.get('version') or ''}".strip()
        return " ".join(self.command)


class ReportLine(msgspec.Struct):
    """One result with what its case is about."""

    id: str
    status: Status
    level: Level
    rules: tuple[int, ...]
    about: str
    message: str
    seconds: float
    evidence: list[Entry]
    first: int = 0
    side: Binds | None = None
    count: int = 1

    @property
    def area(self) -> str:
        """The case's area; everything passive is one."""
        return self.id.split("/")[-2] if self.id.count("/") == 2 else self.id.split("/")[0]


class ConformanceReport(msgspec.Struct):
    """Everything a judgement found."""

    subject: Subject
    results: list[CaseResult]
    """Of the cases that were run, in their order."""
    passive: list[CaseResult] = []
    """Rules that the traffic broke, whatever the case; ids are `passive/<rule>`."""
    seconds: float = 0.0
    messages: int = 0
    """Of a recording: how many lines were looked at."""
    notes: int = 0
    """Of a recording: how many observations were made that prove nothing broken."""
    side: Binds | None = None
    """Of a recording: the side that was judged; None for both."""
    stopped: str = ""
    """Why not every case was run; empty if all were."""
    not_run: int = 0
    version: int = 1
    """Of the protocol, by which it was judged."""

    @property
    def all(self) -> list[CaseResult]:
        return [*self.results, *self.passive]

    def lines(self, *statuses: Status) -> Iterator[ReportLine]:
        """Yield the results that ended so (all of them by default), the most important first."""
        for status in statuses or STATUSES:
            for result in self.all:
                if result.status == status:
                    yield describe(result)

    def count(self, status: Status) -> int:
        return sum(result.status == status for result in self.all)

    @property
    def counts(self) -> dict[Status, int]:
        return {status: self.count(status) for status in STATUSES if status != "note"}

    def side_counts(self, side: Binds) -> dict[str, int]:
        """Return what one side of a recording broke."""
        of_side = [result for result in self.passive if result.side == side]
        return {status: sum(result.status == status for result in of_side) for status in ("fail", "warn")}

    @property
    def has_failed(self) -> bool:
        """Whether something of level MUST failed, or the judge itself did."""
        return bool(self.count("fail") or self.count("error"))

    @property
    def is_cut_off(self) -> bool:
        """Whether cases were not run for want of time, or because the run was ended."""
        return bool(self.stopped and self.not_run)

    @property
    def summary(self) -> str:
        """The whole judgement in one line, small enough for a badge."""
        counts = self.counts
        if self.subject.role == "trace":
            sides: tuple[Binds, ...] = ("agent", "client") if self.side is None else (self.side,)
            parts = [self._side_summary(side) for side in sides]
            notes = f", {_plural(self.notes, 'note')}" if self.notes else ""
            return f"ACP v{self.version}: {'; '.join(parts)}; {_plural(self.messages, 'message')}{notes}"
        parts = [f"{counts['pass']} passed", f"{counts['fail']} failed"]
        parts += [_plural(counts["warn"], "warning")]
        parts += [f"{counts[status]} {status}" for status in ("inconclusive", "skipped") if counts[status]]
        if counts["error"]:
            parts.append(_plural(counts["error"], "error of the judge", "errors of the judge"))
        if self.not_run:
            parts.append(f"{self.not_run} not run")
        return f"ACP v{self.version}: {', '.join(parts)}"

    def _side_summary(self, side: Binds) -> str:
        counts = self.side_counts(side)
        broken, advice = _plural(counts["fail"], "rule"), _plural(counts["warn"], "warning")
        return f"the {side} broke {broken}, {advice}"


def describe(result: CaseResult) -> ReportLine:
    """Return a result with the level, rules and sentence of its case."""
    if result.id.startswith("passive/"):
        rule = rule_of(int(result.id.partition("/")[2]))
        level: Level = "MUST" if result.status == "fail" else "SHOULD"
        rules: tuple[int, ...] = (rule.number,)
        about = f"{rule.level}: {rule.text}" if rule.level.endswith("NOT") else rule.text
    else:
        case = next(known[result.id] for known in (CASES, VERSION2_CASES, REMOTE_CASES) if result.id in known)
        level, rules, about = case.level, case.rules, case.about
    return ReportLine(
        result.id,
        result.status,
        level,
        rules,
        about,
        result.message,
        result.seconds,
        result.evidence,
        result.first,
        result.side,
        result.count,
    )


def entry_document(entry: Entry) -> dict[str, Any]:
    """Return a piece of evidence in the form of a recording's line."""
    if isinstance(entry, Frame):
        document: dict[str, Any] = {"t": round(entry.t, 4), "dir": entry.dir}
        try:
            document["msg"] = msgspec.json.decode(entry.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            document["raw"] = entry.data.decode(errors="replace")
        return document
    if isinstance(entry, Stderr):
        return {"t": round(entry.t, 4), "stderr": entry.text}
    document = {"t": round(getattr(entry, "t", 0.0), 4)}
    return document | {"end": entry.dir} if hasattr(entry, "dir") else document | {"exit": _exit(entry)}


def _exit(entry: Any) -> dict[str, Any]:
    return {"signal": entry.signal} if entry.code is None else {"code": entry.code}


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
