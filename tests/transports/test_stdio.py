"""An agent's own stdin and stdout, seen from the program that started it."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.transports.stdio import StdioTransport

TIMEOUT = 20

# Answers each line in capitals; what `BEFORE`, `DURING` and `AFTER` do must never reach the stream.
AGENT = """
import asyncio, os, subprocess, sys

def run(code):
    exec(code, globals())

class Capitals:
    def __init__(self, transport):
        self.transport, self.over = transport, asyncio.get_running_loop().create_future()
    def feed(self, data):
        run(sys.argv[2])
        self.transport.write(data.upper())
    def end(self, reason):
        print("ended:", reason)
        self.over.set_result(None)
    def drained(self):
        pass

async def main():
    from dragoman.transports.stdio import StdioTransport
    transport = StdioTransport(restore=sys.argv[4] == "restore")
    receiver = Capitals(transport)
    transport.start(receiver)
    await receiver.over
    transport.close()
    await transport.wait_closed()

run(sys.argv[1])
asyncio.run(main())
run(sys.argv[3])
"""


def agent(before: str = "", during: str = "", after: str = "", restore: str = "") -> list[str]:
    return [sys.executable, "-c", AGENT, before, during, after, restore]


def talk(argv: list[str], words: bytes = b"hello\n") -> tuple[bytes, bytes]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    result = subprocess.run(argv, input=words, capture_output=True, timeout=TIMEOUT, check=True, env=env)
    return result.stdout, result.stderr


@pytest.mark.rule(3)
def test_it_speaks_through_stdin_and_stdout_and_ends_with_stdin() -> None:
    assert talk(agent()) == (b"HELLO\n", b"ended: the client closed the connection\n")


@pytest.mark.rule(6)
@pytest.mark.parametrize(
    "noise",
    [
        "print('noise')",
        "sys.stdout.write('noise')",
        "sys.stdout.buffer.write(b'noise'); sys.stdout.flush()",
        "os.write(1, b'noise')",
        "os.system('echo noise')",
        "subprocess.run(['echo', 'noise'])",
    ],
)
@pytest.mark.parametrize("moment", ["during", "after"])
def test_no_print_and_no_child_reaches_the_stream(noise: str, moment: str) -> None:
    stdout, stderr = talk(agent(**{moment: noise}))
    assert stdout == b"HELLO\n"
    assert b"noise" in stderr


@pytest.mark.rule(6)
def test_what_was_printed_but_not_yet_written_goes_to_stderr_too() -> None:
    stdout, stderr = talk(agent(before="print('noise')"))
    assert stdout == b"HELLO\n"
    assert b"noise" in stderr


def test_a_print_appears_line_by_line() -> None:
    process = subprocess.Popen(
        agent(during="print('seen')"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    assert process.stderr.readline() == b"seen\n"
    process.communicate(timeout=TIMEOUT)


def test_a_child_of_the_agent_gets_neither_the_stream_nor_what_is_sent_to_the_agent() -> None:
    script = "cat; ls -l /proc/self/fd | wc -l"
    stdout, stderr = talk(agent(during=f"subprocess.run(['sh', '-c', {script!r}], close_fds=False)"), b"secret\n")
    assert stdout == b"SECRET\n"
    assert b"secret" not in stderr
    assert stderr.split()[0] == b"5"  # the total, three standard descriptors, the listing itself


def test_input_finds_the_end_of_file() -> None:
    stdout, stderr = talk(agent(during="print(sys.stdin.read() == '')"))
    assert stdout == b"HELLO\n"
    assert b"True" in stderr


def test_it_can_give_the_descriptors_back() -> None:
    stdout, stderr = talk(agent(after="print('goodbye')", restore="restore"))
    assert stdout == b"HELLO\ngoodbye\n"
    assert b"ended" in stderr


def test_a_file_as_stdin_works(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"hello\n")
    (tmp_path / "output").write_bytes(b"kept\n")
    with (tmp_path / "input").open("rb") as stdin, (tmp_path / "output").open("ab") as stdout:
        subprocess.run(agent(), stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, timeout=TIMEOUT, check=True)
    assert (tmp_path / "output").read_bytes() == b"kept\nHELLO\n"


def test_stderr_that_shares_the_pipe_of_stdout_does_not_become_non_blocking() -> None:
    noise = "os.write(2, b'n' * 300_000) == 300_000 or os.abort()"
    argv = ["sh", "-c", 'exec "$@" 2>&1', "sh", *agent(during=noise)]
    assert b"HELLO" in talk(argv)[0]


def test_sockets_as_stdio_work_and_are_blocking_again_afterwards() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(agent(), stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.DEVNULL)
        ours.sendall(b"hello\n")
        assert ours.recv(100) == b"HELLO\n"
        assert not os.get_blocking(theirs.fileno())
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(TIMEOUT) == 0
        assert os.get_blocking(theirs.fileno())


def test_a_user_at_a_terminal_reads_what_this_program_is() -> None:
    controller, terminal = pty.openpty()
    process = subprocess.Popen(agent(), stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.write(controller, b"hello\n\x04")
    stdout, stderr = process.communicate(timeout=TIMEOUT)
    assert stdout == b"HELLO\n"
    assert b"ACP agent" in stderr
    assert os.get_blocking(terminal)
    os.close(terminal)
    os.close(controller)


@pytest.mark.parametrize("redirection", ["<&-", ">&-"])
def test_a_closed_descriptor_is_a_clear_error(redirection: str) -> None:
    argv = ["sh", "-c", f'exec "$@" {redirection}', "sh", *agent()]
    result = subprocess.run(argv, stdin=subprocess.PIPE, capture_output=True, timeout=TIMEOUT, check=False)
    assert b"ConfigError: stdin or stdout is closed" in result.stderr
    assert result.stdout == b""


def test_a_closed_stderr_does_no_harm() -> None:
    assert talk(["sh", "-c", 'exec "$@" 2>&-', "sh", *agent(during="os.write(1, b'noise')")])[0] == b"HELLO\n"


def test_a_client_that_is_gone_ends_the_agent_while_it_writes() -> None:
    flood = "sys._getframe(2).f_locals['self'].transport.write(b'x' * 1_000_000)"
    process = subprocess.Popen(
        agent(during=flood), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    assert process.stdout.read(10) == b"x" * 10
    process.stdout.close()
    assert process.wait(TIMEOUT) == 0, "stdin is still open, but nobody can be answered"
    process.stdin.close()


def test_windows_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(DragomanError, match="WSL"):
        StdioTransport()
