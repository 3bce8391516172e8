"""Text of a peer made fit for a terminal: nothing in it acts, and its width is known.

Owns the one boundary between what was recorded and a screen. Escape sequences go as a whole, other controls and marks
that turn the reading direction go too; what is left is text. Knows no colours: those are ours and come later.
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category, east_asian_width

# A string sequence (OSC, DCS, APC, PM, SOS) ends with BEL or ST. One without an end loses its introducer only: its
# text is harmless then, and somebody who looks at a broken peer wants to see it.
_ACTING: Final = re.compile(
    r"""
    (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)  # a string, with its end
    | (?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]                                         # CSI: cursor, colours, queries
    | \x1b[ -/]*[0-~]                                                          # every other escape
    | [\x00-\x08\x0b-\x1f\x7f-\x9f]                                            # controls but tab and newline
    | [\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]                           # reading direction
    | [\U000e0000-\U000e007f]                                                  # tags: invisible text
    """,
    re.VERBOSE,
)
_BREAKS: Final = re.compile(r"\r\n|[\n\r\u2028\u2029]")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
LINE_BREAK: Final = "↵"


def plain(text: str) -> str:
    """`text` without anything that acts on a terminal; line breaks and tabs stay."""
    if text.isprintable():  # false for everything above
        return text
    return _SURROGATES.sub("\ufffd", _ACTING.sub("", _BREAKS.sub("\n", text)))


def one_line(text: str) -> str:
    """The same on one line; line breaks are shown."""
    if text.isprintable():
        return text
    return plain(text).replace("\n", LINE_BREAK).replace("\t", " ")


def cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of, text))


def clip(text: str, width: int) -> str:
    """At most `width` columns of the text; an ellipsis stands for the rest."""
    if cells(text) <= width:
        return text
    taken, used = [], 0
    for letter in text:
        used += _cells_of(letter)
        if used > width - 1:
            break
        taken.append(letter)
    return "".join(taken) + "…" if width > 0 else ""


def shorten(text: str, characters: int) -> str:
    """The text on one line, white space joined, at most `characters` long; an ellipsis stands for the rest."""
    line = " ".join(text.split())
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"


def fit(text: str, width: int) -> str:
    """Exactly `width` columns: cut, or filled up with spaces."""
    clipped = clip(text, width)
    return clipped + " " * (width - cells(clipped))


def _cells_of(letter: str) -> int:
    if letter.isascii():
        return 1
    if category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def size(size_bytes: int) -> str:
    """A size in at most five columns."""
    if size_bytes < 1000:
        return f"{size_bytes}"
    value = float(size_bytes)
    for unit in "kMG":
        value /= 1000
        if value < 999.5 or unit == "G":
            return f"{value:.1f}{unit}" if value < 99.95 else f"{value:.0f}{unit}"
    raise AssertionError(size_bytes)


def duration(seconds: float) -> str:
    """A time span in at most seven columns."""
    if seconds < 0.01:
        return f"{seconds * 1000:.1f}ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 99.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"
