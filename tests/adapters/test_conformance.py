"""Every kind of adapter keeps the rules of the protocol: the judge of `dragoman check agent`, over memory.

The whole judge takes minutes for each kind; these are the cases that do not wait for what must not happen.
"""

from pathlib import Path

import pytest

from dragoman.adapters import AdapterAgent
from dragoman.conformance.agent.in_process import AgentInProcess
from dragoman.conformance.agent.probe import AgentCheckSettings
from dragoman.conformance.agent.run import AgentRun
from dragoman.conformance.case import load_cases
from tests.adapters.kinds import KINDS, adapters

CASES = ("initialize/*", "session/*", "load/*", "history/*", "list/*", "prompt/*", "updates/*", "modes/*", "options/*")
WAITS = "agent/session/mcp-connected"  # for a server that these agents do not use


@pytest.mark.parametrize("kind", KINDS)
async def test_no_rule_is_broken(kind: str, tmp_path: Path) -> None:
    with adapters(kind) as make:
        target = AgentInProcess(lambda: AdapterAgent(make(), store=tmp_path / "s.db"))
        cases = [each for each in load_cases("agent", CASES) if each.id != WAITS]
        report = await AgentRun(target, AgentCheckSettings(timeout_seconds=20), jobs=2).run(cases)
    broken = [(each.id, each.message) for each in report.results if each.status in ("fail", "error")]
    assert broken == []
    assert sum(each.status == "pass" for each in report.results) > 30
