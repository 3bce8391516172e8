"""The worktrees of a project, and what is known about each: a folder below the user's data folder.

    DATA/worktrees/PROJECT/NAME/record.json    what it was made from
    DATA/worktrees/PROJECT/NAME/base.msgpack   every file as it was: name, mode and the hash of its content
    DATA/worktrees/PROJECT/NAME/base/          files as they were, where the commit does not have them
    DATA/worktrees/PROJECT/NAME/tree/FOLDER    the copy to work in, called like the project's folder

The record is written last, so that a folder without one is a copy that was never finished.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import Struct

from dragoman.boundary import boundary_of
from dragoman.settings.places import data_dir
from dragoman.text.visible import label
from dragoman.worktrees.git import WorktreeError, run_git, top_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RECORD: Final = "record.json"
_PIECE_BYTES: Final = 1 << 20


class Worktree(Struct, frozen=True, kw_only=True):
    """A copy of a project."""

    name: str
    project: str
    """The folder that it is a copy of: the top of the git work tree, or the folder itself."""
    kind: Literal["git", "copy"]
    created_at: str
    """RFC 3339, in UTC."""
    commit: str | None = None
    """The commit that it was made from."""
    git_folder: str | None = None
    """The folder of git's files that it shares with the project; None for a plain copy."""

    @property
    def place(self) -> Path:
        """The folder of everything that belongs to it."""
        return _place(self.project) / self.name

    @property
    def folder(self) -> str:
        """The copy to work in."""
        return str(self.place / "tree" / (os.path.basename(self.project) or "project"))

    def inside(self, folder: str) -> str:
        """Return the folder of the copy that stands for a folder of the project."""
        return os.path.normpath(os.path.join(self.folder, os.path.relpath(os.path.realpath(folder), self.project)))


def project_of(folder: str) -> str:
    """Return the project that a folder belongs to: the top of its git work tree, or the folder itself.

    In a worktree that is its own folder. Git is not asked there: an agent can replace what git would read.
    """
    boundary = boundary_of(folder)
    return os.path.realpath(top_folder(folder) or folder) if boundary is None else boundary.tree


def worktree_at(folder: str) -> Worktree | None:
    """Return the worktree that a folder is in."""
    boundary = boundary_of(folder)
    return None if boundary is None else _read(Path(boundary.tree).parent.parent)


def list_worktrees(project: str) -> list[Worktree]:
    """Return the worktrees of a project, the oldest first. One that cannot be read is left out."""
    place = _place(project)
    names = sorted(os.listdir(place)) if place.is_dir() else []
    found = [worktree for worktree in (_read(place / name) for name in names) if worktree is not None]
    return sorted(found, key=lambda worktree: worktree.created_at)


def find_worktree(project: str, name: str) -> Worktree | None:
    """Return the worktree with this name.

    Raises:
        WorktreeError: the name cannot be one.
    """
    check_name(name)
    return _read(_place(project) / name)


def check_name(name: str) -> None:
    """Raises: WorktreeError if a worktree cannot be called so."""
    if not _NAME.fullmatch(name):
        raise WorktreeError(
            f"{label(name, 400)!r} cannot be the name of a worktree: use up to 64 letters, digits, dots, dashes and "
            "underscores, and begin with a letter or a digit"
        )


def keep_record(worktree: Worktree) -> None:
    """Write down that the worktree is complete."""
    from dragoman.workspace.private import write_private

    write_private(worktree.place / _RECORD, msgspec.json.encode(worktree), is_synced=True)


def discard_worktree(worktree: Worktree) -> None:
    """Remove the copy and everything that belongs to it. The project keeps what it has.

    Raises:
        WorktreeError: something cannot be removed.
    """
    remove_place(worktree.project, worktree.name, worktree.git_folder)


def remove_place(project: str, name: str, git_folder: str | None) -> None:
    """Remove the folder of a worktree, complete or not. Raises: WorktreeError."""
    place = _place(project) / name
    # Without a record a removal that is interrupted leaves a copy that is not offered any more.
    (place / _RECORD).unlink(missing_ok=True)
    try:
        if place.is_dir():
            shutil.rmtree(place, onerror=_writable_first)
    except OSError as error:
        raise WorktreeError(f"{place} cannot be removed: {error.strerror or error}") from error
    if git_folder is not None and os.path.isdir(git_folder):
        run_git(git_folder, ["worktree", "prune", "--expire", "now"], git_folder=git_folder)


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a folder of a worktree, by name. One that was closed there is opened again.

    Raises:
        WorktreeError: it cannot be read.
    """
    try:
        try:
            listing = os.scandir(folder)
        except PermissionError:
            os.chmod(folder, 0o700)
            listing = os.scandir(folder)
        with listing:
            return sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        raise WorktreeError(f"{folder} cannot be read: {error.strerror or error}") from error


def content_of(path: str, *, is_copy: bool = False) -> bytes | None:
    """Read the content of a file, or where a link leads; None for anything else.

    Args:
        is_copy: it is a file of a worktree, and is made readable if need be.

    Raises:
        WorktreeError: it cannot be read.
    """
    return None if mode_of(path) is None else b"".join(pieces_of(path, is_copy=is_copy))


def pieces_of(path: str, *, is_copy: bool = False) -> Iterator[bytes]:
    """Yield the content of a file piece by piece, or where a link leads; nothing for anything else.

    Raises:
        WorktreeError: it cannot be read.
    """
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            yield os.fsencode(os.readlink(path))
            return
        if not stat.S_ISREG(status.st_mode):
            return
        if is_copy and not status.st_mode & 0o400:
            os.chmod(path, stat.S_IMODE(status.st_mode) | 0o400)
        # A process that is left of a run can put a pipe or a link in its place at this moment.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb", buffering=0) as file:
            while stat.S_ISREG(os.fstat(fd).st_mode) and (piece := file.read(_PIECE_BYTES)):
                yield piece
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise WorktreeError(f"{path} cannot be read: {error.strerror or error}") from error


def size_of(path: str) -> int | None:
    """Return the size of a file or a link; None for anything else."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode) else None


def mode_of(path: str) -> int | None:
    """Return how git would store the mode: 0o100644, 0o100755, or 0o120000 for a link; None for anything else."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return None
    if stat.S_ISLNK(mode):
        return 0o120000
    return (0o100755 if mode & 0o100 else 0o100644) if stat.S_ISREG(mode) else None


def _place(project: str) -> Path:
    key = hashlib.sha256(os.fsencode(project)).hexdigest()[:16]
    return data_dir() / "worktrees" / key


def _read(place: Path) -> Worktree | None:
    try:
        return msgspec.json.decode((place / _RECORD).read_bytes(), type=Worktree)
    except (OSError, msgspec.MsgspecError):
        return None


def _writable_first(remove: Callable[[str], object], path: str, error: object) -> None:
    """Make the folder writable, and try once more: tools make read-only folders, for example caches of modules."""
    os.chmod(os.path.dirname(path), 0o700)
    if not os.path.islink(path):
        os.chmod(path, 0o700)
    remove(path)
