"""Lock files that show which programs have a store open, so that a turn of a crashed program can be recognized.

Owns one locked file per open store. The kernel releases the lock when the process ends, for any reason, so neither the
age of a file nor a process id has to be interpreted.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class Presence:
    """This program's lock file in a folder next to the database."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.id = os.urandom(12).hex()
        self._folder = folder
        self._path = folder / self.id
        self._fd = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def is_alive(self, writer: str) -> bool:
        """Whether the program with this id still runs. If not, its lock file is removed."""
        if writer == self.id:
            return True
        path = self._folder / writer
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        with suppress(OSError):
            path.unlink()
        return False

    def close(self) -> None:
        if self._fd >= 0:
            with suppress(OSError):
                self._path.unlink()
            os.close(self._fd)
            self._fd = -1
