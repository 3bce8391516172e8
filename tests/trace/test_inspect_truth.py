"""What is said about real agents is true: every kind of finding below was checked by hand in its recording.

The recordings lie next to the project and may be absent. Their client sends a few bad requests on purpose.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from dragoman.trace import Header, Redactor, open_trace
from dragoman.trace.checks import envelope, fit, handshake, updates
from dragoman.trace.checks.rules import RULES
from dragoman.trace.inspect.timeline import read_timeline
from dragoman.trace.violations import FAILURES, WARNINGS
from tests.project.sources import ROOT
from tests.trace.kit import RECORDINGS
from tests.trace.test_inspect_order import CASES as ORDER
from tests.trace.test_inspect_schema import BROKEN
from tests.trace.test_inspect_sessions import CASES as SESSIONS
from tests.trace.test_inspect_turns import CASES as TURNS
from tools.rules import TABLE, table

# (rule, how often) of the agent's failures, then of its warnings. In words:
#   6    prints a notice on stdout              45   no agentInfo
#   69   terminal login without auth.terminal   102  updates before the response that names their session
#   107  replays after answering session/load   119  another code than -32002 for a session that is not open
#   112  replays on session/resume              157  a category of its own without `_`
#   149  an option's value that is not offered  166  accepts a value it no longer offers
#   150  a boolean option, not advertised       337  -32603 for params that do not fit
#   196  a cancelled turn ends as end_turn      243  tool calls announced late or twice
#   239  uses a tool call id again              251  shows terminals the client never made
#   246  a diff with a relative path            284  a shell line as the command of a terminal
#                                               342  -32002 without data.sessionId
KNOWN: dict[str, tuple[dict[int, int], dict[int, int]]] = {
    "auggie": ({}, {}),
    "claude": ({}, {119: 1}),
    "claude.load": ({}, {}),
    "claude22": ({}, {}),
    "claude22.load": ({}, {}),
    "cline": ({149: 14, 150: 14}, {119: 1, 243: 14}),
    "cline.load": ({149: 1, 150: 1}, {}),
    "codex": ({}, {157: 15, 251: 6}),
    "codex.load": ({}, {157: 2}),
    "codex-readonly": ({}, {157: 15, 251: 6}),
    "codex-readonly.load": ({}, {157: 2}),
    "codex-zed": ({}, {166: 1, 243: 10, 342: 1}),
    "codex-zed.load": ({}, {}),
    "copilot": ({}, {102: 2, 119: 1, 157: 14}),
    "copilot.load": ({}, {157: 1}),
    "deepagents": ({}, {45: 1, 119: 1}),
    "fast-agent": ({}, {119: 1}),
    "fast-agent.load": ({112: 38}, {}),
    "gemini": ({}, {119: 1, 243: 6, 337: 1}),
    "gemini.load": ({107: 49, 246: 1}, {}),
    "gemini-noread": ({}, {119: 1, 243: 7, 337: 1}),
    "gemini-noread.load": ({107: 49, 246: 2}, {}),
    "kimi": ({}, {119: 1, 284: 1}),
    "kimi.load": ({}, {}),
    "kimi-code": ({69: 1}, {119: 1}),
    "kimi-code.load": ({69: 1}, {}),
    "kimi152": ({6: 1}, {}),
    "openhands": ({196: 3}, {119: 1, 243: 1}),
    "openhands-noauth": ({6: 6}, {}),
    "openhands.load": ({}, {}),
    "py-sdk-agent": ({}, {119: 1}),
    "py-sdk-agent-latest": ({}, {119: 1}),
    "py-sdk-echo": ({}, {45: 1, 119: 1}),
    "ts-sdk-example": ({196: 1, 239: 24}, {45: 1, 119: 1, 243: 2}),
}
# Extra members by agent, and what is merely noted: the same facts that were found when the recordings were made.
EXTRA = {
    "gemini": {"$.models"},
    "claude.load": {"$.sessionId"},
    "codex": {"$.agentCapabilities.sessionCapabilities.subagents", "$.models"},
    "codex-zed": {"$.authMethods[0].type", "$.authMethods[0].vars", "$.authMethods[1].type", "$.authMethods[1].vars"},
    "kimi": {"$.models"},
}
NOTED = {
    "claude": {186: 1},  # usage after the turn
    "kimi-code": {186: 17},
    "gemini": {186: 2},  # "[MODE_UPDATE] ..." as a message
    "fast-agent": {292: 1},  # a terminal that was never released
    "claude22": {208: 1},  # a permission request that was cancelled
    "py-sdk-agent": {86: 2},  # updates for a session that is not open
}


@pytest.mark.skipif(not RECORDINGS, reason="no recordings of real agents next to the project")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_findings_about_a_real_agent_are_the_known_ones(path: Path) -> None:
    timeline = read_timeline(open_trace(path).entries)
    failures, warnings = KNOWN[path.stem]
    agent = [finding for finding in timeline.findings if finding.dir == "a2c"]
    assert Counter(finding.rule for finding in agent if finding.level in FAILURES) == failures
    assert Counter(finding.rule for finding in agent if finding.level in WARNINGS) == warnings
    client = {finding.rule for finding in timeline.findings if finding.dir == "c2a" and finding.level in FAILURES}
    assert client <= {86, 171, 178, 331}  # an unknown session, mode or method, a prompt without a prompt
    extra = {finding.message.partition(": ")[0] for finding in agent if finding.level == "EXTRA"}
    assert extra == EXTRA.get(path.stem, extra)
    noted = Counter(finding.rule for finding in agent if finding.level == "NOTE")
    assert all(noted[rule] == times for rule, times in NOTED.get(path.stem, {}).items())


@pytest.mark.skipif(not RECORDINGS, reason="no recordings of real agents next to the project")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_redacting_a_recording_brings_no_finding(path: Path) -> None:
    trace, redactor = open_trace(path), Redactor()
    entries = [redactor.entry(entry) for entry in trace.entries]
    before = Counter((each.rule, each.level, each.dir) for each in read_timeline(trace.entries).findings)
    header = Header(started="2026-01-01T00:00:00Z", redacted=True)
    after = Counter((each.rule, each.level, each.dir) for each in read_timeline(entries, header=header).findings)
    assert after - before == Counter()


@pytest.mark.skipif(not RECORDINGS, reason="no recordings of real agents next to the project")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recording_without_its_beginning_or_end_brings_no_finding(path: Path) -> None:
    entries = open_trace(path).entries
    known = {(each.index, each.rule) for each in read_timeline(entries).findings if each.level not in ("NOTE", "EXTRA")}
    for start, stop in ((0.25, 1.0), (0.5, 0.8), (0.0, 0.6), (0.7, 0.75)):
        first, last = int(len(entries) * start), int(len(entries) * stop)
        found = [each for each in read_timeline(entries[first:last]).findings if each.level not in ("NOTE", "EXTRA")]
        assert [each for each in found if (each.index + first, each.rule) not in known] == []


def test_table_of_rules_is_that_of_the_documentation() -> None:
    assert TABLE.read_text() == table(), "run python -m tools.rules"
    assert len(RULES) == 345


# Which of two rules is reported is decided by a variable there.
CHOSEN = {96, 194, 196, 197, 231, 232, 258}


def reported_rules() -> set[int]:
    """Every rule number that a check can report, from its source and its tables."""
    found = set(CHOSEN)
    found |= {rule for _, rule in envelope.VERDICTS} | set(envelope.NOISE.values()) | set(handshake.GATES.values())
    found |= {rule for _, rule in updates.GATES.values()} | {handshake.OMITTED, fit.ANY_TYPE, fit.EXTRA_MEMBER}
    found |= {*fit.RULES.values(), *fit.VARIANT_RULES.values(), *fit.FORBIDDEN.values(), fit.META, fit.CAMEL_CASE}
    trace = ROOT / "src" / "dragoman" / "trace"
    of_version1 = [path for path in (trace / "checks").glob("*.py") if path.stem != "version2"]
    for path in [*of_version1, trace / "violations.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                place = {"report": 0, "_report": 0, "check_path": 2, "_report_gone": 2}.get(name)
                first = node.args[place] if place is not None and len(node.args) > place else None
                if isinstance(first, ast.Constant) and isinstance(first.value, int):
                    found.add(first.value)
    return found


def test_every_rule_that_can_be_reported_is_shown_broken_and_kept() -> None:
    shown = {case.rule for case in (*ORDER, *SESSIONS, *TURNS)} | {rule for rule, *_ in BROKEN}
    assert reported_rules() - shown - {fit.EXTRA_MEMBER} == set()
    assert reported_rules() <= RULES.keys()


def test_every_demand_that_shows_in_traffic_is_looked_at() -> None:
    """The list of the rest is written down, each with its reason, in docs/inspect.md."""
    demands = {rule.number for rule in RULES.values() if rule.level in FAILURES}
    page = (ROOT / "docs" / "inspect.md").read_text()
    unseen = page.partition("## Rules that are not checked")[2]
    listed = {
        number
        for line in unseen.splitlines()
        if line.startswith("| ")
        for part in line.split("|")[1].split(",")
        if part.strip().isdecimal()
        for number in [int(part)]
    }
    assert demands - reported_rules() == listed
