"""A program of a waiting process behaves towards who started it as one with a Python of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm_programs import warm

PROGRAM = """\
import os, signal, sys, time
print(sys.argv[1:], os.getcwd(), os.environ.get("WORD"), __name__, flush=True)
print("to stderr", file=sys.stderr)
match sys.argv[1]:
    case "copy":
        print(sys.stdin.read(), end="")
    case "exit":
        sys.exit(int(sys.argv[2]))
    case "fail":
        raise ValueError("no good")
    case "close":
        os.close(1)
        sys.stdin.read()
        os._exit(0)
    case "handle":
        signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
        print("ready", flush=True)
        time.sleep(60)
    case "sleep":
        print(os.getpid(), flush=True)
        time.sleep(60)
"""
SECONDS = 60.0


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def start(program: Path, *words: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command, environment = warm("json").command(str(program), *words), {**os.environ, "WORD": "déjà=vu"}
    return subprocess.Popen(
        command, cwd=program.parent, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def test_words_folder_environment_and_streams_are_those_of_the_launcher(program: Path) -> None:
    out, err = start(program, "copy", "a b", "ü").communicate("one\ntwo\n", SECONDS)
    assert out == f"['copy', 'a b', 'ü'] {program.parent} déjà=vu __main__\none\ntwo\n"
    assert err == "to stderr\n"


@pytest.mark.parametrize(("words", "code"), [(("exit", "0"), 0), (("exit", "7"), 7), (("fail",), 1), (("copy",), 0)])
def test_the_exit_code_is_that_of_the_program(program: Path, words: tuple[str, ...], code: int) -> None:
    process = start(program, *words)
    _, err = process.communicate("", SECONDS)
    assert process.returncode == code
    assert ("ValueError: no good" in err) == (words[0] == "fail")


def test_a_module_runs_as_with_an_interpreter() -> None:
    commands = warm("json").command("-m", "json.tool"), (sys.executable, "-m", "json.tool")
    done = [subprocess.run(words, input="[1]", capture_output=True, text=True, check=True) for words in commands]
    assert [run.stdout for run in done] == ["[\n    1\n]\n"] * 2


def test_a_stream_that_the_program_closes_is_at_its_end(program: Path) -> None:
    with start(program, "close") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.read().startswith("['close']")
        process.stdin.close()
        assert process.wait(SECONDS) == 0


def test_a_signal_reaches_the_program(program: Path) -> None:
    with start(program, "handle") as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(SECONDS) == 9
    with start(program, "sleep") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == -signal.SIGTERM


def test_a_killed_launcher_takes_its_program_with_it(program: Path) -> None:
    with start(program, "sleep") as process:
        assert process.stdout is not None
        process.stdout.readline()
        pid = int(process.stdout.readline())
        assert pid != process.pid
        process.kill()
        assert process.stdout.read() == "", "the end of the stream is the end of the program"
