"""A program that is killed while it starts a child leaves nothing of the child."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection

import pytest

from dragoman.process import proctable
from dragoman.process.guard import guard
from dragoman.process.launch import launch
from tests.process.kit import Deaths, open_fds, settled_fds

PROGRAM = """
import asyncio, os, sys
from dragoman import spawn

async def main():
    print("go", flush=True)
    async with spawn("sh", "-c", sys.argv[1], on_stderr=lambda data: None):
        pass

asyncio.run(main())
"""


def marked_by(value: str) -> list[int]:
    found = []
    for pid in proctable.pids():
        try:
            if value.encode() in proctable.environment(pid) and pid != os.getpid():
                found.append(pid)
        except OSError:  # it has ended, or is not ours
            continue
    return found


def gone(value: str) -> list[str]:
    """The command lines of what is left and does not end; they are killed."""
    names = {pid: _line(pid) for pid in marked_by(value)}
    return [names[pid] for pid in Deaths(*names).wait(3)]


def _line(pid: int) -> str:
    try:
        return proctable.command_line(pid)
    except OSError:
        return "?"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_child_that_kills_its_program_at_once_ends_with_it(number: signal.Signals) -> None:
    mark = os.urandom(8).hex()
    script = f"kill -{number.name[3:]} $PPID; sleep 4343 & exec sleep 4344"
    subprocess.run(
        [sys.executable, "-c", PROGRAM, script],
        env={**os.environ, "MARK": mark},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert gone(mark) == []


def test_a_program_that_is_killed_at_any_moment_of_a_start_leaves_nothing() -> None:
    for _ in range(8):
        mark = os.urandom(8).hex()
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "sleep 4343 & exec sleep 4344"],
            env={**os.environ, "MARK": mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as program:
            assert program.stdout is not None
            program.stdout.readline()
            seconds = random.uniform(0, 0.02)
            threading.Event().wait(seconds)
            program.kill()
        assert gone(mark) == [], f"killed after {seconds:.4f} s"


class Interrupted:
    """A starter during which a signal arrives: when the program runs, or before another thread starts it."""

    def __init__(self, *, starts_before: bool) -> None:
        self.starts_before = starts_before
        self.failures: list[BaseException] = []
        self.thread = threading.Thread()

    def start(self, popen: Callable[[Collection[int]], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        if self.starts_before:
            process = popen(())
            process.returncode = 0
            self.thread = threading.Thread(target=process.wait)
        else:
            self.thread = threading.Thread(target=self._start_late, args=(popen,))
        raise KeyboardInterrupt

    def terminate(self, group: int) -> None:
        raise NotImplementedError

    def _start_late(self, popen: Callable[[Collection[int]], subprocess.Popen[bytes]]) -> None:
        try:
            popen(())
        except Exception as error:
            self.failures.append(error)


@pytest.mark.parametrize("starts_before", [True, False])
def test_a_signal_during_a_start_leaves_nothing(starts_before: bool) -> None:
    starter = Interrupted(starts_before=starts_before)
    mark, before = os.urandom(8).hex(), settled_fds()
    with pytest.raises(KeyboardInterrupt):
        launch(["sh", "-c", "sleep 4343 & exec sleep 4344"], env={"MARK": mark}, starter=starter)
    starter.thread.start()
    starter.thread.join()
    assert marked_by(mark) == []
    assert [str(error) for error in starter.failures] == (
        [] if starts_before else ["the start of this program was given up"]
    )
    assert guard._members == {}
    assert open_fds() == before
    if starts_before:
        os.waitpid(-1, 0)
