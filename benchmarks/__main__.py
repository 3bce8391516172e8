"""The command line of the benchmark: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from benchmarks import report
from benchmarks.cases import CASES, OURS, ROUNDS_THAT_COUNT, Case
from benchmarks.peers import NAMES, ROOT, Peer, find_peer
from benchmarks.schedule import Schedule, say

RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
EXAMPLES = """\
examples:
  python -m benchmarks                        everything, five rounds: the run whose verdicts count
  python -m benchmarks --quick                a look in about a minute; verdicts do not count
  python -m benchmarks --only stream cancel   two cases
  python -m benchmarks --peers raw dragoman   without the SDKs
  python -m benchmarks --rounds 9 --only rtt  more rounds for a noisy machine

Peers take turns within each round, and a ratio is computed within its round, so that noise of the machine
hits both sides of it. A round during which other programs used the cores is repeated, within limits. The
table shows medians; (0.50x) means half the floor's number. All rounds are in the JSON file. Close other
programs first: every case keeps two cores busy.
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
    outcome = Schedule(peers, cases, arguments.rounds, arguments.quick).run()
    report.write_json(outcome, arguments.json)
    print(report.table(outcome))
    if any(peer.name == OURS for peer in peers):
        print("\n" + report.goals(outcome))
    print(f"\n{outcome.seconds:.0f} s; all rounds are in {arguments.json}")
    disturbed = report.disturbed_cases(outcome)
    if disturbed:
        print(
            f"other programs used {outcome.foreign_cores:.1f} cores meanwhile and disturbed {', '.join(disturbed)}: "
            "repeat these on a quiet machine"
        )
    is_missed = any(not verdict.is_met for verdict in report.judge_all(outcome))
    return 1 if outcome.errors or (arguments.strict and is_missed) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
