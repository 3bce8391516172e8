"""What is piped in beside a prompt is part of it, marked and bounded, whatever the kind of stdin."""

from __future__ import annotations

import base64
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.cli import piped_text
from dragoman.cli.exec.options import Options
from dragoman.cli.exec.prompt import Prompt, read_prompt
from dragoman.cli.exits import TIMED_OUT, CliError
from dragoman.cli.piped_text import PIPED_BYTES, read_piped, with_piped
from dragoman.testing.memory import PIXEL
from tests.cli.exec_kit import Place
from tests.cli.ways import SessionPlace, place, plain_place, shared_host

__all__ = ["place", "plain_place", "shared_host"]

ECHO = ("--", sys.executable, str(Path(__file__).parents[2] / "examples" / "echo_agent.py"))


@contextmanager
def stdin_of(fd: int) -> Iterator[None]:
    """Lets stdin of this process be `fd` for a while, and closes that."""
    kept = os.dup(0)
    os.dup2(fd, 0)
    os.close(fd)
    try:
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


def prompt_with(data: bytes, text: str = "Summarise:") -> Prompt:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with stdin_of(os.dup(file.fileno())):
            return read_prompt(Options(prompt=text, cwd="/"))


@pytest.mark.convention("send", "exec")
def test_a_piped_diff_stands_below_the_prompt(place: Place) -> None:
    done = place.run("Summarise:", *ECHO, stdin="-old\n+new\n")
    assert (done.code, done.err.count("warning")) == (0, 0)
    assert "Summarise:\n\nText from stdin:\n\n```text\n-old\n+new\n```" in done.out


def test_an_empty_pipe_adds_nothing(place: Place) -> None:
    assert place.run("Summarise:", *ECHO, stdin="").out.strip() == "You said: Summarise:"


def test_a_later_prompt_of_a_named_session_gets_what_is_piped_too(shared_host: SessionPlace, tmp_path: Path) -> None:
    shared_host.begin(tmp_path)
    Place.run(shared_host, "--session", "later", "first", *ECHO)
    assert "piped words" in Place.run(shared_host, "--session", "later", "Summarise:", stdin="piped words\n").out


def test_a_pipe_is_read_to_its_end_however_late_it_writes(tmp_path: Path) -> None:
    """As in a pipeline: another program writes, after a line said that it is waited for."""
    told = tmp_path / "told"
    os.mkfifo(told)
    command = shlex.join([sys.executable, "-m", "dragoman", "exec", "Summarise:", *ECHO])
    with subprocess.Popen(
        ["sh", "-c", f"{{ read -r line < {told}; echo late; }} | {command}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "DRAGOMAN_HOME": str(tmp_path)},
        text=True,
    ) as run:
        assert run.stderr is not None
        assert "reading stdin up to its end" in run.stderr.readline()
        told.write_text("go\n")
        out, _ = run.communicate(timeout=60)
    assert "late" in out


def test_a_pipe_that_its_parent_leaves_open_does_not_hold_a_run(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "dragoman", "exec", "Summarise:", *ECHO],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "DRAGOMAN_HOME": str(tmp_path)},
        text=True,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "You said: Summarise:\n"
        assert "stdin is open and sends nothing" in run.communicate(timeout=60)[1]


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    text = with_piped("Explain", "```python\n````\n")
    assert text.endswith("\n`````text\n```python\n````\n`````\n")


def test_the_middle_of_a_long_text_is_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    data = b"".join(b"line %07d \xc3\xa4\n" % number for number in range(40_000))
    text = prompt_with(data).text
    assert len(text.encode()) < PIPED_BYTES + 200
    assert "line 0000000 ä\n" in text
    assert "line 0039999 ä\n" in text
    left_out = len(data) - sum(len(line) + 1 for line in text.encode().split(b"\n") if line.startswith(b"line"))
    assert f"[... {left_out:,} bytes left out here ...]" in text
    assert "warning: stdin has 640,000 bytes" in capsys.readouterr().err


def test_an_image_is_attached_as_one() -> None:
    data = base64.b64decode(PIXEL)
    found = prompt_with(data, "What is this?")
    assert (found.text, [image.data for image in found.images]) == ("What is this?", [data])


def test_other_bytes_are_refused_with_the_place() -> None:
    with pytest.raises(CliError, match=r"stdin: not UTF-8 text \(byte 2\)"):
        prompt_with(b"ab\xff")


def test_what_a_piped_text_mentions_is_not_looked_up(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("own\n")
    reading, writing = os.pipe()
    os.write(writing, b"see @notes.txt\n")
    os.close(writing)
    with stdin_of(reading):
        assert read_prompt(Options(prompt="Explain", cwd=str(tmp_path))).mentions == ()


def test_a_silent_socket_is_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(piped_text, "_FIRST_SECONDS", 0.05)
    ours, theirs = socket.socketpair()
    with ours, stdin_of(theirs.detach()):
        assert read_piped(is_quiet=False) == b""
    assert "stdin is open and sends nothing" in capsys.readouterr().err


def test_a_socket_that_sends_something_is_read_to_its_end() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(b"sent")
    ours.close()
    with stdin_of(theirs.detach()):
        assert read_piped(is_quiet=True) == b"sent"


def test_the_time_of_a_run_bounds_the_wait_for_a_pipe() -> None:
    reading, writing = os.pipe()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=writing) as other:
        os.close(writing)
        with stdin_of(reading), pytest.raises(CliError, match="--timeout") as failed:
            read_piped(is_quiet=True, seconds=0.05)
        other.kill()
    assert failed.value.exit_code == TIMED_OUT


def test_a_device_and_a_closed_stdin_are_not_read() -> None:
    with stdin_of(os.open("/dev/zero", os.O_RDONLY)):
        assert read_piped(is_quiet=True) == b""
