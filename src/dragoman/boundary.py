"""The boundary of a worktree: which places are closed to a session that works in a copy of a project.

A worktree shows by its place what it is (`worktrees/worktree.py`): the folder `tree` next to a `record.json` that names
the project. So every program that is given such a folder finds the same boundary, whichever way it was started. What a
folder only claims can close more places, never open one. Owns where the boundary runs; rules (`workspace/judging.py`)
and mounts (`process/sandbox/apart.py`) enforce it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.policy.paths import is_below

_MOST_BYTES: Final = 64 * 1024  # of a record
_MOST_ORIGINALS: Final = 8  # a worktree of a worktree of ...


class Boundary(Struct, frozen=True):
    """The places around a worktree. All paths are absolute and without links."""

    tree: str
    """The copy to work in."""
    originals: tuple[str, ...]
    """The checkouts that it was made from: the project first, then, if that is a worktree itself, its project."""
    worktrees: str
    """The folder of all worktrees with their records. Only `tree` is open in it."""

    def original_of(self, path: str) -> str | None:
        """Return the checkout that a real path is in, None if it is in none."""
        if is_below(path, self.tree):
            return None
        return next((original for original in self.originals if is_below(path, original)), None)

    def why_closed(self, path: str, *, changes: bool, removes: bool = False) -> str:
        """Return why a real path is closed; empty if it is not.

        Args:
            changes: whether it would be written; an original may be read.
            removes: whether everything below it would go too.
        """
        if is_below(path, self.tree) and path != self.tree:
            return ""
        original = self.original_of(path)
        if original is not None:
            is_closed = changes
            why = f"{path} is in {original}, which this worktree is a copy of; it is not changed from here"
        else:
            is_closed = is_below(path, self.worktrees) and path != self.tree
            why = f"{path} belongs to other worktrees"
        if removes and any(is_below(place, path) for place in (*self.originals, self.worktrees, self.tree)):
            return f"{path} contains the worktree or what it is a copy of; it is not removed from here"
        return why if is_closed else ""


class _Record(Struct):
    project: str


def boundary_of(folder: str) -> Boundary | None:
    """Return the boundary around the worktree that a folder is in; None if it is in none."""
    return boundary_around(os.path.realpath(folder))


def boundary_around(real: str) -> Boundary | None:
    """Return the boundary around the worktree that a real path is in; None if it is in none."""
    found = _worktree_of(real)
    if found is None:
        return None
    tree, project, worktrees = found
    originals = [project]
    while len(originals) < _MOST_ORIGINALS:
        above = _worktree_of(originals[-1])
        if above is None or above[1] in originals:
            break
        originals.append(above[1])
    return Boundary(tree, tuple(originals), worktrees)


def _worktree_of(real: str) -> tuple[str, str, str] | None:
    """Return the worktree that a real path is in, its project, and the folder of all worktrees."""
    names = real.split("/")
    # The innermost counts: a project may lie in a worktree.
    for end in range(len(names), 5, -1):
        if names[end - 2] == "tree" and names[end - 5] == "worktrees":
            place = "/".join(names[: end - 2])
            with suppress(OSError, msgspec.MsgspecError):
                with open(os.path.join(place, "record.json"), "rb") as file:
                    record = msgspec.json.decode(file.read(_MOST_BYTES), type=_Record)
                return "/".join(names[:end]), os.path.realpath(record.project), "/".join(names[: end - 4])
    return None
