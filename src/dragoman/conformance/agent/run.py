"""The run of the cases for agents: which share a connection, and what counts after a failure.

A case that did not pass on a shared connection runs again on one of its own, and only that result counts: no case fails
because of what another one left behind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.conformance.agent.probe import SETUPS, AgentCheckSettings, AgentProbe
from dragoman.conformance.case import Case, CaseResult, Ending, Inconclusive
from dragoman.conformance.conversation import Gone
from dragoman.conformance.runner import BUDGET_SECONDS, JOBS, CheckRun, Progress
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dragoman.conformance.agent.probe import AgentProbe
    from dragoman.conformance.agent.target import AgentTarget

_FIRST = "agent/initialize/answers"
_EXCERPT_CHARACTERS: Final = 80
_BETWEEN_VALUES: Final = re.compile(rb"}\s*\n\s*{")


class AgentRun(CheckRun[AgentProbe]):
    """One judgement of one agent."""

    side = "agent"

    def __init__(
        self,
        target: AgentTarget,
        settings: AgentCheckSettings,
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
        self._can_initialize = True

    async def open(self, folder: Path) -> AgentProbe:
        def on_stderr(data: bytes) -> None:
            probe.take_output(data)

        link = await self._target.open(on_stderr)
        probe = AgentProbe(link, self._settings, folder, self.connection)
        return probe

    async def meet(self, cases: Sequence[Case]) -> Any:
        """See whether the program starts, answers initialize and, if that was asked for, gets through a plain turn."""
        broken: CaseResult | None = None
        async with self.connection() as probe:
            try:
                if self.has_smoke:
                    broken = await play_plain_turn(probe)
                else:
                    await probe.initialize()
            except Gone:
                assert probe.ended is not None
                raise probe.ended from None
            except Ending:
                self._can_initialize = False
        if broken is not None:
            why = "the agent does not get through a plain turn, so everything else would fail with it"
            self.fail_plain_turn([broken], why)
        return probe.answered.get("agentInfo")

    def units(self, cases: Sequence[Case]) -> list[list[Case]]:
        """Group cases that share a set-up in as many rows as there are jobs, and every other case alone.

        An agent that does not answer initialize is judged by that alone, instead of by waiting for the rest.
        """
        if not self._can_initialize:
            for case in cases:
                if case.id != _FIRST:
                    self.add(CaseResult(case.id, "inconclusive", "the agent does not answer initialize"))
            return [[case] for case in cases if case.id == _FIRST]
        units: list[list[Case]] = []
        for setup in SETUPS:
            sharing = [case for case in cases if case.setup == setup]
            units += [row for start in range(self.jobs) if (row := sharing[start :: self.jobs])]
        return units + [[case] for case in cases if not case.setup]

    async def run_unit(self, unit: list[Case]) -> None:
        if unit[0].setup:
            unit = await self._run_shared(unit)
        for case in unit:
            async with self.connection(is_watched=case.is_watched) as probe:
                self.add(await self._judge_set_up(case, probe))

    async def _run_shared(self, unit: list[Case]) -> list[Case]:
        """Run the cases on one connection; return those that need one of their own."""
        again: list[Case] = []
        left = list(unit)
        while left:
            async with self.connection() as probe:
                is_first = True
                while left and not probe.is_over:
                    case = left.pop(0)
                    result = await self._judge_set_up(case, probe)
                    is_wrong = result.status in ("fail", "warn", "error")
                    if is_wrong and not is_first:
                        again.append(case)
                        break
                    self.add(result)
                    if is_wrong or not probe.is_answered:
                        break
                    is_first = False
        return again

    async def _judge_set_up(self, case: Case, probe: AgentProbe) -> CaseResult:
        """Judge by a case after the handshake of its set-up, which belongs to the evidence."""
        probe.services.reset()
        if case.setup and not probe.answered:
            try:
                answer = await probe.initialize(SETUPS[case.setup])
                if answer.is_error:
                    raise Inconclusive(f"initialize failed: {answer}")
            except Ending as ending:
                return CaseResult(case.id, "inconclusive", ending.message, 0.0, list(probe.entries))
            probe.handshake = list(probe.entries)
        lacking = [gate for gate in case.needs.offers if not probe.offers(gate)] if case.needs else []
        if lacking:
            return CaseResult(case.id, "skipped", f"the agent does not advertise {lacking[0]}")
        result = await self.judge(case, probe)
        result.evidence = [*probe.handshake, *result.evidence]
        return result


async def play_plain_turn(probe: AgentProbe) -> CaseResult | None:
    """Play a plain turn and cancel another one; return what is wrong, None if nothing is.

    An agent that refuses something (because it needs a login or has no model) gets through: the cases judge its
    answers. One that does not answer does not.

    Raises: Gone when the agent ends before it answers initialize.
    """
    step = "agent/initialize/answers"
    try:
        answer = await probe.initialize()
        if answer.is_error:
            return _broken(step, f"initialize was answered with an error: {answer}", probe)
        step = "agent/session/new"
        session_id = await probe.new_session()
        step = "agent/prompt/stop-reason"
        await probe.prompt(session_id, probe.text("say")).end()
        step = "agent/cancel/streaming"
        await _cancel(probe)
    except Inconclusive:
        return None
    except Gone as gone:
        if step == "agent/initialize/answers":
            raise
        return _broken(step, gone.message, probe)
    except Ending as ending:
        return _broken(step, ending.message, probe)
    return None


async def _cancel(probe: AgentProbe) -> None:
    """Cancel a turn as soon as something comes; a turn that is over before is as good."""
    turn = await probe.act("slow")
    await turn.first("update", lambda message: message.method == "session/update")
    probe.cancel(turn.session_id)
    await turn.end()


def _broken(step: str, message: str, probe: AgentProbe) -> CaseResult:
    """Make the finding: the lines that are not messages, if there are any, otherwise the step that was not answered."""
    noise = [message for message in probe.incoming if not message.body and message.line.strip()]
    if noise:
        first = shorten(noise[0].line.decode(errors="replace"), _EXCERPT_CHARACTERS)
        is_spread = _is_json(b"\n".join(message.line for message in probe.incoming))
        step = "passive/5" if is_spread else "passive/6"
        what = "a message was written on several lines" if is_spread else f"{len(noise)} lines are not messages"
        message = f"{what}, the first line is {first!r}; {message}"
    return CaseResult(step, "fail", message, probe.now, list(probe.entries), 1)


def _is_json(text: bytes) -> bool:
    """Whether the lines are JSON objects if the breaks inside of them are ignored."""
    start = text.find(b"{")
    try:
        msgspec.json.decode(b"[" + _BETWEEN_VALUES.sub(b"},{", text[start:].strip()) + b"]")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return start >= 0
