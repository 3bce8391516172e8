"""The blocks of a conversation as grids of text: written files, which a change of the drawing has to change, too."""

from __future__ import annotations

import pytest

from dragoman.text.terminal import cells
from dragoman.view.rails import ASCII, UNICODE
from tests.view.golden_grids import CASES, FOLDER, glyphs_of, grid


@pytest.mark.parametrize("case", CASES)
def test_blocks_are_drawn_as_in_the_file(case: str) -> None:
    found = grid(case)
    assert found == (FOLDER / f"{case}.txt").read_text(encoding="utf-8"), "python -m tests.view.golden_grids --write"


@pytest.mark.parametrize("case", CASES)
def test_every_line_fits_and_ascii_needs_no_other_glyph(case: str) -> None:
    parts = f"\n{grid(case)}".split("\n== ")
    for part in parts[1:5]:
        head, _, body = part.partition("\n")
        assert all(cells(line) <= int(head.split()[0]) for line in body.split("\n"))
        if "ASCII" in head:
            assert not (glyphs_of(UNICODE) - glyphs_of(ASCII)) & set(body)
    assert {path.stem for path in FOLDER.iterdir()} == set(CASES)
