"""Fits the indentation of new lines to that of the lines they replace. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence


class Shift(Struct, frozen=True):
    """White space to remove from, or to add to, the beginning of each line."""

    remove: str = ""
    add: str = ""


def indentation_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def common_shift(from_lines: Sequence[str], to_lines: Sequence[str]) -> Shift | None:
    """Return the one shift that makes each line of the first the line of the second, None if there is none.

    Blank lines and white space at the end do not count.
    """
    shift: Shift | None = None
    for one, other in zip(from_lines, to_lines, strict=True):
        if not one.strip():
            continue
        here, there = indentation_of(one), indentation_of(other)
        if there.endswith(here):
            found = Shift(add=there[: len(there) - len(here)])
        elif here.endswith(there):
            found = Shift(remove=here[: len(here) - len(there)])
        else:
            return None
        if shift is not None and found != shift:
            return None
        shift = found
    return shift


def shifted(text: str, shift: Shift) -> str | None:
    """Return the text with each line shifted; None if a line has less white space than would be removed."""
    lines = []
    for line in text.split("\n"):
        if not line.strip():
            lines.append(line)
        elif line.startswith(shift.remove):
            lines.append(shift.add + line[len(shift.remove) :])
        else:
            return None
    return "\n".join(lines)


class Reindenter:
    """Gives new lines the indentation of a file, learned from lines that occur in both.

    Args:
        wanted: lines as the author of the new text believes them to be.
        have: the same lines as they are in the file.
    """

    def __init__(self, wanted: Sequence[str], have: Sequence[str]) -> None:
        self._exact: dict[str, str] = {}
        self._stripped: dict[str, str | None] = {}
        """None for lines that the file has with several indentations."""
        self._indents: dict[str, str] = {}
        for one, other in zip(wanted, have, strict=True):
            if one.strip():
                self._exact.setdefault(one.rstrip(), other)
                if self._stripped.setdefault(one.strip(), other) != other:
                    self._stripped[one.strip()] = None
                self._indents.setdefault(indentation_of(one), indentation_of(other))
        self._unit = self._blanks_per_tab()

    def apply(self, text: str) -> str:
        """Return the text with each line indented as the file does."""
        lines = []
        indents = dict(self._indents)
        for line in text.split("\n"):
            if not line.strip():
                lines.append(line)
                continue
            same = self._exact.get(line.rstrip()) or self._stripped.get(line.strip())
            if same is not None:
                # Lines that follow have the indentation that is used here.
                indents[indentation_of(line)] = indentation_of(same)
                lines.append(same)
            else:
                lines.append(self._indent(indentation_of(line), indents) + line.lstrip())
        return "\n".join(lines)

    def _indent(self, indent: str, indents: dict[str, str]) -> str:
        if indent in indents:
            return indents[indent]
        # The deepest known indentation that this one goes on from, and the rest in the file's own characters.
        known = max((each for each in indents if indent.startswith(each)), key=len, default=None)
        if known is not None:
            return indents[known] + self._in_units(indent[len(known) :])
        return self._in_units(indent)

    def _in_units(self, rest: str) -> str:
        if self._unit and not rest.strip(" "):
            return "\t" * (len(rest) // self._unit) + " " * (len(rest) % self._unit)
        return rest

    def _blanks_per_tab(self) -> int:
        """How many blanks stand for one tab of the file; 0 if it has no tabs where the text has blanks."""
        for here, there in self._indents.items():
            if here and there and not here.strip(" ") and not there.strip("\t") and len(here) % len(there) == 0:
                return len(here) // len(there)
        return 0
