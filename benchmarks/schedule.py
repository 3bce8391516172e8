"""Which job runs when: rounds, turns, repetitions of what was disturbed, and the end of all patience.

Knows neither how a job is run nor what its numbers mean.
"""

from __future__ import annotations

import sys
import time

from benchmarks import report
from benchmarks.cases import ROUNDS_THAT_COUNT, Case
from benchmarks.peers import Peer
from benchmarks.runner import CpuClock, JobError, Runner

# Five rounds end within twelve minutes, whatever happens.
ROUND_SECONDS = 135
# Rounds of one case, as a multiple of those asked for, while other programs keep disturbing them.
PATIENCE = 3


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Schedule:
    """One run: all rounds of all cases."""

    def __init__(self, peers: list[Peer], cases: list[Case], rounds: int, is_quick: bool) -> None:
        self._runner = Runner()
        self._peers = peers
        self._cases = cases
        self._rounds = rounds
        self._is_quick = is_quick
        self._results: dict[str, report.Rounds] = {case.name: {} for case in cases}
        self._errors: list[str] = []

    def run(self) -> report.Outcome:
        start = time.monotonic()
        clock = CpuClock()
        for peer in self._peers:
            # Fills the page cache and writes the .pyc files, which no cold start should pay for.
            self._job(peer, "cold", {"spawns": 1}, 30)
        self._errors.clear()
        self._run_rounds(start + ROUND_SECONDS * max(self._rounds, ROUNDS_THAT_COUNT))
        return report.Outcome(
            peers=self._peers,
            cases=self._cases,
            rounds=self._results,
            errors=self._errors,
            left_behind=self._runner.left_behind,
            is_quick=self._is_quick,
            seconds=time.monotonic() - start,
            foreign_cores=clock.foreign_cores(),
        )

    def _run_rounds(self, deadline: float) -> None:
        # Rounds outside, cases inside: a busy minute then costs every case a round, not one case all of them.
        for number in range(self._rounds if self._is_quick else self._rounds * PATIENCE):
            for case in self._cases:
                if number >= self._rounds and report.calm_rounds(self._results[case.name]) >= self._rounds:
                    continue
                if time.monotonic() > deadline:
                    say("out of time: the machine is too busy or too slow; the rest is left out")
                    return
                self._run_round(case, number)

    def _run_round(self, case: Case, number: int) -> None:
        if number < self._rounds:
            say(f"round {number + 1} of {self._rounds}: {case.name}")
        else:
            say(f"extra round {number + 1 - self._rounds}, for one that other programs disturbed: {case.name}")
        peers = [peer for peer in self._peers if peer.name in case.peers]
        params = case.quick if self._is_quick else case.params
        # No peer always runs first, or always after the same neighbour's heat.
        shift = number % max(1, len(peers))
        for peer in peers[shift:] + peers[:shift]:
            # Ten times the usual duration: room for a slow machine, and yet an end for a hung program.
            timeout = 20 + 10 * case.seconds[peer.name]
            result = self._job(peer, case.name, params, timeout, is_pinned=case.is_pinned)
            self._results[case.name].setdefault(peer.name, []).append(result)

    def _job(
        self, peer: Peer, case: str, params: dict[str, object], timeout: float, *, is_pinned: bool = False
    ) -> dict[str, float] | None:
        try:
            return self._runner.run(peer, case, params, timeout, is_pinned=is_pinned)
        except JobError as error:
            self._errors.append(f"{peer.name} {case}: {error}")
            say(f"{peer.title} failed in {case}: {error}")
            return None
