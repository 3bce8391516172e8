"""The state of one path, and the ids of contents.

A content id is one letter and a hash: `s` for a content in our store (SHA-256), `g` for a blob of git that has exactly
the bytes of the file, `h` for a content of which only the hash is kept, `x` for one that is known by its size and times
only. `d` is a folder and `p` anything that has no content: a FIFO, a socket, a device. Pure.
"""

from __future__ import annotations

import stat
from hashlib import sha1, sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    import os

FOLDER: Final = b"d"
SPECIAL: Final = b"p"
_STORED: Final = (b"s", b"g")


class FileEntry(NamedTuple):
    """A file as a scan saw it. `ctime_ns` is -1 if it has to be read again by the next scan."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    id: bytes

    @property
    def state(self) -> FileState:
        return FileState(self.mode, self.size, self.id)


class FileState(Struct, frozen=True, array_like=True):
    """What a path holds: kind and permissions (`mode`), size and content. A folder's size is 0."""

    mode: int
    size: int
    id: bytes

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def permissions(self) -> int:
        return stat.S_IMODE(self.mode)

    @property
    def is_kept(self) -> bool:
        """Whether its bytes can be given back."""
        return self.id[:1] in _STORED or self.is_folder

    @property
    def what(self) -> str:
        """What it is, in a word for users."""
        if self.is_folder:
            return "folder"
        if self.is_link:
            return "link"
        return "file" if self.is_file else "special file"


def folder_state(mode: int) -> FileState:
    return FileState(mode, 0, FOLDER)


def stored_id(data: bytes) -> bytes:
    """Return the id of a content in our store."""
    return b"s" + sha256(data).digest()


def git_id(data: bytes, length: int = 20) -> bytes:
    """Return the id of the blob that git makes of these bytes; `length` is that of the repository's object names."""
    make = sha1 if length == 20 else sha256
    found = make(b"blob %d\0" % len(data), usedforsecurity=False)
    found.update(data)
    return b"g" + found.digest()


def stat_id(status: os.stat_result) -> bytes:
    """Return the id of a content that is not read: two looks at the same unchanged file give the same one."""
    facts = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino} {status.st_dev}"
    return b"x" + sha256(facts.encode()).digest()


def hash_only(id: bytes) -> bytes:
    """Return the id of the same content if its bytes are not kept."""
    return b"h" + id[1:]
