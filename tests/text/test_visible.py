"""Text in questions to the user: nothing hidden, nothing outside its room."""

from __future__ import annotations

import pytest

from dragoman.text.terminal import cells
from dragoman.text.visible import is_hidden, label, paragraphs, quoted, spelled, wrapped
from tests.cli.prompt_kit import ATTACKS


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("plain", "plain"),
        ("a b", "'a b'"),
        ("it's", "'it'\"'\"'s'"),
        ("", "''"),
        ("a\nb", "$'a\\nb'"),
        ("\x1b[31m'\\", "$'\\e[31m\\'\\\\'"),
        ("\u202e\u200b\u00a0", "$'\\u202e\\u200b\\u00a0'"),
        ("\x00", "$'\\x00'"),
        ("\U000e0041", "$'\\U000e0041'"),
        ("größe", "'größe'"),
    ],
)
def test_a_word_is_shown_as_a_shell_would_read_it(word: str, shown: str) -> None:
    assert quoted(word) == shown


def test_hidden_letters_are_named_in_lines_and_dropped_from_labels() -> None:
    assert spelled("if\u202e x\r") == "if<U+202E> x<U+000D>"
    assert spelled("a\u200bb\u3164") == "a<U+200B>b<U+3164>"
    assert label("a\u200bb\u3164  c", 20) == "ab c"
    assert label("\u3164 \u200b", 20, "(none)") == "(none)"
    assert label("x" * 100, 10) == "x" * 9 + "…"


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("width", [40, 79])
def test_shown_text_keeps_its_width_and_hides_nothing(attack: str, width: int) -> None:
    for lines in ([label(attack, width)], wrapped(quoted(attack), width), paragraphs(attack, width)):
        for line in lines:
            assert cells(line) <= width
            assert not any(map(is_hidden, line))


def test_wrapping_loses_nothing_and_marks_what_goes_on() -> None:
    text = "abcdefghij" * 20
    first, *rest = wrapped(text, 40)
    assert all(line.startswith("⤷ ") for line in rest)
    assert first + "".join(line[2:] for line in rest) == text
