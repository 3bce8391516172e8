"""The room that snapshots take: how much it is, and how it is made free again.

The oldest turns are dropped first; contents that neither a turn, a rewind nor the last look at the folder needs go with
them. A folder in which a turn runs is left alone.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.snapshots.folder_store import FolderStore
from dragoman.snapshots.overlap import stored_folders
from dragoman.snapshots.packs import ContentMissing

if TYPE_CHECKING:
    from dragoman.snapshots.limits import SnapshotLimits

# Room is made when a budget is nearly used up, and enough that the next turns do not have to.
_FULL: Final = 0.9
_ENOUGH: Final = 0.6


class StoredFolder(Struct, frozen=True, kw_only=True):
    """What the snapshots of one folder take."""

    folder: str
    size_bytes: int
    contents: int
    turns: int
    rewinds: int
    last_used_at: float
    exists: bool
    """Whether the folder itself is still there."""


def stored(base: str, limits: SnapshotLimits) -> list[StoredFolder]:
    """Return the folders that have snapshots, the last used first."""
    found = []
    for root in stored_folders(base):
        store = FolderStore(base, root, limits)
        found.append(
            StoredFolder(
                folder=root,
                size_bytes=_size(store.folder),
                contents=len(store.packs),
                turns=len(store.turns()),
                rewinds=len(store.rewinds()),
                last_used_at=_last_used(store),
                exists=os.path.isdir(root),
            )
        )
    return sorted(found, key=lambda stored: stored.last_used_at, reverse=True)


def free(base: str, root: str, limits: SnapshotLimits, *, keep_turns: int = 0) -> int:
    """Drop the turns of a folder except the last ones, and return how many bytes that freed. With 0 all of it goes.

    Raises:
        OSError: a turn runs in it, or the disk is full.
    """
    store = FolderStore(base, root, limits)
    before = _size(store.folder)
    if any(is_alive for _, is_alive in store.live_turns()):
        raise OSError(f"a turn runs in {root}; free its snapshots when it has ended")
    if keep_turns == 0:
        with store.locked():
            shutil.rmtree(store.folder)
        return before
    with store.locked():
        for record in store.turns()[:-keep_turns]:
            store.drop_turn(record.number)
        oldest = min((record.number for record in store.turns()), default=0)
        for rewind in store.rewinds():
            if rewind.is_done and rewind.number < oldest:
                store.drop_rewind(rewind.number)
        compact(store)
    return before - _size(store.folder)


def compact(store: FolderStore) -> int:
    """Drop contents that nothing needs and compress the others. Needs the lock. Raises: OSError."""
    try:
        return store.packs.compact(needed(store))
    except ContentMissing:
        return 0  # a damaged content: nothing is rewritten, so that nothing else is lost


def needed(store: FolderStore) -> set[bytes]:
    """Return the hashes of all contents that a turn, a rewind or a tree refers to."""
    ids: set[bytes] = set()
    numbers = {live.tree for live, _ in store.live_turns()} | {store.newest_tree()}
    for number in numbers:
        tree = store.tree(number)
        if tree is not None:
            ids.update(tree.ids)
    for record in store.turns():
        for change in record.changes:
            ids.update(state.id for state in (change.before, change.after) if state is not None)
    for rewind in store.rewinds():
        for step in rewind.steps:
            ids.update(state.id for state in (step.now, step.target) if state is not None)
    return {id[1:] for id in ids if id[:1] == b"s"}


def make_room(base: str, store: FolderStore, limits: SnapshotLimits) -> None:
    """Drop, before a turn, old turns of a folder that has nearly used its budget, and stores that are long unused."""
    size = store.packs.size_bytes()
    if size > limits.folder_bytes * _FULL and not any(is_alive for _, is_alive in store.live_turns()):
        with store.locked():
            while True:
                turns = store.turns()
                compact(store)
                if store.packs.size_bytes() <= limits.folder_bytes * _ENOUGH or not turns:
                    break
                for record in turns[: max(1, len(turns) // 2)]:
                    store.drop_turn(record.number)
    others = [root for root in stored_folders(base) if root != store.root]
    sizes = {root: FolderStore(base, root, limits).packs.size_bytes() for root in others}
    total = sum(sizes.values()) + size
    if total <= limits.total_bytes:
        return
    for root in sorted(others, key=lambda root: _last_used(FolderStore(base, root, limits))):
        try:
            total -= free(base, root, limits)
        except OSError:
            continue
        if total <= limits.total_bytes * _ENOUGH:
            return


def _size(folder: str) -> int:
    return sum(os.lstat(os.path.join(place, name)).st_size for place, _, names in os.walk(folder) for name in names)


def _last_used(store: FolderStore) -> float:
    try:
        return os.stat(os.path.join(store.folder, "folder")).st_mtime
    except OSError:
        return 0.0
