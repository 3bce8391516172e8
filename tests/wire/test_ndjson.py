"""Framing: lines come out whole, in order and the same, however the bytes were chunked."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.wire import HEAD_BYTES, Frame, Framer, TooLong, Truncated
from dragoman.wire.ndjson import TAIL_BYTES

KIB = 1024
MIB = 1024 * KIB


def framed(data: bytes, *, step: int | None = None, limit_bytes: int = MIB) -> list[Frame]:
    framer = Framer(limit_bytes)
    frames: list[Frame] = []
    step = step or max(len(data), 1)
    for at in range(0, len(data), step):
        frames += framer.feed(data[at : at + step])
    return frames + framer.end()


@pytest.fixture(params=[None, 1, 2, 3, 7], ids=["at once", "by 1", "by 2", "by 3", "by 7"])
def step(request: pytest.FixtureRequest) -> int | None:
    chosen: int | None = request.param
    return chosen


CASES = {
    "one line": (b'{"a":1}\n', [b'{"a":1}']),
    "two lines": (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
    "blank lines": (b'\n\n{"a":1}\n \t \n\r\n{"b":2}\n\n', [b'{"a":1}', b'{"b":2}']),
    "CRLF": (b'{"a":1}\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}']),
    "a single CRLF line": (b'{"a":1}\r\n', [b'{"a":1}']),
    "a return inside a line": (b'{"a":\r1}\n', [b'{"a":\r1}']),
    "byte order mark": (b'\xef\xbb\xbf{"a":1}\n', [b'{"a":1}']),
    "a mark before a blank line": (b'\xef\xbb\xbf\n{"a":1}\n', [b'{"a":1}']),
    "a mark that is not the first thing": (b"\n\xef\xbb\xbf{}\n", [b"\xef\xbb\xbf{}"]),
    "separators of other kinds": (
        '{"a":"\u2028\u2029\x85\x0b\x0c\x1c"}\n'.encode(),
        ['{"a":"\u2028\u2029\x85\x0b\x0c\x1c"}'.encode()],
    ),
    "noise before and between": (
        b'Loading...\n{"a":1}\nwarning: x\n{"b":2}\n',
        [b"Loading...", b'{"a":1}', b"warning: x", b'{"b":2}'],
    ),
    "nothing": (b"", []),
    "nothing but a line end": (b"\n", []),
}


@pytest.mark.rule(4, 5, 13)
@pytest.mark.parametrize("name", CASES)
def test_lines_are_cut_at_newlines_only(name: str, step: int | None) -> None:
    data, expected = CASES[name]
    assert framed(data, step=step) == expected


LAST_LINES = {
    "a complete object": (b'{"a":1}', [b'{"a":1}']),
    "a complete object and a return": (b'{"a":1}\r', [b'{"a":1}']),
    "a complete object after others": (b'{"a":1}\n{"b":2}', [b'{"a":1}', b'{"b":2}']),
    "an object cut in a string": (b'{"a":"b', [Truncated(b'{"a":"b', 7)]),
    "an object cut before its brace": (b'{"a":1', [Truncated(b'{"a":1', 6)]),
    "two objects": (b"{}{}", [Truncated(b"{}{}", 4)]),
    "a complete array": (b"[1]", [Truncated(b"[1]", 3)]),
    "noise": (b"Segmentation fault", [Truncated(b"Segmentation fault", 18)]),
    "blanks": (b"{}\n  \t", [b"{}"]),
    "half a byte order mark": (b"\xef\xbb", [Truncated(b"\xef\xbb", 2)]),
    "nesting without end": (b'{"a":' + b"[" * 9000, [Truncated((b'{"a":' + b"[" * 9000)[:HEAD_BYTES], 9005)]),
}


@pytest.mark.rule(13)
@pytest.mark.parametrize("name", LAST_LINES)
def test_a_last_line_without_newline_counts_only_if_it_is_one_complete_object(name: str, step: int | None) -> None:
    data, expected = LAST_LINES[name]
    assert framed(data, step=step) == expected


def test_nothing_is_delivered_before_its_newline() -> None:
    framer = Framer()
    assert framer.feed(b'{"a":1}') == []
    assert framer.feed(b"\n") == [b'{"a":1}']


def test_a_framer_is_as_new_after_the_end() -> None:
    framer = Framer()
    framer.feed(b'{"a":')
    assert framer.end() == [Truncated(b'{"a":', 5)]
    assert framer.held_bytes == 0
    assert framer.feed(b"\xef\xbb\xbf{}\n") == [b"{}"]


@pytest.mark.rule(14)
def test_a_line_of_exactly_the_limit_passes_and_one_byte_more_does_not(step: int | None) -> None:
    fits, over = b"{" + b" " * 30 + b"}", b"{" + b" " * 31 + b"}"
    data = fits + b"\n" + over + b"\n" + fits + b"\n"
    assert framed(data, step=step, limit_bytes=32) == [fits, TooLong(over, over, 33, 32), fits]


@pytest.mark.rule(14)
@pytest.mark.parametrize("step", [1, 100, 4095, 4096, 4097, 1_000_000])
def test_an_over_long_line_leaves_its_ends_and_its_size(step: int) -> None:
    line = b"".join(b"%06d" % number for number in range(5000))
    expected = TooLong(line[:HEAD_BYTES], line[-TAIL_BYTES:], 30_000, 5000)
    assert framed(b"{}\n" + line + b"\n{}\n", step=step, limit_bytes=5000) == [b"{}", expected, b"{}"]


@pytest.mark.rule(14)
def test_an_over_long_line_is_reported_at_the_end_of_the_stream_too() -> None:
    assert framed(b"x" * 100, limit_bytes=10) == [TooLong(b"x" * 100, b"x" * 100, 100, 10)]


@pytest.mark.rule(14)
def test_noise_without_end_takes_no_more_memory_than_the_limit() -> None:
    limit_bytes, chunk = 2 * MIB, bytes(64 * KIB)
    framer = Framer(limit_bytes)
    tracemalloc.start()
    try:
        for _ in range(100 * MIB // len(chunk)):
            assert framer.feed(chunk) == []
            assert framer.held_bytes <= limit_bytes
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The buffer grows by an eighth when it is full, and exists twice while it moves.
    assert peak_bytes < 2.5 * limit_bytes
    assert framer.held_bytes == HEAD_BYTES + TAIL_BYTES
    assert framer.feed(b"\n{}\n") == [TooLong(chunk[:HEAD_BYTES], chunk[:TAIL_BYTES], 100 * MIB, limit_bytes), b"{}"]


def test_a_large_line_in_many_chunks_is_not_copied_at_every_chunk() -> None:
    chunk = b"x" * (64 * KIB)
    framer = Framer()
    tracemalloc.start()
    try:
        for _ in range(256):
            framer.feed(chunk)
        (line,) = framer.feed(b"\n")
        size_bytes, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert line == chunk * 256
    # Chunks kept in a list and joined would need twice the line; the buffer's spare room is an eighth.
    assert peak_bytes < 2.2 * len(line)
    assert size_bytes < 1.1 * len(line)


def test_a_line_that_arrives_byte_by_byte_is_held_in_its_own_size() -> None:
    framer = Framer()
    tracemalloc.start()
    try:
        for _ in range(200_000):
            framer.feed(b"x")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert framer.held_bytes == 200_000
    assert peak_bytes < 3 * 200_000


pieces = st.sampled_from(
    [
        b"{",
        b"}",
        b'{"a":1}',
        b"\n",
        b"\r",
        b"\r\n",
        b"\xef\xbb\xbf",
        b"\xef",
        b" ",
        b"noise",
        b"\xe2\x80\xa8",
        b"\\",
        b'"',
    ]
)
streams = st.one_of(st.lists(pieces, max_size=40).map(b"".join), st.binary(max_size=80))


@settings(deadline=None)
@given(data=streams, cuts=st.lists(st.integers(0, 120), max_size=12), limit_bytes=st.sampled_from([4, 12, 4096]))
def test_any_split_of_the_bytes_gives_the_same_frames(data: bytes, cuts: list[int], limit_bytes: int) -> None:
    whole = framed(data, limit_bytes=limit_bytes)
    framer = Framer(limit_bytes)
    frames: list[Frame] = []
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        frames += framer.feed(data[start:end])
    assert frames + framer.end() == whole
    assert framed(data, step=1, limit_bytes=limit_bytes) == whole


@settings(deadline=None)
@given(data=streams)
def test_frames_are_what_a_plain_split_at_newlines_gives(data: bytes) -> None:
    *lines, last = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    expected = [line.removesuffix(b"\r") for line in lines]
    frames = framed(data)
    count = len([line for line in expected if line and not line.isspace()])
    assert frames[:count] == [line for line in expected if line and not line.isspace()]
    rest = frames[count:]
    assert len(rest) == (1 if last.removesuffix(b"\r").strip() else 0)
    assert all(frame == last.removesuffix(b"\r") or isinstance(frame, Truncated) for frame in rest)
