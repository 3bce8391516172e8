"""QR codes, read back as the standard says a scanner does: format, mask, order of the modules, blocks, correction."""

from __future__ import annotations

import pytest

from dragoman.text import qr


def read_back(dark: list[list[bool]]) -> str:
    """Read the text of a code from its modules; every block must be a word of the code without an error."""
    size = len(dark)
    version = (size - 17) // 4
    around = (
        [dark[row][8] for row in (0, 1, 2, 3, 4, 5, 7, 8)] + [dark[8][7]] + [dark[8][14 - at] for at in range(9, 15)]
    )
    again = [dark[8][size - 1 - at] for at in range(8)] + [dark[size - 15 + at][8] for at in range(8, 15)]
    assert around == again
    bits = sum(module << at for at, module in enumerate(around)) ^ 0b101010000010010
    level, mask = bits >> 13, bits >> 10 & 7
    assert level == 0  # M
    rest = bits
    for at in range(14, 9, -1):
        rest ^= (rest >> at & 1) * (0b10100110111 << at - 10)
    assert rest == 0
    own = qr._Drawing(version)
    content = "".join("01"[dark[row][column] != qr.is_masked(mask, row, column)] for row, column in own.places())
    length, sizes = qr._BLOCKS[version]
    total = sum(sizes) + length * len(sizes)
    words = [int(content[8 * at : 8 * at + 8], 2) for at in range(total)]
    assert set(content[8 * total :]) <= {"0"}
    blocks: list[list[int]] = [[] for _ in sizes]
    spread = iter(words)
    for at in range(max(sizes)):
        for block, room in zip(blocks, sizes, strict=True):
            if at < room:
                block.append(next(spread))
    corrections: list[list[int]] = [[] for _ in sizes]
    for _ in range(length):
        for correction in corrections:
            correction.append(next(spread))
    for block, correction in zip(blocks, corrections, strict=True):
        for power in range(length):  # each root of the generator is a root of the word
            value = 0
            for word in (*block, *correction):
                value = qr._times(value, qr._POWERS[power]) ^ word
            assert value == 0
    data = "".join(f"{word:08b}" for block in blocks for word in block)
    assert data[:4] == "0100"
    width = 8 if version < 10 else 16
    count = int(data[4 : 4 + width], 2)
    body = data[4 + width : 4 + width + 8 * count]
    return int(body, 2).to_bytes(count).decode()


@pytest.mark.parametrize("length", [1, 14, 15, 26, 42, 43, 62, 84, 106, 122, 152, 180, 213])
def test_a_code_can_be_read_back_at_every_size(length: int) -> None:
    text = ("https://workbench.tailnet.example/#7KQ4-MR2W" * 5)[:length]
    assert read_back(qr.qr_matrix(text)) == text


def test_the_correction_of_a_published_example() -> None:
    data = bytes([32, 91, 11, 120, 209, 114, 220, 77, 67, 64, 236, 17, 236, 17, 236, 17])
    assert list(qr._correction(data, 10)) == [196, 35, 39, 119, 235, 215, 231, 226, 93, 23]


def test_corners_and_the_light_edge_are_where_scanners_look_for_them() -> None:
    dark = qr.qr_matrix("x")
    corner = ["#######", "#.....#", "#.###.#", "#.###.#", "#.###.#", "#.....#", "#######"]
    for top, left in ((0, 0), (0, 14), (14, 0)):
        assert ["".join(".#"[dark[top + row][left + at]] for at in range(7)) for row in range(7)] == corner
    lines = qr.qr_lines("x")
    assert len({len(line) for line in lines}) == 1
    assert lines[0].count("█") == lines[0].count("▀") == lines[0].count("▄") == 0


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="213 bytes"):
        qr.qr_matrix("x" * 214)
