"""What a bug report holds, and what it must not hold."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

from dragoman.trace.bug_report import ReportSource, build_report, report_name, terminal_facts, zip_of
from dragoman.trace.entry import End, Entry, Exit, Frame, Header, Stderr
from dragoman.trace.reader import open_trace
from dragoman.trace.written import frame_of, recording_of
from dragoman.view.blocks import DiffHunk, DiffLine, DiffPiece, MessageBlock, NoteBlock, TextPiece, ToolBlock, TurnBlock

SECRETS = {
    "known": "sk-known-key-of-the-user",
    "like": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "bearer": "tiny-one",
    "prompt": "my private prompt",
    "file": "a line of my file",
}
ENVIRONMENT = {"OPENAI_API_KEY": SECRETS["known"], "HOME": "/home/someone", "TERM": "xterm", "TMUX": "/tmp/x,1,0"}


def source(tmp_path: Path) -> ReportSource:
    settings = tmp_path / "settings.json"
    settings.write_text(
        json.dumps(
            {
                "agents": {"a": {"command": ["/home/someone/bin/a"], "env": {"X": "plain-value"}}},
                "api_key": "another-key",
                "host": {"idle": 300},
                "mcp": {"m": {"headers": {"Authorization": "Bearer x"}}},
            }
        )
        + "// a comment\n"
    )
    prompt = {"jsonrpc": "2.0", "id": 1, "method": "session/prompt"}
    prompt["params"] = {"sessionId": "s", "prompt": [{"type": "text", "text": SECRETS["prompt"]}]}
    diff = DiffPiece("/p/f", False, 1, 0, (DiffHunk(1, 1, (DiffLine("+", SECRETS["file"]),)),))
    return ReportSource(
        session_id="0198c3a1-22",
        agent="a --flag",
        frames=[Frame(0.5, "c2a", json.dumps(prompt).encode()), Frame(1.0, "a2c", b"not json")],
        stderr=f"Error: {SECRETS['known']} {SECRETS['like']}\nAuthorization: Bearer {SECRETS['bearer']}\n"
        "at /home/someone/app/main.js:10 in processTicksAndRejections\x1b[2J\n",
        blocks=[
            MessageBlock(0, 0, "user", (TextPiece(SECRETS["prompt"]),)),
            ToolBlock(1, 0, "1", SECRETS["file"], "edit", "completed", content=(diff,), exit_code=1),
            ToolBlock(2, 0, "2", "t", "A Kind: " + SECRETS["prompt"], "failed", output=SECRETS["file"]),
            NoteBlock(3, 0, "notice", SECRETS["prompt"]),
            TurnBlock(4, 0, "end_turn"),
        ],
        settings={"user": settings, "project": tmp_path / "none.json"},
    )


def test_nothing_private_is_in_a_report_and_what_helps_is(tmp_path: Path) -> None:
    parts = {part.name: part.data.decode() for part in build_report(source(tmp_path), ENVIRONMENT)}
    whole = "\n".join(parts.values())
    for secret in (*SECRETS.values(), "plain-value", "another-key", "/home/someone", "\x1b"):
        assert secret not in whole, secret
    assert "[OPENAI_API_KEY] [removed]" in parts["stderr.txt"]
    assert "~/app/main.js:10 in processTicksAndRejections" in parts["stderr.txt"]
    assert json.loads(parts["settings-user.json"]) == {
        "agents": {"a": {"command": ["~/bin/a"], "env": {"X": "[removed]"}}},
        "api_key": "[removed]",
        "host": {"idle": 300},
        "mcp": {"m": {"headers": {"Authorization": "[removed]"}}},
    }
    assert "settings-project.json" not in parts
    assert parts["transcript.txt"].splitlines() == [
        "user: 17 characters",
        "tool edit: completed, change +1 -0, exit code 1",
        "tool [removed]: failed, output of 17",
        "note: notice",
        "-- turn ended: end_turn",
    ]
    assert "rule 6 MUST" in parts["broken-rules.txt"] or "line 2: rule" in parts["broken-rules.txt"]
    assert json.loads(parts["versions.json"])["protocol"] == 1
    assert all(name in parts["README.txt"] for name in parts if name != "README.txt")


def test_settings_that_cannot_be_read_do_not_stop_a_report(tmp_path: Path) -> None:
    broken = tmp_path / "settings.json"
    broken.write_text("{ this is broken: secret-in-it")
    parts = build_report(ReportSource("s", "a", settings={"user": broken}), ENVIRONMENT)
    text = next(part.data.decode() for part in parts if part.name == "settings-user.json")
    assert "cannot be read" in text
    assert "secret-in-it" not in text


def test_a_report_is_a_zip_file_whose_recording_can_be_read(tmp_path: Path) -> None:
    data = zip_of(build_report(source(tmp_path), ENVIRONMENT))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        recording = archive.read("dragoman-report/recording.jsonl")
    trace = open_trace(io.BytesIO(recording))
    assert [frame.dir for frame in trace.frames] == ["c2a", "a2c"]
    assert b'"session/prompt"' in trace.frames[0].data
    assert report_name("../../0198-c3a1") == "dragoman-report-0198c3a1.zip"


def test_facts_of_the_terminal_do_not_say_where_a_user_comes_from() -> None:
    facts = terminal_facts({**ENVIRONMENT, "SSH_CONNECTION": "10.0.0.1 2 10.0.0.2 22"})
    assert facts["TERM"] == "xterm"
    assert facts["TMUX"] is True
    assert facts["SSH_CONNECTION"] is True


def test_entries_are_read_back_as_they_were_written() -> None:
    entries: list[Entry] = [
        Frame(0.25, "c2a", b'{"jsonrpc":"2.0"}'),
        Frame(0.5, "a2c", b"\xff\xfe", b""),
        Frame(0.75, "a2c", b"text", b"\r\n"),
        Stderr(1.0, "a warning"),
        End(1.25, "a2c"),
        Exit(1.5, 3),
        Exit(1.75, signal="SIGKILL"),
    ]
    header = Header(started="2026-01-02T03:04:05.000Z", by="x 1", command=("a", "b"), cwd="/p")
    trace = open_trace(io.BytesIO(recording_of(entries, header)))
    assert trace.entries == entries
    assert trace.header == header
    assert open_trace(io.BytesIO(recording_of(entries))).header == Header()
    redacted = open_trace(io.BytesIO(recording_of(entries, header, redact=True)))
    assert (redacted.header.redacted, redacted.header.command) == (True, ())
    assert b"text" not in redacted.frames[2].data
    assert frame_of({"t": 1, "dir": "a2c", "b64": "//4="}) == Frame(1.0, "a2c", b"\xff\xfe")
