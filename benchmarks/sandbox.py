"""What a sandbox adds to the start of one command: ``python -m benchmarks.sandbox [ROUNDS]``.

All ways take turns, so that a busy moment of the machine meets each of them. The median is printed, in milliseconds of
wall time, with the goal for a quiet machine; nothing is asserted. `make bench` runs it, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from statistics import median

from dragoman.process.launch import Starter
from dragoman.process.sandbox import Sandbox, Tripwire, available, make_policy

ROUNDS = 40
COMMAND = ["/bin/true"]
# What a backend may add to one command on a quiet machine, in milliseconds.
GOALS = {"thread": 3.0, "bubblewrap": 10.0}


def main(rounds: int = ROUNDS) -> None:
    with tempfile.TemporaryDirectory() as project, tempfile.TemporaryDirectory() as temporary:
        os.mkdir(os.path.join(project, ".git"))
        os.mkdir(os.path.join(project, ".git", "hooks"))
        found = available()
        for name, reason in found.reasons.items():
            print(f"{name}: not measured, {reason}")
        policy = make_policy([project], temporary=temporary)
        ways: dict[str, Callable[[], object]] = {"without": lambda: run(COMMAND, None, project)}
        for name in found.backends:
            ways[name] = confined(Sandbox(policy, name), project)
        with tempfile.TemporaryDirectory() as aside:
            tripwire = Tripwire(policy, aside)
            tripwire.arm()
            ways["tripwire alone"] = lambda: tripwire.check(restore=True)
            report(measure(ways, rounds))


def confined(sandbox: Sandbox, project: str) -> Callable[[], None]:
    def once() -> None:
        command = sandbox.confine(COMMAND, cwd=project, env=os.environ)
        run(command.argv, command.starter, project)

    return once


def run(argv: list[str], starter: Starter | None, project: str) -> None:
    def popen(kept: Collection[int] = ()) -> subprocess.Popen[bytes]:
        return subprocess.Popen(argv, cwd=project, pass_fds=kept, start_new_session=True)

    process = starter.start(popen) if starter else popen()
    if process.wait() != 0:
        raise SystemExit(f"{argv[0]} failed with exit code {process.returncode}")


def measure(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):  # the first round fills caches
        for name, once in ways.items():
            began = time.perf_counter()
            once()
            taken[name].append((time.perf_counter() - began) * 1000)
    return {name: median(times[1:]) for name, times in taken.items()}


def report(medians: dict[str, float]) -> None:
    print("the start of one command, with and without a sandbox")
    for name, milliseconds in medians.items():
        print(f"  {name:15} {milliseconds:7.2f} ms{verdict(name, milliseconds - medians['without'])}")


def verdict(name: str, added: float) -> str:
    """Return what a backend adds, and whether that reaches its goal; empty for the others."""
    if name not in GOALS:
        return ""
    word = "met" if added <= GOALS[name] else "missed"
    return f"  (adds {added:.2f} ms; goal: at most {GOALS[name]:g} ms, {word})"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
