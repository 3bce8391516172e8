"""Text of a peer in a question to the user: on its own line, with nothing hidden in it.

`label` is for text that describes (a title, a name): invisible characters are removed. `quoted` and `spelled` are for
what will happen (a command, a path, a line of a file): invisible characters are spelled out. Pure; no colours.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from unicodedata import category

from dragoman.text.secrets import known_keys
from dragoman.text.terminal import cells, clip, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

# Characters without width or shape that Python calls printable: joiners, Hangul fillers, the Braille blank,
# variation selectors.
_BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
_STACKED: Final = 2  # marks on one letter; more of them cover the lines above and below
_UNREAD: Final = 20_000  # characters of a label that are read: the rest would not fit
_LONGEST: Final = 50_000  # characters of a line: about twenty screens
_SAFE_WORD: Final = re.compile(r"[A-Za-z0-9_@%+=:,./~^-]+")
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e", "\\": "\\\\", "'": "\\'"}
# Begins a continued line: with a terminal's own wrapping, a peer's text could begin a line that looks like ours.
CONTINUED: Final = "⤷ "


def is_hidden(letter: str) -> bool:
    """Return whether a character cannot be seen, or looks like a space."""
    return not letter.isprintable() or letter in _BLANK


def label(text: str, width: int, missing: str = "(nothing)") -> str:
    """Return at most `width` columns of a description."""
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
    """Quote a word of a command or a path as a shell would read it; hidden characters are escaped."""
    word = known_keys.mask(word)
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
    """Return a line of a file or a script with hidden characters named, as `<U+202E>`."""
    line = known_keys.mask(line).expandtabs(4)
    if line.isprintable() and not any(letter in _BLANK for letter in line):
        return line
    return "".join(f"<U+{ord(letter):04X}>" if is_hidden(letter) else letter for letter in line)


def wrapped(text: str, width: int) -> list[str]:
    """Wrap text into lines of at most `width` columns, all but the first marked. Extreme lengths are cut."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text) - _LONGEST} more characters)"
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
    """Wrap text of several lines, with hidden characters named."""
    found = text.replace("\r\n", "\n").strip("\n").split("\n")
    return [piece for line in found for piece in wrapped(spelled(line), width)]
