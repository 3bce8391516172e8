"""Breaking lines: what is there stays, whatever its width, and a very long line costs no more than its length."""

from __future__ import annotations

import pytest

from dragoman.text.terminal import cells
from dragoman.view.rails.wrapping import broken, broken_runs, wrapped_runs

TEXTS = ["a" * 100, "界" * 40, "a界" * 30, "e\u0301" * 50, "", "x", "👩\u200d🚀" * 20, "ab cd " * 20]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("width", [4, 5, 20, 200])
def test_runs_are_broken_at_a_width_and_lose_nothing(text: str, width: int) -> None:
    runs = [("xyz", "bold"), (text, ""), ("", "dim"), (text, "dim")]
    lines = broken_runs(runs, width)
    assert "".join(piece for line in lines for piece, _ in line) == "".join(piece for piece, _ in runs)
    assert all(sum(cells(piece) for piece, _ in line) <= width for line in lines)
    assert "".join(broken(text, width)) == text


@pytest.mark.parametrize("letter", ["a", "界"])
def test_a_line_of_a_megabyte_is_broken_in_one_pass(letter: str) -> None:
    text = letter * 500_000  # each line by itself, with what follows cut off, would take a minute
    width = 100 // cells(letter)
    for lines in (broken_runs([("x", ""), (text[1:], "")], 100), wrapped_runs([(text, "")], 100)):
        assert sum(len(piece) for line in lines for piece, _ in line) == 500_000
        assert len(lines) == -(-500_000 // width)
