"""The replacement of a file in one step: a reader sees the old content or the new content, never a part.

The new content goes into a temporary file in the same folder, is written to the disk (`fsync`) and then renamed over
the old file. The rename is atomic, so the folder itself needs no `fsync`: after a power cut it holds one of the two.

Every writer of this project follows the same rules, so they are here once. A new file has the mode that the umask
gives. An existing file keeps its mode, its owner and its extended attributes. A symbolic link is followed and stays a
link: the file it leads to is what changes. A file that is write-protected stays as it is, although a rename would not
need permission to write it. Does not check which paths may be written.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# O_PATH needs only permission to pass through a folder; macOS does not have it.
_FOLDER: Final = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK and O_NOCTTY: the file was regular a moment ago, and if it is not any more, opening it must not block.
_EXISTING: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_TEMPORARY: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(path: str | os.PathLike[str], data: bytes, *, mode: int | None = None) -> str:
    """Make `data` the whole content of a file, and return the real path of the file that changed.

    Blocks until the disk has the data; call it in a thread from asynchronous code. The folder must exist.

    Args:
        path: The file, which may be new. If it is a symbolic link, the file it leads to is written, or created.
        mode: Permissions of a new file, for example 0o600 for secrets; the umask is applied. An existing file keeps
            its own. Without it a new file gets 0o666, less the umask.

    Raises:
        OSError: The file cannot be written, or it is not a regular file. Nothing has changed then.
    """
    real = os.path.realpath(path)
    folder = os.open(os.path.dirname(real), _FOLDER)
    try:
        name = os.path.basename(real)
        existing = open_existing(folder, name, real)
        try:
            replace_at(folder, name, data, existing=existing, mode=mode)
        finally:
            if existing is not None:
                os.close(existing)
    finally:
        os.close(folder)
    return real


def replace_at(
    folder: int,
    name: str,
    data: bytes,
    *,
    existing: int | None,
    mode: int | None = None,
    permissions: int | None = None,
    temporary: str | None = None,
    before_rename: Callable[[], None] | None = None,
    is_synced: bool = True,
) -> None:
    """Make `data` the content of the file `name` in an open folder. A link at `name` would be replaced itself.

    Args:
        folder: Descriptor of the folder.
        existing: Descriptor of the file that is replaced, whose mode, owner and attributes are kept; None if there is
            none.
        mode: Permissions of a new file, to which the umask is applied.
        permissions: Exact permissions, whatever those of an existing file and the umask are.
        temporary: The name of the temporary file, for a caller that removes it after a crash.
        before_rename: Called at the last moment. What it raises stops the replacement.
        is_synced: Whether the disk has the data before the file gets its name.

    Raises:
        OSError: The file cannot be written. Nothing has changed then.
    """
    temporary = temporary or f".dragoman-{os.urandom(8).hex()}"
    if existing is not None or permissions is not None:
        mode = 0o600  # the owner's alone until it has the mode of the file it replaces
    fd = os.open(temporary, _TEMPORARY, 0o666 if mode is None else mode, dir_fd=folder)
    try:
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
            if existing is not None:
                _copy_metadata(existing, fd)
            if permissions is not None:
                os.fchmod(fd, permissions)
            if is_synced:  # without it a power cut after the rename can leave an empty file where a full one was
                os.fsync(fd)
        finally:
            os.close(fd)
        if before_rename is not None:
            before_rename()
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def open_existing(folder: int, name: str, path: str) -> int | None:
    """Return the file that will be replaced, None if there is none.

    It is opened for writing, so that the system checks the mode.
    """
    try:
        _require_regular(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
    except FileNotFoundError:
        return None
    fd = os.open(name, _EXISTING, dir_fd=folder)
    try:
        _require_regular(os.fstat(fd), path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _require_regular(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISLNK(status.st_mode):  # only a circle of links is still a link after realpath()
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)


def _copy_metadata(old: int, new: int) -> None:
    """Give the new file the mode, owner and extended attributes of the old one, as far as the system permits."""
    status, fresh = os.fstat(old), os.fstat(new)
    if (fresh.st_uid, fresh.st_gid) != (status.st_uid, status.st_gid):
        with suppress(PermissionError):  # only root may give files away; otherwise the writer becomes the owner
            os.fchown(new, status.st_uid, status.st_gid)
    # The set-user-id bit is removed, as the kernel removes it from any file that is written.
    os.fchmod(new, stat.S_IMODE(status.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
    if hasattr(os, "listxattr"):
        for name in _attributes(old):
            with suppress(OSError):  # some can only be set by the system
                os.setxattr(new, name, os.getxattr(old, name))


def _attributes(fd: int) -> list[str]:
    try:
        return os.listxattr(fd)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP):
            return []
        raise
