"""Tar archives, plain or compressed with gzip, bzip2 or xz, read from front to back with the standard `tarfile`.

`tarfile` parses the headers; the content of a member is read here. It trusts what a header claims about sizes, so it
gets a reader that can only go forward, counts every byte, and bounds what is read between two members: names and
attributes of any length, sparse maps and chains of headers all end at that bound. Members that are neither a file nor
a folder are refused. Where a member is written is decided in `archive.py`. See docs/decisions/0010.
"""

from __future__ import annotations

import re
import tarfile
import zlib
from typing import IO, TYPE_CHECKING, Final, Protocol, cast

from dragoman.registry.archive import ArchiveError, Member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK_BYTES: Final = 1 << 18
# For all headers of one member. A path has 4,096 bytes; the rest is for attributes that are read and ignored. Python
# before 3.11.10 and 3.12.6 needs memory that grows with the square of this: 64 MiB for 16 KiB.
_LONGEST_HEADER_BYTES: Final = 16 << 10
# Longer than any name in a path. The same versions of Python need quadratic time for a long number (CVE-2024-6232).
_LONG_NUMBER: Final = re.compile(rb"[0-9]{256}")
_LARGEST_DICTIONARY_BYTES: Final = 128 << 20  # of xz; its own program writes at most 64 MiB
_DAMAGE: Final = (tarfile.TarError, OSError, EOFError, ValueError, LookupError, OverflowError, zlib.error)
_LONGEST_REASON: Final = 200
_ENCODING: Final = ("utf-8", "surrogateescape")
_KINDS: Final = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}
_FILES: Final = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)


def is_tar(file: IO[bytes]) -> bool:
    """Return whether the file starts with a tar header, after decompression."""
    try:
        tarfile.TarInfo.frombuf(_decompressed(file).read(tarfile.BLOCKSIZE), *_ENCODING)
    except _DAMAGE:
        return False
    return True


def members(file: IO[bytes], count: Callable[[int], None]) -> Iterator[Member]:
    """Yield every member in order.

    Args:
        file: the archive.
        count: called with the number of decompressed bytes before they are used; it raises to refuse more.

    Raises:
        ArchiveError: the archive is damaged, or a member is neither a file nor a folder.
    """
    reader = _ForwardReader(_decompressed(file), count)
    try:
        archive = tarfile.TarFile(fileobj=cast("IO[bytes]", reader), encoding=_ENCODING[0], errors=_ENCODING[1])
        # It has read the first header. After a damaged one, `next` would go on behind it as if it were not there.
        has_members = archive.firstmember is not None  # type: ignore[attr-defined]  # as old as `members`
        while has_members and (header := archive.next()) is not None:
            # tarfile keeps every header and every attribute it has read, so its memory would grow with the archive.
            archive.members.clear()  # type: ignore[attr-defined]  # a plain list since Python 2.3
            archive.pax_headers = {}
            _check(header)
            is_folder = header.isdir() or header.name.endswith("/")
            reader.begin_content(0 if header.isdir() else header.size)
            yield Member(header.name, is_folder, bool(header.mode & 0o111), reader.read_content, is_counted=True)
            reader.begin_header()
    except _DAMAGE as error:
        # Some of these errors quote the archive.
        raise ArchiveError(f"refused: it is damaged: {str(error)[:_LONGEST_REASON]}") from error
    reader.finish()


def _check(header: tarfile.TarInfo) -> None:
    kind = _KINDS.get(header.type, "neither a file nor a folder")
    if any(name.startswith("GNU.sparse") for name in header.pax_headers):
        kind = "a sparse file"
    elif header.type in _FILES or header.isdir():
        kind = ""
    if kind:
        raise ArchiveError(f"refused: {header.name!r} is {kind}")
    if header.size < 0:
        raise ArchiveError("refused: it is damaged: a size is negative")
    try:
        header.name.encode()
    except UnicodeEncodeError:
        raise ArchiveError(f"refused: {header.name!r} is not a name in UTF-8") from None


class _ForwardReader:
    """The decompressed archive as a file for `tarfile`, which reads headers from it and skips content."""

    def __init__(self, file: _Readable, count: Callable[[int], None]) -> None:
        self._file = file
        self._count = count
        self._position = 0
        self._content_bytes = 0
        self._last_block = b""
        self.begin_header()

    def begin_header(self) -> None:
        self._header_bytes = _LONGEST_HEADER_BYTES

    def begin_content(self, size: int) -> None:
        self._content_bytes = size

    def read_content(self, size: int) -> bytes:
        """Return the next bytes of the current member; empty at its end."""
        data = self._take(min(size, self._content_bytes, _CHUNK_BYTES))
        self._content_bytes -= len(data)
        if not data and self._content_bytes:
            raise ArchiveError("refused: it ends too early")
        return data

    def finish(self) -> None:
        """Check that the archive ended as it should: `tarfile` takes a damaged header after the first for the end."""
        if len(self._last_block) not in (0, tarfile.BLOCKSIZE) or self._last_block.strip(b"\0"):
            raise ArchiveError("refused: it is damaged, or it ends too early")
        while self._take(_CHUNK_BYTES):  # the checksum of gzip and xz comes last
            pass

    # What `tarfile` calls.

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> int:
        if position < self._position:
            raise ArchiveError("refused: it is damaged: two members overlap")
        while position > self._position:
            if not self._take(min(position - self._position, _CHUNK_BYTES)):
                raise ArchiveError("refused: it ends too early")
        return position

    def read(self, size: int) -> bytes:
        if size > self._header_bytes:
            raise ArchiveError("refused: a name or an attribute in it is longer than any path")
        self._header_bytes -= size
        data = self._last_block = self._take(size)
        if _LONG_NUMBER.search(data):
            raise ArchiveError("refused: it is damaged: a number in a header is too long")
        return data

    def _take(self, size: int) -> bytes:
        try:
            data = self._file.read(size) if size else b""
        except _DAMAGE as error:
            raise ArchiveError(f"refused: it is damaged: {error}") from error
        self._count(len(data))
        self._position += len(data)
        return data


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Xz:
    """Decompresses xz with a bound on memory, which `lzma.LZMAFile` does not have."""

    def __init__(self, file: IO[bytes]) -> None:
        from lzma import LZMADecompressor, LZMAError

        self._file = file
        self._decompressor = LZMADecompressor(memlimit=_LARGEST_DICTIONARY_BYTES)
        self._error = LZMAError

    def read(self, size: int) -> bytes:
        data = b""
        try:
            while len(data) < size and not self._decompressor.eof:
                packed = self._file.read(_CHUNK_BYTES) if self._decompressor.needs_input else b""
                if self._decompressor.needs_input and not packed:
                    break
                data += self._decompressor.decompress(packed, size - len(data))
        except self._error as error:
            raise ValueError(str(error)) from error
        return data


def _decompressed(file: IO[bytes]) -> _Readable:
    file.seek(0)
    start = file.read(6)
    file.seek(0)
    if start.startswith(b"\x1f\x8b"):
        import gzip

        return gzip.GzipFile(fileobj=file)
    if start.startswith(b"BZh"):
        import bz2

        return bz2.BZ2File(file)
    return _Xz(file) if start == b"\xfd7zXZ\0" else file
