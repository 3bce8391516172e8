"""The judge is judged: the scripted agent passes every case, and for every case a wrong agent fails it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, TypeVar

import pytest

from dragoman.conformance.agent.in_process import AgentInProcess
from dragoman.conformance.agent.probe import AgentCheckSettings
from dragoman.conformance.agent.run import AgentRun
from dragoman.conformance.case import Case, CaseResult, load_cases
from dragoman.testing import scripted_agent
from tests.conformance.mutants import MUTANTS, NEEDS_LOGIN, mutant
from tests.conformance.mutants_passive import PASSIVE

T = TypeVar("T")

CASES = {case.id: case for case in load_cases("agent")}
# A wrong agent that is silent costs this long; the right one never does.
PATIENCE = AgentCheckSettings(timeout_seconds=2.0)
MORE_PATIENCE = AgentCheckSettings(timeout_seconds=20.0)
# Waiting is most of what a wrong agent makes the judge do, so many are judged at once.
AT_ONCE, FEW_AT_ONCE = 32, 6


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What a wrong agent makes the library log is not worth reading."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def judge(case: Case, settings: AgentCheckSettings = PATIENCE) -> CaseResult:
    """How the case ends for its mutant."""
    target = mutant(MUTANTS[case.id], requires_login=case.id in NEEDS_LOGIN)
    report = await AgentRun(target, settings, jobs=1).run([case])
    return report.results[0]


def test_every_case_has_a_mutant_and_every_mutant_a_case() -> None:
    assert set(MUTANTS) == set(CASES)


async def test_scripted_agent_passes_everything() -> None:
    report = await AgentRun(AgentInProcess(scripted_agent), MORE_PATIENCE, jobs=8).run(list(CASES.values()))
    wrong = {result.id: (result.status, result.message) for result in report.all if result.status != "pass"}
    # Whether a login is asked for shows only in an agent that wants one; see the next test.
    assert wrong.pop("agent/authentication/required")[0] == "skipped"
    assert not wrong


async def test_scripted_agent_that_wants_a_login_passes_the_cases_about_it() -> None:
    cases = [case for case in CASES.values() if case.area in ("authentication", "session", "prompt")]
    target = AgentInProcess(lambda: scripted_agent(requires_login=True))
    report = await AgentRun(target, MORE_PATIENCE, jobs=8).run(cases)
    allowed = {"agent/session/new": "inconclusive"}  # it is the one case that does not log in first
    wrong = {result.id: result.message for result in report.all if result.status != allowed.get(result.id, "pass")}
    assert not wrong


async def test_every_mutant_fails_its_case() -> None:
    expected = {"MUST": "fail", "SHOULD": "warn", "MAY": "warn"}

    def survivors(results: list[CaseResult]) -> dict[str, tuple[str, str]]:
        wrong = [result for result in results if result.status != expected[CASES[result.id].level]]
        return {result.id: (result.status, result.message) for result in wrong}

    survived = survivors(await _all([judge(case) for case in CASES.values()]))
    # So many at once may run out of time on a busy machine, so what survived is judged again.
    assert not survivors(await _all([judge(CASES[id], MORE_PATIENCE) for id in survived], FEW_AT_ONCE))


async def test_every_watched_rule_is_found_in_the_traffic_of_an_agent_that_breaks_it() -> None:
    async def is_missed(rule: int, settings: AgentCheckSettings = PATIENCE) -> bool:
        played = PASSIVE[rule]
        report = await AgentRun(mutant(played.mutation), settings, jobs=1).run([CASES[played.case]])
        return all(rule not in line.rules for line in report.lines("fail", "warn"))

    missed = [rule for rule, is_so in zip(PASSIVE, await _all(map(is_missed, PASSIVE)), strict=True) if is_so]
    again = await _all([is_missed(rule, MORE_PATIENCE) for rule in missed], FEW_AT_ONCE)
    assert not [rule for rule, is_so in zip(missed, again, strict=True) if is_so]


@pytest.mark.parametrize("name", ["agent/cancel/streaming", "agent/initialize/version-echo"])
async def test_failure_shows_what_was_exchanged(name: str) -> None:
    result = await judge(CASES[name])
    assert result.status == "fail"
    assert any(getattr(entry, "dir", None) == "a2c" for entry in result.evidence)


async def _all(work: Iterable[Coroutine[Any, Any, T]], at_once: int = AT_ONCE) -> list[T]:
    gate = asyncio.Semaphore(at_once)

    async def one(each: Coroutine[Any, Any, T]) -> T:
        async with gate:
            return await each

    return await asyncio.gather(*map(one, work))
