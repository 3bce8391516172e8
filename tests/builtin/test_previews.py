"""Incomplete arguments are shown while they stream in, at a cost in proportion to their length."""

import itertools

import pytest

from dragoman.builtin.loop import PREVIEW_CHARACTERS, PREVIEW_GROWTH, Previews


@pytest.fixture(autouse=True)
def _enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every piece comes late enough to be shown, so that only the length decides."""
    times = itertools.count(0.0, 1.0)
    monkeypatch.setattr("dragoman.builtin.loop.monotonic", lambda: next(times))


def written(text: str, size: int) -> tuple[Previews, list[dict[str, str]]]:
    previews, shown = Previews(), list[dict[str, str]]()
    previews.begin("1", "write")
    for start in range(0, len(text), size):
        found = previews.add("1", text[start : start + size])
        if found is not None:
            assert found[0] == "write"
            shown.append(found[1])
    return previews, shown


def test_all_previews_of_long_arguments_parse_a_fixed_multiple_of_their_length() -> None:
    for length in (1000, 8000, PREVIEW_CHARACTERS - 100):
        previews, shown = written('{"path":"a.txt","text":"' + "x" * length, 4)
        assert previews.parsed_characters <= (PREVIEW_GROWTH + 2) * length
        assert len(shown) > 10
        assert all(arguments == {"path": "a.txt"} for arguments in shown)


def test_text_that_is_not_json_is_not_parsed_after_every_piece_either() -> None:
    previews, shown = written("x" * 20_000, 2)
    assert shown == []
    assert previews.parsed_characters <= (PREVIEW_GROWTH + 2) * 20_000


def test_a_value_is_shown_when_it_is_complete() -> None:
    _, shown = written('{"a":"bc","d":12,"e":"f"}', 1)
    # `bc` and `12` might have gone on until the next character came.
    assert [arguments for arguments, _ in itertools.groupby(shown)] == [
        {"a": "bc"},
        {"a": "bc", "d": 12},
        {"a": "bc", "d": 12, "e": "f"},
    ]


def test_arguments_above_the_bound_are_left_for_their_end() -> None:
    previews, shown = written('{"path":"a.txt","text":"' + "x" * (2 * PREVIEW_CHARACTERS), 1024)
    assert shown
    assert previews.parsed_characters <= (PREVIEW_GROWTH + 2) * PREVIEW_CHARACTERS


def test_a_call_that_never_began_or_has_ended_shows_nothing() -> None:
    previews = Previews()
    assert previews.add("1", '{"a":1') is None
    previews.begin("1", "write")
    previews.end("1")
    assert previews.add("1", '{"a":1') is None
