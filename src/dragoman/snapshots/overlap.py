"""Which turns ran in a folder at the same time: their changes cannot be told apart by looking at the folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dragoman.policy.paths import is_strictly_below
from dragoman.snapshots.folder_store import FolderStore
from dragoman.snapshots.limits import SNAPSHOT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.snapshots.records import LiveTurn


def overlapping_sessions(base: str, store: FolderStore, live: LiveTurn) -> tuple[str, ...]:
    """Return the sessions of other turns in this folder, or in one above or below it, since this turn began."""
    found: dict[str, None] = {}
    # In the same folder turns have numbers, so no clock is needed.
    for other, is_alive in store.live_turns():
        if is_alive and other.uid != live.uid:
            found[_name(other.agent, other.session_id)] = None
    for record in store.turns():
        if record.ended > live.number and record.uid != live.uid and not record.is_interrupted:
            found[_name(record.agent, record.session_id)] = None
    for relative in _related(base, store):
        for other, is_alive in relative.live_turns():
            if is_alive and other.uid != live.uid:
                found[_name(other.agent, other.session_id)] = None
        for record in relative.turns():
            if record.ended_at > live.started_at and record.uid != live.uid and not record.is_interrupted:
                found[_name(record.agent, record.session_id)] = None
    return tuple(found)


def _related(base: str, store: FolderStore) -> Iterator[FolderStore]:
    """Yield the stores of folders that contain this one, or are in it."""
    for root in stored_folders(base):
        if is_strictly_below(root, store.root) or is_strictly_below(store.root, root):
            yield FolderStore(base, root, SNAPSHOT_LIMITS)


def stored_folders(base: str) -> list[str]:
    """Return the folders that have a store."""
    try:
        names = sorted(os.listdir(base))
    except OSError:
        return []
    found = []
    for name in names:
        try:
            with open(os.path.join(base, name, "folder"), "rb") as file:
                found.append(os.fsdecode(file.read()))
        except OSError:
            continue
    return found


def _name(agent: str, session_id: str) -> str:
    return f"{agent} {session_id}".strip() or "another session"
