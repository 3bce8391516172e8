"""`dragoman replay`, as a program: what it prints where, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli import exits
from dragoman.trace import Recorder
from tests.trace.kit import DRAGOMAN, SECONDS
from tests.trace.replay_kit import perform, prompts

AGENT = [sys.executable, "-m", "dragoman.testing.scripted_agent"]
HELLO = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}\n'


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return write(tmp_path, [("c2a", HELLO), ("a2c", ANSWER)])


def write(folder: Path, lines: list[tuple[str, bytes]], *more: dict[str, Any]) -> Path:
    path = folder / "recording.jsonl"
    rows: list[dict[str, Any]] = [{"t": 0, "dir": way, "msg": json.loads(line)} for way, line in lines]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *more]))
    return path


def replay(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*DRAGOMAN, "replay", *words], input=stdin, capture_output=True, check=False, timeout=SECONDS)


def test_a_fake_agent_answers_on_stdout_and_says_nothing_else(recording: Path) -> None:
    done = replay(str(recording), stdin=HELLO)
    assert json.loads(done.stdout) == json.loads(ANSWER)
    assert (done.stderr, done.returncode) == (b"", 0)


def test_differences_are_listed_on_stderr_and_are_exit_8(recording: Path) -> None:
    changed = HELLO.replace(b'"protocolVersion":1', b'"protocolVersion":2')
    done = replay(str(recording), stdin=changed)
    assert json.loads(done.stdout) == json.loads(ANSWER)
    assert done.stderr.decode().splitlines() == [
        "changed: request initialize (#1): params.protocolVersion: recorded 1, came 2",
        "dragoman: 1 difference from the recording",
    ]
    assert done.returncode == exits.CHECK_FAILED == 8
    assert replay(str(recording), "--allow-differences", stdin=changed).returncode == 0
    assert replay(str(recording), "--ignore", "x y,initialize params.*", stdin=changed).returncode == 0


def test_differences_are_json_on_demand_and_never_in_the_conversation(recording: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = replay(str(recording), "--json", "--report", str(report))
    assert done.stdout == b""
    [difference] = json.loads(done.stderr)["differences"]
    assert difference == {
        "text": "missing: request initialize (#1) did not come",
        "what": "missing",
        "dir": "c2a",
        "method": "initialize",
        "kind": "request",
        "number": 1,
        "path": "",
    }
    assert json.loads(report.read_text()) == json.loads(done.stderr)


def test_an_agent_that_is_ended_by_a_signal_still_reports(recording: Path) -> None:
    with subprocess.Popen(
        [*DRAGOMAN, "replay", str(recording)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(HELLO)
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == json.loads(ANSWER)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS)
    assert (err, process.returncode) == (b"", exits.TERMINATED)


def test_an_agent_that_died_dies_again_with_its_code(tmp_path: Path) -> None:
    path = write(tmp_path, [("c2a", HELLO)], {"t": 1, "exit": {"signal": "SIGSEGV"}})
    with subprocess.Popen([*DRAGOMAN, "replay", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(HELLO)
        process.stdin.flush()
        assert process.stdout.read() == b""
        assert process.wait(SECONDS) == 128 + signal.SIGSEGV


async def test_a_fake_client_drives_a_program(tmp_path: Path) -> None:
    from dragoman.testing import scripted_agent

    path = tmp_path / "recording.jsonl"
    await perform(scripted_agent().serve, prompts("think", "permission", "fs"), Recorder(path))
    done = replay(str(path), "--as", "client", "--", *AGENT)
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0)
    other = path.with_name("other.jsonl")
    other.write_bytes(path.read_bytes().replace(b"Thought about it.", b"Was bored by it."))
    done = replay(str(other), "--as", "client", "--json", "--", *AGENT)
    [difference] = json.loads(done.stdout)["differences"]
    assert (difference["recorded"], difference["came"]) == ("Was bored by it.", "Thought about it.")
    assert (done.stderr, done.returncode) == (b"", exits.CHECK_FAILED)


def test_what_a_driven_program_logs_is_passed_on(recording: Path) -> None:
    program = ["sh", "-c", f"echo log >&2; read line; echo '{ANSWER.decode().strip()}'; read line"]
    done = replay(str(recording), "--as", "client", "--", *program)
    assert (done.stderr, done.returncode) == (b"log\n", 0)


def test_a_program_that_dies_is_a_difference(recording: Path) -> None:
    done = replay(str(recording), "--as", "client", "--", "sh", "-c", "read line; exit 3")
    assert b"missing: answer to initialize" in done.stderr
    assert done.returncode == exits.CHECK_FAILED


def test_a_program_that_cannot_be_started_is_exit_4(recording: Path) -> None:
    done = replay(str(recording), "--as", "client", "--", "/no/such/agent")
    assert done.returncode == exits.AGENT_DIED
    assert b"/no/such/agent" in done.stderr


def test_time_can_be_scaled(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b'{"t":0,"dir":"c2a","msg":%b}\n{"t":60,"dir":"a2c","msg":%b}\n' % (HELLO.strip(), ANSWER.strip()))
    for timing in ("none", "0.001", "0"):
        done = replay(str(path), "--timing", timing, stdin=HELLO)
        assert json.loads(done.stdout) == json.loads(ANSWER)


@pytest.mark.parametrize(
    "words",
    [
        ["{path}", "--as", "client"],
        ["{path}", "--", "cat"],
        ["{path}", "--as", "editor"],
        ["{path}", "--timing", "soon"],
        ["{path}", "--timing", "-1"],
        ["{path}", "--patience", "much"],
        [],
    ],
)
def test_wrong_words_are_refused_with_a_hint(words: list[str], recording: Path) -> None:
    done = replay(*(word.format(path=recording) for word in words))
    assert done.returncode == exits.USAGE
    assert b"\nhint: " in done.stderr


@pytest.mark.parametrize(("text", "why"), [(None, "No such file"), ("hello\n", "is not a recording: line 1")])
def test_a_file_that_is_not_a_recording_is_refused(text: str | None, why: str, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    if text is not None:
        path.write_text(text)
    done = replay(str(path))
    assert done.returncode == exits.USAGE
    assert str(path) in done.stderr.decode()
    assert why in done.stderr.decode()
    assert os.linesep not in done.stderr.decode().strip()


def test_a_recording_that_was_cut_off_is_played_with_a_warning(recording: Path) -> None:
    with recording.open("a") as file:
        file.write('{"t":1,"dir":"a2')
    done = replay(str(recording), stdin=HELLO)
    assert json.loads(done.stdout) == json.loads(ANSWER)
    assert done.stderr.decode() == f"dragoman: warning: {recording}: line 3 was cut off and is left out\n"
    assert done.returncode == 0
