"""Puts the contents that a scan reads into the store, as long as there is room for them.

Owns the budget of a folder and what happens if the disk is full: the content is then known by its hash only, and the
reason is kept for the user. The folder's lock is taken with the first content and released when the scan is over.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dragoman.snapshots.entries import hash_only, stored_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.snapshots.limits import SnapshotLimits
    from dragoman.snapshots.packs import Packs
    from dragoman.snapshots.tree import Tree


class Keeper:
    """The way into the packs of one folder.

    Args:
        lock: takes the folder's lock; False if another process does not give it up.
        unlock: gives it back.
        place: an existing path on the disk of the store.
    """

    def __init__(
        self,
        packs: Packs,
        limits: SnapshotLimits,
        *,
        lock: Callable[[], bool],
        unlock: Callable[[], None],
        place: str,
    ) -> None:
        self._packs = packs
        self._limits = limits
        self._lock = lock
        self._unlock = unlock
        self._place = place
        self._room: int | None = None
        self._is_locked = False
        self.kept_bytes = 0
        self.problem = ""
        """Why contents are not kept; empty while all are."""

    def keep(self, content: bytes) -> bytes:
        """Store a content and return its id; the id of its hash alone if it cannot be stored."""
        id = stored_id(content)
        if self._packs.has(id[1:]):
            return id
        if self.problem or not self._has_room(len(content)):
            return hash_only(id)
        try:
            self._packs.add(id[1:], content)
        except OSError as error:
            self.problem = f"the store cannot be written: {error.strerror or error}"
            return hash_only(id)
        self.kept_bytes += len(content)
        return id

    def finish(self, *, syncs: bool = False) -> None:
        """Write what is left, and give the lock back."""
        if not self._is_locked:
            return
        try:
            if syncs:
                self._packs.sync()
            self._packs.release()
        except OSError as error:
            self.problem = f"the store cannot be written: {error.strerror or error}"
        finally:
            self._is_locked = False
            self._room = None
            self._unlock()

    def correct(self, tree: Tree) -> None:
        """Mark, after a problem, the contents that did not reach the disk as not kept."""
        if self.problem:
            has = self._packs.has
            tree.ids = [hash_only(id) if id[:1] == b"s" and not has(id[1:]) else id for id in tree.ids]

    def _has_room(self, size: int) -> bool:
        if self._room is None:
            if not self._lock():
                self.problem = "another program uses the store"
                return False
            self._is_locked = True
            self._packs.refresh()
            disk = os.statvfs(self._place)
            free = disk.f_bavail * disk.f_frsize - self._limits.free_bytes
            self._room = min(self._limits.folder_bytes - self._packs.size_bytes(), free)
            if free <= 0:
                self.problem = "the disk is nearly full"
                return False
        self._room -= size
        if self._room < 0:
            self.problem = f"the store of this folder has reached its limit of {self._limits.folder_bytes:,} bytes"
            return False
        return True
