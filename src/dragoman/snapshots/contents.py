"""The bytes of a content id: from our packs, or from git's objects. Reads only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dragoman.snapshots.entries import FileState, git_id, stored_id
from dragoman.snapshots.git_files import Repository, find_repository
from dragoman.snapshots.git_objects import BlobMissing, GitObjects
from dragoman.snapshots.packs import ContentMissing, Packs

if TYPE_CHECKING:
    from types import TracebackType


class Contents:
    """What the paths of one folder held. Close it after use: it keeps git's packs open."""

    def __init__(self, root: str, packs: Packs) -> None:
        self._root = root
        self._packs = packs
        self._repositories: dict[str, Repository | None] = {}
        self._objects: dict[str, GitObjects] = {}

    def read(self, path: str, state: FileState) -> bytes:
        """Read the bytes of a file, or the target of a link, that was at a path.

        Raises:
            ContentMissing: they were not kept, or are lost.
        """
        match state.id[:1]:
            case b"s":
                return self._packs.read(state.id[1:])
            case b"g":
                return self._blob(path, state.id[1:])
            case _:
                raise ContentMissing("its content was not kept")

    def is_same(self, path: str, one: FileState, other: FileState) -> bool:
        """Whether two states have the same content, also if one is known by git's name and one by ours."""
        kinds = {one.id[:1], other.id[:1]}
        if one.id == other.id or (kinds == {b"s", b"h"} and one.id[1:] == other.id[1:]):
            return True
        if one.size != other.size or kinds != {b"s", b"g"}:
            return False
        ours, git = (one, other) if one.id[:1] == b"s" else (other, one)
        try:
            return stored_id(self._blob(path, git.id[1:])) == ours.id
        except ContentMissing:
            try:
                return git_id(self._packs.read(ours.id[1:]), len(git.id) - 1) == git.id
            except ContentMissing:
                return False

    def close(self) -> None:
        for objects in self._objects.values():
            objects.close()
        self._objects.clear()

    def __enter__(self) -> Contents:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _blob(self, path: str, name: bytes) -> bytes:
        problem = "git's repository is gone"
        seen = set()
        for repository in self._candidates(path):
            if repository.common in seen:
                continue
            seen.add(repository.common)
            folder = os.path.join(repository.common, "objects")
            objects = self._objects.get(folder)
            if objects is None:
                objects = self._objects[folder] = GitObjects(folder, len(name))
            try:
                return objects.read(name)
            except BlobMissing as error:
                problem = str(error)
        raise ContentMissing(problem)

    def _candidates(self, path: str) -> list[Repository]:
        """Return the repositories that a path may belong to, the nearest first."""
        found: list[Repository] = []
        folder = os.path.dirname(os.path.join(self._root, path))
        while True:
            if folder not in self._repositories:
                self._repositories[folder] = find_repository(folder)
            repository = self._repositories[folder]
            if repository is None:
                return found
            found.append(repository)
            parent = os.path.dirname(repository.worktree)
            if parent == folder or parent == repository.worktree:
                return found
            folder = parent
