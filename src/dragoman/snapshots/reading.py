"""The look at one file: its state, its content, and what to do if another program writes it at the same moment.

Owns torn reads and the sizes above which a content is hashed only, or not read at all. What becomes of the bytes is
decided by a `Keeper`. Opens no FIFO, socket or device.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from dragoman.snapshots.entries import SPECIAL, FileEntry, git_id, hash_only, stat_id, stored_id

if TYPE_CHECKING:
    from dragoman.snapshots.keeper import Keeper
    from dragoman.snapshots.limits import SnapshotLimits

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_TRIES: Final = 3
_CHUNK: Final = 1 << 20


class Reader:
    """The reader of files for one scan.

    Args:
        racy_after: a file whose ctime is later than this is read again by the next scan.
    """

    def __init__(self, limits: SnapshotLimits, keeper: Keeper, racy_after: int) -> None:
        self._limits = limits
        self._keeper = keeper
        self._racy_after = racy_after
        self.unstable: list[str] = []
        self.reads = 0

    def look(
        self, path: str, status: os.stat_result, likely_id: bytes | None, blob: bytes | None = None
    ) -> FileEntry | None:
        """Return the entry of a file; None if it is gone.

        Args:
            path: its absolute path.
            likely_id: the id it had at the last scan, which stays if the content is the same.
            blob: the name of git's blob at this path; if it has the same bytes, they are not stored.
        """
        mode = status.st_mode
        try:
            if stat.S_ISREG(mode):
                return self._file(path, status, likely_id, blob)
            if stat.S_ISLNK(mode):
                target = os.fsencode(os.readlink(path))
                return self._entry(status, self._id_of(target, likely_id, blob))
        except FileNotFoundError:
            return None
        except OSError:  # it may not be read, or is something else by now
            with suppress(OSError):
                return self._entry(status, stat_id(os.lstat(path)))
            return None
        return self._entry(status, SPECIAL)

    def trusted(self, status: os.stat_result, blob: bytes) -> FileEntry:
        """Make the entry of a file that has the bytes of a blob, as git's index states."""
        return self._entry(status, b"g" + blob)

    def _file(self, path: str, status: os.stat_result, likely_id: bytes | None, blob: bytes | None) -> FileEntry | None:
        if status.st_size > self._limits.largest_hashed_bytes:
            return self._entry(status, stat_id(status))
        self.reads += 1
        for _ in range(_TRIES):
            fd = os.open(path, _READ)
            try:
                before = os.fstat(fd)
                if not stat.S_ISREG(before.st_mode):
                    raise OSError("it is not a regular file any more")
                if before.st_size > self._limits.largest_hashed_bytes:
                    return self._entry(before, stat_id(before))
                if before.st_size > self._limits.largest_kept_bytes and not _is_git(likely_id, blob):
                    id = b"h" + _hash(fd)
                    content = None
                else:
                    content = _read(fd, before.st_size)
                after = os.fstat(fd)
            finally:
                os.close(fd)
            if _moment(before) == _moment(after) and (content is None or len(content) == after.st_size):
                if content is not None:
                    id = self._id_of(content, likely_id, blob)
                return self._entry(after, id)
        # A program writes it all the time. What was there before is the last content that is known to be whole.
        self.unstable.append(path)
        id = likely_id if likely_id is not None and likely_id[:1] in (b"s", b"g") else stat_id(after)
        return self._entry(after, id)._replace(ctime_ns=-1)

    def _id_of(self, content: bytes, likely_id: bytes | None, blob: bytes | None) -> bytes:
        for name in (likely_id[1:] if likely_id is not None and likely_id[:1] == b"g" else None, blob):
            if name is not None and git_id(content, len(name)) == b"g" + name:
                return b"g" + name
        if len(content) > self._limits.largest_kept_bytes:
            return hash_only(stored_id(content))
        return self._keeper.keep(content)

    def _entry(self, status: os.stat_result, id: bytes) -> FileEntry:
        ctime = status.st_ctime_ns
        if ctime > self._racy_after:
            ctime = -1
        return FileEntry(status.st_mode, status.st_size, status.st_mtime_ns, ctime, status.st_ino, id)


def _is_git(likely_id: bytes | None, blob: bytes | None) -> bool:
    return blob is not None or (likely_id is not None and likely_id[:1] == b"g")


def _moment(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _read(fd: int, size: int) -> bytes:
    """Read the whole file; one byte more than expected is asked for, so that the end is found by the first call."""
    piece = os.read(fd, size + 1)
    if len(piece) == size:
        return piece
    pieces = [piece]
    total = len(piece)
    while piece and total <= size:
        piece = os.read(fd, size + 1 - total)
        pieces.append(piece)
        total += len(piece)
    return b"".join(pieces)


def _hash(fd: int) -> bytes:
    found = sha256()
    while piece := os.read(fd, _CHUNK):
        found.update(piece)
    return found.digest()
