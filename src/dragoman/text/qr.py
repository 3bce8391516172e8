"""QR codes for short texts, as ISO/IEC 18004 has them: bytes, versions 1 to 10, error correction level M.

For the address of a web page on a terminal. Pure. An own one, because it is all that would be used of a package: see
docs/decisions/0028-own-qr-codes.md.
"""

from __future__ import annotations

from typing import Final

Matrix = list[list[bool]]

# For each version at level M: error correction bytes in a block, and the data bytes of each block.
_BLOCKS: Final[dict[int, tuple[int, tuple[int, ...]]]] = {
    1: (10, (16,)),
    2: (16, (28,)),
    3: (26, (44,)),
    4: (18, (32, 32)),
    5: (24, (43, 43)),
    6: (16, (27, 27, 27, 27)),
    7: (18, (31, 31, 31, 31)),
    8: (22, (38, 38, 39, 39)),
    9: (22, (36, 36, 36, 37, 37)),
    10: (26, (43, 43, 43, 43, 44)),
}
_ALIGNED: Final = {
    1: (),
    2: (6, 18),
    3: (6, 22),
    4: (6, 26),
    5: (6, 30),
    6: (6, 34),
    7: (6, 22, 38),
    8: (6, 24, 42),
    9: (6, 26, 46),
    10: (6, 28, 50),
}
_QUIET: Final = 2  # four are asked for; scanners take two, and a terminal is small


def _powers() -> tuple[list[int], list[int]]:
    """Return the powers of 2 in the field with 256 elements, and their inverse."""
    powers, logs, value = [0] * 512, [0] * 256, 1
    for exponent in range(255):
        powers[exponent] = powers[exponent + 255] = value
        logs[value] = exponent
        value <<= 1
        if value & 256:
            value ^= 0x11D
    return powers, logs


_POWERS, _LOGS = _powers()


def _times(one: int, other: int) -> int:
    return _POWERS[_LOGS[one] + _LOGS[other]] if one and other else 0


def _correction(data: bytes, length: int) -> bytes:
    """Return the bytes of Reed and Solomon for a block."""
    divisor = [0] * (length - 1) + [1]
    root = 1
    for _ in range(length):
        for at in range(length):
            divisor[at] = _times(divisor[at], root) ^ (divisor[at + 1] if at + 1 < length else 0)
        root = _times(root, 2)
    rest = [0] * length
    for byte in data:
        factor = byte ^ rest.pop(0)
        rest.append(0)
        rest = [old ^ _times(part, factor) for old, part in zip(rest, divisor, strict=True)]
    return bytes(rest)


def _codewords(text: bytes, version: int) -> bytes:
    """Return data and correction of all blocks, interleaved."""
    length, sizes = _BLOCKS[version]
    room = sum(sizes) * 8
    count_bits = 8 if version < 10 else 16
    bits = f"0100{len(text):0{count_bits}b}" + "".join(f"{byte:08b}" for byte in text)
    bits += "0" * min(4, room - len(bits))
    bits += "0" * (-len(bits) % 8)
    data = int(bits, 2).to_bytes(len(bits) // 8)
    data += (b"\xec\x11" * room)[: sum(sizes) - len(data)]
    blocks, at = [], 0
    for size in sizes:
        blocks.append(data[at : at + size])
        at += size
    found = [block[n] for n in range(max(sizes)) for block in blocks if n < len(block)]
    corrections = [_correction(block, length) for block in blocks]
    return bytes([*found, *(correction[n] for n in range(length) for correction in corrections)])


class _Drawing:
    """The modules of a code while it is drawn; those of its own patterns are marked."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.size = 17 + 4 * version
        self.dark: Matrix = [[False] * self.size for _ in range(self.size)]
        self.is_own: Matrix = [[False] * self.size for _ in range(self.size)]
        self._draw_patterns()

    def set(self, row: int, column: int, *, is_dark: bool) -> None:
        self.dark[row][column] = is_dark
        self.is_own[row][column] = True

    def _draw_patterns(self) -> None:
        last = self.size - 7
        for at in range(self.size):
            self.set(6, at, is_dark=at % 2 == 0)
            self.set(at, 6, is_dark=at % 2 == 0)
        for top, left in ((0, 0), (0, last), (last, 0)):
            for row in range(max(0, top - 1), min(self.size, top + 8)):
                for column in range(max(0, left - 1), min(self.size, left + 8)):
                    away = max(abs(row - top - 3), abs(column - left - 3))
                    self.set(row, column, is_dark=away not in (2, 4))
        places = _ALIGNED[self.version]
        corners = {(6, 6), (6, self.size - 7), (self.size - 7, 6)}
        for top, left in ((top, left) for top in places for left in places if (top, left) not in corners):
            for row in range(top - 2, top + 3):
                for column in range(left - 2, left + 3):
                    self.set(row, column, is_dark=max(abs(row - top), abs(column - left)) != 1)
        self.draw_format(0)
        self._draw_version()

    def draw_format(self, mask: int) -> None:
        """Draw level and mask, twice, with a BCH code."""
        data = mask  # level M is 00
        rest = data
        for _ in range(10):
            rest = (rest << 1) ^ ((rest >> 9) * 0x537)
        bits = (data << 10 | rest) ^ 0x5412
        for at in range(15):
            is_dark = bool(bits >> at & 1)
            if at < 6:
                self.set(at, 8, is_dark=is_dark)
            elif at < 8:
                self.set(at + 1, 8, is_dark=is_dark)
            elif at == 8:
                self.set(8, 7, is_dark=is_dark)
            else:
                self.set(8, 14 - at, is_dark=is_dark)
            if at < 8:
                self.set(8, self.size - 1 - at, is_dark=is_dark)
            else:
                self.set(self.size - 15 + at, 8, is_dark=is_dark)
        self.set(self.size - 8, 8, is_dark=True)

    def _draw_version(self) -> None:
        if self.version < 7:
            return
        rest = self.version
        for _ in range(12):
            rest = (rest << 1) ^ ((rest >> 11) * 0x1F25)
        bits = self.version << 12 | rest
        for at in range(18):
            far, near = self.size - 11 + at % 3, at // 3
            self.set(near, far, is_dark=bool(bits >> at & 1))
            self.set(far, near, is_dark=bool(bits >> at & 1))

    def places(self) -> list[tuple[int, int]]:
        """Return where the bits of the content go: in pairs of columns from the right, up and down in turns."""
        found, goes_up = [], True
        for right in (*range(self.size - 1, 6, -2), 5, 3, 1):
            rows = range(self.size - 1, -1, -1) if goes_up else range(self.size)
            found += [(row, column) for row in rows for column in (right, right - 1) if not self.is_own[row][column]]
            goes_up = not goes_up
        return found


def is_masked(mask: int, row: int, column: int) -> bool:
    """Whether a mask turns a module over."""
    product, total = row * column, row + column
    return (
        total % 2 == 0,
        row % 2 == 0,
        column % 3 == 0,
        total % 3 == 0,
        (row // 2 + column // 3) % 2 == 0,
        product % 2 + product % 3 == 0,
        (product % 2 + product % 3) % 2 == 0,
        (total % 2 + product % 3) % 2 == 0,
    )[mask]


def _penalty(dark: Matrix) -> int:
    """Return how hard a code is to scan: runs, squares, what looks like a corner, too much of one colour."""
    size, found = len(dark), 0
    lines = [*dark, *(list(column) for column in zip(*dark, strict=True))]
    for line in lines:
        text = "".join("1" if module else "0" for module in line)
        for run in text.replace("01", "0 1").replace("10", "1 0").split():
            found += len(run) - 2 if len(run) >= 5 else 0
        found += 40 * sum(text.startswith(mark, at) for at in range(size) for mark in ("10111010000", "00001011101"))
    found += 3 * sum(
        dark[row][column] == dark[row][column + 1] == dark[row + 1][column] == dark[row + 1][column + 1]
        for row in range(size - 1)
        for column in range(size - 1)
    )
    share = sum(map(sum, dark)) * 100 // (size * size)
    return found + abs(share - 50) // 5 * 10


def qr_matrix(text: str) -> Matrix:
    """Return the modules of a code, True for a dark one, without the light edge.

    Raises:
        ValueError: the text is longer than 213 bytes.
    """
    content = text.encode()
    for version, (_, sizes) in _BLOCKS.items():
        if len(content) + (2 if version < 10 else 3) <= sum(sizes):
            break
    else:
        raise ValueError("a text of more than 213 bytes does not fit into a QR code of version 10")
    best: Matrix = []
    lowest = 1 << 30
    bits = "".join(f"{byte:08b}" for byte in _codewords(content, version))
    for mask in range(8):
        drawing = _Drawing(version)
        drawing.draw_format(mask)
        places = drawing.places()
        for (row, column), bit in zip(places, bits.ljust(len(places), "0"), strict=True):
            drawing.dark[row][column] = (bit == "1") != is_masked(mask, row, column)
        penalty = _penalty(drawing.dark)
        if penalty < lowest:
            best, lowest = drawing.dark, penalty
    return best


def qr_lines(text: str) -> list[str]:
    """Return a code for a terminal: two rows of modules in a line, dark on light in every colour scheme."""
    dark = qr_matrix(text)
    size = len(dark) + 2 * _QUIET
    edge = [False] * size
    rows = [edge] * _QUIET + [[False] * _QUIET + row + [False] * _QUIET for row in dark] + [edge] * _QUIET
    rows += [edge] * (len(rows) % 2)
    shapes = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
    lines = []
    for top, below in zip(rows[::2], rows[1::2], strict=True):
        modules = "".join(shapes[pair] for pair in zip(top, below, strict=True))
        lines.append(f"\x1b[38;2;0;0;0;48;2;255;255;255m{modules}\x1b[0m")
    return lines
