"""What becomes of the children when their program ends in any other way than it should."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from dragoman.process import Child
from dragoman.process.guard import guard
from tests.process.kit import FRIENDLY, Deaths, open_fds, settled_fds, zombie_children

# Starts two children, each with a child of its own, tells all pids, then ends in the way its argument says.
PROGRAM = """
import asyncio, os, signal, sys
from dragoman.process import Child, guard

async def main(way):
    if way == "keep":
        guard.Guard._start = lambda self: None  # the exit hook has to do it alone
    script = "trap '' TERM HUP; sleep 1000 & echo $$ $!; wait; sleep 1000"
    children = [Child.spawn(["sh", "-c", script]) for _ in range(2)]
    pids = b" ".join(os.read(child._stdout, 100).strip() for child in children)
    await asyncio.sleep(0)
    os.write(1, pids + b"\\n")
    if way == "fork":
        # A worker of the program, such as multiprocessing makes, must neither keep the children alive nor kill them.
        worker = os.fork()
        if worker == 0:
            os.read(0, 1)
            os._exit(0)
        os.write(1, b"%d\\n" % worker)
    if way == "_exit":
        os._exit(0)
    if way == "raise":
        raise SystemExit(3)
    if way == "stop":
        return
    if way == "keep":
        sys.children = children
        return
    await asyncio.sleep(1000)

asyncio.run(main(sys.argv[1]))
"""


class Program:
    def __init__(self, way: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.pids = [int(pid) for pid in self.stdout.readline().split()]
        assert len(self.pids) == 4
        self.deaths = Deaths(*self.pids)

    def end(self) -> list[int]:
        self.stdin.close()
        self.process.wait(60)
        self.stdout.close()
        return self.deaths.wait(60)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_program_killed_by_a_signal_takes_its_agents_and_their_children_along(number: signal.Signals) -> None:
    program = Program("wait")
    program.process.send_signal(number)
    assert program.end() == []
    assert program.process.returncode == -number


def test_a_kill_of_the_programs_whole_group_leaves_nothing_either() -> None:
    program = Program("wait")
    for child in _children_of(program.process.pid) - set(program.pids):
        os.kill(child, signal.SIGTERM)  # the guard does not go away for that
    program.process.kill()
    assert program.end() == []


def test_interrupted_by_the_user_the_agents_end_with_the_program() -> None:
    program = Program("wait")
    program.process.send_signal(signal.SIGINT)
    assert program.end() == []


@pytest.mark.parametrize("way", ["_exit", "raise", "stop", "keep"])
def test_a_program_that_ends_without_closing_leaves_nothing_behind(way: str) -> None:
    assert Program(way).end() == []


def test_a_forked_worker_neither_hides_the_death_of_its_program_nor_shares_its_children() -> None:
    program = Program("fork")
    worker = Deaths(int(program.stdout.readline()))
    program.process.kill()
    program.process.wait()
    assert program.deaths.wait(60) == [], "the worker lives, the agents do not"
    program.stdin.close()
    program.stdout.close()
    assert worker.wait(60) == []


async def test_a_killed_guard_is_replaced_and_knows_all_groups() -> None:
    before = settled_fds()
    first = Child.spawn(FRIENDLY)
    shell = guard._shell
    assert shell is not None
    os.kill(shell.pid, signal.SIGKILL)
    await asyncio.to_thread(os.waitid, os.P_PID, shell.pid, os.WEXITED | os.WNOWAIT)
    second = Child.spawn(FRIENDLY)
    assert guard._shell is not None
    assert guard._shell.pid != shell.pid
    # Closing its pipe is what the death of this program looks like to the guard.
    deaths = Deaths(first.pid, second.pid)
    os.close(guard._pipe)
    guard._pipe = os.open(os.devnull, os.O_WRONLY)
    assert await asyncio.to_thread(deaths.wait) == []
    await asyncio.gather(first.close(), second.close())
    assert (first.returncode, second.returncode) == (-9, -9)
    assert open_fds() == before


async def test_the_guard_forgets_who_is_gone() -> None:
    first, second = Child.spawn(FRIENDLY), Child.spawn(FRIENDLY)
    await first.close()
    stranger = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    deaths = Deaths(second.pid)
    os.close(guard._pipe)
    guard._pipe = os.open(os.devnull, os.O_WRONLY)
    assert await asyncio.to_thread(deaths.wait) == []
    assert stranger.returncode is None
    stranger.kill()
    assert await stranger.wait() == -signal.SIGKILL
    await second.close()


async def test_without_a_shell_everything_but_the_guard_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(guard), "_start", lambda self: None)
    child = Child.spawn(FRIENDLY)
    await child.close()
    assert child.returncode == 0
    assert guard._shell is None


async def test_no_guard_is_started_for_a_command_that_does_not_exist() -> None:
    with pytest.raises(Exception, match="not found"):
        Child.spawn(["no-such-agent-anywhere"])
    assert guard._shell is None


async def test_the_guard_ends_with_the_last_child() -> None:
    child = Child.spawn(FRIENDLY)
    shell = guard._shell
    assert shell is not None
    await child.close()
    assert shell.returncode == 0
    assert zombie_children() == []


def _children_of(pid: int) -> set[int]:
    deadline = time.monotonic() + 30
    children: set[int] = set()
    while len(children) < 3 and time.monotonic() < deadline:
        with open(f"/proc/{pid}/task/{pid}/children") as listing:
            children = {int(child) for child in listing.read().split()}
    return children
