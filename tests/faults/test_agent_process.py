"""Rows 1-6 and 12-22 of the fault matrix: what an agent's process can do to its client, and what becomes of it."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman import AgentExited, ConfigError, ConnectionClosed, DragomanError, Limits, spawn
from dragoman.schema import v1
from tests.faults.kit import rough_agent, still_alive
from tests.process.kit import Deaths, open_fds, settled_fds, until, zombie_children
from tests.running_out import LONG, run_out_when

DIES_IN_A_TURN = """
request = until("session/prompt")
say("working")
update("tool_call", toolCallId="open", title="Build", status="in_progress")
update("tool_call", toolCallId="done", title="Read", status="completed")
os.write(2, b"x" * 10_000 + b"\\nTraceback: the database is on fire\\n")
os._exit(3)
"""


@pytest.mark.alone
async def test_row_01_a_crash_in_a_turn_fails_its_tool_calls_and_reports_the_exit_code_and_the_last_words() -> None:
    async with spawn(*rough_agent(DIES_IN_A_TURN)) as agent:
        session = await agent.new_session("/")
        heard_at = 0.0
        with pytest.raises(AgentExited) as caught:  # noqa: PT012 - the loop has to run into it
            async for _ in session.prompt("go"):
                heard_at = time.monotonic()
        assert time.monotonic() - heard_at < 1.0
        assert caught.value.returncode == 3
        assert len(caught.value.stderr_tail) <= 4096
        assert "Traceback: the database is on fire" in str(caught.value)
        assert session.state.text == "working"
        assert [(call.id, call.status) for call in session.state.tool_calls.values()] == [
            ("open", "failed"),
            ("done", "completed"),
        ]
        [turn] = session.state.turns
        assert turn.is_lost
        assert turn.stop_reason is None
        assert session.lost_by is caught.value
        with pytest.raises(AgentExited):
            await session.prompt("again")


async def test_row_02_a_crash_in_initialize_is_an_error_with_the_stderr() -> None:
    with pytest.raises(AgentExited, match="no configuration found") as caught:
        async with spawn(*rough_agent("os.write(2, b'no configuration found\\n'); os._exit(78)")):
            pytest.fail("there is no agent")
    assert caught.value.returncode == 78


HANGS = """
pid = os.fork()
if pid:
    os.write(2, b"%d %d\\n" % (os.getpid(), pid))
sleep_for_ever()
"""


async def test_row_04_an_agent_that_hangs_in_initialize_is_ended_with_its_tree_after_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = bytearray()
    run_out_when(monkeypatch, lambda: said.endswith(b"\n"))
    with pytest.raises(ConnectionClosed, match=r"did not answer initialize within 3600 seconds; its last words"):
        async with spawn(*rough_agent(HANGS), initialize_seconds=LONG, on_stderr=said.extend):
            pytest.fail("there is no agent")
    pids = [int(word) for word in said.split()]
    assert len(pids) == 2
    assert still_alive(*pids) == []


SILENT = """
request = until("session/prompt")
say("hm")
options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
send(id=7, method="session/request_permission",
     params={"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": options})
read()
until("session/cancel")
answer(request, stopReason="cancelled")
until("nothing")
"""


async def test_row_05_silence_has_no_limit_but_is_visible_and_a_caller_can_set_one() -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def permission(request: v1.RequestPermissionRequest, session: Any) -> str:
        asked.set()
        await may_answer.wait()
        return "y"

    async with spawn(*rough_agent(SILENT), permission=permission) as agent:
        session = await agent.new_session("/")

        def idle() -> float | None:
            return session.idle_since

        assert idle() is None
        started_at = time.monotonic()
        turn = asyncio.ensure_future(session.prompt("go"))
        await asked.wait()
        assert idle() is None, "it is the agent that waits"
        may_answer.set()
        await until(lambda: idle() is not None)
        silent_since = idle()
        assert silent_since is not None
        assert started_at < silent_since <= time.monotonic()
        done, _ = await asyncio.wait({turn}, timeout=0.2)
        assert not done
        assert idle() == silent_since
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await turn
        assert session.state.stop_reason == "cancelled"
        assert idle() is None


async def test_row_06_half_a_line_at_the_end_is_reported_once_and_not_taken_for_a_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    code = """
until("session/prompt")
say("whole")
raw(b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","upd')
os._exit(1)
"""
    async with spawn(*rough_agent(code)) as agent:
        session = await agent.new_session("/")
        with caplog.at_level(logging.WARNING), pytest.raises(AgentExited):
            await session.prompt("go")
        assert session.state.text == "whole"
    assert len([record for record in caplog.records if "ended inside a message" in record.getMessage()]) == 1


async def test_row_12_an_agent_that_stops_reading_is_given_up_and_ended() -> None:
    code = "request = until('session/new'); answer(request, sessionId='s'); say(str(os.getpid())); sleep_for_ever()"
    async with spawn(*rough_agent(code), limits=Limits(out_stall_seconds=0.3)) as agent:
        session = await agent.new_session("/")
        await until(lambda: session.state.messages)
        pid = int(session.state.messages[0].text)
        with pytest.raises(ConnectionClosed, match="read nothing for"):  # noqa: PT012 - any of them may meet the end
            while True:
                await agent.notify("_x/filler", {"filler": "x" * 100_000})
        await agent.wait_closed()
        assert still_alive(pid) == []


FLOODS = """
pieces = int(sys.argv[1])
while True:
    request = until("session/prompt")
    session = request["params"]["sessionId"]
    for n in range(pieces if prompt_text(request) == "flood" else 1):
        say("x" * 1000, session=session)
    answer(request, stopReason="end_turn")
"""


async def test_row_13_a_flood_without_a_reader_is_stopped_at_its_source() -> None:
    async with spawn(*rough_agent(FLOODS, "20000")) as agent:
        session = await agent.new_session("/")
        turn = session.prompt("flood")
        await anext(turn)
        await until(lambda: agent._connection.peer.flow.is_paused)
        assert len(session.state.text) < 2_000_000
        count = 1
        async for _ in turn:
            count += 1
        assert count == 20_000


async def test_row_13_a_flood_in_one_session_leaves_the_others_alone() -> None:
    async with spawn(sys.executable, "-m", "dragoman.testing.scripted_agent") as agent:
        stuck, live = await agent.new_session("/"), await agent.new_session("/")
        turn = stuck.prompt("flood 20000")
        await anext(turn)
        for n in range(20):
            await live.prompt(f"say {n}")
            assert live.state.text == f"{n} "
        assert len([update async for update in turn]) == 20_000 - 1


async def test_row_14_a_flood_on_stderr_is_drained_and_only_its_end_is_kept() -> None:
    code = """
request = until("session/prompt")
for n in range(800):
    os.write(2, b"n" * 9_999 + b"\\n")
os.write(2, b"the very last words\\n")
answer(request, stopReason="end_turn")
until("session/prompt")
os._exit(4)
"""
    async with spawn(*rough_agent(code)) as agent:
        session = await agent.new_session("/")
        assert (await session.prompt("go")).stop_reason == "end_turn"
        with pytest.raises(AgentExited) as caught:
            await session.prompt("die")
        assert caught.value.stderr_tail.endswith("the very last words\n")
        assert len(caught.value.stderr_tail) <= 4096


async def test_row_15_an_agent_that_closes_its_stdout_and_stays_is_ended() -> None:
    code = """
until("session/prompt")
say(str(os.getpid()))
os.close(1)
sleep_for_ever()
"""
    async with spawn(*rough_agent(code)) as agent:
        session = await agent.new_session("/")
        with pytest.raises(ConnectionClosed):
            await session.prompt("go")
        assert still_alive(int(session.state.text)) == []


HOLDS_THE_PIPE = """
until("session/prompt")
pid = os.fork()
if pid == 0:
    sleep_for_ever()
say(str(pid))
os._exit(5)
"""


async def test_row_16_an_exit_is_noticed_while_a_grandchild_holds_stdout() -> None:
    async with spawn(*rough_agent(HOLDS_THE_PIPE)) as agent:
        session = await agent.new_session("/")
        started_at = time.monotonic()
        with pytest.raises(AgentExited) as caught:
            await session.prompt("go")
        assert time.monotonic() - started_at < 2.0
        assert caught.value.returncode == 5
        grandchild = int(session.state.text)
    assert still_alive(grandchild) == []


SENDS_ITS_PIDS = """
{before}
while True:
    request = until("session/prompt")
    say(" ".join(map(str, pids)))
    answer(request, stopReason="end_turn")
"""


async def test_row_17_a_wrapper_takes_the_real_agent_with_it() -> None:
    """Like `npx`: a launcher that knows nothing of its child's stdin, and a child that does not end with it."""
    before = "pids = [os.getpid(), os.getppid()]; sys.exit = lambda code: sleep_for_ever()"
    command = rough_agent(SENDS_ITS_PIDS.format(before=before))
    async with spawn("sh", "-c", '"$@"; exit $?', "wrapper", *command) as agent:
        session = await agent.new_session("/")
        await session.prompt("who are you")
        pids = [int(word) for word in session.state.text.split()]
    assert len(set(pids)) == 2
    assert still_alive(*pids) == []


async def test_row_18_a_grandchild_that_ignores_term_is_killed() -> None:
    before = """
pid = os.fork()
if pid == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep_for_ever()
pids = [pid]
"""
    async with spawn(*rough_agent(SENDS_ITS_PIDS.format(before=before))) as agent:
        session = await agent.new_session("/")
        await session.prompt("who are you")
        pids = [int(word) for word in session.state.text.split()]
    assert still_alive(*pids) == []


BECOMES_A_DAEMON = """
reads, writes = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writes, b"%d" % os.getpid())
        for fd in (0, 1, 2, reads, writes):
            os.close(fd)
        sleep_for_ever()
    os._exit(0)
os.wait()
pids = [int(os.read(reads, 20))]
"""


async def test_row_19_a_daemon_with_its_own_session_does_not_survive() -> None:
    async with spawn(*rough_agent(SENDS_ITS_PIDS.format(before=BECOMES_A_DAEMON))) as agent:
        session = await agent.new_session("/")
        await session.prompt("who are you")
        pids = [int(word) for word in session.state.text.split()]
    assert still_alive(*pids) == []


# Shells start faster than Python; each answers initialize, which has the id 0, and ends in its own way.
_SAYS_HELLO = 'read -r line; echo \'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}\'; '
ENDINGS = [
    _SAYS_HELLO + "cat > /dev/null",
    _SAYS_HELLO + "exit 3",
    _SAYS_HELLO + "kill -9 $$",
    _SAYS_HELLO + "sleep 1000 & cat > /dev/null",
    "exit 1",
]


async def test_row_20_many_agents_that_end_in_every_way_leave_no_zombie_and_no_descriptor() -> None:
    async def run(script: str) -> None:
        try:
            async with spawn("sh", "-c", script) as agent:
                if "cat" not in script:
                    await agent.wait_closed()
        except ConnectionClosed:
            pass

    before = settled_fds()
    for _ in range(5):
        async with asyncio.TaskGroup() as tasks:
            for script in ENDINGS * 2:
                tasks.create_task(run(script))
    assert zombie_children() == []
    assert open_fds() == before


SUPERVISOR = """
import asyncio, sys
from dragoman import spawn

async def main():
    async with spawn(*sys.argv[1:]) as agent:
        session = await agent.new_session("/")
        await session.prompt("who are you")
        print(session.state.text, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_row_21_our_own_kill_9_takes_the_agent_and_its_children_along() -> None:
    before = """
pid = os.fork()
if pid == 0:
    sleep_for_ever()
pids = [os.getpid(), pid]
"""
    command = rough_agent(SENDS_ITS_PIDS.format(before=before))
    program = subprocess.Popen([sys.executable, "-c", SUPERVISOR, *command], stdout=subprocess.PIPE)
    assert program.stdout is not None
    with program.stdout:
        pids = [int(word) for word in program.stdout.readline().split()]
        deaths = Deaths(*pids)
        program.send_signal(signal.SIGKILL)
        program.wait()
    assert len(pids) == 2
    assert deaths.wait() == []


def test_row_21_our_own_kill_9_takes_daemons_along() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, *rough_agent(SENDS_ITS_PIDS.format(before=BECOMES_A_DAEMON))],
        stdout=subprocess.PIPE,
    )
    assert program.stdout is not None
    with program.stdout:
        deaths = Deaths(int(program.stdout.readline()))
        program.send_signal(signal.SIGKILL)
        program.wait()
    assert deaths.wait() == []


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("/no/such/agent", "no such file"),
        ("no-such-agent-anywhere", "no agent is called"),
        (__file__, "not executable"),
    ],
)
async def test_row_22_a_command_that_cannot_be_started_is_a_config_error(command: str, message: str) -> None:
    before = settled_fds()
    with pytest.raises(ConfigError, match=message):
        async with spawn(command):
            pytest.fail("there is no agent")
    assert open_fds() == before


async def test_row_22_running_out_of_descriptors_is_a_clear_error_and_leaves_none_behind() -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    highest = max(map(int, before))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for room in range(1, 9):
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + room, hard))
        try:
            with pytest.raises(DragomanError, match="cannot start"):
                async with spawn(*rough_agent("until('nothing')")):
                    raise DragomanError("cannot start: it did, with room for all it needs")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert len(os.listdir("/proc/self/fd")) == len(before), f"with room for {room}"


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EAGAIN])
async def test_row_22_no_memory_and_no_processes_are_clear_errors_too(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    before = settled_fds()
    monkeypatch.setattr(subprocess, "Popen", fail)
    with pytest.raises(DragomanError, match="try again when there is room"):
        async with spawn("sh"):
            pytest.fail("there is no agent")
    assert open_fds() == before


def test_every_row_of_this_part_of_the_matrix_has_a_test() -> None:
    source = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    rows = [*range(1, 23), *range(34, 39)]
    assert [row for row in rows if f"def test_row_{row:02}_" not in source] == []
