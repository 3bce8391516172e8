"""Tables, pages and stored results: unknown is not zero, text of an agent is only text, a script is named a script."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.evaluation.measure import from_result
from dragoman.evaluation.page import comparison_page, page_of
from dragoman.evaluation.results import CheckResult, EvalResults, EvalRun, Measured, Tokens, read_results, write_results
from dragoman.evaluation.solutions import NO_MODEL
from dragoman.evaluation.statistics import compare
from dragoman.evaluation.summary import HEADER, rows_of, sentences

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


def run_of(task: str, number: int = 1, **facts: object) -> EvalRun:
    known = Measured(turns=1, **facts)  # type: ignore[arg-type]  # any of its members
    return EvalRun(task=task, number=number, outcome="passed", facts=known, answer=HOSTILE)


def cells(*runs: EvalRun) -> dict[str, str]:
    [row] = rows_of(EvalResults(title="x", runs=list(runs)))
    return dict(zip(HEADER, row.cells(), strict=True))


def test_what_an_agent_does_not_report_is_unknown() -> None:
    found = cells(run_of("a", protocol_violations=[]))
    assert (found["MODEL CALLS"], found["TOKENS"], found["COST"], found["VIOLATIONS"]) == (*["unknown"] * 3, "0")
    half = cells(run_of("a", model_calls=2), run_of("a", 2))
    assert half["MODEL CALLS"] == "unknown"
    facts = from_result({})
    assert (facts.tokens, facts.cost, facts.model_calls, facts.sandbox_refusals) == (None, None, None, None)


def test_means_are_over_the_runs_of_a_task() -> None:
    one = run_of("a", model_calls=2, tokens=Tokens(total=100), cost=0.5, currency="USD", seconds=2.0)
    two = run_of("a", 2, model_calls=4, tokens=Tokens(total=300), cost=1.5, currency="USD", seconds=4.0)
    found = cells(one, two)
    assert (found["PASSED"], found["MODEL CALLS"], found["TOKENS"]) == ("2 of 2", "3", "200")
    assert (found["COST"], found["TIME"]) == ("1 USD", "3.0s")


def test_a_failed_edit_is_not_a_refused_one() -> None:
    calls = [{"id": str(number), "kind": "edit", "status": "failed"} for number in range(3)]
    permissions = [
        {"tool_call_id": "0", "action": "deny", "options": [{}]},
        {"tool_call_id": "1", "action": "allow", "options": [{}]},
        {"tool_call_id": "1", "action": "allow", "options": []},
    ]
    facts = from_result({"tool_calls": calls, "permissions": permissions})
    assert (facts.edits_failed, facts.permissions_asked, facts.permissions_refused) == (2, 2, 1)
    assert facts.tools["edit"].failed == 3


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_is_self_contained_and_text_of_an_agent_is_only_text() -> None:
    run = run_of(HOSTILE)
    run.checks = [CheckResult(HOSTILE, 0.5, HOSTILE)]
    run.reasons = [HOSTILE]
    results = EvalResults(title=HOSTILE, agent=HOSTILE, model=HOSTILE, runs=[run])
    for text in (page_of(results), comparison_page(results, results, compare(results, results))):
        page = Page(text)
        assert "script" not in page.tags
        assert page.links == []
        assert not re.search("[\x1b\u202e]", text)
        assert "default-src 'none'" in text
        assert "&lt;script&gt;" in text


@pytest.mark.parametrize(("is_scripted", "is_said"), [(True, True), (False, False)])
def test_a_report_says_whether_a_model_was_measured(is_scripted: bool, is_said: bool) -> None:
    results = EvalResults(title="x", is_scripted=is_scripted, runs=[run_of("a")])
    assert (NO_MODEL in sentences(results)) is is_said
    assert ("says nothing about any model" in page_of(results)) is is_said


def test_runs_that_do_not_count_are_named() -> None:
    skipped = [EvalRun(task="a", number=1, outcome="skipped"), EvalRun(task="b", number=1, outcome="error")]
    assert "Not counted: 1 skipped, 1 ended before the prompt." in sentences(EvalResults(title="x", runs=skipped))


def test_results_are_read_back_and_other_files_are_refused(tmp_path: Path) -> None:
    results = EvalResults(title="x", runs=[run_of("a")])
    write_results(tmp_path, results)
    assert read_results(tmp_path) == results
    (tmp_path / "results.json").write_text('{"title": "x", "schema": "dragoman.eval.results/9"}')
    with pytest.raises(ConfigError, match="results/9' is not known"):
        read_results(tmp_path)
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(ConfigError, match="not results of dragoman eval"):
        read_results(tmp_path)
    with pytest.raises(ConfigError, match="name a folder that dragoman eval run wrote"):
        read_results(tmp_path / "gone.json")
