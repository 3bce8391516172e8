"""What a line must keep to before it is decoded."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import INVALID_REQUEST, PARSE_ERROR
from dragoman.wire import DEPTH_LIMIT, NODE_LIMIT
from dragoman.wire.bounds import find_fault, is_utf8

# Long enough that brackets are looked for by hopping, not by counting.
PADDING = b'"padding":"' + b"x" * 8192 + b'",'


def code_of(line: bytes) -> int | None:
    fault = find_fault(line)
    return None if fault is None else fault[0]


def nested(levels: int, opener: bytes = b"[", closer: bytes = b"]") -> bytes:
    return opener * levels + closer * levels


@pytest.mark.parametrize("padding", [b"", PADDING], ids=["short", "long"])
@pytest.mark.parametrize(
    ("opener", "closer"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")], ids=["arrays", "objects", "both"]
)
def test_nesting_is_limited_whatever_it_is_made_of(opener: bytes, closer: bytes, padding: bytes) -> None:
    levels = (DEPTH_LIMIT - 1) // len(closer)
    fits = b"{" + padding + b'"v":' + opener * levels + b"1" + closer * levels + b"}"
    too_deep = b"{" + padding + b'"v":' + opener * (levels + 1) + b"1" + closer * (levels + 1) + b"}"
    assert code_of(fits) is None
    assert code_of(too_deep) == PARSE_ERROR


@pytest.mark.parametrize("levels", [DEPTH_LIMIT + 1, 1000, 100_000])
def test_deep_nesting_is_found_without_decoding(levels: int) -> None:
    assert code_of(nested(levels)) == PARSE_ERROR
    assert code_of(b"[" * max(levels, 600)) == PARSE_ERROR


@pytest.mark.parametrize(
    "text",
    [
        "{[" * 3000,
        '\\"{[' * 3000,
        "\\" * 3001 + "{" * 600,
        '"' * 600 + "[" * 600,
        "\\\\[" * 600,
        "{\n" * 600,
        "[é" * 600,
    ],
    ids=["code", "escapes", "backslashes", "quotes", "pairs", "lines", "not ASCII"],
)
def test_brackets_inside_strings_are_not_nesting(text: str) -> None:
    line = msgspec.json.encode({"before": text, "deep": [[[text]]], "after": text})
    assert find_fault(line) is None
    deep = line[:-1] + b',"deeper":' + nested(DEPTH_LIMIT) + b"}"
    assert code_of(deep) == PARSE_ERROR


def test_many_flat_values_are_not_nesting() -> None:
    assert find_fault(msgspec.json.encode([{"a": []}] * 5000)) is None


def commas(count: int) -> bytes:
    return b"[" + b"1," * count + b"1]"


@pytest.mark.parametrize(
    "line",
    [commas(NODE_LIMIT), b"[" + b"[]," * NODE_LIMIT + b"1]", b"[" + b'"",' * 2 * NODE_LIMIT + b'"",' * 2 + b"1]"],
    ids=["numbers", "arrays", "strings"],
)
def test_more_than_a_million_values_are_refused(line: bytes) -> None:
    assert code_of(line) == INVALID_REQUEST


def test_a_million_values_are_not_refused() -> None:
    assert find_fault(commas(NODE_LIMIT - 10)) is None


def test_commas_inside_strings_are_not_values() -> None:
    table = b'{"csv":"' + b"a,b\\n" * NODE_LIMIT + b'"}'
    assert find_fault(table) is None


@pytest.mark.rule(1)
@pytest.mark.parametrize("size", [1, 500, 70_000, 200_000])
@pytest.mark.parametrize(
    "wrong",
    [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\x80"],
    ids=["no such byte", "cut", "surrogate", "overlong", "too large", "continuation"],
)
def test_text_that_is_not_utf8_is_found_at_any_place(wrong: bytes, size: int) -> None:
    for at in (0, size // 2, size):
        text = "é".encode() * at + wrong + "é".encode() * (size - at)
        assert not is_utf8(text)
        assert code_of(text) == PARSE_ERROR


@pytest.mark.rule(1)
@pytest.mark.parametrize("character", ["é", "\u2028", "𝄞", "\ufeff"])
@pytest.mark.parametrize("count", [1, 30_000, 200_001])
def test_utf8_is_accepted_however_its_characters_meet_the_pieces(character: str, count: int) -> None:
    for shift in range(4):
        assert is_utf8(b"x" * shift + character.encode() * count)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


texts = st.text(alphabet=st.sampled_from('ab"\\[]{},:\n\u2028é'), max_size=12)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)


@settings(deadline=None)
@given(value=values, deeper=st.integers(0, 12))
def test_the_verdict_is_that_of_a_decoder_which_counts(value: object, deeper: int) -> None:
    levels = DEPTH_LIMIT - 6 + deeper
    line = b"[" * levels + msgspec.json.encode(value) + b"]" * levels
    assert (code_of(line) == PARSE_ERROR) == (levels + depth_of(value) > DEPTH_LIMIT)
