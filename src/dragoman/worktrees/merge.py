"""Merges the changes of a worktree into its project.

Three states decide about each path: as it was when the worktree was made, as it is in the worktree, and as it is in the
project now. A path that only the worktree changed is taken over; one that is the same in both stays; text that both
changed is merged line by line. Anything else is a conflict, and with one conflict nothing is written at all. The plan
is made first and shown; before each write the path is compared with it once more. Files are replaced in one step, so a
merge that is interrupted is completed by doing it again: what it wrote is the same in both then.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from dragoman.workspace.atomic import replace_file
from dragoman.worktrees.base import LINK, FileVersion, version_at
from dragoman.worktrees.git import WorktreeError, run_git

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.worktrees.changes import WorktreeChange
    from dragoman.worktrees.worktree import Worktree

_LEFT = {
    "git": "files of git are not merged",
    "generated": "installed and generated files that git ignores are not merged",
    "large": "it is too large to be merged; copy it by hand",
    "ignored": "only a rule that was changed in the worktree ignores it; name it to merge it",
}


class MergedPath(Struct, frozen=True):
    """What a merge does with one path."""

    path: str
    action: Literal["create", "modify", "merge", "delete", "none", "leave", "conflict"]
    present: FileVersion | None
    """The project's file when the plan was made."""
    result: FileVersion | None
    reason: str = ""
    """Of a conflict, or why the path is left."""


class MergePlan(Struct, frozen=True):
    """What a merge does, path by path."""

    project: str
    paths: list[MergedPath]

    @property
    def conflicts(self) -> list[MergedPath]:
        """The paths that stop the merge."""
        return [path for path in self.paths if path.action == "conflict"]

    @property
    def writes(self) -> list[MergedPath]:
        """The paths that are changed in the project."""
        return [path for path in self.paths if path.action not in ("none", "leave", "conflict")]

    @property
    def left(self) -> list[MergedPath]:
        """The paths that stay in the worktree only."""
        return [path for path in self.paths if path.action == "leave"]


def plan_merge(worktree: Worktree, changes: Iterable[WorktreeChange], *, takes_ignored: bool = False) -> MergePlan:
    """Decide about each change. Writes nothing.

    Args:
        takes_ignored: the user named these files, so what git ignores by rules of the worktree is taken as well.

    Raises:
        WorktreeError: a file cannot be read.
    """
    paths = []
    for change in changes:
        if change.aside is not None and not (change.aside == "ignored" and takes_ignored):
            paths.append(MergedPath(change.path, "leave", None, None, _LEFT[change.aside]))
        else:
            paths.append(_planned(worktree.project, change))
    return MergePlan(worktree.project, paths)


def apply_merge(plan: MergePlan) -> None:
    """Write what the plan says.

    Raises:
        WorktreeError: there is a conflict, and nothing was written; or a file changed since the plan was made, or
            cannot be written. The paths before it are written then, and the text names them.
    """
    if plan.conflicts:
        raise WorktreeError(f"{plan.conflicts[0].path}: {plan.conflicts[0].reason}")
    done: list[str] = []
    for planned in plan.writes:
        try:
            if version_at(plan.project, planned.path) != planned.present:
                raise WorktreeError(f"{planned.path} was changed while the merge ran; nothing was overwritten")
            _write(plan.project, planned)
        except (OSError, WorktreeError) as error:
            reason = str(error) if isinstance(error, WorktreeError) else f"{planned.path}: {error.strerror or error}"
            merged = f"; already merged: {', '.join(done)}" if done else ""
            raise WorktreeError(f"{reason}{merged}; the worktree is kept, merge it again") from error
        done.append(planned.path)


def _planned(project: str, change: WorktreeChange) -> MergedPath:
    now = version_at(project, change.path)
    blocked = _blocked(project, change.path)
    if blocked and (now is not None or change.after is not None):
        return MergedPath(change.path, "conflict", now, None, blocked)
    if now == change.after:
        return MergedPath(change.path, "none", now, now)
    if change.base_is_known and now == change.before:
        action: Literal["create", "modify", "delete"]
        action = "delete" if change.after is None else "create" if now is None else "modify"
        return MergedPath(change.path, action, now, change.after)
    return _both_changed(change, now)


def _both_changed(change: WorktreeChange, now: FileVersion | None) -> MergedPath:
    before, after = change.before, change.after
    if not change.base_is_known:
        reason = "it was changed in the project too, and its old content is not known"
    elif now is None:
        reason = "it was deleted in the project"
    elif after is None:
        reason = "it was deleted in the worktree and changed in the project"
    elif before is None:
        reason = "it was created in the project too, with other content"
    elif LINK in (before.mode, after.mode, now.mode) or any(b"\0" in state.content for state in (before, after, now)):
        reason = "it was changed in the project too, and it is not text"
    else:
        merged = _merged(before.content, after.content, now.content)
        mode = after.mode if now.mode == before.mode else now.mode
        if merged is not None:
            return MergedPath(change.path, "merge", now, FileVersion(merged, mode))
        reason = "the same lines were changed in the project"
    return MergedPath(change.path, "conflict", now, None, reason)


def _merged(before: bytes, after: bytes, now: bytes) -> bytes | None:
    """Return the text with both changes; None if they touch the same lines."""
    with TemporaryDirectory(prefix="dragoman-merge-") as place:
        for name, content in (("now", now), ("before", before), ("after", after)):
            with open(os.path.join(place, name), "wb") as file:
                file.write(content)
        try:
            return run_git(place, ["merge-file", "-p", "-q", "now", "before", "after"])
        except WorktreeError:
            return None


def _blocked(project: str, path: str) -> str:
    """Return why nothing can be written at a path; empty if something can."""
    parts = path.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        try:
            mode = os.lstat(os.path.join(project, above)).st_mode
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{above}: {error.strerror}"
        if stat.S_ISLNK(mode):
            return f"{above} is a link in the project"
        if not stat.S_ISDIR(mode):
            return f"{above} is not a folder in the project"
    place = os.path.join(project, path)
    return "there is a folder of this name in the project" if os.path.isdir(place) and not os.path.islink(place) else ""


def _write(project: str, planned: MergedPath) -> None:
    place = os.path.join(project, planned.path)
    result, present = planned.result, planned.present
    if result is None:
        os.unlink(place)
        _remove_empty(project, os.path.dirname(planned.path))
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if present is not None and LINK in (present.mode, result.mode):
        os.unlink(place)
    if result.mode == LINK:
        os.symlink(os.fsdecode(result.content), place)
        return
    replace_file(place, result.content)
    if present is None or present.mode != result.mode:
        mode = stat.S_IMODE(os.stat(place).st_mode)
        readers = (mode & 0o444) >> 2
        os.chmod(place, mode | readers if result.mode & 0o100 else mode & ~0o111)


def _remove_empty(project: str, folder: str) -> None:
    """Remove the folders that became empty with the file that was deleted."""
    with suppress(OSError):
        while folder:
            os.rmdir(os.path.join(project, folder))
            folder = os.path.dirname(folder)
