"""Text from elsewhere loses what acts on a terminal, and keeps to its room."""

from __future__ import annotations

import json
import time
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.terminal import (
    REDRAW,
    cells,
    clip,
    cut,
    duration,
    escape_json,
    fit,
    one_line,
    plain,
    printed,
    sentence,
    shorten,
    size,
)
from tests.text.hostile import ACTING, CORPUS


@pytest.mark.parametrize("name", CORPUS)
def test_text_of_a_peer_loses_what_acts(name: str) -> None:
    for made in (plain(CORPUS[name]), one_line(CORPUS[name]), sentence(CORPUS[name])):
        assert not ACTING.search(made)
    assert "\n" not in one_line(CORPUS[name])


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("colour", "red"),
        ("clipboard", "done"),
        ("hyperlink", "click"),
        ("unterminated OSC", "before0;never ends"),
        ("device control", "x"),
        ("8-bit OSC", "x"),
        ("carriage return", "harmless\nrm -rf /"),
        ("bidi", "usertxt.exe"),
        ("line separator", "a\nb"),
    ],
)
def test_what_is_left_is_the_text(name: str, left: str) -> None:
    assert plain(CORPUS[name]) == left


@given(st.text(alphabet=st.sampled_from("\x1b\x9b\x9d\x90]P[0;31m\x07\\x9c \n\taé日\u202e\ud800")))
def test_no_mix_of_pieces_acts(mixed: str) -> None:
    assert not ACTING.search(plain(mixed))
    assert not ACTING.search(one_line(mixed))


@pytest.mark.parametrize("piece", ["\x1b]", "\x9d", "\x1bP\x9b", "\x1b["])
def test_many_beginnings_without_an_end_take_no_time(piece: str) -> None:
    start = time.perf_counter()
    plain(piece * 200_000)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("name", CORPUS)
def test_escaped_json_does_not_act_and_keeps_its_value(name: str) -> None:
    text = json.dumps({CORPUS[name]: CORPUS[name]}, ensure_ascii=False)
    assert not ACTING.search(escape_json(text))
    assert json.loads(escape_json(text)) == json.loads(text)


def test_what_is_not_shown_is_escaped_in_json() -> None:
    """Controls, separators, marks of format and direction, halves of characters; all others are shown."""
    hidden = [chr(code) for code in range(0x110000) if category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    hidden.remove("\n")
    escaped = escape_json(" ".join(hidden))
    assert escaped.isascii()
    assert json.loads(f'"{escaped}"') == " ".join(hidden)
    assert escape_json('"żółć 中 👍🏽 𝔘"') == '"żółć 中 👍🏽 𝔘"'


def test_a_line_that_is_not_json_is_escaped_too() -> None:
    assert escape_json("\x1b]0;owned\x07 text\n") == "\\u001b]0;owned\\u0007 text\n"


def test_a_sentence_has_single_spaces() -> None:
    assert sentence("one\n  two\r\n\tthree \x1b[31m") == "one two three "


@pytest.mark.parametrize(
    ("said", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("👍", 2), ("ﬁ", 1), ("", 0), ("\u200b", 0)]
)
def test_width_is_counted_in_columns(said: str, width: int) -> None:
    assert cells(said) == width


@given(st.text(), st.integers(1, 30))
def test_cut_text_never_takes_more_room_than_there_is(said: str, width: int) -> None:
    assert cells(clip(one_line(said), width)) <= width
    assert cells(fit(one_line(said), width)) == width


def test_sizes_and_spans_fit_their_columns() -> None:
    shown_sizes = [size(each) for each in (0, 999, 1000, 99_949, 99_951, 999_499, 999_500, 10**9, 10**13)]
    assert shown_sizes == ["0", "999", "1.0k", "99.9k", "100k", "999k", "1.0M", "1.0G", "10000G"]
    spans = [duration(each) for each in (0.0, 0.0004, 0.0123, 0.9994, 1, 99.9, 100, 3599, 3600 * 5 + 120)]
    assert spans == ["0.0ms", "0.4ms", "12ms", "999ms", "1.0s", "99.9s", "1m40s", "59m59s", "5h02m"]


@given(st.text(), st.integers(1, 30))
def test_shortened_text_keeps_to_its_number_of_characters(said: str, characters: int) -> None:
    assert len(cut(said, characters)) <= characters
    assert len(shorten(said, characters)) <= characters


def test_shortened_text_shows_that_something_is_missing() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
    assert cut("a bcd", 3) == "a…"
    assert cut("a\nbcd", 4) == "a\nb…"
    assert shorten(" a\n b ", 3) == "a b"
    assert shorten("a\nb c", 4) == "a b…"


@pytest.mark.parametrize("name", CORPUS)
def test_what_is_printed_without_colours_does_not_act(name: str) -> None:
    assert ACTING.search(printed(CORPUS[name], has_colour=False, can_redraw=False)) is None


@pytest.mark.parametrize("name", sorted(CORPUS.keys() - {"colour", "nested"}))
def test_on_a_terminal_only_colours_and_the_redrawing_of_a_line_go_through(name: str) -> None:
    text = f"\x1b[1m{REDRAW}ok\x1b[38;5;8mgrey\x1b[0m"
    assert printed(f"{text}{CORPUS[name]}", has_colour=True, can_redraw=True).startswith(text)
    assert ACTING.search(printed(CORPUS[name], has_colour=True, can_redraw=True)) is None


@pytest.mark.parametrize(
    "sequence", ["\x1b[8m", "\x1b[1;8m", "\x1b[38;5;1;8m", "\x1b[K", "\r", "\r\x1b[2K", "\x1b[1A", "\x1b[31"]
)
def test_a_colour_that_hides_and_other_movements_do_not(sequence: str) -> None:
    assert ACTING.search(printed(f"a{sequence}", has_colour=True, can_redraw=True)) is None
