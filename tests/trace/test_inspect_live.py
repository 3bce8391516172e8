"""`dragoman inspect --live`: the conversation goes through untouched, the timeline is on stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import spawn
from dragoman.cli import exits
from dragoman.trace import open_trace
from tests.trace.kit import DRAGOMAN, ECHO, SECONDS, python

SCRIPTED = [sys.executable, "-m", "dragoman.testing.scripted_agent"]
WIDE = {**os.environ, "COLUMNS": "120"}
SILENT = ("sh", "-c", "cat >/dev/null")
ASK = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


def live(*command: str, say: bytes = b"", words: tuple[str, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    """An editor that says something and closes."""
    return subprocess.run(
        [*DRAGOMAN, "inspect", "--live", *words, "--", *command],
        input=say,
        capture_output=True,
        check=False,
        env=WIDE,
        timeout=SECONDS,
    )


@pytest.mark.parametrize("data", [ASK, b"no json\n", b'{"cut', b"\xff\xfe\n\n\r\n", b"x" * 300_000 + b"\n"])
def test_bytes_go_through_as_they_are(data: bytes) -> None:
    done = live(*ECHO, say=data)
    assert done.stdout == data
    assert done.returncode == 0


def test_timeline_shows_both_directions_the_log_and_the_exit() -> None:
    agent = python(
        "import sys; sys.stderr.write('\\x1b[31mstarting\\n'); print(sys.stdin.readline(), end=''); sys.exit(3)"
    )
    done = live(*agent, say=ASK)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 3
    assert any("→ initialize" in line for line in lines)
    assert any("← initialize" in line for line in lines)
    assert [line for line in lines if "stderr" in line and "starting" in line]
    assert "the agent exited with code 3" in lines[-1]
    assert b"\x1b" not in done.stderr  # neither ours, it is no terminal, nor the agent's


async def test_library_talks_through_it_and_chunks_are_gathered(tmp_path: Path) -> None:
    log, recording = tmp_path / "log", tmp_path / "recording.jsonl"
    script = tmp_path / "agent.sh"
    program = " ".join([*DRAGOMAN, "inspect", "--live", "-o", str(recording), "--", *SCRIPTED])
    script.write_text(f"COLUMNS=120 exec {program} 2>{log}\n")
    async with spawn("bash", str(script)) as agent:
        session = await agent.new_session(cwd=str(tmp_path))
        answer = await session.prompt("think")
        assert answer.stop_reason == "end_turn"
    text = log.read_text()
    assert "agent_thought_chunk ×2" in text
    assert "! rule" not in text
    trace = open_trace(recording)
    assert trace.header.command == tuple(SCRIPTED)
    assert len(trace.entries) == len([line for line in text.splitlines()[1:] if line]) + 1  # the two chunks


def test_broken_rules_are_reported_as_they_happen() -> None:
    done = live(*python("print('banner'); input()"), say=b"\n")
    assert "! rule 6 MUST NOT" in done.stderr.decode()


def test_filters_hold_for_what_happens_too() -> None:
    done = live(*ECHO, say=ASK + b"noise\n", words=("--errors", "--dir", "a2c"))
    [line] = [line for line in done.stderr.decode().splitlines() if "noise" in line]
    assert "←" in line
    assert "→" not in done.stderr.decode()


@pytest.mark.parametrize("word", ["s2", "two"])
def test_session_is_named_as_in_a_recording(word: str) -> None:
    update = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":{"sessionUpdate":"x"}}}\n'
    done = live(*SILENT, say=update % b"one" + update % b"two", words=("--session", word))
    numbers = [line.split()[0] for line in done.stderr.decode().splitlines()[1:]]
    assert numbers == ["2", "!"]  # the update, and that it is not for a client to send


def test_json_is_one_object_a_line() -> None:
    done = live(*ECHO, say=ASK, words=("--json",))
    rows = [json.loads(line) for line in done.stderr.decode().splitlines()]
    assert sorted(row["kind"] for row in rows) == ["end", "end", "exit", "request", "request"]
    assert rows[0]["summary"].startswith("a client")


def test_program_that_cannot_be_started_is_an_error() -> None:
    done = live("/no/such/agent")
    assert done.returncode == exits.AGENT_DIED
    assert done.stdout == b""
    assert b"dragoman: error:" in done.stderr


def test_reader_of_the_timeline_that_does_not_read_holds_nothing_up() -> None:
    """stderr is a pipe nobody empties; far more goes through than it holds."""
    line = b'{"jsonrpc":"2.0","method":"_x/y","params":{"text":"%s"}}\n' % (b"x" * 500)
    data = line * 4000
    read_end, write_end = os.pipe()
    try:
        done = subprocess.run(
            [*DRAGOMAN, "inspect", "--live", "--", *ECHO],
            input=data,
            stdout=subprocess.PIPE,
            stderr=write_end,
            check=False,
            env=WIDE,
            timeout=SECONDS,
        )
    finally:
        os.close(read_end)
        os.close(write_end)
    assert done.stdout == data
    assert done.returncode == 0
