"""The steps of a rewind, written: each path in one step, and only if it still holds what the plan saw.

The record of the rewind is on the disk before the first path changes. Steps can be repeated: one whose path holds the
target already is done, so after `kill -9` the same record is run again and completes. Folders on a path are opened
below the root without following links. Files that are not in the record are never opened for writing, and HEAD, the
index and the objects of git never change.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.snapshots.entries import FileState, folder_state
from dragoman.snapshots.limits import RACY_NS, SnapshotLimits
from dragoman.snapshots.packs import ContentMissing
from dragoman.snapshots.reading import Reader
from dragoman.workspace.atomic import replace_at
from dragoman.workspace.replace import make_folders
from dragoman.workspace.resolve import find_resolver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.snapshots.contents import Contents
    from dragoman.snapshots.keeper import Keeper
    from dragoman.snapshots.records import RewindRecord, RewindStep

_FOLDER: Final = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC
_REASONS: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your disk quota is used up",
    errno.EFBIG: "the file would be larger than the system permits",
    errno.ENOTEMPTY: "the folder is not empty: it holds files that are not from the turn",
    errno.ELOOP: "a symbolic link is on its path, which is not followed",
    errno.ENOTDIR: "a part of its path is not a folder any more",
}


class FailedStep(Struct, frozen=True):
    """A path that was not changed, and why."""

    path: str
    reason: str


class StepRefused(Exception):
    """A path is not changed; the text says why."""


class Present:
    """What the paths of a folder hold now. Contents that are read are kept, so that they can be given back."""

    def __init__(self, root: str, limits: SnapshotLimits, keeper: Keeper, contents: Contents) -> None:
        self._root = root
        self._limits = limits
        self._keeper = keeper
        self._contents = contents

    def state(self, path: str, likely: FileState | None = None) -> FileState | None:
        """Return what is at a path; `likely` is what it probably is, whose id is used if it has the same content."""
        place = os.path.join(self._root, path)
        try:
            status = os.lstat(place)
        except OSError:
            return None
        if stat.S_ISDIR(status.st_mode):
            return folder_state(status.st_mode)
        reader = Reader(self._limits, self._keeper, time.time_ns() - RACY_NS)
        entry = reader.look(place, status, None if likely is None else likely.id)
        return None if entry is None else entry.state

    def is_same(self, path: str, one: FileState | None, other: FileState | None) -> bool:
        """Whether two states are the same: kind, permissions and content."""
        if one is None or other is None:
            return one is other
        return one.mode == other.mode and self._contents.is_same(path, one, other)


class Restorer:
    """The steps of one rewind below one root."""

    def __init__(self, root: str, contents: Contents, present: Present) -> None:
        self._root = root
        self._contents = contents
        self._present = present
        self._resolver = find_resolver()

    def run(self, record: RewindRecord) -> tuple[list[RewindStep], list[FailedStep]]:
        """Run the steps that are not done yet; return those that are done now, and those that failed."""
        done: list[RewindStep] = []
        failed: list[FailedStep] = []
        self._root_fd = os.open(self._root, _FOLDER)
        try:
            for number, step in _in_order(record.steps):
                try:
                    self._step(step, f".dragoman-rewind-{record.number}-{number}")
                    done.append(step)
                except StepRefused as reason:
                    failed.append(FailedStep(step.path, str(reason)))
                except ContentMissing as reason:
                    failed.append(FailedStep(step.path, str(reason)))
                except OSError as error:
                    failed.append(FailedStep(step.path, _REASONS.get(error.errno or 0, error.strerror or str(error))))
            self._close_folders(done)
        finally:
            os.close(self._root_fd)
        return done, failed

    def _step(self, step: RewindStep, temporary: str) -> None:
        path, target = step.path, step.target
        self._remove_left_over(path, temporary)
        now = self._present.state(path, step.now)
        if self._present.is_same(path, now, target):
            return
        if not self._present.is_same(path, now, step.now) and not _is_half_done(step, now):
            raise StepRefused("it was changed since this was decided; look at the plan again")
        if target is None:
            self._remove(path, now)
        elif target.is_folder:
            self._make_folder(path, now, target)
        elif now is not None and now.is_file and target.is_file and self._contents.is_same(path, now, target):
            with self._folder(path) as (folder, name):
                self._require(folder, name, now)
                os.chmod(name, target.permissions, dir_fd=folder)
        else:
            self._write(path, now, target, temporary)

    def _remove(self, path: str, now: FileState | None) -> None:
        with self._folder(path) as (folder, name):
            if now is not None and now.is_folder:
                os.rmdir(name, dir_fd=folder)
            else:
                self._require(folder, name, now)
                os.unlink(name, dir_fd=folder)

    def _make_folder(self, path: str, now: FileState | None, target: FileState) -> None:
        with self._folder(path, makes=True) as (folder, name):
            if now is not None and not now.is_folder:
                self._require(folder, name, now)
                os.unlink(name, dir_fd=folder)
            if now is None or not now.is_folder:
                os.mkdir(name, 0o700, dir_fd=folder)
            # Its files are written before it is closed.
            os.chmod(name, target.permissions | stat.S_IRWXU, dir_fd=folder)

    def _close_folders(self, done: Sequence[RewindStep]) -> None:
        """Give folders their exact permissions, when nothing has to be written in them any more."""
        made = [step for step in done if step.target is not None and step.target.is_folder]
        for step in sorted(made, key=lambda step: -step.path.count("/")):
            with suppress(OSError), self._folder(step.path) as (folder, name):
                status = _status(folder, name)
                if status is not None and stat.S_ISDIR(status.st_mode) and step.target is not None:
                    os.chmod(name, step.target.permissions, dir_fd=folder)

    def _write(self, path: str, now: FileState | None, target: FileState, temporary: str) -> None:
        if not target.is_file and not target.is_link:
            raise StepRefused("a FIFO, a socket or a device is not made again")
        content = self._contents.read(path, target)
        with self._folder(path, makes=True) as (folder, name):
            seen = _status(folder, name)
            if now is not None and now.is_folder:
                os.rmdir(name, dir_fd=folder)
                seen = None

            def check() -> None:
                if _identity(_status(folder, name)) != _identity(seen):
                    raise StepRefused("another program wrote it at the same moment; look at the plan again")

            if target.is_link:
                os.symlink(content, os.fsencode(temporary), dir_fd=folder)
                try:
                    check()
                    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    os.unlink(temporary, dir_fd=folder)
                    raise
                return
            existing = None
            if now is not None and now.is_file:
                with suppress(PermissionError):
                    existing = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                replace_at(
                    folder,
                    name,
                    content,
                    existing=existing,
                    permissions=target.permissions,
                    temporary=temporary,
                    before_rename=check,
                )
            finally:
                if existing is not None:
                    os.close(existing)

    def _require(self, folder: int, name: str, now: FileState | None) -> None:
        """Look a last time before a path is removed or changed in place."""
        status = _status(folder, name)
        if (now is None) != (status is None) or (
            status is not None and now is not None and (status.st_mode != now.mode or status.st_size != now.size)
        ):
            raise StepRefused("another program wrote it at the same moment; look at the plan again")

    def _remove_left_over(self, path: str, temporary: str) -> None:
        """Remove a temporary file of this very step, from a run that was killed."""
        with suppress(OSError), self._folder(path) as (folder, _):
            os.unlink(temporary, dir_fd=folder)

    @contextmanager
    def _folder(self, path: str, *, makes: bool = False) -> Iterator[tuple[int, str]]:
        parent, _, name = path.rpartition("/")
        try:
            fd = self._resolver.open_folder(self._root_fd, parent)
        except FileNotFoundError:
            if not makes:
                raise
            fd, _ = make_folders(self._root_fd, parent)
        try:
            yield fd, name
        finally:
            os.close(fd)


def _is_half_done(step: RewindStep, now: FileState | None) -> bool:
    """Whether a step of this very rewind was killed in the middle: a folder that has not its permissions yet, or a
    path whose old kind is gone and whose new one is not there yet.
    """
    target = step.target
    if target is not None and target.is_folder and now is not None and now.is_folder:
        return True
    is_other_kind = target is not None and step.now is not None and step.now.is_folder != target.is_folder
    return now is None and is_other_kind


def _in_order(steps: Sequence[RewindStep]) -> list[tuple[int, RewindStep]]:
    """Return the steps with their numbers, in an order in which each of them is possible.

    Names are removed before others are written: some file systems take names that differ in case only for one.
    """

    def place(item: tuple[int, RewindStep]) -> tuple[int, int]:
        now, target = item[1].now, item[1].target
        depth = item[1].path.count("/")
        if target is None:
            return 1, -depth  # what is in a folder before the folder
        if now is not None and now.is_folder and target.is_folder:
            # A folder that becomes writable does so before its files are changed, one that is closed afterwards.
            return (0, depth) if target.mode & stat.S_IWUSR else (5, -depth)
        if now is not None and now.is_folder:
            return 2, -depth
        return (3, depth) if target.is_folder else (4, depth)

    return sorted(enumerate(steps), key=place)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _identity(status: os.stat_result | None) -> tuple[int, ...] | None:
    if status is None:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode
