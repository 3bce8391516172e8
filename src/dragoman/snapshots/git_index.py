"""Git's index: for every tracked file the stat data of the moment when its content was known, and the blob.

Versions 2, 3 and 4. An index that is split or sparse, has an extension that readers must know, or whose checksum is
wrong is declined: the caller then reads the files themselves. Never writes. Does not know where an index lies.
"""

from __future__ import annotations

import stat
import struct
from hashlib import sha1, sha256
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import os

_HEADER: Final = struct.Struct(">4sII")
_ASSUME_VALID: Final = 0x8000
_EXTENDED: Final = 0x4000
_CONFLICT: Final = 0x3000
_SKIP_WORKTREE: Final = 0x4000
_LONG_NAME: Final = 0xFFF
_SECOND: Final = 1_000_000_000
_MOST_ENTRIES: Final = 2_000_000


class IndexDeclined(Exception):
    """The index cannot be used; the text says why."""


class IndexEntry(NamedTuple):
    """A tracked file. Inode and size are cut to 32 bits."""

    ctime_ns: int
    mtime_ns: int
    inode: int
    mode: int
    size: int
    blob: bytes
    is_trusted: bool

    def fits(self, status: os.stat_result) -> bool:
        """Whether the file is still as it was when git last looked at it."""
        return (
            self.mtime_ns == status.st_mtime_ns
            and self.ctime_ns == status.st_ctime_ns
            and self.size == status.st_size & 0xFFFFFFFF
            and self.inode == status.st_ino & 0xFFFFFFFF
            and stat.S_IFMT(self.mode) == stat.S_IFMT(status.st_mode)
        )


def read_index(data: bytes, hash_bytes: int = 20) -> dict[str, IndexEntry]:
    """Return the tracked files by path; submodules and files with a merge conflict are not among them.

    Raises:
        IndexDeclined: it is not an index that can be used.
    """
    try:
        return _read(data, hash_bytes)
    except (struct.error, IndexError, ValueError) as error:
        raise IndexDeclined(f"the index is damaged: {error}") from None


def _read(data: bytes, hash_bytes: int) -> dict[str, IndexEntry]:
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in (2, 3, 4) or count > _MOST_ENTRIES:
        raise IndexDeclined(f"the index has version {version}")
    _check_sum(data, hash_bytes)
    layout = struct.Struct(f">10I{hash_bytes}sH")
    fixed, unpack = layout.size, layout.unpack_from
    found: dict[str, IndexEntry] = {}
    make = tuple.__new__
    at, name = _HEADER.size, b""
    for _ in range(count):
        c_s, c_ns, m_s, m_ns, _dev, inode, mode, _uid, _gid, size, blob, flags = unpack(data, at)
        start, more = at + fixed, 0
        if flags & _EXTENDED:
            more = data[start] << 8 | data[start + 1]
            start += 2
        if version == 4:
            cut, start = _number(data, start)
            end = data.index(b"\0", start)
            name = name[: len(name) - cut] + data[start:end]
            at = end + 1
        else:
            length = flags & _LONG_NAME
            end = start + length if length < _LONG_NAME else data.index(b"\0", start)
            name = data[start:end]
            at += (end - at + 8) & ~7  # padded with 1 to 8 NULs
        if flags & _CONFLICT or mode == 0o160000:
            continue
        is_trusted = not flags & _ASSUME_VALID and not more & _SKIP_WORKTREE
        values = (c_s * _SECOND + c_ns, m_s * _SECOND + m_ns, inode, mode, size, blob, is_trusted)
        # The constructor of a named tuple takes four times as long, and there are many of them.
        found[name.decode("utf-8", "surrogateescape")] = make(IndexEntry, values)
    _check_extensions(data, at, len(data) - hash_bytes)
    return found


def _check_sum(data: bytes, hash_bytes: int) -> None:
    kept = data[-hash_bytes:]
    make = sha1 if hash_bytes == 20 else sha256
    # With `index.skipHash` git writes zeros.
    if kept.strip(b"\0") and make(memoryview(data)[:-hash_bytes], usedforsecurity=False).digest() != kept:
        raise IndexDeclined("the checksum of the index is wrong")


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Read the variable-length number of version 4: seven bits a byte, each further byte adds one."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = (value + 1) << 7 | byte & 0x7F
    return value, at + 1


def _check_extensions(data: bytes, at: int, end: int) -> None:
    while at < end:
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "big")
        # An optional extension begins with an upper case letter.
        if name == b"link":
            raise IndexDeclined("the index is split")
        if name == b"sdir":
            raise IndexDeclined("the index is sparse")
        if not name[:1].isupper():
            raise IndexDeclined(f"the index has the extension {name!r}")
        at += 8 + size
