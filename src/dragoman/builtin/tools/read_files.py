"""Remembers which files the model has read in this session, and their content at that time.

Owns the answer to the question whether the model knows what it is about to overwrite. Keeps digests, not text.
"""

from __future__ import annotations

from typing import Any, Final

_KEY: Final = "files"


def remember(memory: dict[str, Any], path: str, text: str) -> None:
    """Record that the model has seen this file with the content `text`."""
    memory.setdefault(_KEY, {})[path] = _digest(text)


def is_known(memory: dict[str, Any], path: str) -> bool:
    """Whether the model has read or written this file."""
    return path in memory.get(_KEY, {})


def is_current(memory: dict[str, Any], path: str, text: str) -> bool:
    """Whether the model has last seen this file with the content `text`."""
    return bool(memory.get(_KEY, {}).get(path) == _digest(text))


def _digest(text: str) -> bytes:
    import hashlib

    # Some editors send a CRLF file with LF; that is not a change.
    plain = text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
    return hashlib.blake2b(plain, digest_size=16).digest()
