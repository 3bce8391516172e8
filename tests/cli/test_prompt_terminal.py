"""The terminal a question is asked at: a real controlling one, with a program of its own in front of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman.cli.prompt.keyboard import Keyboard, can_read
from dragoman.cli.prompt.user import UserPrompt
from dragoman.client.login import LoginMethod
from dragoman.schema import v1
from tests.cli.prompt_kit import Screen, screen

# Takes the terminal named in its environment for its own, then runs what is left. Started in a new session.
TAKE_TERMINAL = """
import os, sys
os.dup2(os.open(os.environ["TERMINAL_OF_TEST"], os.O_RDWR), 2)
"""
ASK = """
import asyncio, sys
from dragoman.cli.prompt.user import UserPrompt
from dragoman.schema import v1
form = v1.ElicitationFormMode("Sure?", v1.ElicitationSchema(), session_id="s")
print(UserPrompt.is_available(), flush=True)
outcome = asyncio.run(UserPrompt(agent="gemini", colour=False).form(form, None))
print(type(outcome).__name__, sys.stdin.read())
"""


@asynccontextmanager
async def program(terminal: Screen, code: str, **options: Any) -> AsyncIterator[Process]:
    """A program whose controlling terminal this is, with a prompt on its stdin and its data on stdout."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", TAKE_TERMINAL + code, stdin=PIPE, stdout=PIPE, start_new_session=True,
        env={**os.environ, "TERMINAL_OF_TEST": terminal.path}, **options,
    )  # fmt: skip
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def test_a_prompt_piped_into_stdin_does_not_answer_the_question() -> None:
    async with screen() as terminal, program(terminal, ASK) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"y\n")
        child.stdin.close()
        await terminal.until_input_is_awaited()
        terminal.type("d\n")
        assert await child.stdout.read() == b"True\nDeclineElicitation y\n\n"
        assert await child.wait() == 0


@pytest.mark.rule(194, 258)
async def test_ctrl_c_ends_the_question_and_gives_the_terminal_back() -> None:
    async with screen() as terminal, program(terminal, ASK) as child:
        before = terminal.mode()
        await terminal.until_input_is_awaited()
        terminal.type("half a line\x03")
        await terminal.until("this question was withdrawn")
        assert await child.wait() != 0
        assert terminal.mode() == before


async def test_ctrl_d_answers_nothing() -> None:
    async with screen() as terminal, program(terminal, ASK) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.close()
        await terminal.until_input_is_awaited()
        terminal.type("\x04")
        assert await child.stdout.read() == b"True\nCancelElicitation \n"


async def test_a_program_in_the_background_does_not_ask_and_is_not_stopped() -> None:
    code = f"""
import subprocess
subprocess.run([sys.executable, "-c", {ASK!r}], process_group=0, check=True)
"""
    async with screen() as terminal, program(terminal, code) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.close()
        assert await child.stdout.read() == b"False\nCancelElicitation \n"
        assert await child.wait() == 0
        assert await terminal.everything() == ""


@pytest.mark.parametrize("is_terminal", [True, False])
async def test_no_user_is_available_without_a_controlling_terminal(is_terminal: bool) -> None:
    code = "from dragoman.cli.prompt.user import UserPrompt; print(UserPrompt.is_available())"
    async with screen() as terminal:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, stdout=PIPE, start_new_session=True,
            stderr=terminal.descriptor if is_terminal else subprocess.DEVNULL,
        )  # fmt: skip
        assert (await child.communicate())[0] == b"False\n"


async def test_no_user_is_available_if_stderr_is_redirected() -> None:
    code = "os.dup2(os.open('/dev/null', os.O_WRONLY), 2)\n" + (
        "from dragoman.cli.prompt.user import UserPrompt; print(UserPrompt.is_available())"
    )
    async with screen() as terminal, program(terminal, code) as child:
        assert (await child.communicate())[0] == b"False\n"


async def test_checking_for_a_user_does_not_consume_typed_input() -> None:
    async with screen() as terminal:
        terminal.type("typed ahead\n")
        await terminal.until("ahead")
        with os.fdopen(os.dup(terminal.descriptor), "w") as stream:
            assert UserPrompt.is_available(stream, terminal.path)
        assert can_read(terminal.path)
        assert os.read(terminal.descriptor, 100) == b"typed ahead\n"
    assert not can_read("/dev/null")
    assert not can_read("/nonexistent")


async def test_a_raw_terminal_reads_lines_during_a_question_and_is_raw_again_afterwards() -> None:
    async with screen() as terminal:
        terminal.make_raw()
        before = terminal.mode()
        with Keyboard(terminal.path) as keyboard:
            terminal.type("a\x7fb\r")
            assert await keyboard.line() == "b"
        assert terminal.mode() == before


async def test_waiting_for_a_line_takes_no_thread_and_blocks_nothing() -> None:
    threads = set(threading.enumerate())  # of earlier tests, which may end at any time
    async with screen() as terminal:
        with Keyboard(terminal.path) as keyboard:
            reading = asyncio.create_task(keyboard.line())
            for _ in range(100):
                await asyncio.sleep(0)
            assert set(threading.enumerate()) <= threads
            assert not reading.done()
            assert os.get_blocking(terminal.descriptor)
            terminal.type("first\nsecond\nthi")
            assert await reading == "first"
            assert await keyboard.line() == "second"
            terminal.type("rd\n")
            assert await keyboard.line() == "third"


async def test_a_terminal_that_hangs_up_answers_nothing() -> None:
    async with screen() as terminal:
        user = terminal.prompt()
        asked = asyncio.create_task(
            user.form(v1.ElicitationFormMode("?", v1.ElicitationSchema(), session_id="s"), None)
        )
        await terminal.until_input_is_awaited()
        terminal.hang_up()
        assert await asked == v1.CancelElicitation()
        assert await user.choose_login([LoginMethod("a", "A", "agent")]) is None


async def test_a_slow_terminal_gets_every_line() -> None:
    async with screen() as terminal:
        with Keyboard(terminal.path) as keyboard:
            text = "".join(f"line {n}\n" for n in range(20_000))
            await keyboard.write(text)
            await terminal.until("line 19999\n")
            assert terminal.text == text


async def test_no_descriptor_is_left_behind() -> None:
    async with screen() as terminal:
        before = len(os.listdir("/proc/self/fd"))
        for path in (terminal.path, "/dev/null", "/nonexistent"):
            user = UserPrompt(agent="x", colour=False, tty=path)
            asked = asyncio.create_task(user.choose_login([LoginMethod("a", "A", "agent")]))
            if path == terminal.path:
                await terminal.until_input_is_awaited()
                terminal.type("c\n")
            assert await asked is None
        assert len(os.listdir("/proc/self/fd")) == before
