"""What is written can be read again, to the byte; what was cut off or is foreign is met with a sentence."""

from __future__ import annotations

import io
import json
import os
import select
import stat
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import StoreError
from dragoman.trace import End, Exit, Frame, Header, Stderr, Trace, TraceError, TraceWriter, open_trace, read_trace
from dragoman.trace.record.relay import ExactLines
from tests.trace.kit import RECORDINGS, frames, trace_of

LINES = st.one_of(
    st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")),
    st.sampled_from(
        [
            b"",
            b" ",
            b"{}",
            b'{"jsonrpc":"2.0","id":1,"result":null}',
            b'{"a": 1,  "b":[1,2 ,3]}',
            b' {"a":1}',
            b'{"a":1} ',
            b"[1]",
            b"42",
            b'{"a":NaN}',
            b'{"a":"\\ud800"}',
            '{"a":"ünï  "}'.encode(),
            b'{"a":"\xff"}',
            b"\xef\xbb\xbf{}",
            b"[" * 300 + b"]" * 300,
            b'{"a":' * 300 + b"1" + b"}" * 300,
        ]
    ),
)
ENDS = st.sampled_from([b"\n", b"\r\n", b""])


@given(st.lists(st.tuples(st.sampled_from(["c2a", "a2c"]), LINES, ENDS), max_size=10))
def test_any_line_can_be_read_again_exactly(lines: list[tuple[Any, bytes, bytes]]) -> None:
    assert frames(trace_of(*lines)) == lines


@given(st.lists(st.tuples(st.sampled_from(["c2a", "a2c"]), LINES, ENDS), max_size=10))
def test_any_recording_is_lines_of_plain_json(lines: list[tuple[Any, bytes, bytes]]) -> None:
    file = io.BytesIO()
    writer = TraceWriter(file)
    for line in lines:
        writer.frame(*line)
    rows = [json.loads(line) for line in file.getvalue().decode().split("\n")[:-1]]
    assert rows[0]["trace"] == "dragoman"
    assert [row["dir"] for row in rows[1:]] == [direction for direction, _, _ in lines]
    for row in rows[1:]:
        assert isinstance(row.get("msg", {}), dict)
        assert len({"msg", "raw", "b64"} & row.keys()) == 1


def test_a_message_stands_in_the_file_as_it_was_sent() -> None:
    file = io.BytesIO()
    message = b'{ "jsonrpc":"2.0", "method":"x","params":{"n":1.50,"n":2}}'
    TraceWriter(file).frame("c2a", message)
    assert b'"msg":' + message + b"}\n" in file.getvalue()


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)), st.integers(1, 50))
def test_lines_put_together_are_the_stream_however_it_was_cut(data: bytes, cuts: list[int], limit: int) -> None:
    lines = ExactLines(limit)
    found = []
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, end in pairwise(places):
        found += lines.feed(data[start:end])
    found += lines.end()
    assert b"".join(line + eol for line, eol in found) == data
    assert all(b"\n" not in line for line, _ in found)


def test_a_line_without_end_is_given_out_in_pieces_and_memory_stays_bounded() -> None:
    lines = ExactLines(limit_bytes=1000)
    pieces = [line for _ in range(100) for line in lines.feed(b"x" * 99)]
    assert all(990 <= len(piece) < 1100 and eol == b"" for piece, eol in pieces)
    assert sum(len(piece) for piece, _ in [*pieces, *lines.end()]) == 9900


def test_every_kind_of_entry_comes_back() -> None:
    file = io.BytesIO()
    writer = TraceWriter(file, command=["gemini", "--acp"], cwd="/x")
    writer.frame("c2a", b"{}")
    writer.stderr("log ü")
    writer.end("c2a")
    writer.exit(3)
    writer.exit(signal="SIGKILL")
    writer.close()
    file.seek(0)
    header, *entries = read_trace(file)
    assert isinstance(header, Header)
    assert header.by.startswith("dragoman ")
    assert (header.command, header.cwd, header.redacted) == (("gemini", "--acp"), "/x", False)
    match entries:
        case [Frame(data=b"{}"), Stderr(text="log ü"), End(dir="c2a"), Exit(code=3), Exit(signal="SIGKILL")]:
            pass
        case _:
            pytest.fail(f"{entries}")
    times = [entry.t for entry in entries if not isinstance(entry, Header)]
    assert times == sorted(times)
    assert 0 <= times[0] < 10


def test_entries_are_in_the_file_before_the_call_returns(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    writer = TraceWriter(path)
    writer.frame("c2a", b"{}")
    assert frames(open_trace(path)) == [("c2a", b"{}", b"\n")]
    writer.close()


def test_a_corked_writer_writes_once_it_is_uncorked(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    writer = TraceWriter(path)
    writer.cork()
    writer.frame("c2a", b"1")
    writer.frame("c2a", b"2")
    assert frames(open_trace(path)) == []
    writer.uncork()
    assert len(frames(open_trace(path))) == 2
    writer.close()


def test_a_recording_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    TraceWriter(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_recorder_of_the_same_name_does_not_mix_with_the_first(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    first, second = TraceWriter(path), TraceWriter(path)
    first.frame("c2a", b"first")
    second.frame("c2a", b"second")
    first.close()
    second.close()
    assert frames(open_trace(path)) == [("c2a", b"second", b"\n")]


def test_a_failing_file_ends_the_recording_and_is_reported_once() -> None:
    reported: list[str] = []
    writer = TraceWriter("/dev/full", on_failure=reported.append)
    for _ in range(3):
        writer.frame("c2a", b"{}")
    writer.close()
    assert reported == ["recording to /dev/full stopped: No space left on device"]


def test_a_pipe_without_a_reader_never_makes_the_writer_wait(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    reported: list[str] = []
    writer = TraceWriter(path, on_failure=reported.append)
    writer.frame("c2a", b"x" * (32 << 20))  # the longest message
    assert not reported
    for _ in range(20):
        writer.frame("c2a", b"x" * (1 << 20))
    assert reported == [f"recording to {path} stopped: its reader is too slow"]
    os.close(reader)
    writer.close()
    assert len(reported) == 1


def test_a_pipe_that_is_read_slowly_gets_everything_in_order(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = TraceWriter(path)
    read = b""
    sent = [b"%d" % number + b"x" * 50_000 for number in range(20)]
    for line in sent:
        writer.frame("c2a", line)
        if len(read) < 500_000 and select.select([reader], [], [], 0)[0]:
            read += os.read(reader, 30_000)
    while b'"end"' not in read:
        read += os.read(reader, 1 << 16)
        writer.end("c2a")
    writer.close()
    os.close(reader)
    assert [data for _, data, _ in frames(open_trace(io.BytesIO(read[: read.rindex(b"\n") + 1])))] == sent


HEADER = b'{"trace":"dragoman","version":1}\n'
ENTRY = b'{"t":1,"dir":"c2a","raw":"hi"}\n'


def test_a_recording_without_header_is_read() -> None:
    trace = open_trace(io.BytesIO(b'{"t": 0.5, "dir": "a2c", "msg": {"a":  1}}\n'))
    assert trace.header == Header()
    assert trace.entries == [Frame(0.5, "a2c", b'{"a":  1}')]


@pytest.mark.parametrize("cut", range(1, len(ENTRY) - 1))
def test_a_last_line_that_was_cut_off_is_left_out_and_reported(cut: int) -> None:
    trace = open_trace(io.BytesIO(HEADER + ENTRY + ENTRY[:cut]))
    assert len(trace.entries) == 1
    assert trace.problems == ("the file: line 3 was cut off and is left out",)


def test_a_whole_recording_has_no_problems() -> None:
    assert open_trace(io.BytesIO(HEADER + ENTRY)).problems == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"hello\n", "is not a recording: line 1"),
        (b"{}\n", "is not a recording: line 1"),
        (b'{"name":"x"}\n', "is not a recording: line 1"),
        (b"hello", "is not a recording: line 1"),
        (b'{"trace":"other","version":1}\n', "its format is other 1"),
        (b'{"trace":"dragoman","version":2}\n', "its format is dragoman 2"),
        (HEADER + b"{broken\n" + ENTRY, "is damaged: line 2"),
        (HEADER + b'{"t":1,"dir":"sideways","raw":""}\n', "is damaged: line 2"),
        (HEADER + b'{"t":1,"dir":"c2a","b64":"?"}\n', "is damaged: line 2"),
        (HEADER + b'{"t":1,"dir":"c2a","raw":"","eol":"x"}\n', "is damaged: line 2"),
    ],
)
def test_a_file_that_is_not_a_recording_is_refused_with_the_line(text: bytes, why: str) -> None:
    with pytest.raises(TraceError, match="cannot be read") as caught:
        open_trace(io.BytesIO(text))
    assert why in str(caught.value)
    assert isinstance(caught.value, StoreError)


def test_members_and_entries_of_a_later_version_are_passed_over() -> None:
    later = b'{"t":2,"mood":"good"}\n'
    trace = open_trace(io.BytesIO(HEADER + b'{"t":1,"dir":"c2a","raw":"hi","mood":"good"}\n' + later + ENTRY))
    assert [entry.data for entry in trace.frames] == [b"hi", b"hi"]
    assert trace.problems == ("the file: line 3 is of a kind that this version does not know and is left out",)


def test_reading_streams_and_does_not_wait_for_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    writer = TraceWriter(path)
    entries = read_trace(path)
    assert isinstance(next(entries), Header)
    writer.frame("c2a", b"1")
    assert isinstance(next(entries), Frame)
    writer.close()
    assert list(entries) == []


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recordings_of_real_agents_are_read(path: Path) -> None:
    trace = open_trace(path)
    assert isinstance(trace, Trace)
    assert len(trace.frames) == len(path.read_text().splitlines())
    for frame, line in zip(trace.frames, path.read_text().splitlines(), strict=True):
        row = json.loads(line)
        assert json.loads(frame.data) == row["msg"] if "msg" in row else frame.data.decode() == row["raw"]


def test_bodies_are_not_decoded_when_a_recording_is_read(tmp_path: Path) -> None:
    unreadable = b'{"n":1e999}'  # JSON, but no number any decoder can make
    with pytest.raises(ValueError, match="out of range"):
        msgspec.json.decode(unreadable)
    assert trace_of(("c2a", unreadable)).frames[0].data == unreadable


def test_a_hundred_thousand_entries_are_read_in_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    update = b'{"jsonrpc":"2.0","method":"session/update","params":{"update":{"text":"%b"}}}' % (b"word " * 40)
    path.write_bytes(HEADER + b'{"t":1.25,"dir":"a2c","msg":%b}\n' % update * 100_000)
    began = time.monotonic()
    assert sum(1 for _ in read_trace(path)) == 100_001
    # Measured 0.4 s; decoding the bodies would take several times that, and a loaded machine as much again.
    assert time.monotonic() - began < 5
