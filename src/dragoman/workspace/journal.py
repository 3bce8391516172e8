"""The journal: every change that was made, with both sides, so that it can be reviewed and reverted.

It only grows: reverting is a change like any other, and the net change of a turn is computed, not stored. So every
former content of a file can be restored, until the journal is over its limit and drops its oldest entries; asking for
those is an error. Does not know how a file is read or written: `Disk` does that.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from dragoman.workspace.failure import WorkspaceError
from dragoman.workspace.hunks import Hunk, find_hunks, revert_hunks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from dragoman.workspace.limits import FileLimits


class Change(Struct, frozen=True, dict=True):
    """One file before and after; None stands for no file."""

    path: str
    before: bytes | None
    after: bytes | None
    label: str = ""
    folders: tuple[str, ...] = ()  # made for it
    links: int = 1  # names of the file that was replaced; more than one means a hard link, whose other names keep it

    @cached_property
    def hunks(self) -> tuple[Hunk, ...]:
        """What differs, line by line."""
        return find_hunks(self.before, self.after)

    @property
    def is_empty(self) -> bool:
        return self.before == self.after


class Disk(Protocol):
    """The files that the journal reverts changes in."""

    def content(self, path: str) -> bytes | None:
        """Return what a reader would get now, None for no file."""

    def put(self, path: str, content: bytes | None, *, expected: bytes | None, label: str) -> Change:
        """Replace `expected`, which the file must hold now, by `content`, and record that."""

    def remove_folders(self, paths: Iterable[str]) -> None:
        """Remove those that are empty."""


class Journal:
    """The changes of a workspace. A `label` groups them: for a session, the turn they belong to."""

    def __init__(self, disk: Disk, limits: FileLimits) -> None:
        self._disk = disk
        self._limits = limits
        self._changes: deque[Change] = deque()
        self._size_bytes = 0
        self._forgotten: set[str] = set()

    def changes(self, label: str | None = None) -> tuple[Change, ...]:
        """Return every change kept, oldest first."""
        return tuple(change for change in self._changes if label is None or change.label == label)

    def net(self, label: str | None = None) -> tuple[Change, ...]:
        """Return the net changes: one per file, from its first content to its last.

        A file that another program changed in between has one for each stretch, so that its changes are not in it.
        """
        return tuple(change for change in _joined(self.changes(label)) if not change.is_empty)

    def rewind(self, label: str) -> list[Change]:
        """Revert everything that a label changed, or nothing if that is not possible; return the changes that did so.

        Raises:
            WorkspaceError: `changed`, if a file is no longer what the label left; `forgotten`, if not all is known.
        """
        if label in self._forgotten:
            raise WorkspaceError(
                "forgotten", label, "too much was changed since to keep all of it; use version control to restore it"
            )
        net = self.net(label)
        seen: set[str] = set()
        for change in net:
            if change.path in seen:
                raise WorkspaceError(
                    "changed",
                    change.path,
                    "another program changed it between two of these changes; revert single hunks",
                )
            seen.add(change.path)
            self._require_current(change)
        undone = [self._disk.put(change.path, change.before, expected=change.after, label=label) for change in net]
        self._disk.remove_folders(_innermost_first(net))
        return undone

    def revert(self, change: Change, hunks: Collection[Hunk] | None = None) -> Change:
        """Revert some hunks of a change, or all; return the change that did so.

        Raises:
            WorkspaceError: `changed`, if the file is no longer what the change left: ask for the net changes again.
        """
        chosen = change.hunks if hunks is None else tuple(hunks)
        strange = [hunk for hunk in chosen if hunk not in change.hunks]
        if strange:
            raise WorkspaceError("changed", change.path, "the hunk is not one of this change; ask for its hunks again")
        self._require_current(change)
        is_whole = hunks is None or (chosen and set(chosen) == set(change.hunks))
        content = change.before if is_whole else change.after if not chosen else revert_hunks(change.after, chosen)
        undone = self._disk.put(change.path, content, expected=change.after, label=change.label)
        if content is None:
            self._disk.remove_folders(_innermost_first([change]))
        return undone

    def add(self, change: Change) -> None:
        """Keep a change that was made."""
        self._changes.append(change)
        self._size_bytes += _size(change)
        while self._size_bytes > self._limits.journal_bytes and len(self._changes) > 1:
            oldest = self._changes.popleft()
            self._size_bytes -= _size(oldest)
            self._forgotten.add(oldest.label)

    def _require_current(self, change: Change) -> None:
        if self._disk.content(change.path) != change.after:
            raise WorkspaceError(
                "changed", change.path, "it was changed since, and reverting this would lose that; undo it by hand"
            )


def _joined(changes: Iterable[Change]) -> list[Change]:
    """Join runs of changes of one file, each beginning where the last one ended, into one."""
    joined: list[Change] = []
    latest: dict[str, int] = {}
    for change in changes:
        at = latest.get(change.path)
        if at is None or joined[at].after != change.before:
            latest[change.path] = len(joined)
            joined.append(change)
        else:
            first = joined[at]
            folders = first.folders + tuple(name for name in change.folders if name not in first.folders)
            joined[at] = Change(first.path, first.before, change.after, change.label, folders, first.links)
    return joined


def _innermost_first(changes: Iterable[Change]) -> list[str]:
    """Return the folders that were made, so that each is empty when it is its turn."""
    return sorted({folder for change in changes for folder in change.folders}, key=len, reverse=True)


def _size(change: Change) -> int:
    return len(change.before or b"") + len(change.after or b"")
