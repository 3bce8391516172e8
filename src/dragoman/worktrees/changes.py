"""What was changed in a worktree since it was made. `base.py` knows what it was then."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from dragoman.workspace.patch_text import PatchSide, file_patch
from dragoman.worktrees.base import GIT, FileVersion, base_of, files_in, is_in_git, version_at, versions_of
from dragoman.worktrees.git import WorktreeError
from dragoman.worktrees.worktree import size_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from dragoman.worktrees.base import Base
    from dragoman.worktrees.worktree import Worktree


MOST_READ_BYTES: Final = 512 << 20  # of the contents that changed, all together


class WorktreeChange(Struct, frozen=True):
    """A path that differs from what it was when the worktree was made."""

    path: str
    """Relative to the project."""
    before: FileVersion | None
    after: FileVersion | None
    base_is_known: bool = True
    """False if the old content is lost, because the project's own file has changed since. `before` is None then."""
    aside: Literal["git", "generated", "large", "ignored"] | None = None
    """Why a merge leaves it: it stands for a folder of git with all that is in it; for a folder with installed or
    generated files; its content is too large to be read; or git ignores it. By rules that were changed in the worktree,
    where git ignores it. None if a merge takes it."""

    @property
    def kind(self) -> Literal["created", "modified", "deleted"]:
        """What happened to the file."""
        if self.after is None:
            return "deleted"
        return "created" if self.before is None and self.base_is_known else "modified"


def changes_of(worktree: Worktree) -> list[WorktreeChange]:
    """Return the changes in a worktree, by path. What git ignored when it was made, and still does, is not among them.

    Raises:
        WorktreeError: it cannot be read, or its folder is gone.
    """
    folder = worktree.folder
    if not os.path.isdir(folder) or os.path.islink(folder):
        raise WorktreeError(
            f"the folder of the worktree {worktree.name} is gone ({folder}); "
            f"forget it with: dragoman worktrees discard {worktree.name}"
        )
    base = base_of(worktree)
    nothing = FileVersion(b"", 0o100644)
    found = {file.path: file for file in files_in(worktree, base)}
    generated = [WorktreeChange(path, None, nothing, aside="generated") for path in found if found[path].is_generated]
    differing: dict[str, FileVersion | None] = {}
    large: set[str] = set()
    room_bytes = MOST_READ_BYTES
    for path in sorted(found.keys() | {os.fsdecode(name) for name in base.files}):
        # What was there and is not found is gone, or behind a link.
        if path in found and (found[path].is_generated or base.holds(path, folder)):
            continue
        size = size_of(os.path.join(folder, path)) if path in found else None
        if size is None:
            if os.fsencode(path) in base.files:
                differing[path] = None
        elif size > room_bytes and not is_in_git(path):
            large.add(path)
        else:
            now = differing[path] = nothing if is_in_git(path) else version_at(folder, path, is_copy=True)
            room_bytes -= 0 if now is None else len(now.content)
    own = set(_of_git(worktree, base, differing))
    unread = [WorktreeChange(path, _was(base, path), nothing, aside="large") for path in large]
    plain = {path: now for path, now in differing.items() if not is_in_git(path)}
    before = versions_of(worktree, base, plain)
    changes = [
        WorktreeChange(
            path,
            before.get(path),
            now,
            base_is_known=path in before or os.fsencode(path) not in base.files,
            aside="ignored" if path in found and found[path].is_newly_ignored else None,
        )
        for path, now in plain.items()
    ]
    changes = [seen for change in changes if (seen := _in_submodule(worktree, base, change)) is not None]
    return sorted([*own, *generated, *unread, *changes], key=lambda change: change.path)


def _was(base: Base, path: str) -> FileVersion | None:
    """Return something for a file that was there, without its content."""
    return FileVersion(b"", 0o100644) if os.fsencode(path) in base.files else None


def _of_git(worktree: Worktree, base: Base, differing: Iterable[str]) -> Iterator[WorktreeChange]:
    """Yield one change for each folder of git that is not as it was, and for the worktree's own `.git`."""
    nothing = FileVersion(b"", 0o100644)
    names = {os.fsdecode(name) for name in base.files}
    for path in {_git_part(path) for path in differing if is_in_git(path)}:
        was_there = any(_git_part(name) == path for name in names if is_in_git(name))
        is_there = os.path.lexists(os.path.join(worktree.folder, path))
        yield WorktreeChange(path, nothing if was_there else None, nothing if is_there else None, aside="git")
    link = version_at(worktree.folder, GIT, is_copy=True)
    if base.link and (link is None or link.content != base.link):
        yield WorktreeChange(GIT, nothing, link or nothing, aside="git")


def _git_part(path: str) -> str:
    """Return a path up to the folder of git that it is in."""
    names = path.split("/")
    return "/".join(names[: [name.lower() for name in names].index(GIT) + 1])


def _in_submodule(worktree: Worktree, base: Base, change: WorktreeChange) -> WorktreeChange | None:
    """Return a change as it counts: what a submodule of the project has as well is none."""
    if not any(change.path.startswith(f"{os.fsdecode(module)}/") for module in base.submodules):
        return change
    present = version_at(worktree.project, change.path)
    if present == change.after:
        return None
    return WorktreeChange(change.path, None, change.after, base_is_known=present is None, aside=change.aside)


def patch_of(changes: Iterable[WorktreeChange]) -> bytes:
    """Return the changes as one patch for `git apply`, with renames, modes and binary files.

    Folders of git and of generated files, and files that are too large to be read, are not in it.
    """
    shown = [change for change in changes if change.aside in (None, "ignored")]
    gone = {change.before: change for change in shown if change.after is None and change.before is not None}
    pieces: list[tuple[str, bytes]] = []
    renamed = set()
    for change in shown:
        origin = gone.pop(change.after, None) if change.before is None and change.after is not None else None
        old = change if origin is None else origin
        if origin is not None:
            renamed.add(origin.path)
        if change.after is not None:
            pieces.append((change.path, file_patch(_side(old.path, old.before), _side(change.path, change.after))))
    pieces += [
        (change.path, file_patch(_side(change.path, change.before), None))
        for change in shown
        if change.after is None and change.path not in renamed
    ]
    return b"".join(piece for _, piece in sorted(pieces))


def _side(path: str, version: FileVersion | None) -> PatchSide | None:
    return None if version is None else PatchSide(path, f"{version.mode:o}", version.content)


def select(changes: Sequence[WorktreeChange], paths: Collection[str]) -> list[WorktreeChange]:
    """Return the changes of some files, or below some folders.

    Raises:
        WorktreeError: a name stands for no change.
    """
    chosen = []
    for path in paths:
        clean = os.path.normpath(path)
        fitting = [
            change for change in changes if change.path == clean or change.path.startswith(f"{clean}/") or clean == "."
        ]
        if not fitting:
            raise WorktreeError(f"nothing was changed at {path}; paths start at the folder of the project")
        chosen += fitting
    return [change for change in changes if change in chosen]
