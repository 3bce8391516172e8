"""`dragoman check agent --protocol 2`: a right agent passes, and each wrong one is caught by its case."""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path

import pytest

from dragoman.cli.main import main
from dragoman.conformance.agent.probe import AgentCheckSettings
from dragoman.conformance.agent.program import AgentProgram
from dragoman.conformance.agent.prompts import Prompts
from dragoman.conformance.agent.version2.run import Version2Run, cases_of_version2
from dragoman.conformance.report.model import ConformanceReport, describe
from dragoman.errors import RemoteProtocolError
from dragoman.trace.checks.rules import rules_of_version2
from tools.rules import PAGE_2, TABLE_2, table

AGENT = (sys.executable, "-S", str(Path(__file__).parent / "agents" / "version2.py"))
ROOT = Path(__file__).parents[2]
SETTINGS = AgentCheckSettings(20.0, Prompts({"say": "hello", "slow": "slow", "run": "run", "ask": "ask"}))


async def judged(only: str, mutant: str = "", command: tuple[str, ...] = AGENT) -> ConformanceReport:
    program = AgentProgram(command, env={**os.environ, "VERSION2_MUTANT": mutant})
    return await Version2Run(program, SETTINGS, jobs=1).run(cases_of_version2(only.split(",")))


async def test_a_right_agent_passes_every_case() -> None:
    report = await judged("v2-*")
    assert {result.id: result.message for result in report.all if result.status != "pass"} == {}
    assert report.summary.startswith("ACP v2: ")


# What is wrong with the agent -> the case to run, and the rule that is reported.
MUTANTS = {
    "echoes-version": ("v2-initialize/higher", 2008),
    "low-version": ("v2-initialize/too-low", 2009),
    "any-version": ("v2-initialize/not-a-version", 2010),
    "no-info": ("v2-initialize/without-info", 2012),
    "too-early": ("v2-initialize/first", 2007),
    "unknown-method": ("v2-messages/unknown-method", 2004),
    "login-error": ("v2-login/unknown", 2016),
    "no-list": ("v2-session/list", 2018),
    "no-snapshot": ("v2-session/resume", 2019),
    "always-replays": ("v2-session/resume", 2020),
    "no-replay": ("v2-session/replay", 2020),
    "any-cursor": ("v2-session/cursor", 2021),
    "unknown-session": ("v2-session/unknown", 2022),
    "close-silent": ("v2-session/close-working", 2023),
    "any-option": ("v2-session/option", 2027),
    "not-shown": ("v2-prompt/turn", 2029),
    "never-running": ("v2-prompt/turn", 2030),
    "one-message-id": ("v2-prompt/two", 2032),
    "cancel-reason": ("v2-prompt/cancel", 2033),
    "cancels-anything": ("v2-tools/cancel-unknown", 2042),
    "unknown-terminal": ("v2-tools/shown", 2040),
    "not-base64": ("v2-tools/shown", 2038),
    "no-options": ("v2-tools/permission", 2044),
    # Seen in the traffic of any case
    "talks-after-close": ("v2-session/resume", 2024),
    "no-reason": ("v2-prompt/turn", 2031),
}


@pytest.mark.parametrize("mutant", MUTANTS)
async def test_a_wrong_agent_is_caught(mutant: str) -> None:
    only, rule = MUTANTS[mutant]
    report = await judged(only, mutant)
    wrong = [result for result in report.all if result.status in ("fail", "warn")]
    assert rule in {number for result in wrong for number in describe(result).rules}


async def test_an_agent_of_version_1_is_not_judged_by_the_rules_of_version_2() -> None:
    built_in = (sys.executable, "-m", "dragoman", "agent", "--model", "scripted", "--protocol", "1")
    with pytest.raises(RemoteProtocolError, match="check it with --protocol 1"):
        await judged("v2-prompt/turn", command=built_in)


def test_the_command_lists_explains_and_runs_the_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "agent", "--protocol", "2", "--list", "--only", "v2-prompt"]) == 0
    assert "agent/v2-prompt/cancel" in capsys.readouterr().out
    assert main(["check", "--explain", "agent/v2-prompt/cancel"]) == 0
    assert "2033" in capsys.readouterr().out
    assert main(["check", "--explain", "passive/2031"]) == 0
    assert "stop reason" in capsys.readouterr().out
    assert main(["check", "agent", "--protocol", "auto", "--badge", "--only", "v2-prompt/turn", "--", *AGENT]) == 0
    assert capsys.readouterr().out.startswith("ACP v2: 1 passed")
    assert main(["check", "client", "--protocol", "2", "--", *AGENT]) == 2
    assert "version 1" in capsys.readouterr().err


def reported_in_traffic() -> set[int]:
    """The rules that the passive checks of version 2 can report, from their source."""
    found: set[int] = set()
    source = ROOT / "src" / "dragoman" / "trace" / "checks" / "version2.py"
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "report":
            first = node.args[0]
            assert isinstance(first, ast.Constant)
            assert isinstance(first.value, int)
            found.add(first.value)
    return found


def test_every_rule_is_checked_by_what_the_page_names() -> None:
    assert TABLE_2.read_text() == table(PAGE_2), "run python -m tools.rules"
    by_rule: dict[int, set[str]] = {}
    for case in cases_of_version2(["v2-*"]):
        for rule in case.rules:
            by_rule.setdefault(rule, set()).add(case.id.removeprefix("agent/"))
    in_traffic = reported_in_traffic()
    rows = re.findall(r"^\| (20\d\d) \|.*\| ([^|]+) \|$", PAGE_2.read_text(), flags=re.MULTILINE)
    assert {int(number) for number, _ in rows} == rules_of_version2().keys()
    for number, checked in rows:
        named = set(re.findall(r"`([^`]+)`", checked))
        assert named == by_rule.get(int(number), set()), number
        assert ("traffic" in checked) == (int(number) in in_traffic), number
        assert named or int(number) in in_traffic
