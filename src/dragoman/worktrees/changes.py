"""What was changed in a worktree since it was made."""

from __future__ import annotations

import os
import re
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from dragoman.worktrees.git import WorktreeError, names_in, run_git
from dragoman.worktrees.make import walk
from dragoman.worktrees.worktree import content_of, mode_of, state_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from dragoman.worktrees.worktree import Worktree

LINK = 0o120000


class FileVersion(Struct, frozen=True):
    """A file or a link at one moment."""

    content: bytes
    mode: int


class WorktreeChange(Struct, frozen=True):
    """A path that differs from what it was when the worktree was made."""

    path: str
    """Relative to the project."""
    before: FileVersion | None
    after: FileVersion | None
    base_is_known: bool = True
    """False if the old content is lost, because the project's own file has changed since. `before` is None then."""

    @property
    def kind(self) -> Literal["created", "modified", "deleted"]:
        """What happened to the file."""
        if self.after is None:
            return "deleted"
        return "created" if self.before is None and self.base_is_known else "modified"


def changes_of(worktree: Worktree) -> list[WorktreeChange]:
    """Return the changes in a worktree, by path. What git ignores is not among them.

    Raises:
        WorktreeError: it cannot be read, or its folder is gone.
    """
    if not os.path.isdir(worktree.folder):
        raise WorktreeError(
            f"the folder of the worktree {worktree.name} is gone ({worktree.folder}); "
            f"forget it with: dragoman worktrees discard {worktree.name}"
        )
    found = _of_commit(worktree) if worktree.kind == "git" else _of_copy(worktree)
    return sorted(found, key=lambda change: change.path)


def patch_of(changes: Iterable[WorktreeChange]) -> bytes:
    """Return the changes as one patch for `git apply`, with renames, modes and binary files.

    Raises:
        WorktreeError: git is not installed.
    """
    with TemporaryDirectory(prefix="dragoman-patch-") as place:
        for side in ("a", "b"):
            os.mkdir(os.path.join(place, side))
        for change in changes:
            _put(place, "a", change.path, change.before)
            _put(place, "b", change.path, change.after)
        words = ["diff", "--no-index", "--no-color", "--no-ext-diff", "--binary", "--find-renames"]
        # The folders are the prefixes that a patch has anyway.
        return _as_in_repository(run_git(place, [*words, "--no-prefix", "--", "a", "b"], codes=(0, 1)))


def version_at(top: str, path: str) -> FileVersion | None:
    """Return a file or a link as it is now; None if there is none. Raises: WorktreeError."""
    place = os.path.join(top, path)
    content, mode = content_of(place), mode_of(place)
    return None if content is None or mode is None else FileVersion(content, mode)


def _as_in_repository(patch: bytes) -> bytes:
    """Correct the names: without a repository git names a side that does not exist like the other one, and renames
    with the folders of both sides. Lines of content begin with a sign, so they are not taken for lines with names.
    """
    lines = patch.split(b"\n")
    for number, line in enumerate(lines):
        if line.startswith((b"rename from ", b"rename to ")):
            lines[number] = re.sub(rb'^(rename \w+ "?)[ab]/', rb"\1", line)
        elif line.startswith(b"diff --git "):
            names = line.removeprefix(b"diff --git ")
            half = len(names) // 2
            if names[:half] == names[half + 1 :]:
                quote, rest = (b'"', names[2:half]) if names.startswith(b'"') else (b"", names[1:half])
                lines[number] = b"diff --git %ba%b %bb%b" % (quote, rest, quote, rest)
    return b"\n".join(lines)


def _of_commit(worktree: Worktree) -> Iterator[WorktreeChange]:
    assert worktree.commit is not None
    folder, commit = worktree.folder, worktree.commit
    listed = names_in(
        run_git(folder, ["diff", "--name-only", "--no-renames", "--ignore-submodules", "-z", commit, "--"])
    )
    unknown = names_in(run_git(folder, ["ls-files", "--others", "--exclude-standard", "-z"]))
    paths = [path for path in dict.fromkeys([*listed, *unknown, *worktree.base]) if not path.endswith("/")]
    committed = _committed(worktree, [path for path in paths if path not in worktree.base])
    for path in paths:
        before = version_at(str(worktree.place / "base"), path) if path in worktree.base else committed.get(path)
        after = version_at(folder, path)
        if before != after:
            yield WorktreeChange(path, before, after)


def _committed(worktree: Worktree, paths: Sequence[str]) -> dict[str, FileVersion]:
    """Return files of the commit as they are checked out, with the filters of the project."""
    found: dict[str, FileVersion] = {}
    wanted = set(paths)
    assert worktree.commit is not None
    if not wanted:
        return found
    for entry in run_git(worktree.folder, ["ls-tree", "-r", "-z", worktree.commit]).split(b"\0"):
        facts, _, name = entry.partition(b"\t")
        path = os.fsdecode(name)
        if path not in wanted:
            continue
        mode = int(facts.split()[0], 8)
        if mode == LINK:
            content = run_git(worktree.folder, ["cat-file", "blob", facts.split()[2].decode()])
        elif mode in (0o100644, 0o100755):
            content = run_git(worktree.folder, ["cat-file", "--filters", f"{worktree.commit}:{path}"])
        else:  # a submodule
            continue
        found[path] = FileVersion(content, mode)
    return found


def _of_copy(worktree: Worktree) -> Iterator[WorktreeChange]:
    there = {path for path, is_folder in walk(worktree.folder) if not is_folder}
    for path in there | worktree.base.keys():
        known = worktree.base.get(path)
        now = state_of(os.path.join(worktree.folder, path))
        if now == known:
            continue
        after = version_at(worktree.folder, path)
        if known is None:
            yield WorktreeChange(path, None, after)
            continue
        # There is no second copy: the project's own file is the old one as long as the user did not change it.
        is_known = state_of(os.path.join(worktree.project, path)) == known
        before = version_at(worktree.project, path) if is_known else None
        yield WorktreeChange(path, before, after, base_is_known=is_known)


def _put(place: str, side: str, path: str, version: FileVersion | None) -> None:
    if version is None:
        return
    target = os.path.join(place, side, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if version.mode == LINK:
        os.symlink(os.fsdecode(version.content), target)
        return
    with open(target, "wb") as file:
        file.write(version.content)
    os.chmod(target, version.mode & 0o777)


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
