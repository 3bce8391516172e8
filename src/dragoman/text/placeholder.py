"""What stands in place of a text that must not be shown.

Owns the form of placeholders: as long as what they replace, and of a kind with it where readers look at the form
(absolute paths, URLs, dates, media types). Knows no message; `redact.py` decides what is replaced.
"""

from __future__ import annotations

import re
from typing import Final

_START: Final = re.compile(r"/|[A-Za-z]:[\\/]|file://|https?://")
_LETTER: Final = re.compile(r"[^\n]")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_WORD: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,47}")
_METHOD: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$./-]{0,79}")
_SIGNAL: Final = re.compile(r"SIG[A-Z0-9]{1,9}")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_PROGRAM: Final = re.compile(r"[A-Za-z0-9@_][A-Za-z0-9@_ ./+()-]{0,79}")

_MEDIA: Final = frozenset(
    {
        "text/plain",
        "text/markdown",
        "text/html",
        "text/css",
        "text/csv",
        "text/x-python",
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/svg+xml",
        "audio/wav",
        "audio/mpeg",
        "audio/ogg",
        "video/mp4",
        "application/json",
        "application/pdf",
        "application/octet-stream",
        "application/xml",
    }
)
_MEDIA_KINDS: Final = ("text/", "image/", "audio/", "video/", "application/")


def mask(text: str) -> str:
    """As many `x` as there were characters; line breaks stay, and so does what makes a path or a URL absolute."""
    if dated := _DATE.fullmatch(text):
        fraction = "." + "0" * len(dated[1]) if dated[1] else ""
        return f"2000-01-01T00:00:00{fraction}{'Z' if dated[2] == 'Z' else '+00:00'}"
    started = _START.match(text)
    start = started[0] if started else ""
    if start[1:2] == ":":
        start = "C" + start[1:]
    return start + _LETTER.sub("x", text[len(start) :])


def mask_bytes(data: bytes) -> bytes:
    """The same for a line that may be no text at all."""
    try:
        return mask(data.decode()).encode()
    except UnicodeDecodeError:
        return b"x" * len(data)


def mask_number(value: float) -> int | float:
    """A number of the same type that says nothing."""
    return 0.0 if type(value) is float else 0


def keep_word(value: str) -> str:
    """A value of an enumeration, known or not, if it looks like one."""
    return value if _WORD.fullmatch(value) else mask(value)


def keep_method(value: str) -> str:
    """The name of a method, if it looks like one."""
    return value if _METHOD.fullmatch(value) else mask(value)


def keep_program(value: str) -> str:
    """The name or version of a program, if it looks like one."""
    return value if _PROGRAM.fullmatch(value) else mask(value)


def keep_signal(value: str) -> str:
    """The name of a signal."""
    return value if _SIGNAL.fullmatch(value) else mask(value)


def keep_currency(value: str) -> str:
    """The code of a currency."""
    return value if _CURRENCY.fullmatch(value) else mask(value)


def keep_media_type(value: str) -> str:
    """A common media type; of another one only what kind of thing it is."""
    if value in _MEDIA:
        return value
    kind = next(filter(value.startswith, _MEDIA_KINDS), "")
    return kind + mask(value[len(kind) :])
