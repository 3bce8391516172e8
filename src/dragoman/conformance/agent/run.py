"""Runs the cases for agents: who shares a connection, how many run at once, what counts after a failure.

Owns the order of a run and the passive checks over everything that was exchanged. A case that did not pass on a shared
connection runs again on one of its own, and only that counts: nobody fails for what another case left behind.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from dragoman.conformance.agent.probe import SETUPS, AgentCheckSettings, AgentProbe
from dragoman.conformance.case import Case, CaseResult, Ending, Inconclusive
from dragoman.conformance.conversation import Gone
from dragoman.conformance.passive import Watch
from dragoman.conformance.report.model import ConformanceReport, Subject
from dragoman.conformance.runner import judge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from dragoman.conformance.agent.target import AgentTarget

Progress = Callable[[CaseResult, int, int], None]
"""Called with each result, how many are there now, and how many there will be."""

# Agents start slowly and mostly wait for their model; this many at once keep a laptop usable.
JOBS = 4
# A case that needs so many times the patience for one answer is stuck.
_BOUND = 12
_FIRST = "agent/initialize/answers"


class AgentRun:
    """One judgement of one agent."""

    def __init__(
        self, target: AgentTarget, settings: AgentCheckSettings, *, jobs: int = JOBS, on_result: Progress | None = None
    ) -> None:
        self._target = target
        self._settings = settings
        self._jobs = jobs
        self._on_result = on_result
        self._watch = Watch("agent")
        self._numbers = count(1)
        self._results: dict[str, CaseResult] = {}
        self._total = 0
        self._folder = Path()
        self._can_initialize = True

    async def run(self, cases: Sequence[Case]) -> ConformanceReport:
        """Judges the agent by these cases.

        Raises: ConfigError, DragomanError when the program cannot be started; ConnectionClosed when it ends at once.
        """
        began = monotonic()
        self._total = len(cases)
        with tempfile.TemporaryDirectory(prefix="dragoman-check-") as folder:
            # Agents resolve links, and paths are compared.
            self._folder = Path(os.path.realpath(folder))  # noqa: ASYNC240  # once, before anything runs
            answered = await self._meet()
            if self._can_initialize:
                await self._work(_units(cases, self._jobs))
            else:
                await self._work_without_answer(cases)
        results = [self._results[each.id] for each in cases]
        subject = Subject("agent", self._target.command, answered.get("agentInfo"))
        return ConformanceReport(subject, results, self._watch.results(), monotonic() - began)

    async def _meet(self) -> dict[str, Any]:
        """Whether the program starts at all, and what it calls itself."""
        async with self._connection() as probe:
            try:
                await probe.initialize()
            except Gone:
                assert probe.ended is not None
                raise probe.ended from None
            except Ending:
                self._can_initialize = False
            return probe.answered

    async def _work_without_answer(self, cases: Sequence[Case]) -> None:
        """An agent that does not answer initialize is judged by that alone, instead of by waiting for the rest."""
        for case in cases:
            if case.id == _FIRST:
                await self._run_unit([case])
            else:
                self._add(CaseResult(case.id, "inconclusive", "the agent does not answer initialize"))

    async def _work(self, units: list[list[Case]]) -> None:
        async def worker() -> None:
            while units:
                await self._run_unit(units.pop(0))

        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, min(self._jobs, len(units)))):
                group.create_task(worker())

    async def _run_unit(self, unit: list[Case]) -> None:
        if unit[0].shares:
            unit = await self._run_shared(unit)
        for case in unit:
            async with self._connection(is_watched=case.is_watched) as probe:
                self._add(await self._judge(case, probe))

    async def _run_shared(self, unit: list[Case]) -> list[Case]:
        """Runs the cases on one connection; returns those that need one of their own."""
        again: list[Case] = []
        left = list(unit)
        while left:
            async with self._connection() as probe:
                is_first = True
                while left and not probe.is_over:
                    case = left.pop(0)
                    result = await self._judge(case, probe)
                    is_wrong = result.status in ("fail", "warn", "error")
                    if is_wrong and not is_first:
                        again.append(case)
                        break
                    self._add(result)
                    if is_wrong or not probe.is_answered:
                        break
                    is_first = False
        return again

    async def _judge(self, case: Case, probe: AgentProbe) -> CaseResult:
        probe.services.reset()
        if case.shares and not probe.answered:
            try:
                answer = await probe.initialize(SETUPS[case.shares])
                if answer.is_error:
                    raise Inconclusive(f"initialize failed: {answer}")
            except Ending as ending:
                return CaseResult(case.id, "inconclusive", ending.message, 0.0, list(probe.entries))
            probe.handshake = list(probe.entries)
        result = await judge(case, probe, bound_seconds=_BOUND * self._settings.timeout_seconds)
        # What was agreed on belongs to the evidence, whoever agreed on it.
        result.evidence = [*probe.handshake, *result.evidence]
        return result

    @asynccontextmanager
    async def _connection(self, *, is_watched: bool = True) -> AsyncIterator[AgentProbe]:
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()

        def on_stderr(data: bytes) -> None:
            probe.take_stderr(data)

        link = await self._target.open(on_stderr)
        probe = AgentProbe(link, self._settings, folder, self._connection)
        probe.start()
        try:
            yield probe
        finally:
            await probe.close()
            if is_watched:
                self._watch.look(probe.entries)

    def _add(self, result: CaseResult) -> None:
        self._results[result.id] = result
        if self._on_result is not None:
            self._on_result(result, len(self._results), self._total)


def _units(cases: Sequence[Case], jobs: int) -> list[list[Case]]:
    """Cases that run one after the other: sharers in as many rows as there are jobs, everybody else alone."""
    units: list[list[Case]] = []
    for setup in SETUPS:
        sharing = [case for case in cases if case.shares == setup]
        units += [row for start in range(jobs) if (row := sharing[start::jobs])]
    return units + [[case] for case in cases if not case.shares]
