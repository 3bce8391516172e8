"""Zip archives, read with the standard `zipfile` after a check of the size of their directory.

A member must be a file or a folder, stored or deflated, and not encrypted. Everything else is refused. Loaded with the
first archive: `zipfile` takes milliseconds, and only an installation needs it.
"""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Final

from dragoman.registry.archive import ArchiveError, Member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_END: Final = b"PK\x05\x06"
_END64: Final = b"PK\x06\x06"
_TAIL_BYTES: Final = 65_536 + 22 + 20 + 56  # the longest comment, the record before it, and its 64-bit form
# `zipfile` reads the whole directory into memory when it opens the archive.
_LONGEST_DIRECTORY_BYTES: Final = 64 << 20
_IS_ENCRYPTED: Final = 0x1
# `zipfile` decompresses bzip2 and lzma without a limit, and no known agent uses them.
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UNIX: Final = 3
_DAMAGE: Final = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, RuntimeError)


def members(file: IO[bytes]) -> Iterator[Member]:
    """Yield every member in the order of the directory. Raises: ArchiveError."""
    _check_directory(file)
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                _check(entry)
                mode = entry.external_attr >> 16 if entry.create_system == _UNIX else 0
                if entry.is_dir():
                    yield Member(entry.filename, True, False, lambda size: b"")
                else:
                    with archive.open(entry) as data:
                        yield Member(entry.filename, False, bool(mode & 0o111), _reader(data))
    except _DAMAGE as error:
        raise ArchiveError(f"refused: it is damaged: {error}") from error


def _reader(data: IO[bytes]) -> Callable[[int], bytes]:
    def read(size: int) -> bytes:
        try:
            return data.read(size)
        except _DAMAGE as error:
            raise ArchiveError(f"refused: it is damaged: {error}") from error

    return read


def _check(entry: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        what = "a symbolic link" if kind == stat.S_IFLNK else "neither a file nor a folder"
        raise ArchiveError(f"refused: {entry.filename!r} is {what}")
    if entry.flag_bits & _IS_ENCRYPTED:
        raise ArchiveError(f"refused: {entry.filename!r} is encrypted")
    if entry.compress_type not in _METHODS:
        raise ArchiveError(f"refused: {entry.filename!r} is compressed with an unsupported method")
    # `zipfile` changes names of other systems; the name in the archive must be the one that is used.
    if entry.orig_filename != entry.filename:
        raise ArchiveError(f"refused: {entry.orig_filename!r} is not a path below the archive")


def _check_directory(file: IO[bytes]) -> None:
    end = file.seek(0, 2)
    file.seek(max(0, end - _TAIL_BYTES))
    tail = file.read(_TAIL_BYTES)
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + 22:
        raise ArchiveError("refused: it is damaged: it has no directory")
    (size,) = struct.unpack_from("<I", tail, at + 12)
    large = tail.rfind(_END64, 0, at)
    if size == 0xFFFFFFFF and large >= 0 and len(tail) >= large + 48:
        (size,) = struct.unpack_from("<Q", tail, large + 40)
    if size > _LONGEST_DIRECTORY_BYTES:
        raise ArchiveError("refused: its directory is too long")
    file.seek(0)
