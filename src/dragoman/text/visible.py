"""A peer's words as a question shows them: on one line, in their place, and with nothing hidden in them.

`label` is for words that describe (a title, a name): what cannot be seen is dropped. `quoted` and `spelled` are for
what will happen (a command, a path, a line of a file): what cannot be seen is spelled out. Pure; knows no colours.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from unicodedata import category

from dragoman.text.terminal import cells, clip, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

# Letters and marks of no width or no ink which Python calls printable: joiners, Hangul fillers, the Braille blank,
# variation selectors.
_BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
_STACKED: Final = 2  # marks on one letter; more of them paint over the lines above and below
_UNREAD: Final = 20_000  # letters of a label looked at: the rest could never be shown
_LONGEST: Final = 50_000  # letters of a line: twenty screens, and a millisecond each
_SAFE_WORD: Final = re.compile(r"[A-Za-z0-9_@%+=:,./~^-]+")
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e", "\\": "\\\\", "'": "\\'"}
CONTINUED: Final = (
    "⤷ "  # begins what did not fit: a terminal's own wrapping would let text start a line that looks like ours
)


def is_hidden(letter: str) -> bool:
    """Whether a reader cannot see it, or takes it for a space."""
    return not letter.isprintable() or letter in _BLANK


def label(text: str, width: int, missing: str = "(nothing)") -> str:
    """Words that describe: at most `width` columns of them."""
    seen = " ".join("".join(_seen(one_line(text[:_UNREAD]))).split())
    return clip(seen, width) or missing


def _seen(text: str) -> Iterator[str]:
    marks = 0
    for letter in text:
        if letter.isspace():
            yield " "
        elif not is_hidden(letter):
            marks = marks + 1 if category(letter) in ("Mn", "Me") else 0
            if marks <= _STACKED:
                yield letter


def quoted(word: str) -> str:
    """A word of a command or a path, so that a shell would read exactly this; hidden letters are spelled."""
    if _SAFE_WORD.fullmatch(word):
        return word
    if not any(map(is_hidden, word)):
        return "'" + word.replace("'", "'\"'\"'") + "'"
    return "$'" + "".join(_ESCAPES.get(letter) or _escaped(letter) for letter in word) + "'"


def _escaped(letter: str) -> str:
    if not is_hidden(letter):
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def spelled(line: str) -> str:
    """A line of a file or a script as it is; hidden letters are named."""
    line = line.expandtabs(4)
    if line.isprintable() and not any(letter in _BLANK for letter in line):
        return line
    return "".join(f"<U+{ord(letter):04X}>" if is_hidden(letter) else letter for letter in line)


def wrapped(text: str, width: int) -> list[str]:
    """All of the text in lines of at most `width` columns; all but the first are marked. Absurd lengths are cut."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text) - _LONGEST} more letters)"
    if cells(text) <= width:
        return [text]
    lines: list[str] = []
    line, used = "", 0
    for letter in text:
        wide = cells(letter)
        if used + wide > width:
            lines.append(line)
            line, used = CONTINUED, cells(CONTINUED)
        line += letter
        used += wide
    lines.append(line)
    return lines


def paragraphs(text: str, width: int) -> list[str]:
    """A text of several lines, line by line and wrapped, hidden letters named."""
    found = text.replace("\r\n", "\n").strip("\n").split("\n")
    return [piece for line in found for piece in wrapped(spelled(line), width)]
