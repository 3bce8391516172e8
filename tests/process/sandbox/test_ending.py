"""How sandboxed commands end: they can clean up, nothing is left, and the other threads of this program stay free."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.process import Child, Patience
from dragoman.process.command import child_environment
from dragoman.process.launch import Launched, launch
from dragoman.process.sandbox import Backend, Sandbox
from dragoman.process.terminal import Terminal
from tests.process.kit import open_fds, settled_fds, survivors, until
from tests.process.sandbox.kit import Place, both, only_bubblewrap, only_thread, shell

ways = pytest.mark.parametrize("pty", [True, False], ids=["pty", "pipe"])


def start(sandbox: Sandbox, line: str, *, pty: bool = False) -> Terminal:
    return start_words(sandbox, ["sh", "-c", line], pty=pty)


def start_words(sandbox: Sandbox, argv: list[str], *, cwd: str | None = None, pty: bool = True) -> Terminal:
    confined = sandbox.confine(argv, cwd=cwd or sandbox.policy.roots[0], env=child_environment({}))
    return Terminal.start(confined.argv, cwd=confined.cwd, env=confined.env, pty=pty, starter=confined.starter)


def _is_free() -> bool:
    return "NoNewPrivs:\t0" in Path("/proc/thread-self/status").read_text()


@both
@ways
async def test_a_command_that_is_ended_can_clean_up(name: Backend, pty: bool, there: Place) -> None:
    line = "trap 'echo cleaned >done; exit 3' TERM; echo ready >ready; while :; do sleep 0.01; done"
    terminal = start(there.sandbox(name), line, pty=pty)
    await until((there.project / "ready").exists)
    await terminal.release()
    assert (there.project / "done").read_text() == "cleaned\n"
    assert terminal.exit_code == 3
    assert survivors([terminal.marker]) == []


@both
@ways
async def test_a_command_that_ignores_the_request_is_killed_with_its_daemons(
    name: Backend, pty: bool, there: Place
) -> None:
    line = "trap '' TERM; setsid sleep 1000 & echo ready >ready; while :; do sleep 1000; done"
    terminal = start(there.sandbox(name), line, pty=pty)
    await until((there.project / "ready").exists)
    assert survivors([terminal.marker])
    await terminal.release()
    assert survivors([terminal.marker]) == []


@both
async def test_what_a_command_left_behind_is_ended(name: Backend, there: Place) -> None:
    terminal = start(there.sandbox(name), "setsid sleep 1000 >/dev/null 2>&1 & exit 0")
    await terminal.wait()
    await terminal.release()
    assert terminal.exit_code == 0
    assert survivors([terminal.marker]) == []


@both
async def test_a_child_with_pipes_runs_inside_too(name: Backend, there: Place) -> None:
    """As an agent is started: it reads stdin, and ends when that ends."""
    sandbox = there.sandbox(name)
    confined = sandbox.confine(["sh", "-c", "cat >copied"], cwd=sandbox.policy.roots[0], env=child_environment({}))
    child = Child.spawn(
        confined.argv,
        cwd=confined.cwd,
        env=confined.env,
        inherit_env=False,
        starter=confined.starter,
        patience=Patience(5, 5),
    )
    stdin, stdout = child.take_pipes()
    os.write(stdin, b"sent")
    os.close(stdin)
    await child.wait()
    await child.close()
    os.close(stdout)
    assert (child.returncode, (there.project / "copied").read_bytes()) == (0, b"sent")


@both
async def test_this_program_stays_free_and_leaves_no_descriptor_or_thread(name: Backend, there: Place) -> None:
    sandbox = there.sandbox(name)
    await shell(sandbox, "true")
    fds, threads = open_fds(), set(threading.enumerate())
    for _ in range(3):
        await shell(sandbox, "true")
    await until(lambda: set(threading.enumerate()) <= threads and open_fds() <= fds)
    (there.outside / "file").write_text("after")
    assert (there.home / ".ssh" / "id").read_text() == "secret-key"
    assert _is_free()


@both
@pytest.mark.parametrize(
    ("argv", "says"), [(["no-such-program"], "not found; install it"), (["./missing"], "no such file"), ([], "empty")]
)
async def test_a_command_that_cannot_be_started_is_an_error(
    name: Backend, argv: list[str], says: str, there: Place
) -> None:
    sandbox = there.sandbox(name)
    await shell(sandbox, "true")
    before = settled_fds()
    with pytest.raises(ConfigError, match=says):
        start_words(sandbox, argv)
    await until(lambda: open_fds() <= before)


@both
async def test_a_folder_that_does_not_exist_is_an_error(name: Backend, there: Place) -> None:
    sandbox = there.sandbox(name)
    with pytest.raises(ConfigError, match=r"nowhere.*existing directory"):
        start_words(sandbox, ["true"], cwd=str(there.project / "nowhere"))


@both
@pytest.mark.parametrize("network", [True, False])
async def test_a_command_outlives_the_thread_that_asked_for_it(name: Backend, network: bool, there: Place) -> None:
    """To the kernel the parent of a process is a thread, and bubblewrap is killed when its parent dies."""
    sandbox = there.sandbox(name, network=network)
    confined = sandbox.confine(["sh", "-c", "read word; exit 5"], cwd=str(there.project), env=child_environment({}))
    launched: list[Launched] = []

    def run() -> None:
        launched.append(launch(confined.argv, cwd=confined.cwd, env=confined.env, starter=confined.starter))

    caller = threading.Thread(target=run)
    caller.start()
    caller.join()
    child = Child(launched[0], patience=Patience(5, 5))
    await child.close()  # begins with the end of its stdin
    assert child.returncode == 5


@only_thread
async def test_a_death_by_signal_is_seen_on_the_thread(name: Backend, there: Place) -> None:
    terminal = start(there.sandbox(name), "kill -SEGV $$")
    await terminal.wait()
    await terminal.release()
    assert (terminal.exit_code, terminal.signal) == (None, "SIGSEGV")


@only_bubblewrap
async def test_a_death_by_signal_is_128_and_its_number_in_bubblewrap(name: Backend, there: Place) -> None:
    terminal = start(there.sandbox(name), "kill -KILL $$")
    await terminal.wait()
    await terminal.release()
    assert (terminal.exit_code, terminal.signal) == (137, None)
