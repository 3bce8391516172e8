"""An agent as a program: stdio, its end, and signals."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

SECONDS = 60.0

ECHO = """
import asyncio, sys
from dragoman import Agent, Turn

agent = Agent("echo", version="1.0")

@agent.prompt
async def reply(turn: Turn) -> None:
    if turn.text == "forever":
        await turn.say("begun")
        try:
            await asyncio.Event().wait()
        finally:
            print("cleaned up", flush=True)
    if turn.text == "stubborn":
        await turn.say("begun")
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue
    print("noise on stdout", flush=True)
    await turn.say(f"You said: {turn.text}")

agent.run()
print("after run", file=sys.stderr)
"""


class Program:
    """A running agent, spoken to over pipes without any event loop."""

    def __init__(self, source: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._last_id = 0
        self._buffer = b""

    def ask(self, method: str, **params: object) -> None:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        deadline = time.monotonic() + SECONDS
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], deadline - time.monotonic())
            assert ready, "the agent said nothing in time"
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, "the agent closed its output"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def open(self) -> str:
        self.ask("initialize", protocolVersion=1)
        assert self.next()["result"]["agentInfo"] == {"name": "echo", "version": "1.0"}
        self.ask("session/new", cwd="/", mcpServers=[])
        session_id: str = self.next()["result"]["sessionId"]
        return session_id

    def prompt(self, session_id: str, text: str) -> None:
        self.ask("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": text}])

    def end(self) -> tuple[int, bytes, str]:
        """Exit code, what was still written to stdout, and stderr."""
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, self._buffer + out, err.decode()


@contextmanager
def running(source: str = ECHO) -> Iterator[Program]:
    program = Program(source)
    try:
        yield program
    finally:
        if program.process.poll() is None:
            program.process.kill()
            program.process.communicate()


@pytest.mark.rule(2, 3, 4, 5, 6, 8, 15)
def test_an_agent_in_ten_lines_serves_stdio_until_its_input_ends() -> None:
    with running() as program:
        session_id = program.open()
        program.prompt(session_id, "hello")
        update = program.next()
        assert update["params"]["update"]["content"]["text"] == "You said: hello"
        assert program.next()["result"] == {"stopReason": "end_turn"}
        code, out, err = program.end()
        assert (code, out) == (0, b"")
        assert "noise on stdout" in err
        assert "after run" in err


@pytest.mark.rule(15)
def test_the_end_of_input_cancels_the_running_turn_and_lets_it_clean_up() -> None:
    with running() as program:
        program.prompt(program.open(), "forever")
        program.next()
        code, out, err = program.end()
        assert (code, out) == (0, b"")
        assert "cleaned up" in err
        assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_agent_like_the_end_of_input_with_a_code_that_says_so(number: signal.Signals) -> None:
    with running() as program:
        program.prompt(program.open(), "forever")
        program.next()
        program.process.send_signal(number)
        code, out, err = program.end()
        assert (code, out) == (128 + number, b"")
        assert "cleaned up" in err
        assert "after run" not in err
        assert "Traceback" not in err


def test_no_handler_keeps_the_program_alive_when_the_client_is_gone() -> None:
    patience = (
        "import dragoman.agent.connection as c, dragoman.agent.agent as a\nc.CLOSE_SECONDS = a.CLOSE_SECONDS = 0.2\n"
    )
    with running(patience + ECHO) as program:
        program.prompt(program.open(), "stubborn")
        program.next()
        code, _, err = program.end()
        assert code == 1
        assert "ignores its cancellation" in err


def test_a_traceback_of_a_handler_goes_to_stderr_and_not_to_the_client() -> None:
    with running(ECHO.replace('print("noise on stdout", flush=True)', 'raise ValueError("a secret")')) as program:
        program.prompt(program.open(), "hello")
        assert program.next()["error"] == {"code": -32603, "message": "Internal error"}
        code, _, err = program.end()
        assert code == 0
        assert "ValueError: a secret" in err


def _loaded(source: str) -> set[str]:
    """The modules that a program loads besides asyncio and msgspec."""
    source = f"import sys, asyncio, msgspec\nbefore = set(sys.modules)\n{source}\nprint(*set(sys.modules) - before)"
    out = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=SECONDS)
    return set(out.stdout.split())


def test_importing_the_agent_defines_no_session_types_and_loads_nothing_heavy() -> None:
    loaded = _loaded("from dragoman.agent import Agent, Turn\nAgent('x')")
    assert "dragoman.agent.turn" in loaded
    assert not loaded & {"dataclasses", "dragoman.process", "dragoman.schema.v1.session", "dragoman.schema.v1.rare"}
    assert not {name for name in loaded if not name.startswith(("dragoman", "msgspec"))} - {"fcntl", "gc"}


def test_an_agent_answers_initialize_before_it_loads_what_sessions_and_tools_need() -> None:
    source = """
import json, os, sys, asyncio, msgspec
from dragoman import Agent, Observer, Turn

class Stop(Observer):
    def sent(self, line):
        names = sorted(name for name in sys.modules if name.startswith("dragoman"))
        sys.stderr.write(json.dumps(names))
        sys.stderr.flush()
        os._exit(0)

agent = Agent("quick")

@agent.prompt
async def reply(turn: Turn) -> None:
    pass

agent.run(observers=[Stop()])
"""
    with running(source) as program:
        program.ask("initialize", protocolVersion=1)
        _, err = program.process.communicate(timeout=SECONDS)
    loaded = json.loads(err)
    late = ("session", "settings", "tools", "terminals", "permission", "files", "elicitation", "serving")
    assert not {f"dragoman.agent.{name}" for name in late} & set(loaded)
    # Each costs some 15 system calls and a tenth of a millisecond. Fewer is fine; for more there should be a reason.
    assert len(loaded) <= 48, loaded


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_running_agent_collects_garbage_if_the_program_does(is_wanted: bool) -> None:
    source = f"""
import asyncio, gc, sys
from dragoman import Agent, Turn

{"" if is_wanted else "gc.disable()"}
agent = Agent("echo", version="1.0")

@agent.prompt
async def reply(turn: Turn) -> None:
    for _ in range(int(turn.text)):  # it begins a moment after the start
        if gc.isenabled():
            break
        await asyncio.sleep(0.01)
    await turn.say(str(gc.isenabled()))

agent.run()
print("after run", gc.isenabled(), file=sys.stderr)
"""
    with running(source) as program:
        program.prompt(program.open(), "2000" if is_wanted else "20")
        assert program.next()["params"]["update"]["content"]["text"] == str(is_wanted)
        code, _, err = program.end()
        assert code == 0
        assert f"after run {is_wanted}" in err
