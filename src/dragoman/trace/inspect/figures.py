"""Counts, sizes and latencies of a recording: per method, per session, in all.

Owns the numbers: takes rows and returns plain data. A percentile is one of the values, without interpolation.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.trace.inspect.timeline import Row

PERCENTILES: Final = (50, 90, 99)


def figures(rows: Iterable[Row]) -> dict[str, Any]:
    """Return all counts, sizes and latencies of these rows."""
    total, methods, sessions = _Tally(), dict[str, _Tally](), dict[str, _Tally]()
    first = last = None
    for row in rows:
        first = row.t if first is None else first
        last = row.t
        total.add(row)
        if row.dir is not None and row.name:
            methods.setdefault(row.name, _Tally()).add(row)
        if row.session is not None:
            sessions.setdefault(row.session, _Tally()).add(row)
    return {
        "seconds": round(last - first, 6) if first is not None and last is not None else 0.0,
        "total": total.summary(),
        "methods": {name: methods[name].summary() for name in sorted(methods)},
        "sessions": {name: tally.summary() for name, tally in sessions.items()},
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of them do not exceed; `values` are sorted and not empty."""
    return values[max(0, ceil(len(values) * percent / 100) - 1)]


class _Tally:
    def __init__(self) -> None:
        self.messages = {"c2a": 0, "a2c": 0}
        self.bytes = {"c2a": 0, "a2c": 0}
        self.requests = self.errors = self.unanswered = self.findings = self.prompts = 0
        self.latencies: list[float] = []

    def add(self, row: Row) -> None:
        if row.dir is not None and row.kind != "end":
            self.messages[row.dir] += 1
            self.bytes[row.dir] += row.size_bytes
        if row.kind == "request":
            self.requests += 1
            self.unanswered += row.answer is None
            self.prompts += row.method == "session/prompt"
            if row.latency is not None:
                self.latencies.append(row.latency)
        self.errors += row.error_code is not None
        self.findings += sum(finding.is_failure for finding in row.findings)

    def summary(self) -> dict[str, Any]:
        latencies = sorted(self.latencies)
        spans = {f"p{percent}": round(percentile(latencies, percent), 6) for percent in PERCENTILES if latencies}
        if latencies:
            spans["max"] = round(latencies[-1], 6)
        return {
            "messages": dict(self.messages),
            "bytes": dict(self.bytes),
            "requests": self.requests,
            "prompts": self.prompts,
            "unanswered": self.unanswered,
            "errors": self.errors,
            "failures": self.findings,
            "latency": spans or None,
        }
