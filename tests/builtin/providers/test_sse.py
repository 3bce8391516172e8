"""Server-sent events out of bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.models.wire_forms import sse
from dragoman.builtin.models.wire_forms.sse import Events, EventTooLarge, NotAStream

SENT = (
    b": a comment\n\nevent: first\ndata: {1}\n\ndata:two\r\n\r\nid: 3\nretry: 10\ndata: a\ndata: b\n\n"
    b"event: empty\n\nevent: last\ndata: caf\xc3\xa9\n"
)
READ = [("first", b"{1}"), ("", b"two"), ("", b"a\nb"), ("last", "café".encode())]


def read(*pieces: bytes) -> list[tuple[str, bytes]]:
    events = Events()
    return [*(event for piece in pieces for event in events.feed(piece)), *events.end()]


def test_events_are_read() -> None:
    assert read(SENT) == READ


@given(st.lists(st.integers(0, len(SENT)), max_size=8))
def test_any_split_of_the_bytes_gives_the_same_events(splits: list[int]) -> None:
    places = [0, *sorted(splits), len(SENT)]
    assert read(*(SENT[start:end] for start, end in pairwise(places))) == READ


def test_byte_by_byte_gives_the_same_events() -> None:
    assert read(*(SENT[index : index + 1] for index in range(len(SENT)))) == READ


@given(st.binary(max_size=300))
def test_any_bytes_give_events(data: bytes) -> None:
    if data.lstrip()[:1] != b"<":
        for event, content in read(data):
            assert isinstance(event, str)
            assert b"\n\n" not in content or content[:1] in b"{[ \t\r\n"


@pytest.mark.parametrize("body", [b'{"a":\n\n1}\n', b' \n[{"error": 1},\n2]'])
def test_a_body_that_is_json_is_one_event(body: bytes) -> None:
    assert read(body) == [("", body)]
    assert read(*(body[index : index + 1] for index in range(len(body)))) == [("", body.lstrip())]


def test_a_web_page_is_refused() -> None:
    with pytest.raises(NotAStream):
        Events().feed(b"\n<!doctype html><html>")


@pytest.mark.parametrize("piece", [b"x" * 10, b"data: " + b"x" * 10 + b"\n"])
def test_an_event_without_an_end_is_refused_before_it_fills_the_memory(
    piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "LARGEST_EVENT_BYTES", 100)
    events = Events()
    for _ in range(5):
        assert events.feed(piece) == []
    with pytest.raises(EventTooLarge):
        [events.feed(piece) for _ in range(20)]
