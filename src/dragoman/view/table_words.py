"""Tables of Markdown in words, row by row, as they come: `header: value`, one line for each cell. Pure.

A table in columns cannot be followed with a screen reader.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_RULE: Final = re.compile(r"\|\s{0,20}:?-+:?\s{0,20}(?:\|\s{0,20}:?-+:?\s{0,20}){0,100}\|?")


class TableWords:
    """Takes whole lines. The first row of a table is kept until the rule below it says that it is one."""

    def __init__(self) -> None:
        self._header: list[str] = []
        self._first: str | None = None
        self._rows = 0

    def take(self, line: str) -> Iterator[str]:
        """Yield the lines to write in the place of one line."""
        is_row = line.lstrip().startswith("|")
        if self._first is not None:
            first, self._first = self._first, None
            if is_row and len(line) < 2_000 and _RULE.fullmatch(line.strip()):
                self._header, self._rows = _cells(first), 0
                return
            yield first
        if not is_row:
            self._header = []
            yield line
        elif self._header:
            self._rows += 1
            if self._rows > 1:
                yield ""
            for name, cell in zip(self._header, _cells(line), strict=False):
                yield f"{name}: {cell}"
        else:
            self._first = line

    def rest(self) -> Iterator[str]:
        """Yield a first row that no rule followed."""
        if self._first is not None:
            first, self._first = self._first, None
            yield first


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
