"""`make mutants`: how many of a fixed list of mistakes the judge catches, by the right rule.

Owns the lists of all kinds of subjects in one form, judging them, and the table that is printed. A mistake is caught if
the case or the watched rule that it is listed with reports it, at the level that belongs to it; a program or recording
that conforms and is found wrong is a false alarm. `python -m tests.conformance.mutation_run [PATTERN...]` runs some.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from dragoman.conformance.agent.in_process import AgentInProcess
from dragoman.conformance.agent.probe import AgentCheckSettings
from dragoman.conformance.agent.run import AgentRun
from dragoman.conformance.case import CASES, Binds, load_cases
from dragoman.conformance.client.probe import ClientCheckSettings
from dragoman.conformance.client.run import ClientRun
from dragoman.conformance.passive import judge_entries
from dragoman.conformance.report.model import ConformanceReport
from dragoman.testing import scripted_agent
from tests.conformance import client_mutants, mutants, recording_mutants
from tests.conformance.bent_client import Mutant, bent
from tests.conformance.mutants_passive import ESCAPES, PASSIVE
from tests.conformance.recording_mutants import RecordingMutant
from tests.conformance.recording_tape import HEADER, conforming

# A wrong program that is silent costs this long; the right one never does.
AGENT_PATIENCE: Final = AgentCheckSettings(timeout_seconds=2.0)
CLIENT_PATIENCE: Final = ClientCheckSettings(timeout_seconds=1.0)
# Waiting is most of what a wrong program makes the judge do, so many are judged at once.
AT_ONCE: Final = 16
__all__ = ["Binds", "agents", "clients", "recordings", "run", "table"]
GOAL: Final = 0.98


class Mistake(NamedTuple):
    """One wrong subject, and what has to be found: the id of a case or `passive/<rule>`, and its status."""

    kind: str
    name: str
    finding: str
    status: str
    judge: Callable[[], Awaitable[ConformanceReport]]

    @property
    def id(self) -> str:
        return f"{self.kind}: {self.name}"


class Outcome(NamedTuple):
    """What the judge made of a mistake; `seen` is empty if it was caught."""

    mistake: Mistake
    seen: str


def agents() -> Iterable[Mistake]:
    """A wrong agent for every case, for every rule that is watched, and for what was once missed."""
    load_cases("agent")
    for id, mutation in mutants.MUTANTS.items():
        target = mutants.mutant(mutation, requires_login=id in mutants.NEEDS_LOGIN)
        yield Mistake("agents", id, id, _status(id), _agent(target, id))
    watched = [(f"watched rule {rule}", rule, played) for rule, played in PASSIVE.items()]
    for name, rule, played in [*watched, *ESCAPES]:
        judge = _agent(mutants.mutant(played.mutation), played.case)
        yield Mistake("agents", name, f"passive/{rule}", "", judge)


def clients() -> Iterable[Mistake]:
    load_cases("client")
    for id, mutant in client_mutants.MUTANTS.items():
        yield Mistake("clients", id, id, _status(id), _client(mutant, id))


def recordings() -> Iterable[Mistake]:
    for each in recording_mutants.MUTANTS:
        yield Mistake("recordings", f"{each.side}: {each.name}", f"passive/{each.rule}", each.level, _recording(each))


def _status(id: str) -> str:
    return "fail" if CASES[id].level == "MUST" else "warn"


def _agent(target: AgentInProcess, case: str) -> Callable[[], Awaitable[ConformanceReport]]:
    return lambda: AgentRun(target, AGENT_PATIENCE, jobs=1, has_smoke=False).run([CASES[case]])


def _client(mutant: Mutant, case: str) -> Callable[[], Awaitable[ConformanceReport]]:
    return lambda: ClientRun(bent(mutant), CLIENT_PATIENCE, jobs=1).run([CASES[case]])


def _recording(mutant: RecordingMutant) -> Callable[[], Awaitable[ConformanceReport]]:
    async def judge() -> ConformanceReport:
        entries = recording_mutants.mutated(mutant)
        return judge_entries(mutant.name, entries, HEADER, "agent" if mutant.side == "agent" else "client")

    return judge


async def run(mistakes: Iterable[Mistake]) -> list[Outcome]:
    """Judges them all, some at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(mistake: Mistake) -> Outcome:
        async with gate:
            report = await mistake.judge()
        found = {result.id: result.status for result in report.all}
        also = {f"passive/{rule}": line.status for line in report.lines("fail", "warn") for rule in line.rules}
        status = found.get(mistake.finding) or also.get(mistake.finding) or "not seen"
        is_caught = status == mistake.status if mistake.status else status in ("fail", "warn")
        others = sorted(f"{id} {each}" for id, each in found.items() if each in ("fail", "warn"))
        return Outcome(
            mistake, "" if is_caught else f"{mistake.finding} {status}; seen: {', '.join(others) or 'nothing'}"
        )

    return await asyncio.gather(*(one(mistake) for mistake in mistakes))


async def false_alarms() -> list[str]:
    """What is found wrong with subjects that conform."""
    recording = judge_entries("conforming", conforming().entries, HEADER, None)
    agent = await AgentRun(AgentInProcess(scripted_agent), AgentCheckSettings(timeout_seconds=5.0), jobs=8).run(
        load_cases("agent")
    )
    client = await ClientRun(bent(Mutant()), ClientCheckSettings(), jobs=8).run(load_cases("client"))
    return [
        f"{kind}: {line.id} {line.status}: {line.message}"
        for kind, report in (("recordings", recording), ("agents", agent), ("clients", client))
        for line in report.lines("fail", "error", "warn")
    ]


def table(outcomes: list[Outcome]) -> Iterable[str]:
    """The catch rate by kind, and everything that escaped."""
    for kind in dict.fromkeys(outcome.mistake.kind for outcome in outcomes):
        of_kind = [outcome for outcome in outcomes if outcome.mistake.kind == kind]
        caught = sum(not outcome.seen for outcome in of_kind)
        yield f"{kind:12} {caught:4} of {len(of_kind):4} caught   {100 * caught / len(of_kind):5.1f} %"
    yield from (f"  escaped  {outcome.mistake.id}: {outcome.seen}" for outcome in outcomes if outcome.seen)


def main(patterns: list[str]) -> int:
    logging.disable(logging.CRITICAL)  # what a wrong program makes the library log is not worth reading
    wanted = [
        mistake
        for mistake in (*recordings(), *agents(), *clients())
        if not patterns or any(fnmatchcase(mistake.id, f"*{pattern}*") for pattern in patterns)
    ]
    outcomes = asyncio.run(run(wanted))
    alarms = [] if patterns else asyncio.run(false_alarms())
    lines = [*table(outcomes), *(f"  false alarm  {alarm}" for alarm in alarms)]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    rate = sum(not outcome.seen for outcome in outcomes) / max(1, len(outcomes))
    return int(rate < GOAL or bool(alarms))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
