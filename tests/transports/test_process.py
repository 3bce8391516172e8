"""An agent process as a connection: what its end, and the end of its streams, mean."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sys
import termios
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from dragoman.errors import AgentExited, ConfigError
from dragoman.process import Patience
from dragoman.transports import process
from dragoman.transports.process import ProcessTransport
from tests.process.kit import open_fds, python, survivors, zombie_children
from tests.transports.kit import Inbox, settle

BRIEF = Patience(stdin_seconds=0.3, term_seconds=0.2)
LONG = Patience(stdin_seconds=60, term_seconds=60)


class Agent:
    def __init__(self, transport: ProcessTransport) -> None:
        self.transport = transport
        self.inbox = Inbox()

    async def exit(self) -> AgentExited:
        reason = await self.inbox.end_reason()
        assert isinstance(reason, AgentExited)
        return reason


@asynccontextmanager
async def agent(*argv: str, patience: Patience = BRIEF, start: bool = True) -> AsyncIterator[Agent]:
    """A started agent; after the block nothing of it may be left."""
    fds = open_fds()
    transport = await ProcessTransport.spawn(argv, patience=patience)
    one = Agent(transport)
    if start:
        transport.start(one.inbox)
    try:
        yield one
    finally:
        transport.close()
        await asyncio.wait_for(transport.wait_closed(), 10)
    assert survivors([transport._child.marker]) == []
    assert zombie_children() == []
    assert open_fds() == fds


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


async def test_the_end_has_the_exit_code_and_the_last_words() -> None:
    async with agent(*sh("echo out; echo why >&2; exit 7")) as one:
        reason = await one.exit()
        assert (reason.returncode, reason.stderr_tail) == (7, "why\n")
        assert one.inbox.data == b"out\n"
        assert (one.transport.returncode, one.transport.stderr_tail) == (7, "why\n")


async def test_an_agent_killed_by_a_signal_has_a_negative_code() -> None:
    async with agent(*sh("cat")) as one:
        os.kill(one.transport.pid, signal.SIGKILL)
        assert (await one.exit()).returncode == -9


@pytest.mark.alone
@pytest.mark.parametrize("is_paused", [False, True])
async def test_death_is_noticed_at_once_while_a_grandchild_holds_the_pipe(is_paused: bool) -> None:
    async with agent(*sh("sleep 1000 & echo last words; read _; exit 4"), patience=LONG) as one:
        await one.inbox.holds(b"last words\n")
        if is_paused:
            one.transport.pause_reading()
        started = time.monotonic()
        one.transport.write(b"\n")
        assert (await one.exit()).returncode == 4
        assert time.monotonic() - started < 1.0


async def test_what_is_in_the_pipe_at_death_is_fed_even_while_paused() -> None:
    async with agent(*python("import os; os.write(1, b'x' * 30_000); os._exit(5)"), start=False) as one:
        one.transport.pause_reading()
        one.transport.start(one.inbox)
        assert (await one.exit()).returncode == 5
        assert one.inbox.data == b"x" * 30_000


@pytest.mark.skipif(not hasattr(fcntl, "F_GETPIPE_SZ"), reason="the size of a pipe can be asked on Linux only")
@pytest.mark.parametrize("is_early", [False, True])
@pytest.mark.parametrize(("line_bytes", "pipe_bytes"), [(100, 32 * 1024), (5_000, 256 * 1024)])
async def test_a_pipe_holds_few_messages_whether_they_are_short_or_long(
    line_bytes: int, pipe_bytes: int, is_early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the agent has filled the pipe before it could be made small."""
    count = 400_000 // line_bytes
    if is_early:
        resize, refusals = process._resize, [False]
        monkeypatch.setattr(process, "_resize", lambda *given: refusals.pop() if refusals else resize(*given))
    async with agent(
        *python(f"import os; os.write(1, (b'x' * {line_bytes - 1} + b'\\n') * {count}); os.read(0, 1)"), start=False
    ) as one:
        one.transport.pause_reading()
        one.transport.start(one.inbox)
        async with asyncio.timeout(60):
            while _held_bytes(one.transport._read_fd) < 31 * 1024:  # noqa: ASYNC110  # a pipe tells nobody that it is full
                await asyncio.sleep(0)
        one.transport.resume_reading()
        await one.inbox.until(lambda inbox: len(inbox.data) == count * line_bytes)
        assert fcntl.fcntl(one.transport._read_fd, fcntl.F_GETPIPE_SZ) == pipe_bytes


@pytest.mark.skipif(not hasattr(fcntl, "F_GETPIPE_SZ"), reason="the size of a pipe can be asked on Linux only")
async def test_a_pipe_is_larger_while_many_sessions_stream() -> None:
    async with agent(*python("import sys; sys.stdin.read()")) as one:
        sizes = []
        for count in (1, 7, 8, 100, 4, 3, 0):
            one.transport.note_streams(count)
            sizes.append(fcntl.fcntl(one.transport._read_fd, fcntl.F_GETPIPE_SZ) // 1024)
        assert sizes == [32, 32, 256, 256, 256, 32, 32]


def _held_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


@pytest.mark.alone
async def test_a_grandchild_that_floods_the_pipe_cannot_delay_the_end() -> None:
    async with agent(*sh("yes & read _; exit 6")) as one:
        await one.inbox.until(lambda inbox: inbox.data)
        one.transport.write(b"\n")
        started = time.monotonic()
        assert (await one.exit()).returncode == 6
        assert time.monotonic() - started < 2.0


async def test_an_agent_that_closes_its_stdout_and_lives_on_is_ended() -> None:
    async with agent(*sh("trap '' TERM; echo bye; exec >&-; while :; do sleep 1000; done")) as one:
        reason = await one.exit()
        assert one.inbox.data == b"bye\n"
        assert reason.returncode is None, "the code our own signal made says nothing"
        assert one.transport.returncode == -signal.SIGKILL


async def test_an_agent_that_closes_its_stdout_first_keeps_its_own_exit_code() -> None:
    async with agent(*sh("exec >&-; cat >/dev/null; exit 3"), patience=LONG) as one:
        assert (await one.exit()).returncode == 3


async def test_what_an_agent_wrote_before_it_stopped_reading_is_received() -> None:
    async with agent(*sh("exec <&-; echo ready; sleep 0.2; echo last words; exit 2")) as one:
        await one.inbox.holds(b"ready\n")
        one.transport.write(b"anybody there?")
        assert (await one.exit()).returncode == 2
        assert one.inbox.data == b"ready\nlast words\n"


async def test_an_agent_that_stops_reading_and_runs_on_is_ended() -> None:
    async with agent(*sh("exec <&-; echo ready; while :; do sleep 1000; done")) as one:
        await one.inbox.holds(b"ready\n")
        one.transport.write(b"anybody there?")
        assert (await one.exit()).returncode is None


async def test_an_agent_with_much_left_to_say_can_still_end_by_itself_when_we_close() -> None:
    code = "import os, sys; sys.stdin.read(); [os.write(1, b'x' * 65536) for _ in range(30)]; os._exit(0)"
    async with agent(*python(code), patience=LONG) as one:
        one.transport.pause_reading()
        one.transport.close()
        await asyncio.wait_for(one.transport.wait_closed(), 10)
        assert one.transport.returncode == 0
        assert one.inbox.data == b""


async def test_our_own_close_is_not_reported_to_the_receiver() -> None:
    async with agent(*sh("cat")) as one:
        one.transport.close()
        await one.transport.wait_closed()
        assert one.inbox.ends == []
        assert one.transport.returncode == 0


async def test_an_agent_that_does_not_read_is_closed_within_the_bounds() -> None:
    async with agent(*sh("trap '' TERM; while :; do sleep 1000; done")) as one:
        one.transport.write(b"x" * 1_000_000)
        started = time.monotonic()
        one.transport.close()
        await asyncio.wait_for(one.transport.wait_closed(), 10)
        assert time.monotonic() - started < 5


async def test_close_goes_on_when_the_one_who_waits_is_cancelled() -> None:
    async with agent("sleep", "1000") as one:
        one.transport.close()
        waiting = asyncio.create_task(one.transport.wait_closed())
        await settle()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        await asyncio.wait_for(one.transport.wait_closed(), 10)
        assert one.transport.returncode == -signal.SIGTERM


async def test_the_output_of_an_agent_that_ended_before_start_is_received() -> None:
    async with agent(*sh("echo early; exit 9"), start=False) as one:
        await one.transport._child.wait()
        await settle()
        one.transport.start(one.inbox)
        assert (await one.exit()).returncode == 9
        assert one.inbox.data == b"early\n"


@pytest.mark.rule(9)
async def test_a_flood_on_stderr_does_not_stop_the_conversation() -> None:
    async with agent(*sh("head -c 3000000 /dev/zero | tr '\\0' e >&2; cat")) as one:
        one.transport.write(b"still there?\n")
        await one.inbox.holds(b"still there?\n")
        await one.inbox.until(lambda _: len(one.transport.stderr_tail) == 4096)


async def test_stderr_can_be_followed() -> None:
    received = bytearray()
    transport = await ProcessTransport.spawn(sh("echo one >&2; cat"), on_stderr=received.extend)
    transport.start(Inbox())
    transport.close()
    await transport.wait_closed()
    assert received == b"one\n"


async def test_a_command_that_cannot_be_started_is_a_config_error_and_leaves_nothing() -> None:
    fds = open_fds()
    with pytest.raises(ConfigError, match="no-such-agent-anywhere"):
        await ProcessTransport.spawn(["no-such-agent-anywhere"])
    assert open_fds() == fds


@pytest.mark.rule(15)
async def test_stdin_is_closed_before_any_signal_is_sent() -> None:
    script = "trap 'echo term >&2; exit 1' TERM; cat; echo eof >&2; sleep 0.1; exit 0"
    async with agent(*sh(script), patience=LONG) as one:
        one.transport.write(b"x")
        await one.inbox.holds(b"x")
        one.transport.close()
        await one.transport.wait_closed()
        assert (one.transport.returncode, one.transport.stderr_tail) == (0, "eof\n")


async def test_many_agents_that_end_in_every_way_leave_nothing_behind() -> None:
    scripts = ["cat", "echo bye; exit 3", "sleep 1000 & cat", "(setsid sleep 1000 &) ; cat", "exec >&-; sleep 1000"]
    fds, room, markers = open_fds(), asyncio.Semaphore(6), []

    async def live_and_die(number: int) -> None:
        async with room:
            transport = await ProcessTransport.spawn(sh(scripts[number % len(scripts)]), patience=BRIEF)
            markers.append(transport._child.marker)
            inbox = Inbox()
            transport.start(inbox)
            transport.write(b"x" * 100_000)
            if number % 3 == 0:
                os.kill(transport.pid, signal.SIGKILL)
                await inbox.end_reason()
            elif number % 3 == 1:
                await settle()
            transport.close()
            await transport.wait_closed()

    await asyncio.gather(*map(live_and_die, range(60)))
    assert survivors(markers) == []
    assert zombie_children() == []
    assert open_fds() == fds
