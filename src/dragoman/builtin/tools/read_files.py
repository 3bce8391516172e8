"""Which files the model has seen in this session, and what stood in them then.

Owns the answer to "does it know what it is about to overwrite". Keeps digests, no text.
"""

from __future__ import annotations

from typing import Any, Final

_KEY: Final = "files"


def remember(memory: dict[str, Any], path: str, text: str) -> None:
    """The model knows this file as `text`."""
    memory.setdefault(_KEY, {})[path] = _digest(text)


def is_known(memory: dict[str, Any], path: str) -> bool:
    """Whether the model has read or written this file at all."""
    return path in memory.get(_KEY, {})


def is_current(memory: dict[str, Any], path: str, text: str) -> bool:
    """Whether the model knows this file, and as `text`."""
    return bool(memory.get(_KEY, {}).get(path) == _digest(text))


def _digest(text: str) -> bytes:
    import hashlib

    # Some editors give the lines of a CRLF file with LF; that is no change.
    plain = text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
    return hashlib.blake2b(plain, digest_size=16).digest()
