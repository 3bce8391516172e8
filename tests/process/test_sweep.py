"""Who is found by the marker, who is ended, who is spared."""

from __future__ import annotations

import os
import signal
import time

import pytest

from dragoman.process import Child, Patience, proctable, sweep
from dragoman.process.sweep import Spare, marked
from tests.process.kit import DAEMON, STUBBORN, Deaths, first_line, is_alive, python

# The name in its command line is what a quirk entry would hold.
HUB = python(DAEMON, "--shared-hub-daemon")
# A shared daemon that started something of its own.
HUB_WITH_CHILD = python(
    DAEMON.replace("os.write(1,", "os.posix_spawnp('sleep', ['sleep', '1000'], os.environ); os.write(1,")
)


async def daemon_after_close(argv: list[str], spare: Spare) -> tuple[int, str]:
    child = Child.spawn(argv, spare=spare)
    daemon = int(await first_line(child))
    await child.close()
    return daemon, child.marker


def end(pids: list[int]) -> None:
    deaths = Deaths(*pids)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert deaths.wait() == []


@pytest.mark.parametrize("spare", [["--shared-hub-daemon"], lambda pid: "--shared-hub" in proctable.command_line(pid)])
async def test_a_shared_daemon_is_spared(spare: Spare) -> None:
    daemon, marker = await daemon_after_close(HUB, spare)
    try:
        assert marked(marker) == [daemon]
    finally:
        end([daemon])


async def test_what_a_spared_daemon_started_is_spared_with_it() -> None:
    daemon, marker = await daemon_after_close(HUB_WITH_CHILD, lambda pid: "import os" in proctable.command_line(pid))
    kept = marked(marker)
    try:
        assert len(kept) == 2
        assert daemon in kept
    finally:
        end(kept)


@pytest.mark.parametrize("spare", [["--another-daemon"], (), lambda pid: False])
async def test_a_daemon_that_is_not_spared_is_ended(spare: Spare) -> None:
    assert marked((await daemon_after_close(HUB, spare))[1]) == []


async def test_a_failing_spare_function_does_not_keep_close_from_returning() -> None:
    def fail(pid: int) -> bool:
        raise ZeroDivisionError

    daemon, marker = await daemon_after_close(HUB, fail)
    assert marked(marker) == [daemon]
    end([daemon])


async def test_a_daemon_that_ignores_term_is_killed() -> None:
    stubborn = DAEMON.replace("os.setsid()", "os.setsid(); import signal; signal.signal(15, signal.SIG_IGN)")
    assert marked((await daemon_after_close(python(stubborn), ()))[1]) == []


async def test_a_tree_that_keeps_forking_is_ended_or_given_up_within_the_bound() -> None:
    # Each generation leaves the group, and starts the next one before it dies.
    code = (
        "import os\n"
        "os.write(1, b'go\\n')\n"
        "for _ in range(40):\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid()\n"
        "    import time; time.sleep(0.002)\n"
        "time.sleep(1000)\n"
    )
    child = Child.spawn(python(code))
    await first_line(child)
    started = time.monotonic()
    await child.close()
    assert time.monotonic() - started < sweep.SWEEP_SECONDS + 5
    assert marked(child.marker) == []


async def test_without_pidfds_the_sweep_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert marked((await daemon_after_close(HUB, ()))[1]) == []


async def test_without_proc_a_close_still_ends_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proctable, "is_readable", lambda: False)
    child = Child.spawn(["sh", "-c", "sleep 1000 & sleep 1000 & cat"])
    await child.close()
    monkeypatch.undo()
    assert marked(child.marker) == []


@pytest.mark.alone
async def test_without_proc_a_stubborn_child_is_still_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proctable, "is_readable", lambda: False)
    child = Child.spawn(STUBBORN, patience=Patience(stdin_seconds=0.1, term_seconds=0.1))
    await first_line(child)
    started = time.monotonic()
    await child.close()
    assert child.returncode == -signal.SIGKILL
    assert time.monotonic() - started < 1.5
    monkeypatch.undo()
    assert marked(child.marker) == []


async def test_a_program_without_a_descriptor_left_can_still_close_its_children(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: str) -> list[str]:
        raise OSError(24, "Too many open files")

    child = Child.spawn(["sh", "-c", "sleep 1000 & echo; exit 0"], patience=Patience(0.1, 0.1))
    await first_line(child)
    monkeypatch.setattr(os, "listdir", refuse)
    await child.close()
    monkeypatch.undo()
    assert marked(child.marker) == []
    assert "cannot look" in caplog.text


def test_zombies_do_not_keep_a_group_alive() -> None:
    pid = os.posix_spawnp("sh", ["sh", "-c", "exit 0"], os.environ, setsid=True)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    os.killpg(pid, 0)  # for this call the dead still count
    assert not proctable.group_is_alive(pid)
    os.waitpid(pid, 0)
    assert not proctable.group_is_alive(pid)


async def test_a_command_in_the_middle_of_its_exec_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment is empty for a moment, and with that the marker is not seen in one look."""
    starts = (
        "import subprocess, sys; print(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid, flush=True)"
    )
    moment = time.monotonic()
    child = Child.spawn(python(f"{starts}; sys.stdin.read()"))
    command = int(await first_line(child))
    look, looks = proctable.environment, [0]

    def environment(pid: int) -> bytes:
        looks[0] += pid == command
        return b"" if pid == command and looks[0] == 1 else look(pid)

    monkeypatch.setattr(proctable, "environment", environment)
    await child.end_commands(moment)
    assert not is_alive(command)
    assert looks[0] > 1
    await child.close()


@pytest.mark.parametrize("looks_inside", [1, 3, 40])
def test_a_process_is_waited_for_while_its_exec_lasts(monkeypatch: pytest.MonkeyPatch, looks_inside: int) -> None:
    """On a loaded machine an `exec` takes tens of milliseconds, and both facts are as the kernel shows them then."""
    pid = os.posix_spawnp("sleep", ["sleep", "1000"], {**os.environ, "MARK": "inside-an-exec"})
    environment, status, looks = proctable.environment, proctable.status, [0]

    def hidden(asked: int) -> bytes:
        looks[0] += asked == pid
        return b"" if asked == pid and looks[0] <= looks_inside else environment(asked)

    def early(asked: int) -> proctable.Status:
        is_inside = asked == pid and looks[0] <= looks_inside
        return status(asked)._replace(environment_end=0) if is_inside else status(asked)

    monkeypatch.setattr(proctable, "environment", hidden)
    monkeypatch.setattr(proctable, "status", early)
    sweep.sweep({"inside-an-exec": ()})
    monkeypatch.undo()
    assert not is_alive(pid)
    os.waitpid(pid, 0)


def test_a_process_without_any_environment_is_not_waited_for() -> None:
    pid = os.posix_spawnp("sleep", ["sleep", "1000"], {})
    try:
        deadline = time.monotonic() + 10
        while proctable.status(pid).is_in_exec:  # as every process in its first moment
            assert time.monotonic() < deadline
        began = time.monotonic()
        sweep.sweep({"a marker that nobody has": ()})
        assert time.monotonic() - began < sweep.SWEEP_SECONDS
        assert is_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
