"""The judge of clients is judged: our client passes every case, and for every case a wrong client fails it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from dragoman.conformance.case import load_cases
from dragoman.conformance.client.probe import ClientCheckSettings
from dragoman.conformance.client.program import ClientProgram
from dragoman.conformance.client.run import ClientRun
from dragoman.conformance.coverage import SOFTENED, is_strict
from dragoman.conformance.passive import SEEN
from dragoman.conformance.report.model import ConformanceReport
from dragoman.trace.checks.rules import RULES
from dragoman.trace.entry import Frame
from tests.conformance.bent_client import Mutant, bent
from tests.conformance.client_mutants import MUTANTS, PROGRAMS

CASES = {case.id: case for case in load_cases("client")}
WRONG_CLIENT = Path(__file__).parent / "clients" / "wrong_client.py"
# A wrong client that is silent costs this long; the right one never does.
PATIENCE = ClientCheckSettings(timeout_seconds=1.0)
MORE_PATIENCE = ClientCheckSettings(timeout_seconds=30.0)
# Waiting is most of what a wrong client makes the judge do, so many are judged at once.
AT_ONCE = 16
# A client offers a service or refuses it; the other half is seen in the other client.
ONLY_FOR_BARE_CLIENTS = {f"client/gates/{what}-refused" for what in ("read", "write", "terminal", "elicitation")}


@pytest.fixture(scope="module")
def reports() -> dict[str, ConformanceReport]:
    """How the case of every mutant ends for it."""

    async def judge_all() -> list[ConformanceReport]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(id: str) -> ConformanceReport:
            async with gate:
                report = await ClientRun(bent(MUTANTS[id]), PATIENCE, jobs=1).run([CASES[id]])
                if report.results[0].status == expected(id):
                    return report
                # On a busy machine a client may need longer for what it does right.
                return await ClientRun(bent(MUTANTS[id]), ClientCheckSettings(), jobs=1).run([CASES[id]])

        return await asyncio.gather(*(one(id) for id in MUTANTS))

    return dict(zip(MUTANTS, asyncio.run(judge_all()), strict=True))


def test_every_case_has_a_mutant_and_every_mutant_a_case() -> None:
    assert MUTANTS.keys() | PROGRAMS.keys() == CASES.keys()
    assert not MUTANTS.keys() & PROGRAMS.keys()


async def test_our_client_passes_everything() -> None:
    report = await ClientRun(bent(Mutant()), MORE_PATIENCE, jobs=8).run(list(CASES.values()))
    other = {result.id: (result.status, result.message) for result in report.all if result.status != "pass"}
    # In this process an agent has no stderr; programs are judged in test_client_programs.py.
    assert other.pop("client/transport/stderr-drained")[0] == "skipped"
    assert {id: other.pop(id)[0] for id in ONLY_FOR_BARE_CLIENTS} == dict.fromkeys(ONLY_FOR_BARE_CLIENTS, "skipped")
    assert not other


async def test_our_client_without_any_service_passes_what_is_left() -> None:
    report = await ClientRun(bent(Mutant(is_bare=True)), MORE_PATIENCE, jobs=8).run(list(CASES.values()))
    by_id = {result.id: result.status for result in report.results}
    assert {by_id[id] for id in ONLY_FOR_BARE_CLIENTS} == {"pass"}
    wrong = {result.id: result.message for result in report.all if result.status in ("fail", "warn", "error")}
    assert not wrong


def test_every_mutant_fails_its_case(reports: dict[str, ConformanceReport]) -> None:
    results = [report.results[0] for report in reports.values()]
    survivors = {
        result.id: (result.status, result.message) for result in results if result.status != expected(result.id)
    }
    assert not survivors


def test_what_is_watched_of_clients_is_shown_by_a_wrong_client(reports: dict[str, ConformanceReport]) -> None:
    watched = {int(result.id.removeprefix("passive/")) for report in reports.values() for result in report.passive}
    # What a case has found is not listed again as a watched rule.
    by_cases = {rule for report in reports.values() for line in report.lines("fail", "warn") for rule in line.rules}
    assert watched <= SEEN["client"]
    assert SEEN["client"] <= watched | by_cases


def test_failure_shows_what_was_exchanged(reports: dict[str, ConformanceReport]) -> None:
    for id in ("client/permission/several", "client/permission/outcome"):
        evidence = reports[id].results[0].evidence
        assert any(isinstance(entry, Frame) and entry.dir == "c2a" and b"outcome" in entry.data for entry in evidence)


@pytest.mark.parametrize("id", PROGRAMS)
async def test_program_that_mistreats_its_agent_fails_the_case_about_it(id: str) -> None:
    command = (sys.executable, str(WRONG_CLIENT), PROGRAMS[id], "{folder}", "{agent}")
    for settings in (ClientCheckSettings(timeout_seconds=3.0), MORE_PATIENCE):  # the second on a busy machine
        report = await ClientRun(ClientProgram(command), settings).run([CASES[id]])
        if report.results[0].status == expected(id):
            break
    assert report.results[0].status == expected(id), report.results[0].message


def test_rule_that_demands_is_judged_so_or_has_a_reason_to_be_lenient() -> None:
    strict = {rule for rule in RULES.values() if is_strict(rule) and rule.who != "agent"}
    by_rule = {rule.number: [case for case in CASES.values() if rule.number in case.rules] for rule in strict}
    mild = {number for number, cases in by_rule.items() if cases and all(case.level != "MUST" for case in cases)}
    assert mild == set(SOFTENED["client"])


def test_case_that_fails_cites_a_rule_that_demands() -> None:
    judged = [case for case in CASES.values() if case.level == "MUST"]
    assert not [case.id for case in judged if not any(is_strict(RULES[rule]) for rule in case.rules)]


def expected(id: str) -> str:
    return "fail" if CASES[id].level == "MUST" else "warn"
