"""The newest output of a command as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.process.terminal import Tail

LETTERS = "aé€😀"


def kept(limit_bytes: int, *pieces: bytes, is_tty: bool = False, is_final: bool = True) -> tuple[str, bool]:
    tail = Tail(limit_bytes, is_tty=is_tty)
    for piece in pieces:
        tail.add(piece)
    return tail.read(is_final=is_final)


@pytest.mark.rule(286, 287)
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 5, 10, 99])
def test_over_the_limit_the_newest_whole_characters_are_kept(limit: int) -> None:
    text = LETTERS * 20
    found, is_cut = kept(limit, text.encode())
    assert text.endswith(found)
    assert limit - 4 < len(found.encode()) <= limit
    assert is_cut


@pytest.mark.rule(288)
def test_output_as_long_as_the_limit_is_not_cut() -> None:
    assert kept(4, b"abcd") == ("abcd", False)
    assert kept(3, b"abcd") == ("bcd", True)
    assert kept(0) == ("", False)


def test_half_a_character_is_shown_only_when_its_rest_cannot_come_any_more() -> None:
    half = "é".encode()[:1]
    assert kept(100, b"a", half, is_final=False) == ("a", False)
    assert kept(100, b"a", half, is_final=True) == ("a\ufffd", False)


@pytest.mark.rule(287)
def test_bytes_that_are_not_text_stay_within_the_limit_and_count_as_cut() -> None:
    assert kept(10, b"\xff" * 10) == ("\ufffd" * 3, True)
    assert kept(30, b"\xff" * 10) == ("\ufffd" * 10, False)


def test_a_stray_byte_at_the_very_beginning_is_not_lost() -> None:
    assert kept(10, b"\x80abc") == ("\ufffdabc", False)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"a\r\r\nb", "a\nb"),
        (b"10%\r20%\r\n", "10%\r20%\n"),
        (b"\r\r\r\n", "\r\n"),
        (b"a\r", "a\r"),
        (b"\x1b[31mred\x1b[0m\r\n", "\x1b[31mred\x1b[0m\n"),
    ],
)
def test_lines_of_a_terminal_end_with_a_newline_alone_however_they_are_split(raw: bytes, text: str) -> None:
    assert kept(100, raw, is_tty=True) == (text, False)
    assert kept(100, *(bytes([byte]) for byte in raw), is_tty=True) == (text, False)


def test_a_pipe_is_kept_as_it_is() -> None:
    assert kept(100, b"a\r\nb") == ("a\r\nb", False)


def test_line_ends_do_not_count_twice_against_the_limit() -> None:
    assert kept(4, b"a\r\nb\r\n", is_tty=True) == ("a\nb\n", False)


def test_a_flood_of_returns_is_bounded() -> None:
    tail = Tail(10, is_tty=True)
    for _ in range(100):
        tail.add(b"\r" * 10_000)
    assert tail.read(is_final=True) == ("\r" * 10, True)
    assert len(tail._held) <= 2


@given(st.binary(max_size=60), st.integers(0, 40), st.integers(0, 60), st.booleans())
def test_any_output_in_any_pieces_gives_the_same_bounded_text(data: bytes, limit: int, cut: int, is_tty: bool) -> None:
    whole = kept(limit, data, is_tty=is_tty)
    assert len(whole[0].encode()) <= limit
    assert kept(limit, data[:cut], data[cut:], is_tty=is_tty) == whole
