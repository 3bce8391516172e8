"""The run of the cases for clients: the two turns that several cases look at, and what the client usually does.

A client has to do one thing by itself when it is started: open a session and send a prompt.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.conformance.case import Case, CaseResult, Ending
from dragoman.conformance.client.baseline import Baseline, missing
from dragoman.conformance.client.probe import BARE, FULL, OPENING, PERMISSION, ClientCheckSettings, ClientProbe
from dragoman.conformance.client.target import NoAgent
from dragoman.conformance.conversation import Gone, Silence
from dragoman.conformance.runner import BUDGET_SECONDS, JOBS, CheckRun, Progress
from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dragoman.conformance.client.target import ClientTarget

PLAIN: Final = "plain"
"""What `Case.shares` names to look at a turn with an agent that can do everything."""
BARE_TURN: Final = "bare"
"""The same with an agent that can do nothing."""
UNKNOWN: Final = "_dragoman.check/unknown"


class ClientRun(CheckRun[ClientProbe]):
    """One judgement of one client."""

    side = "client"

    def __init__(
        self,
        target: ClientTarget,
        settings: ClientCheckSettings,
        *,
        jobs: int = JOBS,
        on_result: Progress | None = None,
        has_smoke: bool = False,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> None:
        super().__init__(
            target.command,
            settings.timeout_seconds,
            jobs=jobs,
            on_result=on_result,
            has_smoke=has_smoke,
            budget_seconds=budget_seconds,
        )
        self._target = target
        self._settings = settings
        self._baseline = Baseline()

    async def open(self, folder: Path) -> ClientProbe:
        early: list[bytes] = []
        probe: ClientProbe | None = None

        def on_output(data: bytes) -> None:
            if probe is None:
                early.append(data)
            else:
                probe.take_output(data)

        link = await self._target.open(folder, on_output, self._settings.start_seconds)
        probe = ClientProbe(link, self._settings, folder, self._baseline)
        probe.take_output(b"".join(early))
        return probe

    async def meet(self, cases: Sequence[Case]) -> Any:
        """Play a plain turn, which shows what the client usually does."""
        async with self.connection() as probe:
            await self._play(probe, FULL, self._baseline)
            await self._look([case for case in cases if case.setup == PLAIN], probe)
        if self.has_smoke and not self._baseline.prompts:
            why = f"the client does not get through a plain turn: {probe.trouble}"
            wrong = [result for result in self.results if result.status == "fail"]
            if not wrong:
                # What a client does by itself is its own affair, so there is nothing to report.
                raise NoAgent(f"{why}; it has to open a session and send one prompt when it is started")
            self.fail_plain_turn(wrong, f"{why}; everything else would fail with it")
        return probe.incoming[0].params.get("clientInfo") if probe.incoming else None

    def units(self, cases: Sequence[Case]) -> list[list[Case]]:
        """Group the cases that look at a bare turn, and leave every other case alone unless the client skips it."""
        alone = [[case] for case in cases if not case.setup and not self._skips(case)]
        bare = [case for case in cases if case.setup == BARE_TURN]
        return [bare, *alone] if bare else alone

    def _skips(self, case: Case) -> bool:
        """Whether the client does not do what the case needs."""
        why = missing(case.needs, self._baseline) if case.needs and self._baseline.prompts else ""
        if why:
            self.add(CaseResult(case.id, "skipped", why))
        return bool(why)

    async def run_unit(self, unit: list[Case]) -> None:
        try:
            async with self.connection(is_watched=unit[0].is_watched) as probe:
                if unit[0].setup:
                    await self._play(probe, BARE, Baseline())
                    await self._look(unit, probe)
                else:
                    self.add(await self.judge(unit[0], probe))
        except DragomanError as error:  # it started once, so that this shows nothing about the protocol
            for case in unit:
                if not self.has_result(case):
                    self.add(CaseResult(case.id, "inconclusive", str(error)))

    async def _look(self, cases: Sequence[Case], probe: ClientProbe) -> None:
        """Judge by a conversation that is over, all of which is evidence."""
        for case in cases:
            result = await self.judge(case, probe)
            result.evidence = list(probe.entries)
            self.add(result)

    async def _play(self, probe: ClientProbe, capabilities: object, baseline: Baseline) -> None:
        """Play one whole turn, without anything unusual but a method that no client has; fill in the baseline."""
        try:
            turn = await probe.prompted(capabilities)
            baseline.prompts = True
            baseline.passes_directories = bool(probe.first(*OPENING).params.get("additionalDirectories"))
            baseline.capabilities = probe.capabilities
            turn.send_text("One moment.")
            turn.update("tool_call", toolCallId="call-1", title="Read a file", kind="read", status="pending")
            baseline.answers_unknown = await _is_answered(probe, UNKNOWN, {})
            await _is_answered(probe, "session/dragoman_check", {})
            baseline.answers_permission = await _is_answered(probe, PERMISSION, probe.permission())
            turn.update("tool_call_update", toolCallId="call-1", status="completed")
            turn.end()
        except Ending as ending:
            probe.trouble = ending.message
        else:
            if await probe.wait_over(min(3.0, self._settings.timeout_seconds)):
                baseline.exit_code = await probe.exit_code()
            baseline.leaves = baseline.exit_code is not None
            baseline.calls = {str(message.method) for message in probe.incoming if message.is_request}


async def _is_answered(probe: ClientProbe, method: str, params: object) -> bool:
    with suppress(Silence, Gone):
        await probe.call(method, params)
        return True
    return False
