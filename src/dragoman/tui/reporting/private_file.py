"""Writing a file that only its owner can read, and that replaces another one only if the user wants that."""

from __future__ import annotations

import os

from dragoman.errors import DragomanError


class FileExists(DragomanError):
    """There is a file of this name, and it is not known that it may be replaced."""


def file_place(text: str, folder: str) -> str:
    """Return the path that a user typed, with `~`, and relative to a folder."""
    return os.path.normpath(os.path.join(folder, os.path.expanduser(text.strip())))


def write_private(path: str, data: bytes, *, replaces: bool = False) -> None:
    """Write a file with mode 0600.

    Raises:
        FileExists: it is there, and `replaces` is not set.
        OSError: it cannot be written.
    """
    if replaces:
        from dragoman.workspace import private

        private.write_private(path, data, is_synced=True, follows_links=True)
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise FileExists(f"{path} is there already") from None
    with open(fd, "wb") as file:
        os.fchmod(file.fileno(), 0o600)  # whatever the umask is
        file.write(data)
