"""How much of a disk is taken into memory. Each number has its reason next to it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class FileLimits(Struct, frozen=True):
    """Sizes in bytes."""

    # No text a model can take in comes near; a database or a disk image behind a text name does.
    file_bytes: int = 10 * 1024 * 1024
    # Both sides of every change are kept for review and rewind. Forty turns of a hundred 30 KiB files fit.
    journal_bytes: int = 256 * 1024 * 1024


FILE_LIMITS: Final = FileLimits()
