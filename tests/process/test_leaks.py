"""Many children, well behaved and not, ended in every way: nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from itertools import cycle, islice

from dragoman.process import Child, Patience
from tests.conftest import IS_SOAK
from tests.process.kit import (
    DAEMON,
    STUBBORN,
    first_line,
    open_fds,
    own_threads,
    python,
    settled_fds,
    survivors,
    until,
    zombie_children,
)

CHILDREN = 200 if IS_SOAK else 52  # each program twice in each way
AT_ONCE = 8
BRIEF = Patience(stdin_seconds=0.3, term_seconds=0.1)

# All of them write a line when the part of the tree that is hard to find exists.
DAEMONISING = "(setsid sh -c 'echo ready; exec sleep 1000' &) ; "
PROGRAMS = [
    ["sh", "-c", "echo ready; cat"],
    ["sh", "-c", "echo ready; exit 3"],
    ["sh", "-c", "sleep 1000 & sleep 1000 & echo ready; cat"],
    ["sh", "-c", "sleep 1000 & echo ready; exit 0"],
    ["sh", "-c", DAEMONISING + "cat"],
    ["sh", "-c", DAEMONISING + "exit 1"],
    ["sh", "-c", "setsid setsid sh -c 'echo ready; sleep 1000 & sleep 1000' & wait"],
    list(STUBBORN),
]


async def live_and_die(argv: list[str], way: str) -> str:
    child = Child.spawn(argv, patience=BRIEF)
    if way != "at once":
        await first_line(child)
    if way == "killed":
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(child.pid, signal.SIGKILL)
        await child.wait()
    await child.close()
    return child.marker


async def test_many_children_leave_no_process_no_zombie_no_descriptor_and_no_thread() -> None:
    before, others = settled_fds(), set(own_threads())  # of tests before this one, in the same process
    room = asyncio.Semaphore(AT_ONCE)

    async def one(argv: list[str], way: str) -> str:
        async with room:
            return await live_and_die(argv, way)

    programs = islice(cycle(PROGRAMS), CHILDREN - 4)
    ways = cycle(["closed", "killed", "at once"])
    lives = [one(argv, way) for argv, way in zip(programs, ways, strict=False)]
    lives += [one(python(DAEMON), "closed") for _ in range(4)]
    markers = await asyncio.gather(*lives)
    assert len(set(markers)) == CHILDREN
    assert survivors(markers) == []
    assert zombie_children() == []
    await asyncio.get_running_loop().shutdown_default_executor()
    await until(lambda: set(own_threads()) <= others)
    assert open_fds() == before
