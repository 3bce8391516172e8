"""A program that has children, signal handlers and waits of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dragoman.process import Child
from tests.process.kit import FRIENDLY, open_fds, settled_fds, survivors


@contextmanager
def handling_sigchld() -> Iterator[list[int]]:
    """A program's own handler, which reaps nothing."""
    calls: list[int] = []
    before = signal.signal(signal.SIGCHLD, lambda number, frame: calls.append(number))
    try:
        yield calls
    finally:
        signal.signal(signal.SIGCHLD, before)


def popen(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE if "read" in script else None)


async def test_the_programs_own_children_keep_their_exit_codes() -> None:
    ended = popen("exit 5")
    await asyncio.to_thread(os.waitid, os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    running = popen("read _; exit 6")
    asyncios = await asyncio.create_subprocess_exec("sh", "-c", "read _; exit 4", stdin=subprocess.PIPE)
    children = [Child.spawn(["sh", "-c", "sleep 1000 & exit 1"]) for _ in range(5)]
    for child in children:
        await child.close()
        assert child.returncode == 1
    assert running.poll() is None
    running.communicate(b"\n")
    await asyncios.communicate(b"\n")
    assert (ended.wait(), running.returncode, asyncios.returncode) == (5, 6, 4)


async def test_the_programs_own_sigchld_handler_stays_and_is_called() -> None:
    with handling_sigchld() as calls:
        handler = signal.getsignal(signal.SIGCHLD)
        child = Child.spawn(FRIENDLY)
        await child.close()
        assert child.returncode == 0
        assert signal.getsignal(signal.SIGCHLD) is handler
        assert calls


async def test_popen_objects_of_the_program_can_come_and_go_next_to_ours() -> None:
    children = []
    for _ in range(10):
        children.append(Child.spawn(["sh", "-c", "exit 9"]))
        assert popen("exit 0").wait() == 0
    for child in children:
        assert await child.wait() == 9
    await asyncio.gather(*(child.close() for child in children))


THIEF = """
import asyncio, os, signal, sys
from dragoman.process import Child
from dragoman.process.sweep import marked

def reap_everything(number, frame):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass

async def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN if sys.argv[1] == "ignore" else reap_everything)
    before = len(os.listdir("/proc/self/fd"))
    for script in ("exit 7", "sleep 1000 & exit 0", "cat"):
        child = Child.spawn(["sh", "-c", script])
        if script != "cat":
            await asyncio.wait_for(child.wait(), 5)
        await asyncio.wait_for(child.close(), 5)
        assert child.returncode in (None, 0, 7), child.returncode
        assert marked(child.marker) == []
    assert len(os.listdir("/proc/self/fd")) == before

asyncio.run(main())
print("fine")
"""


def output_of_thief(way: str) -> tuple[str, str]:
    argv = [sys.executable, "-c", THIEF, way]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    return result.stdout, result.stderr


def test_a_program_that_reaps_every_child_loses_the_exit_code_and_nothing_else() -> None:
    assert output_of_thief("reap") == ("fine\n", "")


def test_a_program_that_ignores_sigchld_loses_the_exit_code_and_nothing_else() -> None:
    assert output_of_thief("ignore") == ("fine\n", "")


def test_children_work_on_a_loop_in_a_thread_that_ends_before_them() -> None:
    # With PDEATHSIG the child would die with the thread that forked it.
    child: list[Child] = []

    async def spawn() -> None:
        child.append(Child.spawn(FRIENDLY))

    async def use() -> None:
        await asyncio.to_thread(asyncio.run, spawn())
        assert child[0].pid in survivors([child[0].marker])
        await child[0].close()
        assert survivors([child[0].marker]) == []

    before = settled_fds()
    asyncio.run(use())
    assert open_fds() == before


async def test_two_loops_in_two_threads_do_not_disturb_each_other() -> None:
    async def several() -> list[int | None]:
        children = [Child.spawn(["sh", "-c", f"sleep 1000 & exit {code}"]) for code in range(5)]
        await asyncio.gather(*(child.close() for child in children))
        return [child.returncode for child in children]

    codes = await asyncio.gather(*(asyncio.to_thread(asyncio.run, several()) for _ in range(2)), several())
    assert codes == [[0, 1, 2, 3, 4]] * 3
