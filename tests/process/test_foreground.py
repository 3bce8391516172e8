"""A program on the user's terminal: who gets Ctrl-C, and whose the terminal is afterwards. On a real PTY."""

from __future__ import annotations

import os
import pty
import signal
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.process.foreground import run_in_foreground
from tests.process.kit import python
from tests.process.screen import screen

# Our side of the terminal: runs a program in the foreground, then tells how that ended and reads a line by itself.
HOST = """
import asyncio, os, sys, termios
from dragoman.process.foreground import run_in_foreground

async def main():
    before = termios.tcgetattr(0)
    code = await run_in_foreground(sys.argv[1:])
    is_same = termios.tcgetattr(0) == before
    print(f"code {code}, foreground {os.tcgetpgrp(0) == os.getpgrp()}, settings {is_same}", flush=True)
    print("got " + input(), flush=True)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("the host was interrupted", flush=True)
"""


READS = "import sys; print('name?', flush=True); print('hello', sys.stdin.readline().strip(), flush=True); sys.exit(3)"


def test_the_program_has_the_terminal_and_gives_it_back() -> None:
    with screen(HOST, *python(READS)) as terminal:
        terminal.wait_for("name?")
        terminal.type("Ada\n")
        terminal.wait_for("hello Ada")
        terminal.wait_for("code 3, foreground True, settings True")
        terminal.type("mine again\n")
        terminal.wait_for("got mine again")


def test_ctrl_c_reaches_the_program_and_not_its_host() -> None:
    with screen(HOST, *python("import time; print('working', flush=True); time.sleep(1000)")) as terminal:
        terminal.wait_for("working")
        terminal.type("\x03")
        terminal.wait_for(f"code {-signal.SIGINT}, foreground True")
        terminal.type("still here\n")
        terminal.wait_for("got still here")
        assert "the host was interrupted" not in terminal.seen


def test_a_program_that_leaves_the_terminal_without_echo_does_no_harm() -> None:
    leaves_it_raw = "import os, tty; tty.setraw(0); os.write(1, b'raw now'); os._exit(0)"
    with screen(HOST, *python(leaves_it_raw)) as terminal:
        terminal.wait_for("raw now")
        terminal.wait_for("code 0, foreground True, settings True")
        terminal.type("cooked\n")
        terminal.wait_for("got cooked")


def test_ctrl_z_without_a_shell_that_knows_jobs_does_not_lose_the_program() -> None:
    says_it_goes_on = """
import os, signal, sys
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b'goes on'))
print('name?', flush=True)
print('hello', sys.stdin.readline().strip(), flush=True)
"""
    with screen(HOST, *python(says_it_goes_on)) as terminal:
        terminal.wait_for("name?")
        terminal.type("\x1a")
        terminal.wait_for("goes on")
        terminal.type("Ada\n")
        terminal.wait_for("hello Ada")
        terminal.wait_for("code 0, foreground True")


CANCELS = """
import asyncio, os, sys
from dragoman.process.foreground import run_in_foreground

async def main():
    running = asyncio.ensure_future(run_in_foreground(sys.argv[1:]))
    while not os.path.exists(sys.argv[-1]):
        await asyncio.sleep(0.01)
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        print("given up, foreground", os.tcgetpgrp(0) == os.getpgrp(), flush=True)
    print("got " + input(), flush=True)

asyncio.run(main())
"""
WORKS = "import sys, time; print('working', flush=True); open(sys.argv[1], 'w'); time.sleep(1000)"


def test_cancelling_ends_the_program_and_takes_the_terminal_back(tmp_path: Path) -> None:
    with screen(CANCELS, *python(WORKS, str(tmp_path / "works"))) as terminal:
        terminal.wait_for("working")
        terminal.wait_for("given up, foreground True")
        terminal.type("mine\n")
        terminal.wait_for("got mine")


async def test_without_a_terminal_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match="no terminal to run this on"):
        await run_in_foreground(["true"], terminal=str(tmp_path / "none"))


async def test_a_terminal_of_another_session_is_not_taken() -> None:
    ours, theirs = pty.openpty()
    try:
        with pytest.raises(DragomanError, match=r"not the terminal of this program|in the background"):
            await run_in_foreground(["true"], terminal=os.ttyname(theirs))
    finally:
        os.close(ours)
        os.close(theirs)


STARTS_NOTHING = """
import asyncio, sys
from dragoman.errors import ConfigError
from dragoman.process.foreground import run_in_foreground
try:
    asyncio.run(run_in_foreground(["/no/such/program"]))
except ConfigError as error:
    print("refused:", error, flush=True)
input()
"""


def test_a_program_that_does_not_exist_is_a_config_error() -> None:
    with screen(STARTS_NOTHING) as terminal:
        terminal.wait_for("refused: cannot start '/no/such/program'")
