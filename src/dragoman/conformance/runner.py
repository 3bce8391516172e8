"""Runs cases against one judged program: several at once, each within a time limit, all traffic watched.

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
from dragoman.conformance.passive import Watch
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
# A case that needs this many times the patience for one answer is stuck.
_BOUND: Final = 12


class CheckRun(ABC, Generic[P]):
    """One judgement of one program."""

    side: ClassVar[Binds]

    def __init__(
        self, command: Sequence[str], timeout_seconds: float, *, jobs: int = JOBS, on_result: Progress | None = None
    ) -> None:
        self.jobs = jobs
        self._command = command
        self._bound_seconds = _BOUND * timeout_seconds
        self._on_result = on_result
        self._watch = Watch(self.side)
        self._results: dict[str, CaseResult] = {}
        self._total = 0
        self._folder = Path()
        self._numbers = count(1)

    async def run(self, cases: Sequence[Case]) -> ConformanceReport:
        """Judges the program by these cases.

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
            info = await self.meet(cases)
            await self._work(self.units(cases))
        subject = Subject(self.side, self._command, info)
        results = [self._results[case.id] for case in cases]
        return ConformanceReport(subject, results, self._watch.results(), monotonic() - began)

    @abstractmethod
    async def open(self, folder: Path) -> P:
        """Opens a connection to a fresh copy of the program."""

    @abstractmethod
    async def meet(self, cases: Sequence[Case]) -> Any:
        """Connects for the first time; returns what the program states about itself (its `agentInfo`, `clientInfo`)."""

    @abstractmethod
    def units(self, cases: Sequence[Case]) -> list[list[Case]]:
        """The cases that are still to be run, grouped into those that run one after the other."""

    @abstractmethod
    async def run_unit(self, unit: list[Case]) -> None:
        """Runs the cases of one group and adds their results."""

    async def _work(self, units: list[list[Case]]) -> None:
        async def worker() -> None:
            while units:
                await self.run_unit(units.pop(0))

        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, min(self.jobs, len(units)))):
                group.create_task(worker())

    @asynccontextmanager
    async def connection(self, *, is_watched: bool = True) -> AsyncIterator[P]:
        """A connection with a folder of its own, closed at the end and then looked at by the passive checks."""
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        probe = await self.open(folder)
        probe.start()
        try:
            yield probe
        finally:
            await probe.close()
            if is_watched:
                self._watch.look(probe.entries)

    async def judge(self, case: Case, probe: P) -> CaseResult:
        """Runs one case; its evidence is what was exchanged while it ran."""
        start, began = len(probe.entries), monotonic()
        status: Status = "pass"
        message = ""
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
        # Half a character from the judged program must not break a report.
        message = message.encode(errors="replace").decode()
        return CaseResult(case.id, status, message, monotonic() - began, probe.entries[start:])

    def add(self, result: CaseResult) -> None:
        """Keeps a result and reports progress."""
        self._results[result.id] = result
        if self._on_result is not None:
            self._on_result(result, len(self._results), self._total)

    def has_result(self, case: Case) -> bool:
        return case.id in self._results
