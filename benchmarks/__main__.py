"""The command line of the benchmark: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from benchmarks import report
from benchmarks.cases import CASES, OURS, ROUNDS_THAT_COUNT, Case
from benchmarks.peers import NAMES, ROOT, Peer, find_peer
from benchmarks.runner import CpuClock, JobError, Runner

RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
# Five rounds end within twelve minutes, whatever happens.
ROUND_SECONDS = 135
# What an idle desktop uses. Above this the scheduler moves the peers about and waiting for a core gets into the times.
QUIET_CORES = 0.15
EXAMPLES = """\
examples:
  python -m benchmarks                        everything, five rounds: the run whose verdicts count
  python -m benchmarks --quick                a look in about a minute; verdicts do not count
  python -m benchmarks --only stream cancel   two cases
  python -m benchmarks --peers raw dragoman   without the SDKs
  python -m benchmarks --rounds 9 --only rtt  more rounds for a noisy machine

Peers take turns within each round, and a ratio is computed within its round, so that noise of the machine
hits both sides of it. The table shows medians; (0.50x) means half the floor's number. All rounds are in the
JSON file. Close other programs first: every case keeps two cores busy.
"""


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures dragoman against the official SDKs and against the floor, and judges the goals.",
        epilog=EXAMPLES + "\ncases:\n" + "\n".join(f"  {case.name:<10}{case.title}" for case in CASES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", metavar="CASE", choices=names, default=names, help=", ".join(names))
    parser.add_argument("--peers", nargs="+", metavar="PEER", choices=NAMES, default=list(NAMES), help=", ".join(NAMES))
    parser.add_argument("--rounds", type=int, metavar="N", help=f"rounds (default {ROUNDS_THAT_COUNT}; quick: 2)")
    parser.add_argument("--quick", action="store_true", help="less work and two rounds; verdicts do not count")
    parser.add_argument("--json", type=Path, metavar="FILE", default=RESULTS, help=f"result file (default {RESULTS})")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    arguments = parser.parse_args(argv)
    if arguments.rounds is None:
        arguments.rounds = 2 if arguments.quick else ROUNDS_THAT_COUNT
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    return arguments


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def usable_peers(names: list[str]) -> list[Peer]:
    found = []
    for name in NAMES:
        if name in names:
            peer = find_peer(name)
            if peer.missing:
                say(f"without {peer.title}: {peer.missing}")
            else:
                found.append(peer)
    return found


def expected_seconds(cases: list[Case], peers: list[Peer], rounds: int, is_quick: bool) -> float:
    names = {peer.name for peer in peers}
    total = 0.0
    for case in cases:
        share = sum(seconds for name, seconds in case.seconds.items() if name in names)
        total += share * (case.quick_factor if is_quick else 1)
    return total * rounds


class Bench:
    """One run: all rounds of all cases."""

    def __init__(self, peers: list[Peer], rounds: int, is_quick: bool) -> None:
        self._runner = Runner()
        self._peers = peers
        self._rounds = rounds
        self._is_quick = is_quick
        self._errors: list[str] = []

    def run(self, cases: list[Case]) -> report.Outcome:
        start = time.monotonic()
        clock = CpuClock()
        for peer in self._peers:
            # Fills the page cache and writes the .pyc files, which no cold start should pay for.
            self._job(peer, "cold", {"spawns": 1}, 30)
        self._errors.clear()
        results: dict[str, report.Rounds] = {case.name: {} for case in cases}
        deadline = start + ROUND_SECONDS * max(self._rounds, ROUNDS_THAT_COUNT)
        # Rounds outside, cases inside: a busy minute then costs every case a round instead of one case all its rounds.
        for number in range(self._rounds):
            for case in cases:
                if time.monotonic() > deadline:
                    say(f"out of time in round {number + 1}: the machine is too busy or too slow; the rest is left out")
                    break
                self._run_round(case, number, results[case.name])
        return report.Outcome(
            peers=self._peers,
            cases=cases,
            rounds=results,
            errors=self._errors,
            left_behind=self._runner.left_behind,
            is_quick=self._is_quick,
            seconds=time.monotonic() - start,
            foreign_cores=clock.foreign_cores(),
        )

    def _run_round(self, case: Case, number: int, results: report.Rounds) -> None:
        say(f"round {number + 1} of {self._rounds}: {case.name}")
        peers = [peer for peer in self._peers if peer.name in case.peers]
        params = case.quick if self._is_quick else case.params
        # Nobody always runs first, or always after the same neighbour's heat.
        shift = number % max(1, len(peers))
        for peer in peers[shift:] + peers[:shift]:
            # Ten times the usual duration: room for a slow machine, and yet an end for a hung program.
            timeout = 20 + 10 * case.seconds[peer.name]
            result = self._job(peer, case.name, params, timeout, is_pinned=case.is_pinned)
            results.setdefault(peer.name, []).append(result)

    def _job(
        self, peer: Peer, case: str, params: dict[str, object], timeout: float, *, is_pinned: bool = False
    ) -> dict[str, float] | None:
        try:
            return self._runner.run(peer, case, params, timeout, is_pinned=is_pinned)
        except JobError as error:
            self._errors.append(f"{peer.name} {case}: {error}")
            say(f"{peer.title} failed in {case}: {error}")
            return None


def _stop(signum: int, frame: FrameType | None) -> None:
    # An exception instead of an instant death, so that the runner kills what it started.
    raise SystemExit(128 + signum)


def main(argv: list[str]) -> int:
    arguments = parse_arguments(argv)
    signal.signal(signal.SIGTERM, _stop)
    peers = usable_peers(arguments.peers)
    if not peers:
        say("nothing to run: none of the peers is installed")
        return 2
    cases = [case for case in CASES if case.name in arguments.only]
    seconds = expected_seconds(cases, peers, arguments.rounds, arguments.quick)
    duration = f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
    say(f"expected duration: about {duration} ({arguments.rounds} rounds)")
    outcome = Bench(peers, arguments.rounds, arguments.quick).run(cases)
    report.write_json(outcome, arguments.json)
    print(report.table(outcome))
    if any(peer.name == OURS for peer in peers):
        print("\n" + report.goals(outcome))
    print(f"\n{outcome.seconds:.0f} s; all rounds are in {arguments.json}")
    if outcome.foreign_cores > QUIET_CORES:
        print(
            f"other programs used {outcome.foreign_cores:.1f} cores meanwhile: the verdicts are not reliable, "
            "repeat on a quiet machine"
        )
    is_missed = any(not verdict.is_met for verdict in report.judge_all(outcome))
    return 1 if outcome.errors or (arguments.strict and is_missed) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
