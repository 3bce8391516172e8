"""A child from its start until its whole tree is gone."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
import warnings
from contextlib import suppress

import pytest

from dragoman.errors import ConfigError
from dragoman.process import Child, Patience, child
from tests.process.kit import (
    DAEMON,
    FRIENDLY,
    STUBBORN,
    Deaths,
    first_line,
    open_fds,
    own_threads,
    python,
    settled_fds,
    survivors,
    until,
    zombie_children,
)

BRIEF = Patience(stdin_seconds=0.2, term_seconds=0.2)
LONG = Patience(stdin_seconds=60.0, term_seconds=60.0)


def no_pidfd(pid: int) -> int:
    return -1


@pytest.fixture(params=["pidfd", "thread"])
def way_of_noticing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "thread":
        monkeypatch.setattr(child, "_open_pidfd", no_pidfd)
    return str(request.param)


@pytest.mark.parametrize(("script", "returncode"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9)])
async def test_the_return_code_is_that_of_the_child(script: str, returncode: int, way_of_noticing: str) -> None:
    child = Child.spawn(["sh", "-c", script])
    assert await child.wait() == returncode
    assert child.returncode == returncode
    assert not child.is_running
    await child.close()


async def test_the_processor_time_is_that_of_the_child_and_of_what_it_waited_for(way_of_noticing: str) -> None:
    busy = python("import time\nwhile time.process_time() < 0.3: pass")
    child = Child.spawn(["sh", "-c", '"$@"; exit 0', "sh", *busy])
    before = child.cpu_seconds
    assert before is None
    await child.wait()
    used = child.cpu_seconds
    assert used is not None
    assert used >= 0.3
    await child.close()


@pytest.mark.alone
async def test_an_exit_is_noticed_at_once_while_grandchildren_hold_every_pipe(way_of_noticing: str) -> None:
    child = Child.spawn(["sh", "-c", "sleep 1000 & echo $!; exit 3"], patience=LONG)
    grandchild = Deaths(int(await first_line(child)))
    started = time.monotonic()
    assert await child.wait() == 3
    assert time.monotonic() - started < 1.0
    await child.close()
    assert grandchild.wait(0.5) == []


async def test_a_child_that_ends_by_itself_takes_its_group_along_without_a_call_of_close() -> None:
    child = Child.spawn(["sh", "-c", "sleep 1000 & sleep 1000 & exit 0"])
    await child.wait_gone()
    assert survivors([child.marker]) == []


async def test_closing_stdin_is_enough_for_a_friendly_child() -> None:
    child = Child.spawn(FRIENDLY, patience=LONG)
    await child.close()
    assert child.returncode == 0
    assert not child.was_signalled


async def test_a_child_that_ignores_eof_gets_term() -> None:
    child = Child.spawn(["sleep", "1000"], patience=BRIEF)
    await child.close()
    assert child.returncode == -signal.SIGTERM
    assert child.was_signalled


async def test_a_child_that_ignores_term_gets_killed_and_its_group_with_it() -> None:
    child = Child.spawn(STUBBORN, patience=BRIEF)
    await first_line(child)
    await child.close()
    assert child.returncode == -signal.SIGKILL
    assert survivors([child.marker]) == []


async def test_a_stopped_child_is_ended_too() -> None:
    child = Child.spawn(FRIENDLY, patience=BRIEF)
    os.kill(child.pid, signal.SIGSTOP)
    await child.close()
    assert child.returncode == -signal.SIGKILL


async def test_a_grandchild_that_ignores_term_does_not_survive_its_parent() -> None:
    child = Child.spawn(["sh", "-c", "(trap '' TERM; echo ready; sleep 1000) & wait"], patience=BRIEF)
    await first_line(child)
    await child.close()
    assert survivors([child.marker]) == []


async def test_a_daemon_is_found_by_the_marker() -> None:
    child = Child.spawn(python(DAEMON))
    daemon = Deaths(int(await first_line(child)))
    await child.close()
    assert daemon.wait(0.5) == []


async def test_close_is_idempotent_and_shared() -> None:
    child = Child.spawn(FRIENDLY)
    await asyncio.gather(*(child.close() for _ in range(5)))
    await child.close()
    assert survivors([child.marker]) == []


async def test_close_goes_on_when_the_one_who_waits_is_cancelled() -> None:
    child = Child.spawn(["sleep", "1000"], patience=BRIEF)
    waiting = asyncio.create_task(child.close())
    await asyncio.sleep(0)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    assert child.is_running
    await child.wait_gone()
    assert child.returncode == -signal.SIGTERM


def test_ending_the_loop_early_ends_the_tree_at_once() -> None:
    async def forget_to_wait() -> Child:
        child = Child.spawn(STUBBORN, patience=LONG)
        await first_line(child)
        child.begin_close()
        await asyncio.sleep(0)
        return child

    child = asyncio.run(forget_to_wait())
    assert child.returncode == -signal.SIGKILL
    assert survivors([child.marker]) == []


def test_a_child_left_behind_by_its_loop_is_killed_when_it_is_forgotten() -> None:
    marker = ""

    async def forget() -> None:
        nonlocal marker
        marker = Child.spawn(["sh", "-c", "sleep 1000 & wait"]).marker

    gc.collect()  # what earlier tests left to the collector would be closed here
    before = settled_fds()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(forget())
        gc.collect()
    assert any("never closed" in str(warning.message) for warning in caught)
    assert survivors([marker]) == []
    assert zombie_children() == []
    assert open_fds() == before


def test_close_works_after_the_loop_is_gone() -> None:
    children: list[Child] = []

    async def forget() -> None:
        children.append(Child.spawn(["sleep", "1000"]))

    asyncio.run(forget())
    asyncio.run(children[0].close())
    assert survivors([children[0].marker]) == []


async def test_a_flood_on_stderr_never_blocks_the_child_and_only_the_last_mib_is_kept() -> None:
    seen = 0

    def count(data: bytes) -> None:
        nonlocal seen
        seen += len(data)

    code = "import os\nfor i in range(80): os.write(2, b'%065535d\\n' % i)\nos.write(2, b'last')"
    child = Child.spawn(python(code), on_stderr=count)
    assert await child.wait() == 0
    assert seen == 80 * 65536 + 4
    assert len(child.stderr_kept()) == 1 << 20
    assert child.stderr_kept().endswith(b"79\nlast")
    assert len(child.stderr_tail()) == 4096
    await child.close()


async def test_stderr_is_complete_when_the_exit_is_reported() -> None:
    child = Child.spawn(["sh", "-c", "sleep 1000 & echo Traceback >&2; exit 1"])
    tails: list[str] = []
    child.when_exited(lambda: tails.append(child.stderr_tail()))
    await child.wait()
    assert tails == ["Traceback\n"]
    await child.close()


async def test_a_failing_observer_stops_neither_the_drain_nor_the_end(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("observer")

    child = Child.spawn(["sh", "-c", "echo words >&2"], on_stderr=fail)
    child.when_exited(fail)
    with caplog.at_level(logging.CRITICAL, "dragoman.process"):
        await child.wait_gone()
    assert child.stderr_tail() == "words\n"


async def test_a_callback_added_after_the_exit_is_called_too() -> None:
    child = Child.spawn(["true"])
    await child.wait_gone()
    notified = asyncio.Event()
    child.when_exited(notified.set)
    await asyncio.wait_for(notified.wait(), 1)


async def test_taken_pipes_are_the_callers_to_close() -> None:
    child = Child.spawn(FRIENDLY)
    stdin, stdout = child.take_pipes()
    os.close(stdin)
    await child.close()
    assert os.read(stdout, 1) == b""
    os.close(stdout)


async def test_nothing_is_left_after_a_failed_spawn() -> None:
    before = settled_fds()
    with pytest.raises(ConfigError):
        Child.spawn(["no-such-agent-anywhere"])
    assert open_fds() == before


async def test_no_thread_and_no_descriptor_outlives_the_last_child(way_of_noticing: str) -> None:
    before, others = settled_fds(), set(own_threads())  # of tests before this one, in the same process
    children = [Child.spawn(["sh", "-c", "sleep 1000 & cat"]) for _ in range(3)]
    await asyncio.gather(*(child.close() for child in children))
    await until(lambda: set(own_threads()) <= others)
    assert open_fds() == before
    assert zombie_children() == []
