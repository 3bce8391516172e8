"""Differences by line, and versions with some of them taken back."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.workspace import hunks as hunks_module
from dragoman.workspace.hunks import Hunk, find_hunks, revert_hunks

# A small alphabet, so that versions have lines in common; a lone \r and bytes that are no text are lines' business too.
LINE = st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"d\xff\n", b"\n", b"e\r"])
LAST = st.sampled_from([b"", b"z"])
VERSION = st.builds(lambda lines, last: b"".join(lines) + last, st.lists(LINE, max_size=30), LAST)


def test_hunks_name_the_lines_that_differ() -> None:
    before = b"one\ntwo\nthree\nfour\nfive\n"
    after = b"one\n2\nthree\nfour\nfive\nsix\n"
    assert find_hunks(before, after) == (
        Hunk(2, ("two\n",), 2, ("2\n",)),
        Hunk(6, (), 6, ("six\n",)),
    )


def test_a_missing_file_has_no_lines() -> None:
    assert find_hunks(None, b"new\n") == (Hunk(1, (), 1, ("new\n",)),)
    assert find_hunks(b"old", None) == (Hunk(1, ("old",), 1, ()),)
    assert find_hunks(None, b"") == ()


def test_a_last_line_without_newline_is_another_line() -> None:
    assert find_hunks(b"a\nb", b"a\nb\n") == (Hunk(2, ("b",), 2, ("b\n",)),)


def test_one_hunk_of_two_is_taken_back() -> None:
    before, after = b"a\nb\nc\nd\n", b"A\nb\nc\nD\nE\n"
    first, second = find_hunks(before, after)
    assert revert_hunks(after, [first]) == b"a\nb\nc\nD\nE\n"
    assert revert_hunks(after, [second]) == b"A\nb\nc\nd\n"


@given(before=VERSION, after=VERSION)
def test_hunks_are_in_order_apart_from_each_other_and_complete(before: bytes, after: bytes) -> None:
    hunks = find_hunks(before, after)
    assert bool(hunks) == (before != after)
    for hunk, following in pairwise(hunks):
        assert following.before_line > hunk.before_line + len(hunk.before)
        assert following.after_line > hunk.after_line + len(hunk.after)
    assert revert_hunks(after, hunks) == before
    assert revert_hunks(after, ()) == after


@given(before=VERSION, after=VERSION, chosen=st.sets(st.integers(0, 40)))
def test_taking_back_some_hunks_leaves_exactly_the_others(before: bytes, after: bytes, chosen: set[int]) -> None:
    hunks = find_hunks(before, after)
    result = revert_hunks(after, [hunk for number, hunk in enumerate(hunks) if number in chosen])
    # Seen from the other side: the hunks that stay, put into the old text, give the same.
    stay = [
        Hunk(hunk.after_line, hunk.after, hunk.before_line, hunk.before)
        for number, hunk in enumerate(hunks)
        if number not in chosen
    ]
    assert result == revert_hunks(before, stay)


@settings(max_examples=200)
@given(before=VERSION, after=VERSION, budget=st.integers(0, 40))
def test_the_bounded_difference_is_still_a_difference(before: bytes, after: bytes, budget: int) -> None:
    whole = hunks_module._MOST_PAIRS
    hunks_module._MOST_PAIRS = budget  # type: ignore[misc]  # small, so that small texts are over it
    try:
        hunks = find_hunks(before, after)
    finally:
        hunks_module._MOST_PAIRS = whole  # type: ignore[misc]
    assert revert_hunks(after, hunks) == before
    assert all(hunk.before != hunk.after for hunk in hunks)


@pytest.mark.parametrize("shape", ["shuffled", "repeated", "other"])
def test_large_texts_with_little_in_common_are_compared_in_bounded_time(shape: str) -> None:
    chance = random.Random(7)
    lines = [b"line %d\n" % number for number in range(100_000)]
    other = [b"other %d\n" % number for number in range(100_000)]
    if shape == "shuffled":
        other = lines[:]
        chance.shuffle(other)
    elif shape == "repeated":
        lines = [chance.choice([b"{\n", b"}\n", b"\n"]) for _ in range(100_000)]
        other = [chance.choice([b"{\n", b"}\n", b"\n"]) for _ in range(100_000)]
    before, after = b"".join(lines), b"".join(other)
    start = time.process_time()
    hunks = find_hunks(before, after)
    assert time.process_time() - start < 15
    assert revert_hunks(after, hunks) == before


def test_a_few_edits_of_a_large_text_stay_small_hunks() -> None:
    lines = [b"line %d\n" % number for number in range(100_000)]
    edited = lines[:]
    for number in (10, 50_000, 99_990):
        edited[number] = b"edited\n"
    hunks = find_hunks(b"".join(lines), b"".join(edited))
    assert [(hunk.after_line, hunk.after) for hunk in hunks] == [
        (11, ("edited\n",)),
        (50_001, ("edited\n",)),
        (99_991, ("edited\n",)),
    ]
