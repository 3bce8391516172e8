"""The run of cases against one judged program: several at once, each within a time limit, all traffic watched.

Owns what is the same for agents and clients: the folders of a run, opening and closing connections, the workers,
collecting results, the passive findings and the report. It also separates findings from bugs of the judge: an `Ending`
raised by a case is a finding, any other exception is an error of ours. Which cases share a connection, and what a first
connection shows, belongs to `agent/run.py` and `client/run.py`.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from dragoman.conformance.case import CaseResult, Ending, status_of
from dragoman.conformance.passive import Stretch, Watch
from dragoman.conformance.probe import Probe
from dragoman.conformance.report.model import ConformanceReport, Subject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from dragoman.conformance.case import Binds, Case, Status

_log = logging.getLogger("dragoman.conformance")

P = TypeVar("P", bound=Probe)
Progress: TypeAlias = Callable[[CaseResult, int, int], None]
"""Called with each result, how many are there now, and how many there will be."""

JOBS: Final = 4
"""How many copies of the program run at once: most of their time is waiting, and a laptop stays usable."""
BUDGET_SECONDS: Final = 1800.0
"""How long a whole run may take: the longest of a real agent with a real model took half of it."""
# A case that needs this many times the patience for one answer is stuck.
_BOUND: Final = 12


class CheckRun(ABC, Generic[P]):
    """One judgement of one program."""

    side: ClassVar[Binds]
    version: ClassVar[int] = 1
    """Of the protocol."""

    def __init__(
        self,
        command: Sequence[str],
        timeout_seconds: float,
        *,
        jobs: int = JOBS,
        on_result: Progress | None = None,
        has_smoke: bool = False,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> None:
        self.jobs = jobs
        self.has_smoke = has_smoke
        """Whether a program that does not get through a plain turn is judged by that alone."""
        self._command = command
        self._bound_seconds = _BOUND * timeout_seconds
        self._on_result = on_result
        self._watch = Watch(self.side)
        self._results: dict[str, CaseResult] = {}
        self._total = 0
        self._folder = Path()
        self._numbers = count(1)
        self._budget_seconds = budget_seconds
        self._info: Any = None
        self._stopped = ""
        self._stopping: asyncio.Event | None = None

    def stop(self, why: str) -> None:
        """End the run; what was judged so far is reported."""
        self._stopped = self._stopped or why
        if self._stopping is not None:
            self._stopping.set()

    async def run(self, cases: Sequence[Case]) -> ConformanceReport:
        """Judge the program by these cases, until all were run, the budget is used up, or `stop` is called.

        Raises:
            ConfigError: The program cannot be started.
            AgentExited: The agent ends at once.
            NoAgent: The client does not start the agent it was given.
        """
        began = monotonic()
        self._total = len(cases)
        with tempfile.TemporaryDirectory(prefix="dragoman-check-") as folder:
            # Judged programs resolve links, and paths are compared.
            self._folder = Path(folder).resolve()  # noqa: ASYNC240  # once, before anything runs
            await self._within_budget(cases)
        subject = Subject(self.side, self._command, self._info)
        own = [case.id for case in cases]
        # A plain turn that failed may stand for a rule, or for a case that was not asked for.
        ids = [*(id for id in self._results if id not in own), *(id for id in own if id in self._results)]
        return ConformanceReport(
            subject,
            [self._results[id] for id in ids],
            self._watch.results(self._results),
            monotonic() - began,
            stopped=self._stopped,
            not_run=sum(id not in self._results for id in own),
            version=self.version,
        )

    async def _within_budget(self, cases: Sequence[Case]) -> None:
        self._stopping = asyncio.Event()
        if self._stopped:
            return
        working = asyncio.create_task(self._judge_all(cases))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({working, stopping}, timeout=self._budget_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not working.done():
                self.stop(f"the time budget of {self._budget_seconds:g} s is used up")
                working.cancel()
            await asyncio.wait({working, stopping})
        if not working.cancelled():
            working.result()

    async def _judge_all(self, cases: Sequence[Case]) -> None:
        self._info = await self.meet(cases)
        if not self._stopped:
            await self._work(self.units(cases))

    @abstractmethod
    async def open(self, folder: Path) -> P:
        """Open a connection to a fresh copy of the program."""

    @abstractmethod
    async def meet(self, cases: Sequence[Case]) -> Any:
        """Connect for the first time; return what the program states about itself (its `agentInfo`, `clientInfo`)."""

    @abstractmethod
    def units(self, cases: Sequence[Case]) -> list[list[Case]]:
        """Group the cases that are still to be run into those that run one after the other."""

    @abstractmethod
    async def run_unit(self, unit: list[Case]) -> None:
        """Run the cases of one group and add their results."""

    async def _work(self, units: list[list[Case]]) -> None:
        async def worker() -> None:
            while units:
                await self.run_unit(units.pop(0))

        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, min(self.jobs, len(units)))):
                group.create_task(worker())

    @asynccontextmanager
    async def connection(self, *, is_watched: bool = True) -> AsyncIterator[P]:
        """Open a connection with a folder of its own, closed at the end and then looked at by the passive checks."""
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        probe = await self.open(folder)
        probe.provoked = self._watch.provoked
        probe.start()
        try:
            yield probe
        finally:
            await probe.close()
            if is_watched:
                self._watch.look(probe.entries, stretches=probe.stretches)

    async def judge(self, case: Case, probe: P) -> CaseResult:
        """Run one case; its evidence is what was exchanged while it ran."""
        start, began = len(probe.entries), monotonic()
        status: Status = "pass"
        message = ""
        probe.is_provoking = case.provokes
        try:
            async with asyncio.timeout(self._bound_seconds):
                await case.run(probe)
        except Ending as ending:
            status, message = status_of(case, ending), ending.message
        except TimeoutError:
            status, message = "inconclusive", f"not finished after {self._bound_seconds:g} s"
        except Exception as error:
            _log.exception("the case %s has a bug", case.id)
            status, message = "error", f"{type(error).__name__}: {error}"
        finally:
            probe.is_provoking = False
            probe.stretches.append(Stretch(case, start, len(probe.entries)))
        # Half a character from the judged program must not break a report.
        message = message.encode(errors="replace").decode()
        return CaseResult(case.id, status, message, monotonic() - began, probe.entries[start:])

    def fail_plain_turn(self, results: Sequence[CaseResult], why: str) -> None:
        """End the run with what is wrong with a plain turn: what else would be found has the same cause."""
        self._watch = Watch(self.side)
        self._results.clear()
        for result in results:
            self.add(result)
        self._stopped = why

    def add(self, result: CaseResult) -> None:
        """Keep a result and report progress."""
        self._results[result.id] = result
        if self._on_result is not None:
            self._on_result(result, len(self._results), self._total)

    @property
    def results(self) -> list[CaseResult]:
        """Those of the cases that were run so far."""
        return list(self._results.values())

    def has_result(self, case: Case) -> bool:
        return case.id in self._results
