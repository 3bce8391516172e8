"""Every writer shows the same judgement: what is wrong, which rule, and the evidence."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from dragoman.conformance.case import CaseResult
from dragoman.conformance.report.excerpt import excerpt
from dragoman.conformance.report.machine import junit_xml, report_document
from dragoman.conformance.report.model import ConformanceReport, Subject
from dragoman.conformance.report.page import html_page
from dragoman.conformance.report.terminal import write_report
from dragoman.trace.entry import End, Entry, Exit, Frame, Stderr
from tests.conformance.wrong import ODD, wrong_report
from tests.trace.browser import Browser

WRONG = "agent/cancel/streaming"


@pytest.fixture
def report() -> ConformanceReport:
    return wrong_report()


def plain(text: str, style: str) -> str:
    return text


def test_report_fails_only_for_a_broken_must_or_an_error_of_the_judge(report: ConformanceReport) -> None:
    assert report.has_failed
    kinds = {result.id: result for result in report.all}
    only_warned = ConformanceReport(report.subject, [kinds["agent/session/mcp-http"]], report.passive)
    assert only_warned.count("warn") == 2
    assert not only_warned.has_failed
    assert ConformanceReport(report.subject, [kinds["agent/updates/usage"]]).has_failed


def test_summary_is_one_line_of_counts(report: ConformanceReport) -> None:
    counts = report.counts
    assert report.summary == (
        f"ACP v1: {counts['pass']} passed, 1 failed, 2 warnings, 1 inconclusive, {counts['skipped']} skipped, "
        "1 error of the judge"
    )
    assert ConformanceReport(Subject("trace", ("x.jsonl",)), [], messages=1).summary == (
        "ACP v1: the agent broke 0 rules, 0 warnings; the client broke 0 rules, 0 warnings; 1 message"
    )


def test_terminal_shows_what_is_broken_first_with_rule_and_frames(report: ConformanceReport) -> None:
    lines = list(write_report(report, plain))
    broken = next(n for n, line in enumerate(lines) if WRONG in line)
    warned = next(n for n, line in enumerate(lines) if "agent/session/mcp-http" in line)
    assert broken < warned < len(lines) - 1
    assert "rule 196, 197" in lines[broken]
    assert "'end_turn'" in lines[broken + 2]
    assert any('-> {"jsonrpc":"2.0","method":"session/cancel"' in line for line in lines)
    assert lines[-1].startswith(report.summary)


def test_json_has_every_result_and_complete_evidence(report: ConformanceReport) -> None:
    document = json.loads(msgspec.json.encode(report_document(report)))
    assert document["schema"] == "dragoman.check/1"
    assert document["ok"] is False
    assert document["counts"]["fail"] == 1
    assert len(document["results"]) == len(report.all)
    [wrong] = [result for result in document["results"] if result["id"] == WRONG]
    assert wrong["level"] == "MUST"
    assert wrong["rules"] == [196, 197]
    assert {entry["dir"] for entry in wrong["evidence"] if "dir" in entry} == {"c2a", "a2c"}
    assert wrong["evidence"][-1]["msg"]["result"] == {"stopReason": "end_turn"}


def test_junit_is_xml_that_counts_failures_errors_and_skips(report: ConformanceReport) -> None:
    root = ElementTree.fromstring(junit_xml(report))
    assert root.attrib["failures"] == "1"
    assert root.attrib["errors"] == "1"
    assert root.attrib["tests"] == str(len(report.all))
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    assert "stop reason 'end_turn'" in cases[WRONG][0].attrib["message"]
    assert cases[WRONG][0].tag == "failure"
    assert cases["agent/updates/plan"][0].tag == "skipped"
    assert cases["agent/session/mcp-http"][0].tag == "system-out"
    assert not list(cases["agent/initialize/answers"])


def test_page_needs_nothing_from_outside_and_escapes_what_it_shows(report: ConformanceReport) -> None:
    page = html_page(report)
    assert "<script>alert" not in page
    assert "://" not in page.replace("https://example.org/", "")
    assert ODD.partition("<")[0] in page


def test_page_filters_in_a_browser(report: ConformanceReport, window: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(html_page(report), "utf-8", errors="replace")
    shown = "return [...document.querySelectorAll('.case:not([hidden]) code')].map(e => e.textContent)"
    window.open(page)
    assert len(window.run(shown)) == len(report.all)
    window.click(".tile.pass")
    left = window.run(shown)
    assert WRONG in left
    assert "agent/initialize/answers" not in left
    window.type("#search", "end_turn")
    assert window.run(shown) == [WRONG]


def test_excerpt_keeps_the_last_lines_and_cuts_long_ones() -> None:
    sent: list[Entry] = [Frame(n / 10, "c2a", b'{"n":%d}' % n) for n in range(12)]
    text = [*sent, Frame(2.0, "a2c", b"x" * 5000), Stderr(2.1, "oh"), End(2.2, "a2c"), Exit(2.3, 3)]
    lines = excerpt(text, lines=6, width=40)
    assert lines[0] == "... 10 lines before"
    assert lines[1:3] == ['#11 -> {"n":10}', '#12 -> {"n":11}']
    assert lines[3].endswith("…")
    assert len(lines[3]) <= 50
    assert lines[4:] == ["#14 !! oh", "#15 <- (end)", "#16 (the program ended: code 3)"]


def test_excerpt_is_cut_around_what_the_finding_is_about() -> None:
    update = {"sessionUpdate": "tool_call", "rawInput": "x" * 3000, "locations": [{"path": "/a"}, {"path": "b"}]}
    body = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}
    frame = Frame(0.0, "a2c", msgspec.json.encode(body))
    [line] = excerpt([frame], width=100, first=7, about="$.update.locations[1].path: it is not absolute")
    assert line.startswith("#7 <- ...")
    assert '{"path":"b"}' in line
    [line] = excerpt([frame], width=100, about="$.update.no_such_member: it is missing")
    assert '"update":{"sessionUpdate"' in line
    assert "/a" not in excerpt([frame], width=100)[0]


def test_report_that_was_cut_off_says_so_everywhere() -> None:
    result = CaseResult("agent/session/new", "fail", "no answer", 1.0, [Frame(0.5, "c2a", b'{"id":1}')], 12)
    cut = ConformanceReport(Subject("agent", ("x",)), [result], stopped="ended by <SIGINT>", not_run=7)
    assert "Stopped: ended by <SIGINT>. 7 cases were not run." in list(write_report(cut, plain))
    assert any(line.strip().startswith("#12 -> ") for line in write_report(cut, plain))
    page = html_page(cut)
    assert "<b>Stopped:</b> ended by &lt;SIGINT&gt;. 7 cases were not run." in page
    assert "12 · 0.500 s →" in page
    document = report_document(cut)
    assert (document["stopped"], document["not_run"], document["ok"]) == ("ended by <SIGINT>", 7, False)
    assert "7 not run" in junit_xml(cut)
