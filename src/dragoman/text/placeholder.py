"""Placeholders for redacted text.

Owns their form: as long as the text they replace, and of the same kind where readers depend on the form (absolute
paths, URLs, dates, media types). `redact.py` and `trace/redact.py` decide what is replaced.
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
    """Replace each character by `x`; line breaks stay, and so does the start that makes a path or a URL absolute."""
    if dated := _DATE.fullmatch(text):
        fraction = "." + "0" * len(dated[1]) if dated[1] else ""
        return f"2000-01-01T00:00:00{fraction}{'Z' if dated[2] == 'Z' else '+00:00'}"
    started = _START.match(text)
    start = started[0] if started else ""
    if start[1:2] == ":":
        start = "C" + start[1:]
    return start + _LETTER.sub("x", text[len(start) :])


def mask_bytes(data: bytes) -> bytes:
    """Mask a line that may not be UTF-8."""
    try:
        return mask(data.decode()).encode()
    except UnicodeDecodeError:
        return b"x" * len(data)


def mask_number(value: float) -> int | float:
    """Return a zero of the same type."""
    return 0.0 if type(value) is float else 0


def keep_word(value: str) -> str:
    """Keep a value of an enumeration, known or not, if it looks like one; else mask it."""
    return value if _WORD.fullmatch(value) else mask(value)


def keep_method(value: str) -> str:
    """Keep the name of a method, if it looks like one; else mask it."""
    return value if _METHOD.fullmatch(value) else mask(value)


def keep_program(value: str) -> str:
    """Keep the name or version of a program, if it looks like one; else mask it."""
    return value if _PROGRAM.fullmatch(value) else mask(value)


def keep_signal(value: str) -> str:
    """Keep the name of a signal; mask anything else."""
    return value if _SIGNAL.fullmatch(value) else mask(value)


def keep_currency(value: str) -> str:
    """Keep the code of a currency; mask anything else."""
    return value if _CURRENCY.fullmatch(value) else mask(value)


def keep_media_type(value: str) -> str:
    """Keep a common media type; of another one only its main type, such as `image/`."""
    if value in _MEDIA:
        return value
    kind = next(filter(value.startswith, _MEDIA_KINDS), "")
    return kind + mask(value[len(kind) :])
