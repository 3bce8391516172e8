"""A command in a terminal, as a real process, from its start until nothing of it is left."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.process import Patience, proctable
from dragoman.process import terminal as terminal_module
from dragoman.process.command import child_environment
from dragoman.process.terminal import CEILING_BYTES, DEFAULT_BYTES, Terminal
from tests.process.kit import SECONDS, STUBBORN, Deaths, open_fds, python, settled_fds, survivors, until

ways = pytest.mark.parametrize("pty", [True, False], ids=["pty", "pipe"])


class Watched:
    """The raw output of a terminal, and a way to wait for it."""

    def __init__(self) -> None:
        self.raw = b""
        self.total_bytes = 0
        self._changed = asyncio.Event()

    def __call__(self, data: bytes) -> None:
        self.raw = (self.raw + data)[-1_000_000:]
        self.total_bytes += len(data)
        self._changed.set()

    async def saw(self, words: bytes) -> None:
        async with asyncio.timeout(SECONDS):
            while words not in self.raw:
                self._changed.clear()
                await self._changed.wait()

    async def grew_to(self, size_bytes: int) -> None:
        async with asyncio.timeout(SECONDS):
            while self.total_bytes < size_bytes:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def running(*argv: str, **options: Any) -> AsyncIterator[tuple[Terminal, Watched]]:
    watched = Watched()
    options = {"cwd": "/", "env": child_environment({}), "on_output": watched, **options}
    terminal = Terminal.start(argv, **options)
    try:
        yield terminal, watched
    finally:
        await terminal.release()
        assert survivors([terminal.marker]) == []


async def ran(*argv: str, **options: Any) -> str:
    """What a command printed, all of it."""
    async with running(*argv, **options) as (terminal, _):
        await terminal.wait()
        return terminal.text


# What the command sees


async def test_a_command_has_a_terminal_of_the_given_size_which_is_its_controlling_one() -> None:
    source = (
        "import os; tty = os.open('/dev/tty', os.O_RDWR); print(os.isatty(1), os.isatty(2), *os.get_terminal_size(1), "
        "*os.get_terminal_size(tty), os.getsid(0) == os.getpid() == os.tcgetpgrp(tty))"
    )
    assert await ran(*python(source), columns=97, rows=31) == "True True 97 31 97 31 True\n"


async def test_on_a_pipe_a_command_has_no_terminal_at_all() -> None:
    source = (
        "import os\nprint(os.isatty(0), os.isatty(1), os.isatty(2))\ntry: os.open('/dev/tty', os.O_RDWR)\n"
        "except OSError: print('none')"
    )
    assert await ran(*python(source), pty=False) == "False False False\nnone\n"


async def test_colours_stay_and_raw_output_is_handed_on_as_it_comes() -> None:
    async with running("sh", "-c", r"[ -t 1 ] && printf '\033[31mred\033[0m\n'") as (terminal, watched):
        await terminal.wait()
        assert terminal.text == "\x1b[31mred\x1b[0m\n"
        assert watched.raw == b"\x1b[31mred\x1b[0m\r\n"


@ways
async def test_both_streams_come_in_their_order(pty: bool) -> None:
    source = "import sys; [print(n, file=(sys.stdout, sys.stderr)[n % 2], flush=True) for n in range(20)]"
    assert await ran(*python(source), pty=pty) == "".join(f"{n}\n" for n in range(20))


@ways
async def test_there_is_no_keyboard_so_reading_ends_at_once_every_time(pty: bool) -> None:
    assert await ran("sh", "-c", "cat; cat; echo over", pty=pty) == "over\n"


async def test_a_question_asked_at_the_controlling_terminal_gets_an_empty_answer_every_time() -> None:
    assert await ran("sh", "-c", "cat </dev/tty; cat </dev/tty; echo over") == "over\n"
    source = "import getpass\ntry: print(repr(getpass.getpass('Password: ')))\nexcept EOFError: print('nobody there')"
    assert (await ran(sys.executable, "-c", source)).endswith("nobody there\n")


@ways
async def test_secrets_of_this_program_are_not_there_and_what_was_added_is(
    pty: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET_X", "canary-47")
    env = child_environment({"WHO": "a b'c", "npm_config_//host/:_key": "odd name"})
    source = "import os; print(*sorted(f'{k}={v}' for k, v in os.environ.items()), sep='\\n'); "
    source += "print('in', os.getcwd(), flush=True)"
    async with running(*python(source + "; os.system('sleep 1000')"), pty=pty, env=env, cwd=str(tmp_path)) as (
        terminal,
        watched,
    ):
        await watched.saw(f"in {tmp_path}".encode())
        assert b"canary-47" not in proctable.environment(terminal.pid)
        lines = terminal.text.splitlines()
    assert "SECRET_X" not in str(lines)
    assert "canary-47" not in str(lines)
    assert {"WHO=a b'c", "npm_config_//host/:_key=odd name", "PAGER=cat"} <= set(lines)
    assert lines[-1] == f"in {tmp_path}"


@ways
async def test_descriptors_of_this_program_are_not_there(pty: bool) -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    try:
        assert await ran("ls", "/proc/self/fd", pty=pty) in ("0\n1\n2\n3\n", "0  1  2  3\n")
    finally:
        os.close(read_end)
        os.close(write_end)


@ways
async def test_arguments_arrive_as_they_are(pty: bool) -> None:
    arguments = ["a b", "", "$HOME", "`id`", "'", '"', "\\", "*", "-n", "é\n"]
    source = "import sys; print(sys.argv[1:])"
    assert await ran(*python(source, *arguments), pty=pty) == f"{arguments}\n"


async def test_a_program_whose_name_looks_like_an_option_is_run(tmp_path: Path) -> None:
    path = tmp_path / "-l"
    path.write_text("#!/bin/sh\necho here\n")
    path.chmod(0o755)
    env = child_environment({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert await ran("-l", env=env) == "here\n"


# What cannot be started


@ways
@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["no-such-program-anywhere"], "no-such-program-anywhere.*not found; install it"),
        (["./missing"], "missing.*no such file"),
        (["echo a b"], "echo a b.*not found"),
        (["/etc/passwd"], "not executable"),
        (["a\0b"], "NUL"),
        ([], "empty"),
    ],
)
async def test_a_command_that_cannot_be_started_is_an_error_that_says_why(
    pty: bool, argv: list[str], says: str
) -> None:
    before = settled_fds()
    with pytest.raises(ConfigError, match=says):
        Terminal.start(argv, cwd="/", env=child_environment({}), pty=pty)
    assert open_fds() == before


@ways
async def test_a_folder_that_does_not_exist_is_an_error_that_names_it(pty: bool, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.*existing directory"):
        Terminal.start(["true"], cwd=str(tmp_path / "nowhere"), env=child_environment({}), pty=pty)


@ways
async def test_a_variable_with_an_impossible_name_is_an_error(pty: bool) -> None:
    before = settled_fds()
    with pytest.raises(ConfigError, match="cannot start"):
        Terminal.start(["true"], cwd="/", env=child_environment({"A=B": "c"}), pty=pty)
    assert open_fds() == before


async def test_without_pseudo_terminals_a_command_runs_on_a_pipe(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none_left(columns: int, rows: int) -> tuple[int, str]:
        raise OSError("none left")

    monkeypatch.setattr(terminal_module, "open_pty", none_left)
    assert await ran("sh", "-c", "[ -t 1 ] || echo pipe") == "pipe\n"
    assert "no pseudo terminal to be had (none left)" in caplog.text


# Its end


@ways
@pytest.mark.parametrize(
    ("script", "code", "name"),
    [("exit 0", 0, None), ("exit 7", 7, None), ("kill -9 $$", None, "SIGKILL"), ("kill -36 $$", None, "SIG36")],
)
async def test_the_end_is_a_code_or_a_signal_and_every_waiter_gets_it(
    pty: bool, script: str, code: int | None, name: str | None
) -> None:
    async with running("sh", "-c", script, pty=pty) as (terminal, _):
        assert (terminal.exit_code, terminal.signal) == (None, None)
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*(terminal.wait() for _ in range(5)))
        assert not terminal.is_running
        assert (terminal.exit_code, terminal.signal) == (code, name)
        await terminal.wait()


@ways
async def test_nothing_written_before_the_end_is_lost_while_a_grandchild_holds_the_terminal(pty: bool) -> None:
    # More than a terminal's own buffer, less than blocks the writer.
    script = "sleep 1000 & i=0; while [ $i -lt 150 ]; do echo line $i of what is printed at last; i=$((i+1)); done"
    async with running("sh", "-c", script, pty=pty) as (terminal, _):
        async with asyncio.timeout(SECONDS):
            await terminal.wait()
        assert terminal.text == "".join(f"line {n} of what is printed at last\n" for n in range(150))


@ways
async def test_output_is_complete_as_soon_as_a_wait_returns(pty: bool) -> None:
    for size in (1, 4095, 4096, 4097, 50_000):
        text = await ran(*python(f"print('x' * {size})"), pty=pty)
        assert len(text) == size + 1


async def test_a_terminal_that_every_process_closed_can_be_written_to_again() -> None:
    script = "exec </dev/null >/dev/null 2>&1; kill -STOP $$; yes | head -c 200000 >/dev/tty; echo last >/dev/tty"
    async with running("sh", "-c", script) as (terminal, watched):
        await until(lambda: _state(terminal.pid) == "T")
        os.kill(terminal.pid, signal.SIGCONT)
        await watched.saw(b"last")
        await terminal.wait()
        assert terminal.exit_code == 0


def _state(pid: int) -> str:
    return proctable.status(pid).state


@ways
async def test_a_kill_ends_the_command_and_keeps_its_output(pty: bool) -> None:
    async with running("sh", "-c", "echo begun; exec sleep 1000", pty=pty) as (terminal, watched):
        await watched.saw(b"begun")
        waiting = asyncio.create_task(terminal.wait())
        await terminal.kill()
        await waiting
        assert (terminal.exit_code, terminal.signal, terminal.text) == (None, "SIGTERM", "begun\n")
        await terminal.kill()
        assert terminal.text == "begun\n"


@ways
async def test_a_command_that_ignores_term_is_killed(pty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_module, "_PATIENCE", Patience(0.0, 0.1))
    async with running(*STUBBORN, pty=pty) as (terminal, watched):
        await watched.saw(b"ready")
        await terminal.kill()
        assert (terminal.signal, terminal.text) == ("SIGKILL", "ready\n")


# Two forks and a session of its own, deaf to what its terminal's end would send; it keeps the terminal open.
DAEMON = """
import os, signal, time
told, telling = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.write(1, b"daemon %d\\n" % os.getpid())
        os.write(telling, b"!")
        time.sleep(1000)
    os._exit(0)
os.wait()
os.read(told, 1)
time.sleep(1000)
"""


@ways
@pytest.mark.parametrize("how", ["kill", "release"])
async def test_a_daemon_does_not_survive_its_command(pty: bool, how: str) -> None:
    async with running(*python(DAEMON), pty=pty) as (terminal, watched):
        await watched.saw(b"\n")
        daemon = Deaths(int(watched.raw.split()[1]))
        await (terminal.kill() if how == "kill" else terminal.release())
        assert daemon.wait(0.5) == []
        assert terminal.text.startswith("daemon ")


@ways
async def test_a_daemon_does_not_survive_a_command_that_ended_by_itself(pty: bool) -> None:
    source = DAEMON.removesuffix("time.sleep(1000)\n")
    async with running(*python(source), pty=pty) as (terminal, watched):
        await terminal.wait()
        await watched.saw(b"\n")
        daemon = Deaths(int(watched.raw.split()[1]))
        assert await asyncio.to_thread(daemon.wait) == []


@ways
async def test_a_release_wakes_every_waiter_and_leaves_no_descriptor(pty: bool) -> None:
    before = settled_fds()
    async with running("sh", "-c", "echo begun; exec sleep 1000", pty=pty) as (terminal, watched):
        await watched.saw(b"begun")
        waiting = asyncio.create_task(terminal.wait())
        await asyncio.gather(terminal.release(), terminal.release())
        await waiting
        assert terminal.signal == "SIGTERM"
    assert open_fds() == before


@ways
async def test_a_release_that_is_given_up_still_ends_the_command(pty: bool) -> None:
    terminal = Terminal.start(["sleep", "1000"], cwd="/", env=child_environment({}), pty=pty)
    releasing = asyncio.create_task(terminal.release())
    await asyncio.sleep(0)
    releasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    async with asyncio.timeout(SECONDS):
        await terminal.wait()
    await terminal.release()
    assert survivors([terminal.marker]) == []


# Its output


@ways
async def test_a_flood_is_kept_within_its_limit_and_does_not_block_the_loop(pty: bool) -> None:
    async with running("yes", pty=pty, limit_bytes=1000) as (terminal, watched):
        await watched.grew_to(3_000_000)
        text, is_truncated = terminal.read()
        assert (text.strip(), is_truncated) == ("y\n" * 499 + "y", True)
        assert len(terminal._tail._ring._bytes) < 1_000_000
        await terminal.kill()
        assert terminal.signal == "SIGTERM"
        assert len(terminal.text) <= 1000


@pytest.mark.parametrize(
    ("asked", "kept"), [(None, DEFAULT_BYTES), (2**60, CEILING_BYTES), (0, 0), (5000, 5000)], ids=str
)
async def test_there_is_a_limit_whatever_was_asked_for(asked: int | None, kept: int) -> None:
    async with running("sh", "-c", "head -c 6000000 /dev/zero", pty=False, limit_bytes=asked) as (terminal, _):
        await terminal.wait()
        text, is_truncated = terminal.read()
        assert (len(text), is_truncated) == (kept, True)


async def test_a_limit_cuts_between_characters() -> None:
    async with running("printf", "é" * 30, limit_bytes=31) as (terminal, _):
        await terminal.wait()
        assert terminal.read() == ("é" * 15, True)


async def test_half_a_character_waits_for_its_other_half() -> None:
    async with running("sh", "-c", r"printf 'a\303'; kill -STOP $$; printf '\251b'") as (terminal, watched):
        await watched.saw(b"a\xc3")
        assert terminal.text == "a"
        await until(lambda: _state(terminal.pid) == "T")
        os.kill(terminal.pid, signal.SIGCONT)
        await watched.saw(b"\xa9b")
        assert terminal.text == "aéb"


async def test_an_observer_may_look_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    def observe(data: bytes) -> None:
        seen.append(terminal.text)
        raise ValueError("seen enough")

    terminal = Terminal.start(["seq", "20000"], cwd="/", env=child_environment({}), on_output=observe)
    await terminal.wait()
    assert terminal.text == "".join(f"{n}\n" for n in range(1, 20001))
    assert len(seen) > 1
    assert "the observer of a terminal's output failed" in caplog.text
    await terminal.release()


@ways
async def test_several_run_at_once_and_stay_apart(pty: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    texts = await asyncio.gather(*(ran("sh", "-c", f"echo {n}; echo {n} again", pty=pty) for n in range(12)))
    assert texts == [f"{n}\n{n} again\n" for n in range(12)]
    assert caplog.text == ""
