"""Markdown that grows: the lines do not depend on the pieces in which the text came."""

from __future__ import annotations

import random

import pytest

from dragoman.text.terminal import cells
from dragoman.view.elements import Element
from dragoman.view.prose import prose
from dragoman.view.rails import RailView
from dragoman.view.rails.markdown import MarkdownLines
from dragoman.view.rails.values import RailLine

PIECES = ["word ", "Some longer text. ", "\n", "\n\n", "# Head\n", "```\ncode\n```\n", "x" * 90, "漢字", "- item\n"]
PIECES += ["  more\n", "1. x\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "> q\n", "```py\n", "```\n", "  ```\n", " "]
PIECES += ["`c` ", "\x1b[31m", "\x1b]0;x", "\u202e", "**b** ", "\t", "[a](https://b.c) ", "[a](javascript:x) "]


@pytest.mark.parametrize("seed", range(40))
def test_lines_of_a_text_do_not_depend_on_its_pieces(seed: int) -> None:
    numbers = random.Random(seed)
    for _ in range(10):
        view = RailView(numbers.choice([20, 40, 80]))
        growing, text = MarkdownLines("│", view), ""
        for _ in range(numbers.randrange(1, 25)):
            text += numbers.choice(PIECES)
            if numbers.random() < 0.5:
                growing.feed(text)
        lines = growing.feed(text)
        assert lines == MarkdownLines("│", view).feed(text)
        for line in lines:
            shown = "".join(part for part, _ in line)
            assert shown.isprintable()
            assert shown.startswith("│ ")
            assert cells(shown) <= view.width


def shown(lines: list[RailLine]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def test_a_text_that_is_replaced_is_written_again() -> None:
    growing = MarkdownLines("│", RailView(80))
    growing.feed("one\n\ntwo\n\nthree")
    assert shown(growing.feed("other\n\ntext")) == ["│ other", "│ ", "│ text"]


def test_only_the_open_part_is_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def parse(text: str) -> list[Element]:
        seen.append(text)
        return prose(text)

    monkeypatch.setattr("dragoman.view.rails.markdown.prose", parse)
    growing, text = MarkdownLines("│", RailView(80)), ""
    for number in range(50):
        text += f"paragraph {number}\n\n"
        growing.feed(text)
    assert sum(map(len, seen)) < 6 * len(text)


def test_code_is_coloured_when_its_colours_are_known_and_never_another_text() -> None:
    asked: list[tuple[str, str]] = []

    def highlight(name: str, text: str) -> list[list[tuple[str, str]]]:
        asked.append((name, text))
        return [[(line, "keyword")] for line in text.split("\n")]

    lines = MarkdownLines("│", RailView(80, highlight=highlight)).feed("```py\na = 1\nb\n```\n")
    assert lines[1:] == [(("│ ", ""), ("  ", ""), ("a = 1", "keyword")), (("│ ", ""), ("  ", ""), ("b", "keyword"))]
    assert asked == [("py", "a = 1\nb")]
    long = "\n".join(["x"] * 5_001)
    MarkdownLines("│", RailView(80, highlight=highlight)).feed(f"```py\n{long}\n```\n```py\n{'y' * 2_001}\n```\n")
    assert len(asked) == 1, "neither very many lines nor very long ones are highlighted"
