"""How a worktree is made: the commit with git, then everything the user has changed since; or a copy of the folder."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from dragoman.worktrees.git import WorktreeError, names_in, run_git, top_folder
from dragoman.worktrees.worktree import (
    CopiedState,
    Worktree,
    check_name,
    find_worktree,
    keep_record,
    project_of,
    remove_place,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_FILES: Final = 200_000
MOST_BYTES: Final = 4 * 1024**3


def make_worktree(folder: str, name: str, note: Callable[[str], None] = lambda text: None) -> Worktree:
    """Return the worktree of this name for the project of a folder; a new one is made if there is none.

    Args:
        folder: A folder of the project.
        name: Up to 64 letters, digits, dots, dashes and underscores.
        note: Called with a sentence about what the copy does not have.

    Raises:
        WorktreeError: it cannot be made; nothing is left of it then.
    """
    check_name(name)
    project = project_of(folder)
    if project in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise WorktreeError(f"{project} is not copied: name the folder of a project")
    known = find_worktree(project, name)
    if known is not None and os.path.isdir(known.folder):
        return known
    is_git = top_folder(folder) is not None
    remove_place(project, name, is_git=is_git)  # what an interrupted run left
    created_at = datetime.now(UTC).isoformat(timespec="seconds")
    made = Worktree(name=name, project=project, kind="git" if is_git else "copy", created_at=created_at)
    os.makedirs(os.path.dirname(made.folder), mode=0o700)
    try:
        made = _from_commit(made, note) if is_git else _copied(made)
        keep_record(made)
    except BaseException:
        with suppress(WorktreeError):
            remove_place(project, name, is_git=is_git)
        raise
    return made


def _from_commit(made: Worktree, note: Callable[[str], None]) -> Worktree:
    from msgspec.structs import replace

    project = made.project
    commit = run_git(project, ["rev-parse", "--verify", "HEAD^{commit}"]).decode().strip()
    run_git(project, ["worktree", "add", "--quiet", "--force", "--detach", made.folder, commit])
    if os.path.isfile(os.path.join(made.folder, ".gitmodules")):
        note("submodules of the project are empty folders in the worktree; git submodule update fills them")
    base: dict[str, CopiedState | None] = {}
    for path in _changed(project):
        source, target = os.path.join(project, path), os.path.join(made.folder, path)
        base[path] = state_of(source)
        if base[path] is not None:
            _copy(source, target)
            _copy(source, str(made.place / "base" / path))
        else:
            _remove(target)
    return replace(made, commit=commit, base=base)


def _changed(project: str) -> list[str]:
    """Return the paths whose content differs from the commit, those that git does not know included."""
    listed = names_in(run_git(project, ["diff", "--name-only", "--no-renames", "--ignore-submodules", "-z", "HEAD"]))
    unknown = names_in(run_git(project, ["ls-files", "--others", "--exclude-standard", "-z"]))
    # A nested repository is listed as a folder; its files are not the project's.
    return [path for path in dict.fromkeys([*listed, *unknown]) if not path.endswith("/")]


def _copied(made: Worktree) -> Worktree:
    from msgspec.structs import replace

    base: dict[str, CopiedState | None] = {}
    size_bytes = 0
    os.mkdir(made.folder)
    for path, is_folder in walk(made.project):
        source, target = os.path.join(made.project, path), os.path.join(made.folder, path)
        if is_folder:
            os.makedirs(target, exist_ok=True)
            continue
        size_bytes += os.lstat(source).st_size
        if len(base) >= MOST_FILES or size_bytes > MOST_BYTES:
            raise WorktreeError(
                f"{made.project} has more than {MOST_FILES:,} files or {MOST_BYTES >> 30} GiB and is not copied; make "
                "it a git repository, or work in a smaller folder"
            )
        state = state_of(source)
        if state is not None:
            _copy(source, target)
            base[path] = state
    return replace(made, base=base)


def walk(top: str) -> Iterator[tuple[str, bool]]:
    """Yield everything below a folder, and whether it is a folder; folders first. Links are not followed."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            entries = sorted(os.scandir(os.path.join(top, below)), key=lambda entry: entry.name)
        except PermissionError as error:
            raise WorktreeError(f"{error.filename} cannot be read: {error.strerror}") from None
        for entry in entries:
            path = os.path.join(below, entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            yield path, is_folder
            if is_folder:
                waiting.append(path)


def _copy(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(target).st_mode):
            os.unlink(target)
        else:
            shutil.rmtree(target)
    shutil.copy2(source, target, follow_symlinks=False)


def _remove(path: str) -> None:
    with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        os.unlink(path)
