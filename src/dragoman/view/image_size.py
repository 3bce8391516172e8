"""The width and height of an image, read from the beginning of its data: PNG, GIF, JPEG and WebP. Pure."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Final

_READ: Final = 64 * 1024  # characters of base64: a JPEG may have a preview and its colours before its size


def image_size(data: str) -> tuple[int, int] | None:
    """Return the width and height of an image in base64; None if they cannot be read."""
    try:
        start = b64decode(data[: min(len(data), _READ) // 4 * 4])
    except (NotBase64, ValueError):
        return None
    size = _png(start) or _gif(start) or _webp(start) or _jpeg(start)
    return size if size is not None and all(0 < side < 1_000_000 for side in size) else None


def _png(data: bytes) -> tuple[int, int] | None:
    if len(data) < 24 or data[:8] != b"\x89PNG\r\n\x1a\n":
        return None
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _gif(data: bytes) -> tuple[int, int] | None:
    if len(data) < 10 or data[:6] not in (b"GIF87a", b"GIF89a"):
        return None
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


def _webp(data: bytes) -> tuple[int, int] | None:
    if len(data) < 30 or data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return None
    match data[12:16]:
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    if data[:2] != b"\xff\xd8":
        return None
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        is_bare = marker == 0xFF or marker == 0x01 or 0xD0 <= marker <= 0xD8
        at += 1 if marker == 0xFF else 2 if is_bare else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None
