"""Runs the cases for clients: what they share, how many run at once, what the client usually does.

Owns the order of a run, the two conversations that cases look at afterwards, and the passive checks over everything
that was exchanged. A client has to do one thing by itself when it is started: open a session and send a prompt.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from dragoman.conformance.case import Case, CaseResult, Ending
from dragoman.conformance.client.baseline import NEEDS, Habits
from dragoman.conformance.client.probe import BARE, FULL, OPENING, PERMISSION, ClientCheckSettings, ClientProbe
from dragoman.conformance.conversation import Gone, Silence
from dragoman.conformance.passive import Watch
from dragoman.conformance.report.model import ConformanceReport, Subject
from dragoman.conformance.runner import judge
from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from dragoman.conformance.agent.run import Progress
    from dragoman.conformance.client.link import ClientTarget

JOBS: Final = 4
PLAIN: Final = "plain"
"""What `Case.shares` names to look at a turn with an agent that can do everything."""
BARE_TURN: Final = "bare"
"""The same with an agent that can do nothing."""
UNKNOWN: Final = "_dragoman.check/unknown"
# A case that needs so many times the patience for one answer is stuck.
_BOUND: Final = 12


class ClientRun:
    """One judgement of one client."""

    def __init__(
        self,
        target: ClientTarget,
        settings: ClientCheckSettings,
        *,
        jobs: int = JOBS,
        on_result: Progress | None = None,
    ) -> None:
        self._target = target
        self._settings = settings
        self._jobs = jobs
        self._on_result = on_result
        self._watch = Watch("client")
        self._habits = Habits()
        self._numbers = count(1)
        self._results: dict[str, CaseResult] = {}
        self._total = 0
        self._folder = Path()

    async def run(self, cases: Sequence[Case]) -> ConformanceReport:
        """Judges the client by these cases.

        Raises: NoAgent when the client does not start the agent; ConfigError when the client cannot be started.
        """
        began = monotonic()
        self._total = len(cases)
        with tempfile.TemporaryDirectory(prefix="dragoman-check-") as folder:
            # Clients resolve links, and paths are compared.
            self._folder = Path(folder).resolve()  # noqa: ASYNC240  # one directory, before anything runs
            name = await self._meet([case for case in cases if case.shares == PLAIN])
            alone = [[case] for case in cases if not case.shares and not self._skips(case)]
            await self._work([row for row in [[case for case in cases if case.shares == BARE_TURN], *alone] if row])
        results = [self._results[case.id] for case in cases]
        subject = Subject("client", self._target.command, name)
        return ConformanceReport(subject, results, self._watch.results(), monotonic() - began)

    async def _meet(self, cases: Sequence[Case]) -> Any:
        """A plain turn: what the client usually does, and what it calls itself."""
        async with self._connection() as probe:
            await self._play(probe, FULL, self._habits)
            for case in cases:
                self._add(await self._look(case, probe))
            first = probe.incoming[0] if probe.incoming else None
            return first.params.get("clientInfo") if first is not None else None

    def _skips(self, case: Case) -> bool:
        """Whether the client does not do what the case needs."""
        why = NEEDS[case.run].missing(self._habits) if case.run in NEEDS and self._habits.prompts else ""
        if why:
            self._add(CaseResult(case.id, "skipped", why))
        return bool(why)

    async def _play(self, probe: ClientProbe, capabilities: object, habits: Habits) -> None:
        """One whole turn, without anything unusual but a method nobody has; fills in the habits."""
        try:
            turn = await probe.prompted(capabilities)
            habits.prompts = True
            habits.passes_directories = bool(probe.first(*OPENING).params.get("additionalDirectories"))
            habits.capabilities = probe.capabilities
            turn.say("One moment.")
            turn.update("tool_call", toolCallId="call-1", title="Read a file", kind="read", status="pending")
            habits.answers_unknown = await _is_answered(probe, UNKNOWN, {})
            await _is_answered(probe, "session/dragoman_check", {})
            habits.answers_permission = await _is_answered(probe, PERMISSION, probe.permission())
            turn.update("tool_call_update", toolCallId="call-1", status="completed")
            turn.end()
        except Ending as ending:
            probe.trouble = ending.message
        else:
            if await probe.wait_over(min(3.0, self._settings.timeout_seconds)):
                habits.exit_code = await probe.exit_code()
            habits.leaves = habits.exit_code is not None
            habits.calls = {str(message.method) for message in probe.incoming if message.is_request}

    async def _work(self, units: list[list[Case]]) -> None:
        async def worker() -> None:
            while units:
                await self._run_unit(units.pop(0))

        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, min(self._jobs, len(units)))):
                group.create_task(worker())

    async def _run_unit(self, unit: list[Case]) -> None:
        try:
            async with self._connection(is_watched=unit[0].is_watched) as probe:
                if unit[0].shares:
                    await self._play(probe, BARE, Habits())
                    for case in unit:
                        self._add(await self._look(case, probe))
                else:
                    self._add(await judge(unit[0], probe, bound_seconds=self._bound_seconds))
        except DragomanError as error:  # it started once, so that this says nothing about the protocol
            for case in unit:
                if case.id not in self._results:
                    self._add(CaseResult(case.id, "inconclusive", str(error)))

    async def _look(self, case: Case, probe: ClientProbe) -> CaseResult:
        """Judges by a conversation that is over, all of which is evidence."""
        result = await judge(case, probe, bound_seconds=self._bound_seconds)
        result.evidence = list(probe.entries)
        return result

    @property
    def _bound_seconds(self) -> float:
        return _BOUND * self._settings.timeout_seconds

    @asynccontextmanager
    async def _connection(self, *, is_watched: bool = True) -> AsyncIterator[ClientProbe]:
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        early: list[bytes] = []
        probe: ClientProbe | None = None

        def on_output(data: bytes) -> None:
            if probe is None:
                early.append(data)
            else:
                probe.take_output(data)

        link = await self._target.open(folder, on_output, self._settings.start_seconds)
        probe = ClientProbe(link, self._settings, folder, self._habits)
        probe.take_output(b"".join(early))
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


async def _is_answered(probe: ClientProbe, method: str, params: object) -> bool:
    with suppress(Silence, Gone):
        await probe.call(method, params)
        return True
    return False
