"""Lines of the view as text for the terminal: the only place where colours of ours become escape sequences. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.view.rails import RailLine

# The terminal's own sixteen colours: right on light, dark and high-contrast terminals.
_CODES: Final = {
    "dim": "2",
    "bold": "1",
    "italic": "3",
    "strike": "9",
    "link": "4",
    "user": "36;1",
    "good": "32",
    "bad": "31;1",
    "warn": "33",
    "added": "32",
    "removed": "31",
    "changed": "7",
    "code": "34",
    "heading": "1;4",
    "reverse": "7",
    "keyword": "35",
    "string": "32",
    "number": "36",
    "comment": "2;3",
    "name": "34",
    "type": "33",
}


def text_of_line(line: RailLine, *, has_colour: bool) -> str:
    """Write one line. Controls that are left in a text would act on the terminal: none are."""
    parts = []
    for text, style in line:
        safe = text if text.isprintable() else one_line(text)
        codes = _codes(style) if has_colour and safe else ""
        parts.append(f"\x1b[{codes}m{safe}\x1b[0m" if codes else safe)
    return "".join(parts).rstrip()


def texts_of(lines: Iterable[RailLine], *, has_colour: bool) -> list[str]:
    """Write several lines."""
    return [text_of_line(line, has_colour=has_colour) for line in lines]


def _codes(style: str) -> str:
    codes = []
    for part in style.split("+"):
        if part.startswith("sgr:"):
            numbers = part[4:].split(";")
            codes += numbers if all(number.isascii() and number.isdigit() for number in numbers) else []
        elif part in _CODES:
            codes.append(_CODES[part])
    return ";".join(codes)
