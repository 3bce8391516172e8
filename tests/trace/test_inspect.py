"""`dragoman inspect`: what it prints, what it refuses, and how fast it is."""

from __future__ import annotations

import json
import os
import pty
import shlex
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli import exits
from dragoman.cli.main import main
from tests.arriving import read_to_end
from tests.trace.golden import RECORDING, VIEWS, golden, printed
from tests.trace.kit import DRAGOMAN

Captured = pytest.CaptureFixture[str]
SMALL = str(RECORDING)

# The shape machines rely on: it may grow, and only grow.
ROW = {
    "n": int,
    "t": float,
    "kind": str,
    "dir": str | None,
    "method": str | None,
    "update": str | None,
    "id": int | str | None,
    "session": str | None,
    "bytes": int,
    "request": int | None,
    "answer": int | None,
    "latency": float | None,
    "error": int | None,
    "summary": str,
    "findings": list,
}


@pytest.mark.parametrize("words", VIEWS)
def test_view_is_printed_as_it_was(words: str) -> None:
    assert printed(words) == golden()[words], "python -m tests.trace.golden --write"


def test_golden_file_has_nothing_else() -> None:
    assert golden().keys() == set(VIEWS)


def documents(capsys: Captured, *words: str) -> list[Any]:
    assert main(["inspect", SMALL, "--json", *words]) == exits.OK
    out, err = capsys.readouterr()
    assert err == ""
    return [json.loads(line) for line in out.splitlines()]


def test_json_is_one_object_a_line_of_a_stable_shape(capsys: Captured) -> None:
    rows = documents(capsys)
    assert [row["n"] for row in rows] == list(range(1, 36))
    for row in rows:
        assert row.keys() == ROW.keys()
        assert all(isinstance(row[name], kind) for name, kind in ROW.items()), row
    assert rows[17]["findings"] == [
        {"rule": 273, "level": "MUST", "dir": "a2c", "n": 18, "message": "path is not absolute"}
    ]


def test_json_shows_every_chunk_even_without_all(capsys: Captured) -> None:
    assert len(documents(capsys, "--method", "agent_message_chunk")) == 5


def test_json_of_one_message_carries_it_whole(capsys: Captured) -> None:
    [row] = documents(capsys, "--message", "4")
    assert row["message"]["params"] == {"cwd": "/home/user/project", "mcpServers": []}
    [noise] = documents(capsys, "--message", "23")
    assert noise["raw"] == "Downloading model... 42%"
    [logged] = documents(capsys, "--message", "2")
    assert logged["text"].endswith("no telemetry endpoint")


def test_json_of_figures_is_one_object(capsys: Captured) -> None:
    [stats] = documents(capsys, "--stats")
    assert stats.keys() == {"seconds", "total", "methods", "sessions"}
    assert stats["sessions"]["sess_01J9Z4"]["requests"] == 5


def test_findings_are_filtered_too(capsys: Captured) -> None:
    assert [each["rule"] for each in documents(capsys, "--findings", "--method", "fs/*")] == [273]
    assert documents(capsys, "--findings", "--dir", "c2a") == []


@pytest.mark.parametrize("word", ["s2", "sess_01J9Z5", "Z5"])
def test_session_is_named_in_full_in_short_or_by_an_end(word: str, capsys: Captured) -> None:
    assert {row["session"] for row in documents(capsys, "--session", word)} == {"sess_01J9Z5"}


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ([], "inspect needs a recording", "dragoman inspect session.jsonl"),
        ([SMALL, "--session", "sess"], "matches 2 sessions", "s1 (sess_01J9Z4)"),
        ([SMALL, "--session", "x"], "is not a session", "s1 (sess_01J9Z4)"),
        ([SMALL, "--message", "36"], "--message takes a number from 1 to 35", "--help"),
        ([SMALL, "--message", "one"], "--message takes a number", "--help"),
        ([SMALL, "--since", "noon"], "--since takes a number of seconds", "--help"),
        ([SMALL, "--state", "--stats"], "one view at a time", "--help"),
        ([SMALL, "--at", "3"], "--at goes with --state", "--help"),
        ([SMALL, "-o", "x"], "-o goes with --live", "--help"),
        ([SMALL, "--dir", "up"], "invalid choice", "--help"),
        (["--live"], "--live and the agent's command go together", "--live --"),
        (["--", "agent"], "--live and the agent's command go together", "--live --"),
        (["--live", SMALL, "--", "agent"], "--live shows the timeline", "record first"),
        (["--live", "--stats", "--", "agent"], "--live shows the timeline, not --stats", "record first"),
    ],
)
def test_wrong_use_is_refused_with_a_hint(words: list[str], error: str, hint: str, capsys: Captured) -> None:
    assert main(["inspect", *words]) == exits.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    message, hinted = err.splitlines()
    assert error in message
    assert hint in hinted


def test_file_that_is_not_a_recording_is_refused(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("hello\n")
    assert main(["inspect", str(path)]) == exits.USAGE
    assert "is not a recording" in capsys.readouterr().err


def test_file_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    command = [*DRAGOMAN, "inspect", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (exits.USAGE, "")
    assert done.stderr == f"dragoman: error: {tmp_path / 'none'}: No such file or directory\n"


def test_recording_that_was_cut_off_is_shown_with_a_warning(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(RECORDING.read_bytes()[:-9])
    assert main(["inspect", str(path)]) == exits.OK
    out, err = capsys.readouterr()
    assert "34 entries" in out
    assert "warning" in err
    assert "was cut off" in err


def test_empty_recording_is_not_an_error(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("")
    for words in ([], ["--state"], ["--stats"], ["--findings"], ["--json"]):
        assert main(["inspect", str(path), *words]) == exits.OK
    assert "empty" in capsys.readouterr().out


def test_recording_comes_from_a_pipe() -> None:
    done = subprocess.run(
        [*DRAGOMAN, "inspect", "-", "--stats"],
        input=RECORDING.read_bytes(),
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert b"in all" in done.stdout


def on_terminal(*words: str, columns: int, env: dict[str, str] | None = None) -> str:
    """The output on a terminal of this width."""
    main_end, end = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    given = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    with subprocess.Popen(
        [*DRAGOMAN, "inspect", *words], stdout=end, stderr=end, stdin=end, env={**given, "TERM": "xterm", **(env or {})}
    ) as process:
        os.close(end)
        out = read_to_end(main_end)
    os.close(main_end)
    assert process.returncode == 0
    return out


@pytest.mark.parametrize("columns", [60, 80, 132])
def test_lines_fit_the_terminal(columns: int) -> None:
    from dragoman.text.terminal import cells, plain

    lines = on_terminal(SMALL, columns=columns).splitlines()
    table = [plain(line) for line in lines if "\x1b[2m" in line]
    assert table
    assert max(map(cells, table)) <= columns


def test_colour_is_for_terminals_without_no_color() -> None:
    assert "\x1b[31m" in on_terminal(SMALL, columns=100)
    assert "\x1b[3" not in on_terminal(SMALL, columns=100, env={"NO_COLOR": "1"})


def test_terminal_without_unicode_still_gets_the_rest() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*DRAGOMAN, "inspect", SMALL], capture_output=True, check=True, env=env, timeout=30)
    assert b"session/prompt" in done.stdout


def test_page_is_written_for_its_owner_alone(tmp_path: Path, capsys: Captured) -> None:
    page = tmp_path / "page.html"
    assert main(["inspect", SMALL, "--html", str(page)]) == exits.OK
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"dragoman: wrote {page}\n")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def large(path: Path, messages: int) -> Path:
    """A recording of chunks with a tool call in between, as a long day of work makes one."""
    with path.open("w") as file:

        def put(number: int, direction: str, **message: Any) -> None:
            document = {"t": number / 1000, "dir": direction, "msg": {"jsonrpc": "2.0", **message}}
            file.write(json.dumps(document) + "\n")

        def update(number: int, **members: Any) -> None:
            put(number, "a2c", method="session/update", params={"sessionId": "s", "update": members})

        put(
            0,
            "c2a",
            id=0,
            method="initialize",
            params={"protocolVersion": 1, "clientInfo": {"name": "c", "version": "1"}},
        )
        put(1, "a2c", id=0, result={"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1"}})
        put(2, "c2a", id=1, method="session/new", params={"cwd": "/p", "mcpServers": []})
        put(3, "a2c", id=1, result={"sessionId": "s"})
        put(4, "c2a", id=2, method="session/prompt", params={"sessionId": "s", "prompt": []})
        for number in range(5, messages):
            if number % 100:
                content = {"type": "text", "text": "some words of an answer "}
                update(number, sessionUpdate="agent_message_chunk", messageId=f"m{number // 100}", content=content)
            else:
                update(number, sessionUpdate="tool_call", toolCallId=f"t{number}", title="Read", status="completed")
        put(messages, "a2c", id=2, result={"stopReason": "end_turn"})
    return path


def test_hundred_thousand_messages_open_in_seconds(tmp_path: Path) -> None:
    """Two to three seconds on two old cores; the bound is for loaded ones."""
    path = large(tmp_path / "large.jsonl", 100_000)
    start = time.perf_counter()
    done = subprocess.run([*DRAGOMAN, "inspect", str(path)], capture_output=True, text=True, check=True, timeout=60)
    took = time.perf_counter() - start
    assert took < 20
    assert done.stdout.count("agent_message_chunk ×") == 1000
    assert "100001 entries" in done.stdout


def test_reader_that_goes_away_ends_it_quietly() -> None:
    command = f"{shlex.join([*DRAGOMAN, 'inspect', SMALL])} | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, check=False, timeout=30)
    assert done.returncode in (0, exits.PIPE_CLOSED)
    assert done.stderr == b""


def test_help_costs_no_protocol_types() -> None:
    program = """
import sys
from dragoman.cli.main import main
main(["inspect", "--help"])
print("dragoman.schema" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.splitlines()[-1] == "False"
