"""Folders and files that only their owner can read, whatever the umask is.

Owns how they are made. A folder that existed before is left as it is, because it may be shared on purpose; a file of
ours that other users could read is closed to them.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def make_private_folder(folder: str | os.PathLike[str]) -> None:
    """Make a folder and the missing ones above it. `Path.mkdir` leaves those above to the umask. Raises: OSError."""
    path = Path(folder)
    missing = [path, *path.parents]
    for each in reversed(missing[: next((n for n, each in enumerate(missing) if each.is_dir()), len(missing))]):
        each.mkdir(mode=0o700, exist_ok=True)


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, and close it to other users if it was open to them. Raises: OSError."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if mode & 0o077:
        with suppress(PermissionError):  # it belongs to another user, who decides
            os.fchmod(descriptor, mode & 0o700)
    return descriptor


def close_to_others(path: str | os.PathLike[str]) -> None:
    """Take the permissions of other users from a file, if there is one and it is ours."""
    with suppress(FileNotFoundError, PermissionError):
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if mode & 0o077:
            os.chmod(path, mode & 0o700)
