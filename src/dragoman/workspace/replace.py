"""Putting content in the place of a file, whole or not at all.

Works through the descriptor of the file's folder, so nothing on the way can be exchanged. A link in the place is
never followed: it is seen and refused, or, if it appears at the last moment, replaced itself. Raises OSError and
WorkspaceError. Knows no text and no roots.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from dragoman.workspace.failure import WorkspaceError
from dragoman.workspace.resolve import open_child

if TYPE_CHECKING:
    from dragoman.workspace.limits import FileLimits


class Standing:
    """The regular file that stands at a name, held open with its content read."""

    __slots__ = ("_fd", "content", "status")

    def __init__(self, fd: int, status: os.stat_result, content: bytes) -> None:
        self._fd = fd
        self.status = status
        self.content = content

    def __enter__(self) -> Standing:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._fd)

    def dress(self, fd: int) -> None:
        """Gives another file this one's mode, owner and attributes, as far as the system lets us."""
        status = self.status
        fresh = os.fstat(fd)
        if (fresh.st_uid, fresh.st_gid) != (status.st_uid, status.st_gid):
            with suppress(PermissionError):  # only root may give files away; the writer owns it then
                os.fchown(fd, status.st_uid, status.st_gid)
        # Set-user-id goes, as the kernel takes it from any file that is written.
        os.fchmod(fd, stat.S_IMODE(status.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
        if hasattr(os, "listxattr"):
            for name in _attributes(self._fd):
                with suppress(OSError):  # some are the system's own to set
                    os.setxattr(fd, name, os.getxattr(self._fd, name))


def stand(folder: int, name: str, path: str, limits: FileLimits) -> Standing | None:
    """What stands at `name`, None if nothing does.

    Raises:
        WorkspaceError: what stands there is no regular file, is a link, or is too large.
        OSError: it may not be read or not be written.
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
        return Standing(fd, status, read_all(fd, status, path, limits))
    except BaseException:
        os.close(fd)
        raise


def require_regular(status: os.stat_result, path: str) -> None:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode):
        raise WorkspaceError("link", path, "it is a symbolic link, which is never written; name the file it leads to")
    what = "a folder" if stat.S_ISDIR(mode) else "a FIFO" if stat.S_ISFIFO(mode) else "a device or socket"
    raise WorkspaceError("not_a_file", path, f"it is {what}; only regular files are read and written")


def read_all(fd: int, status: os.stat_result, path: str, limits: FileLimits) -> bytes:
    """The whole content. One byte more than expected is asked for, so that a file that grows is noticed."""
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


def replace(folder: int, name: str, content: bytes, standing: Standing | None, path: str) -> None:
    """Puts `content` at `name` by way of a temporary file beside it: a reader sees the old file or the new one."""
    beside = f".dragoman-{os.urandom(8).hex()}"
    # A new file gets what the process gives new files; the copy of an old one is nobody else's until it is dressed.
    mode = 0o666 if standing is None else 0o600
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
    try:
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(fd, left) :]
            if standing is not None:
                standing.dress(fd)
            # Without this a power cut after the rename can leave an empty file where a full one stood.
            os.fsync(fd)
        finally:
            os.close(fd)
        _require_unchanged(folder, name, standing, path)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise


def remove(folder: int, name: str, standing: Standing, path: str) -> None:
    """Deletes the file that was seen."""
    _require_unchanged(folder, name, standing, path)
    os.unlink(name, dir_fd=folder)


def make_folders(root: int, relative: str) -> tuple[int, list[str]]:
    """Opens the folder at `relative`, making what is missing; says which were made, outermost first."""
    fd, made, way = os.dup(root), [], []
    try:
        for name in relative.split("/"):
            way.append(name)
            try:
                child = open_child(fd, name)
            except FileNotFoundError:
                with suppress(FileExistsError):  # somebody else made it meanwhile; the open below says what it is
                    os.mkdir(name, dir_fd=fd)
                    made.append("/".join(way))
                child = open_child(fd, name)
            os.close(fd)
            fd = child
    except BaseException:
        os.close(fd)
        raise
    return fd, made


def _require_unchanged(folder: int, name: str, standing: Standing | None, path: str) -> None:
    """Narrows the gap between reading what stands and replacing it to a few microseconds; nothing closes it."""
    seen = None if standing is None else _identity(standing.status)
    try:
        found = _identity(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        found = None
    if found != seen:
        raise WorkspaceError("changed", path, "somebody else wrote it at the same moment; read it again")


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _attributes(fd: int) -> list[str]:
    try:
        return os.listxattr(fd)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP):
            return []
        raise
