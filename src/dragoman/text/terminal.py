"""Text from elsewhere, made safe for a terminal and cut to a known length.

`plain` and `one_line` remove everything that acts on a terminal: escape sequences as a whole, other control characters
and marks that change the reading direction. `escape_json` does the same for JSON without changing its value. `clip` and
`fit` count terminal columns, `cut` and `shorten` count characters. Colours are added afterwards (see `colour.py`);
`printed` is the last step of a stream, where text from elsewhere and our own colours are one text already.
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category, east_asian_width

from dragoman.text.secrets import known_keys

# Patterns are texts here, which `re` compiles on first use and keeps: an agent that prints nothing needs none of them.
# A string sequence (OSC, DCS, APC, PM, SOS) ends with BEL or ST. If the end is missing, only the introducer is removed:
# the rest is harmless text then, and useful to see when a program is broken.
_ACTING: Final = r"""(?x)
    (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)  # a string, with its end
    | (?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]                                         # CSI: cursor, colours, queries
    | \x1b[ -/]*[0-~]                                                          # every other escape
    | [\x00-\x08\x0b-\x1f\x7f-\x9f]                                            # controls except tab and newline
    | [\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]                           # reading direction
    | [\U000e0000-\U000e007f]                                                  # tags: invisible text
    """
# What we write ourselves: colours, and the step back to the start of a cleared line.
_OWN: Final = r"(\r\x1b\[K|\x1b\[[0-9;]{0,32}m)"
_WIDE_COLOUR: Final = r"[34]8;(?:5;\d+|2;\d+;\d+;\d+)"
REDRAW: Final = "\r\x1b[K"
"""Goes back to the start of the line and clears it: the only movement that `printed` lets through."""
_CONCEAL: Final = "8"  # the colour that hides text: a user must see what is asked
_BREAKS: Final = r"\r\n|[\n\r\u2028\u2029]"
_SURROGATES: Final = "[\ud800-\udfff]"
# Everything that a terminal or an editor acts on or does not show, line breaks excepted: controls, the separators of
# lines and paragraphs, marks of format and of direction, letters without width, and halves of characters. JSON escapes
# the first 32 itself; text that is not JSON does not.
_JSON_ESCAPED: Final = (
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
LINE_BREAK: Final = "↵"
ELLIPSIS: Final = "…"


def plain(text: str) -> str:
    """Return the text without known keys and without anything that acts on a terminal; line breaks and tabs stay."""
    text = known_keys.mask(text)
    if text.isprintable():  # False for everything above
        return text
    return _without_acting(text)


def harmless(text: str) -> str:
    """Return a text of the user's own without anything that acts on a terminal; a key in it is the user's to send."""
    return text if text.isprintable() else _without_acting(text)


def _without_acting(text: str) -> str:
    return re.sub(_SURROGATES, "\ufffd", re.sub(_ACTING, "", re.sub(_BREAKS, "\n", text)))


def printed(text: str, *, has_colour: bool, can_redraw: bool) -> str:
    """Return text that is about to be written to a stream, without controls; colours and `REDRAW` stay if they may."""
    pieces = re.split(_OWN, text)
    pieces[::2] = map(_without_acting, pieces[::2])
    pieces[1::2] = [sequence if _is_shown(sequence, has_colour, can_redraw) else "" for sequence in pieces[1::2]]
    return "".join(pieces)


def _is_shown(sequence: str, has_colour: bool, can_redraw: bool) -> bool:
    if sequence == REDRAW:
        return can_redraw
    return has_colour and _CONCEAL not in re.sub(_WIDE_COLOUR, "", sequence[2:-1]).split(";")


def one_line(text: str) -> str:
    """Return the same on one line, with each line break shown as `LINE_BREAK`."""
    text = known_keys.mask(text)
    if text.isprintable():
        return text
    return plain(text).replace("\n", LINE_BREAK).replace("\t", " ")


def sentence(text: str) -> str:
    """Return the same on one line, with each run of white space replaced by one space."""
    return plain(" ".join(text.split()))


def escape_json(text: str) -> str:
    r"""Escape as `\uXXXX` what JSON may hold literally and is acted on or not shown; the JSON keeps its value."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return re.sub(_JSON_ESCAPED, _escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def cells(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of, text))


def clip(text: str, width: int) -> str:
    """Return at most `width` columns of the text; an ellipsis stands for the rest."""
    text = known_keys.mask(text)  # before it is cut: the beginning of a key is a secret, too
    if cells(text) <= width:
        return text
    taken, used = [], 0
    for letter in text:
        used += _cells_of(letter)
        if used > width - 1:
            break
        taken.append(letter)
    return "".join(taken) + ELLIPSIS if width > 0 else ""


def fit(text: str, width: int) -> str:
    """Return exactly `width` columns: clipped, or filled up with spaces."""
    clipped = clip(text, width)
    return clipped + " " * (width - cells(clipped))


def cut(text: str, characters: int) -> str:
    """Return at most `characters` characters of the text; an ellipsis stands for the rest."""
    text = known_keys.mask(text)
    return text if len(text) <= characters else text[: characters - 1].rstrip() + ELLIPSIS


_CUT_WORDS: Final = 30  # characters of the remark in the place of what is left out


def cut_middle(text: str, characters: int) -> str:
    """Return about `characters` characters of the text: its start, how many are left out, and its end."""
    if len(text) <= characters + _CUT_WORDS:
        return text
    start, end = characters * 2 // 3, characters // 3
    return f"{text[:start]}… ({len(text) - start - end} more characters) …{text[-end:]}"


def shorten(text: str, characters: int) -> str:
    """Return at most `characters` characters of the text on one line, with single spaces; see `cut`."""
    return cut(" ".join(text.split()), characters)


def _cells_of(letter: str) -> int:
    if letter.isascii():
        return 1
    if category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def size(size_bytes: int) -> str:
    """Return a size in at most five columns."""
    if size_bytes < 1000:
        return f"{size_bytes}"
    value = float(size_bytes)
    for unit in "kMG":
        value /= 1000
        if value < 999.5 or unit == "G":
            return f"{value:.1f}{unit}" if value < 99.95 else f"{value:.0f}{unit}"
    raise AssertionError(size_bytes)


def duration(seconds: float) -> str:
    """Return a time span in at most seven columns."""
    if seconds < 0.01:
        return f"{seconds * 1000:.1f}ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 99.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"
