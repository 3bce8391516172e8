"""What a terminal shows after a program's output: letters in columns, each with its colour.

Acts on what dragoman writes (colours, line breaks, the step back to the start of a cleared line) and refuses every
other control sequence, so that a picture never differs silently from a terminal. Has no height: all lines are kept.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from dragoman.text.terminal import cells

_PIECES: Final = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|(\r|\n)|(\x1b.?|[\x00-\x1f\x7f-\x9f])|([^\x00-\x1f\x7f-\x9f]+)")
_COLOURS: Final = {
    code: name
    for first in (30, 90)
    for code, name in enumerate(("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"), first)
}


class Style(NamedTuple):
    """How a letter is drawn. A colour is a name, or `#rrggbb`."""

    colour: str = ""
    is_bold: bool = False
    is_dim: bool = False
    is_underlined: bool = False
    background: str = ""


PLAIN: Final = Style()


class Run(NamedTuple):
    """Letters of one style that follow each other, and the column of the first."""

    column: int
    text: str
    style: Style


class Screen:
    """A terminal of a fixed width. Raises: ValueError for a control sequence that it does not know."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._rows: list[list[tuple[str, Style]]] = [[]]
        self._column = 0
        self._style = PLAIN

    @property
    def lines(self) -> list[str]:
        """The text, without spaces at the ends of lines and without empty lines at the end."""
        lines = ["".join(letter for letter, _ in row).rstrip() for row in self._rows]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def runs(self) -> list[list[Run]]:
        """The same with styles, line by line. Runs neither begin nor end with a space, and have no two in a row."""
        return [list(_runs(row)) for row in self._rows[: len(self.lines)]]

    def feed(self, text: str) -> None:
        for parameters, final, move, unknown, letters in _PIECES.findall(text):
            if letters:
                for letter in letters:
                    self._put(letter)
            elif final == "m":
                self._style = _restyled(self._style, parameters)
            elif final == "K" and parameters in ("", "0"):
                del self._rows[-1][self._column :]
            elif move == "\r":
                self._column = 0
            elif move == "\n":
                self._rows.append([])
            else:
                raise ValueError(f"the screen does not know the control {unknown or parameters + final!r}")

    def _put(self, letter: str) -> None:
        width = cells(letter)
        if self._column + width > self.columns:
            self._rows.append([])
            self._column = 0
        row = self._rows[-1]
        row.extend([(" ", PLAIN)] * (self._column - len(row)))
        # The second column of a wide letter holds nothing; a mark without a width joins the letter before it.
        if width == 0 and row:
            row[self._column - 1] = (row[self._column - 1][0] + letter, row[self._column - 1][1])
            return
        row[self._column : self._column + width] = [(letter, self._style), *[("", self._style)] * (width - 1)]
        self._column += width


def _restyled(style: Style, parameters: str) -> Style:
    codes = [int(code) for code in (parameters or "0").split(";")]
    while codes:
        code = codes.pop(0)
        if code == 0:
            style = PLAIN
        elif code == 1:
            style = style._replace(is_bold=True)
        elif code == 2:
            style = style._replace(is_dim=True)
        elif code == 4:
            style = style._replace(is_underlined=True)
        elif code in (38, 48) and codes[:1] == [2] and len(codes) > 3:
            colour = "#" + bytes(codes[1:4]).hex()
            style = style._replace(colour=colour) if code == 38 else style._replace(background=colour)
            del codes[:4]
        elif code in _COLOURS:
            style = style._replace(colour=_COLOURS[code])
        else:
            raise ValueError(f"the screen does not know the colour {code}")
    return style


def _runs(row: list[tuple[str, Style]]) -> list[Run]:
    found: list[Run] = []
    for column, (letter, style) in enumerate(row):
        last = found[-1] if found else None
        if letter == " " and not style.is_underlined:
            continue
        if last is not None and last.style == style:
            gap = column - last.column - cells(last.text)
            if gap <= (1 if letter else 0):
                found[-1] = last._replace(text=last.text + " " * gap + letter)
                continue
        if letter:
            found.append(Run(column, letter, style))
    return found
