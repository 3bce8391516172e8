"""Whatever was recorded can be looked at: no message makes a view fail."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.trace import Trace
from dragoman.trace.entry import Direction, Entry, Header
from dragoman.trace.inspect.document import entry_document, row_document
from dragoman.trace.inspect.figures import figures
from dragoman.trace.inspect.folding import FoldedSessions, describe
from dragoman.trace.inspect.page import write_page
from dragoman.trace.inspect.screen import Screen, finding_lines, message_lines, state_lines, stats_lines
from dragoman.trace.inspect.timeline import Filter, read_timeline, runs
from tests.trace.talk import Talk, started
from tests.trace.test_inspect_schema import GONE, VALID, changed, paths

SIDES: st.SearchStrategy[Direction] = st.sampled_from(["c2a", "a2c"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def talks(draw: st.DrawFn) -> Talk:
    """Frames that are valid, nearly valid, or anything at all, in any order."""
    talk = started()
    for _ in range(draw(st.integers(1, 6))):
        match draw(st.sampled_from(["call", "answer", "anything", "bytes"])):
            case "call" | "answer":
                _put_changed(draw, talk)
            case "anything":
                envelope = {"jsonrpc": "2.0", "id": draw(JSON), "method": draw(JSON), "params": draw(JSON)}
                kept = {name: value for name, value in envelope.items() if draw(st.booleans())}
                talk.frame(draw(SIDES), kept | draw(st.sampled_from([{}, {"result": 1}])))
            case _:
                talk.frame(draw(SIDES), draw(st.binary(max_size=30)).replace(b"\n", b""))
    return talk


def _put_changed(draw: st.DrawFn, talk: Talk) -> None:
    key = draw(st.sampled_from(sorted(VALID)))
    value: Any = VALID[key]
    places = paths(value)
    is_changed: bool = draw(st.booleans())
    if places and is_changed:
        value = changed(value, draw(st.sampled_from(places)), draw(JSON | st.just(GONE)))
    method, part = key.split()[:2]
    by = draw(SIDES)
    if part == "params":
        talk.ask(method, value, by=by) if draw(st.booleans()) else talk.notify(method, value, by=by)
    else:
        asked = talk.ask(method, VALID.get(f"{method} params", {}), by=by)
        talk.answer(asked, value, by="a2c" if by == "c2a" else "c2a")


def look_at(entries: list[Entry]) -> None:
    """Every view there is."""
    sessions = FoldedSessions()
    timeline = read_timeline(entries, header=Header(started="2026"), watch=sessions.feed)
    screen = Screen(100, has_colour=True, aliases=timeline.aliases, last_number=len(entries))
    for rows in runs(timeline.rows):
        screen.line(rows)
        list(screen.findings(rows))
        Filter(grep="never there").finds(rows, entries)
    for row, entry in zip(timeline.rows, entries, strict=True):
        list(message_lines(screen, row, entry))
        row_document(row)
        entry_document(entry)
    for name, state in sessions.states.items():
        list(state_lines(screen, name, "s1", describe(state)))
    list(finding_lines(screen, timeline.findings))
    list(stats_lines(screen, figures(timeline.rows), timeline.aliases))
    write_page(io.StringIO(), Trace(Header(), entries), "x")


@settings(max_examples=150, deadline=None)
@given(talks())
def test_every_view_bears_every_talk(talk: Talk) -> None:
    look_at(talk.entries)
