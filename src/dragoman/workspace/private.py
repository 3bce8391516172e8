"""Folders and files that only their owner can read, whatever the umask is.

Owns how they are made and replaced. A folder that existed before is left as it is, because it may be shared on purpose;
a file of ours that other users could read is closed to them.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path


def make_private_folder(folder: str | os.PathLike[str]) -> None:
    """Make a folder and the missing ones above it. `Path.mkdir` leaves those above to the umask. Raises: OSError."""
    path = Path(folder)
    upwards = [path, *path.parents]
    missing = next((number for number, parent in enumerate(upwards) if parent.is_dir()), len(upwards))
    for parent in reversed(upwards[:missing]):
        try:
            parent.mkdir(mode=0o700)
            parent.chmod(0o700)  # the umask may have taken the owner's own permissions
        except FileExistsError:  # another program made it at this moment
            if not parent.is_dir():
                raise


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, and close it to other users if it was open to them. Raises: OSError."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if mode & 0o077:
        with suppress(PermissionError):  # it belongs to another user, who decides
            os.fchmod(descriptor, mode & 0o700)
    return descriptor


def open_owned(path: str | os.PathLike[str], flags: int, *, is_new: bool = False) -> int:
    """Open or make a file that only its owner can read, at this very path: what others may have put there is refused.

    A link, something that is not a regular file, a file with a second name, and a file of a user to whom neither this
    program nor the folder belongs are not opened, so that no other user directs what is written to another file, or
    reads it. A file that is made has the mode 0600 from its first byte, whatever the umask is.

    Args:
        path: The file. Its folder must exist.
        flags: How it is opened, without those of making it.
        is_new: Whether it must not exist yet.

    Raises:
        OSError: It cannot be opened or made, or it is refused.
    """
    safe = flags | os.O_NOFOLLOW | os.O_CLOEXEC
    if not is_new:
        with suppress(FileNotFoundError):
            return _check_owned(os.open(path, safe | os.O_NONBLOCK), path)
    try:
        descriptor = os.open(path, safe | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if is_new:
            raise
        return _check_owned(os.open(path, safe | os.O_NONBLOCK), path)  # another program made it at this moment
    with suppress(PermissionError):  # a file system without modes
        os.fchmod(descriptor, 0o600)  # the umask may have taken the owner's own permissions
    return descriptor


def _check_owned(descriptor: int, path: str | os.PathLike[str]) -> int:
    """Return the descriptor of a file that is ours. Raises: OSError, and closes it, if it is not."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", os.fspath(path))
        if status.st_uid not in (os.geteuid(), os.stat(os.path.dirname(os.path.abspath(path))).st_uid):
            raise PermissionError(errno.EPERM, "The file belongs to another user", os.fspath(path))
        if status.st_nlink != 1:
            raise PermissionError(errno.EPERM, "The file has a second name (a hard link)", os.fspath(path))
        if status.st_mode & 0o077:
            with suppress(PermissionError):
                os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_private(path: str | os.PathLike[str], data: bytes, *, is_synced: bool, follows_links: bool = False) -> None:
    """Make `data` the whole content of a file in one step, readable by its owner only from the first byte.

    A reader, and a program that is killed in the middle, find the old content or the new one. What fails changes
    nothing and leaves nothing. The folder must exist.

    Args:
        path: The file, which may be new.
        data: Its content.
        is_synced: A power cut must not lose what was decided: the disk has the content and the name when this returns,
            which blocks for milliseconds. Without it, one may bring back what was before, or an empty file.
        follows_links: The file belongs to the user, who may keep it elsewhere or protect it from changes: a link at the
            path stays one and leads to the new content, and a file that is write-protected stays as it is. Otherwise
            the file is ours and a link is replaced itself, so that no program directs the write to another file.

    Raises:
        OSError: The file cannot be written.
    """
    from dragoman.workspace.atomic import open_existing, replace_at  # many programs only read private files

    place = os.path.realpath(path) if follows_links else os.path.abspath(path)
    name, existing = os.path.basename(place), None
    folder = os.open(os.path.dirname(place), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if follows_links:
            existing = open_existing(folder, name, place)
        replace_at(folder, name, data, existing=existing, permissions=0o600, is_synced=is_synced)
        if is_synced:
            # After the file: the new name on the disk must not lead to content that is not there yet.
            with suppress(OSError):  # some network file systems sync no folders
                os.fsync(folder)
    finally:
        if existing is not None:
            os.close(existing)
        os.close(folder)


def close_to_others(path: str | os.PathLike[str]) -> None:
    """Take the permissions of other users from a file, if there is one and it is ours."""
    with suppress(FileNotFoundError, PermissionError):
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if mode & 0o077:
            os.chmod(path, mode & 0o700)
