"""All runs of an evaluation: every chosen task, as often as wanted, some of them at the same time.

Owns the order, the bound on parallel runs, and what an interruption leaves: the runs that ended are kept, those under
way are ended with all their processes and listed as interrupted.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Final

from dragoman._version import __version__
from dragoman.evaluation.attempt import attempt
from dragoman.evaluation.results import EvalResults, EvalRun, write_results
from dragoman.text.terminal import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dragoman.evaluation.attempt import Driver
    from dragoman.evaluation.task import Task

    Note = Callable[[str], None]

_BEAT_SECONDS: Final = 30.0


class Matrix:
    """The runs of one evaluation and what is known of them so far.

    Args:
        tasks: those to run; one that cannot be run here is listed as skipped.
        runs: how often each is run.
        jobs: how many runs there are at the same time.
        driver_of: how the agent is driven through a task; None for a task judges its untouched start state.
        folder: an existing folder for `results.json` and the recordings; None keeps nothing.
        keep: whether the work folder of each run is kept as well.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        results: EvalResults,
        *,
        driver_of: Callable[[Task], Driver | None],
        runs: int = 1,
        jobs: int = 1,
        folder: Path | None = None,
        keep: bool = False,
        is_sandboxed: bool = False,
        note: Note = lambda text: None,
    ) -> None:
        self.results = results
        self._tasks, self._runs, self._jobs = tasks, runs, jobs
        self._driver_of, self._folder, self._note = driver_of, folder, note
        self._keep = None if folder is None or not keep else folder / "work"
        self._recordings = None if folder is None else folder / "recordings"
        self._is_sandboxed = is_sandboxed
        self._begun: dict[tuple[str, int], float] = {}
        self._done: dict[tuple[str, int], EvalRun] = {}
        self._work: list[asyncio.Task[None]] = []

    async def run(self) -> EvalResults:
        """Do all runs; returns the results, also after `stop`."""
        self.results.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.results.dragoman = __version__
        for folder in (self._recordings, self._keep):
            if folder is not None:
                folder.mkdir(exist_ok=True)
        start = monotonic()
        free = asyncio.Semaphore(self._jobs)
        planned = [(task, number) for number in range(1, self._runs + 1) for task in self._tasks]
        self._work = [asyncio.ensure_future(self._one(task, number, free)) for task, number in planned]
        beating = asyncio.ensure_future(self._beat())
        try:
            ended = await asyncio.gather(*self._work, return_exceptions=True)
        finally:
            beating.cancel()
        self.results.seconds = round(monotonic() - start, 3)
        for task, number in planned:
            if (task.name, number) not in self._done:
                self.results.is_partial = True
                self._done[task.name, number] = EvalRun(task=task.name, number=number, outcome="interrupted")
        self._write([(task.name, number) for task, number in planned])
        for outcome in ended:
            if isinstance(outcome, Exception):
                raise outcome
        return self.results

    def stop(self) -> None:
        """End the runs that are under way, and begin no more."""
        for task in self._work:
            task.cancel()

    async def _one(self, task: Task, number: int, free: asyncio.Semaphore) -> None:
        key = (task.name, number)
        if reasons := task.reasons_to_skip(is_sandboxed=self._is_sandboxed):
            self._done[key] = EvalRun(task=task.name, number=number, outcome="skipped", reasons=list(reasons))
            if number == 1:
                self._note(f"{task.name}: skipped: {reasons[0]}{' ...' if reasons[1:] else ''}")
            return
        async with free:
            self._begun[key] = monotonic()
            try:
                found = await attempt(task, number, self._driver_of(task), recordings=self._recordings, keep=self._keep)
            finally:
                took = monotonic() - self._begun.pop(key)
            self._done[key] = found
            failed = [check.name for check in found.checks if not check.is_passed]
            why = f": {'; '.join(failed or found.reasons)}" if found.outcome != "passed" else ""
            count = f" ({number} of {self._runs})" if self._runs > 1 else ""
            self._note(f"{task.name}{count}: {found.outcome} after {duration(took)}{why}")
            self._write(sorted(self._done))

    def _write(self, keys: Sequence[tuple[str, int]]) -> None:
        runs = self.results.runs = [self._done[key] for key in keys]
        self.results.is_scripted = any(run.is_scripted for run in runs)
        self.results.agent_version = next((run.agent_version for run in runs if run.agent_version), None)
        if self._folder is not None:
            write_results(self._folder, self.results)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            now = monotonic()
            running = ", ".join(f"{name} ({duration(now - since)})" for (name, _), since in self._begun.items())
            if running:
                self._note(f"still running: {running}")
