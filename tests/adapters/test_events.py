"""Server-sent events as servers send them: every line end, cut anywhere."""

import pytest

from dragoman.adapters import AdapterError
from dragoman.adapters.endpoints import http
from dragoman.adapters.endpoints.http import EventData

BODY = b"\xef\xbb\xbf: comment\n\ndata: one\n\nevent: x\nid: 3\ndata:two\ndata: lines\n\nretry: 5\n\ndata: last"
EXPECTED = [b"one", b"two\nlines", b"last"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_the_same_whole_and_byte_by_byte(end: bytes) -> None:
    body = BODY.replace(b"\n", end)
    whole = EventData()
    assert [*whole.feed(body), *whole.end()] == EXPECTED
    cut = EventData()
    found = [data for index in range(len(body)) for data in cut.feed(body[index : index + 1])]
    assert [*found, *cut.end()] == EXPECTED


def test_an_event_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LARGEST_EVENT_BYTES", 100)
    for body in (b"data: " + b"x" * 101, b"data: " + b"x" * 60 + b"\ndata: " + b"y" * 60 + b"\n"):
        with pytest.raises(AdapterError, match="more than 100 bytes"):
            EventData().feed(body)
