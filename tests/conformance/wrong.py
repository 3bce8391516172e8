"""A report with one result of every kind, made by judging wrong agents; the writers of reports are tested with it."""

from __future__ import annotations

import asyncio
import logging
from functools import cache

from dragoman.conformance.agent.probe import AgentCheckSettings
from dragoman.conformance.agent.run import AgentRun
from dragoman.conformance.case import CaseResult, load_cases
from dragoman.conformance.report.model import ConformanceReport
from tests.conformance.mutants import MUTANTS, mutant
from tests.conformance.tamper import both

ODD = "<script>alert('x')</script> & \x00\x1b[31m"


@cache
def wrong_report() -> ConformanceReport:
    """Of an agent that answers a cancel with end_turn and has no MCP over HTTP; the rest is made up."""
    logging.disable(logging.CRITICAL)
    try:
        wrong = both(MUTANTS["agent/cancel/streaming"], MUTANTS["agent/session/mcp-http"])
        cases = load_cases("agent", ["cancel/streaming", "initialize", "authentication/required", "session/mcp-http"])
        run = AgentRun(mutant(wrong), AgentCheckSettings(timeout_seconds=2.0))
        report = asyncio.run(run.run(cases))
    finally:
        logging.disable(logging.NOTSET)
    report.results += [
        CaseResult("agent/updates/plan", "inconclusive", f"no plan {ODD}", 0.25),
        CaseResult("agent/updates/usage", "error", f"KeyError: {ODD}", 0.5),
    ]
    report.passive.append(CaseResult("passive/329", "warn", "$.colour: the schema does not name this member", 0.0))
    return report
