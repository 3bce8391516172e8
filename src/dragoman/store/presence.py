"""Who is writing: tells a message that is being written from one whose writer died.

Owns one locked file per open store. The kernel drops the lock with the process, however that ends, so nobody has to
clean up, guess from ages or compare process ids.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class Presence:
    """This program's mark beside the database."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.id = os.urandom(12).hex()
        self._folder = folder
        self._path = folder / self.id
        self._fd = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def is_alive(self, writer: str) -> bool:
        """Whether the program that made this mark still runs. The mark of a dead one is taken away."""
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
