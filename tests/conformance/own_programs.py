"""What our own programs may be warned for: `own_programs.toml`, and the rule that it holds nothing else."""

from __future__ import annotations

import tomllib
from pathlib import Path

from dragoman.conformance.report.model import ConformanceReport

FILE = Path(__file__).with_name("own_programs.toml")


def accepted() -> dict[str, dict[str, str]]:
    """Program -> case -> the reason why its warning is accepted."""
    return tomllib.loads(FILE.read_text())


def assert_in_order(report: ConformanceReport, program: str) -> None:
    """No failure, no error of the judge, and no warning without a reason, nor a reason without its warning."""
    broken = {line.id: line.message for line in report.lines("fail", "error")}
    assert not broken
    reasons = accepted().get(program, {})
    warned = {line.id: line.message for line in report.lines("warn")}
    unexplained = {id: message for id, message in warned.items() if id not in reasons}
    assert not unexplained, f"write a reason into {FILE.name}, or mend it: {unexplained}"
    unused = sorted(reasons.keys() - warned.keys())
    assert not unused, f"{FILE.name} excuses {program} for what it does not do any more"
