"""How much of a tree is read and kept. Each number has its reason next to it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MEBIBYTE: Final = 1024 * 1024


class SnapshotLimits(Struct, frozen=True):
    """Bounds of one folder's snapshots."""

    # A monorepo of this size takes half a second for an unchanged tree; above it every turn would begin with a pause.
    most_files: int = 200_000
    # The first look at a tree, in seconds of CPU: a prompt must not wait longer for something the user did not ask for.
    first_scan_seconds: float = 2.0
    # The same on the clock, for a disk that has to be read; generous, because other programs may keep the machine busy.
    first_scan_clock_seconds: float = 20.0
    # A larger file is not reviewed line by line, and media files of this size filled the disks of other tools.
    largest_kept_bytes: int = 5 * MEBIBYTE
    # Above this not even the hash is computed: 64 MiB take 0.1 s, a disk image takes minutes.
    largest_hashed_bytes: int = 64 * MEBIBYTE
    # What one folder may take on the disk, and all of them together. The oldest turns are dropped first.
    folder_bytes: int = 2 * 1024 * MEBIBYTE
    total_bytes: int = 10 * 1024 * MEBIBYTE
    # Storing stops before it fills the disk of the user.
    free_bytes: int = 512 * MEBIBYTE
    # A pack that is full is never written again, so that backups and compaction work on pieces of this size.
    pack_bytes: int = 64 * MEBIBYTE


SNAPSHOT_LIMITS: Final = SnapshotLimits()

RACY_NS: Final = 20_000_000
"""Older kernels change file times every 1 to 4 ms: a file this fresh may change again without a new time."""
SLICE_SECONDS: Final = 0.005
"""How long a scan keeps the interpreter before other threads get their turn."""
