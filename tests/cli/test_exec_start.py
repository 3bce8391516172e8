"""A run that is ended while its agent starts leaves nothing of the agent."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys

import pytest

from tests.cli.exec_kit import Place, place

__all__ = ["place"]

CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: -signal.SIGHUP, signal.SIGKILL: -signal.SIGKILL}
LATEST_SECONDS = 0.25  # by then the agent runs, on any machine that is not overloaded


@pytest.mark.parametrize("number", CODES)
def test_an_agent_that_ends_the_run_with_its_first_step_ends_with_it(place: Place, number: signal.Signals) -> None:
    script = f"kill -{number.name[3:]} $PPID; sleep 4343 & exec sleep 4344"
    done = place.run("hi", "--", "sh", "-c", script)
    assert done.code == CODES[number]
    place.assert_clean()


@pytest.mark.parametrize("number", CODES)
def test_a_run_that_is_ended_at_any_moment_leaves_nothing(place: Place, number: signal.Signals) -> None:
    """The moments are drawn again at each run of the tests; the message names the one that failed."""
    for seconds in (random.uniform(0, LATEST_SECONDS) for _ in range(3)):
        with subprocess.Popen(
            [sys.executable, "-m", "dragoman", "exec", "hi", "--", "sh", "-c", "sleep 4343 & exec sleep 4344"],
            cwd=place.project,
            env=place.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as run:
            wait(run.pid, seconds)
            run.send_signal(number)
            run.wait(60)
        try:
            place.assert_clean()
        except AssertionError:
            pytest.fail(f"a process was left by {number.name} after {seconds:.4f} s: {place.leftovers()}")


def wait(pid: int, seconds: float) -> None:
    """Let time pass, unless the process ends before."""
    fd = os.pidfd_open(pid)
    try:
        select.select([fd], [], [], seconds)
    finally:
        os.close(fd)
