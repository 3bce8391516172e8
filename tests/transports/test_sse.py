"""Server-sent events: written and read, split anywhere, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import RemoteProtocolError
from dragoman.transports.remote.sse import KEEP_ALIVE, RETRY, Event, EventReader, event

LIMIT = 10_000
LINES = st.lists(st.binary(max_size=40).map(lambda data: data.hex().encode()), max_size=20)


def read(data: bytes, cuts: list[int]) -> tuple[list[Event], EventReader]:
    reader = EventReader(LIMIT)
    found: list[Event] = []
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        found += reader.feed(data[start:end])
    return found, reader


@given(LINES, st.lists(st.integers(0, 10_000), max_size=30), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_any_split_gives_the_same_events(lines: list[bytes], cuts: list[int], end: bytes) -> None:
    data = RETRY + KEEP_ALIVE.join(event(line, number) for number, line in enumerate(lines, 1))
    found, reader = read(data.replace(b"\n", end), cuts)
    if end == b"\r":  # the last one may be the first half of a pair
        found += reader.feed(b":\r")
    assert found == [Event(line, str(number)) for number, line in enumerate(lines, 1)]
    assert reader.retry_milliseconds == 2000


@given(LINES, st.integers(0, 100_000))
def test_a_stream_that_is_cut_anywhere_goes_on_behind_the_last_whole_event(lines: list[bytes], cut: int) -> None:
    data = b"".join(event(line, number) for number, line in enumerate(lines, 1))
    found, reader = read(data[: cut % (len(data) + 1)], [])
    assert reader.last_id == (str(len(found)) if found else None)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_anything_is_read_as_events_or_a_documented_error(data: bytes, cuts: list[int]) -> None:
    whole, _ = read(data, [])
    assert read(data, cuts)[0] == whole


def test_lines_of_one_event_are_joined_and_other_fields_ignored() -> None:
    reader = EventReader(LIMIT)
    assert reader.feed(b"\xef\xbb\xbfevent: x\ndata: a\ndata:b\nid: 7\nfoo\n\nid\ndata\n\n") == [
        Event(b"a\nb", "7"),
        Event(b"", ""),
    ]


def test_an_event_over_the_limit_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="longer than"):
        EventReader(10).feed(b"data: 01234567890123456789")
