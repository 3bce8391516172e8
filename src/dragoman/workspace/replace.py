"""Reading, replacing and removing the file at a name in an open folder.

Works through the folder's descriptor, so that no part of the path can be exchanged meanwhile. A symbolic link at the
name is reported (ELOOP), never followed; `workspace.py` finds where it leads. One that appears at the last moment is
replaced itself. Raises OSError and WorkspaceError. Does not know roots or text.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from dragoman.workspace.atomic import replace_at
from dragoman.workspace.failure import WorkspaceError
from dragoman.workspace.resolve import open_child

if TYPE_CHECKING:
    from dragoman.workspace.limits import FileLimits


class ExistingFile:
    """The regular file at a name, held open, with its content."""

    __slots__ = ("content", "fd", "status")

    def __init__(self, fd: int, status: os.stat_result, content: bytes) -> None:
        self.fd = fd
        self.status = status
        self.content = content

    def __enter__(self) -> ExistingFile:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self.fd)


def open_existing(folder: int, name: str, path: str, limits: FileLimits) -> ExistingFile | None:
    """Return the file at `name`, None if there is none.

    Raises:
        WorkspaceError: it is not a regular file, or it is too large.
        OSError: it may not be read or not be written; ELOOP if it is a symbolic link.
    """
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    # Looked at before it is opened: opening a device can already do something.
    require_regular(status, path)
    # For writing too, though a rename would not need it: a file protected from writing stays as it is.
    fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
    try:
        status = os.fstat(fd)
        require_regular(status, path)
        return ExistingFile(fd, status, read_all(fd, status, path, limits))
    except BaseException:
        os.close(fd)
        raise


def require_regular(status: os.stat_result, path: str) -> None:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    what = "a folder" if stat.S_ISDIR(mode) else "a FIFO" if stat.S_ISFIFO(mode) else "a device or socket"
    raise WorkspaceError("not_a_file", path, f"it is {what}; only regular files are read and written")


def read_all(fd: int, status: os.stat_result, path: str, limits: FileLimits) -> bytes:
    """Return the whole content. One byte more than expected is asked for, so that a file that grows is noticed."""
    most = limits.file_bytes
    if status.st_size > most:
        raise too_large(path, status.st_size, limits)
    content = os.read(fd, status.st_size + 1)
    if len(content) == status.st_size:
        return content
    parts = [content]
    size = len(content)
    while content and size <= most:
        content = os.read(fd, min(1 << 20, most + 1 - size))
        parts.append(content)
        size += len(content)
    if size > most:
        raise too_large(path, size, limits)
    return b"".join(parts)


def too_large(path: str, size_bytes: int, limits: FileLimits) -> WorkspaceError:
    most = limits.file_bytes
    return WorkspaceError(
        "too_large", path, f"{size_bytes:,} bytes are more than the {most:,} of a text file; use a program for that"
    )


def replace(folder: int, name: str, content: bytes, found: ExistingFile | None, path: str) -> None:
    """Put `content` at `name`, if what was seen there has not changed since."""
    replace_at(
        folder,
        name,
        content,
        existing=None if found is None else found.fd,
        before_rename=lambda: _require_unchanged(folder, name, found, path),
    )


def remove(folder: int, name: str, found: ExistingFile, path: str) -> None:
    """Delete the file that was seen."""
    _require_unchanged(folder, name, found, path)
    os.unlink(name, dir_fd=folder)


def make_folders(root: int, relative: str) -> tuple[int, list[str]]:
    """Open the folder at `relative`, making what is missing; say which were made, outermost first."""
    fd, made, way = os.dup(root), [], []
    try:
        for name in relative.split("/"):
            way.append(name)
            try:
                child = open_child(fd, name)
            except FileNotFoundError:
                with suppress(FileExistsError):  # another program made it meanwhile; the open below shows what it is
                    os.mkdir(name, dir_fd=fd)
                    made.append("/".join(way))
                child = open_child(fd, name)
            os.close(fd)
            fd = child
    except BaseException:
        os.close(fd)
        raise
    return fd, made


def _require_unchanged(folder: int, name: str, found: ExistingFile | None, path: str) -> None:
    """Narrow the gap between reading a file and replacing it to a few microseconds; nothing closes it."""
    seen = None if found is None else _identity(found.status)
    try:
        current = _identity(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        current = None
    if current != seen:
        raise WorkspaceError("changed", path, "another program wrote it at the same moment; read it again")


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
