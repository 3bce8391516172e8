"""Reads a tar archive from front to back: one header, then its bytes, then the next.

Owns the format (ustar, with the long names of GNU and POSIX) and its compressions. It knows regular files and folders
only: everything else is refused by name. Written here because the standard reader follows what a header claims into
memory, and knows links and devices. Where a member goes is `archive.py`'s to decide.
"""

from __future__ import annotations

import zlib
from typing import IO, TYPE_CHECKING, Final, Protocol

from dragoman.registry.archive import ArchiveError, Member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK: Final = 512
_CHUNK_BYTES: Final = 1 << 18
_LONGEST_HEADER_BYTES: Final = 1 << 16  # of a long name or of extended attributes
_LARGEST_DICTIONARY_BYTES: Final = 128 << 20  # of xz; its own tool writes 64 MiB at most
_DAMAGE: Final = (OSError, EOFError, ValueError, zlib.error)
_KINDS: Final = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"S": "a sparse file",
}


def is_tar(file: IO[bytes]) -> bool:
    try:
        head = _unpacked(file).read(BLOCK)
    except _DAMAGE:
        return False
    return len(head) == BLOCK and _checksum_is_right(head)


def members(file: IO[bytes], count: Callable[[int], None]) -> Iterator[Member]:
    """Every member in order; `count` hears of every byte before it is used, and may refuse."""
    reader = _Reader(_unpacked(file), count)
    long_name = long_size = None
    while (head := reader.block()) is not None:
        size, kind = _number(head[124:136]), head[156:157]
        if kind in (b"x", b"L"):
            text = reader.header(size)
            if kind == b"L":
                long_name = text.rstrip(b"\0")
            else:
                attributes = _attributes(text)
                long_name = attributes.get(b"path", long_name)
                long_size = attributes.get(b"size", long_size)
            continue
        if kind == b"g":
            reader.header(size)
            continue
        name = _text(long_name if long_name is not None else _short_name(head))
        size = _decimal(long_size) if long_size is not None else size
        long_name = long_size = None
        if kind not in (b"0", b"\0", b"5", b"7"):
            raise ArchiveError(f"refused: {name!r} is {_KINDS.get(kind, 'neither a file nor a folder')}")
        is_folder = kind == b"5" or (kind != b"7" and name.endswith("/"))
        reader.begin(size)
        yield Member(name, is_folder, bool(_number(head[100:108]) & 0o111), reader.read, is_counted=True)
        reader.finish()


class _Reader:
    """ToolAccess out what comes out of the compression, and never more than was asked for."""

    def __init__(self, file: _Readable, count: Callable[[int], None]) -> None:
        self._file = file
        self._count = count
        self._left = self._padding = 0

    def block(self) -> bytes | None:
        """The next header; None at the end."""
        head = self._take(BLOCK, may_end=True)
        if not head.strip(b"\0"):
            self._drain()
            return None
        if not _checksum_is_right(head):
            raise ArchiveError("refused: it is damaged, or not an archive this program knows")
        return head

    def header(self, size: int) -> bytes:
        if size > _LONGEST_HEADER_BYTES:
            raise ArchiveError("refused: a name in it is longer than any path")
        self.begin(size)
        text = self.read(size)
        self.finish()
        return text

    def begin(self, size: int) -> None:
        self._left, self._padding = size, -size % BLOCK

    def read(self, size: int) -> bytes:
        data = self._take(min(size, self._left, _CHUNK_BYTES)) if self._left else b""
        self._left -= len(data)
        return data

    def finish(self) -> None:
        while self.read(_CHUNK_BYTES):
            pass
        self._take(self._padding)

    def _drain(self) -> None:
        """An empty block ends an archive; the checksum of its compression comes after whatever follows."""
        while len(self._some(_CHUNK_BYTES)) == _CHUNK_BYTES:
            pass

    def _take(self, size: int, *, may_end: bool = False) -> bytes:
        data = self._some(size)
        if len(data) < size and (data or not may_end):
            raise ArchiveError("refused: it ends too early")
        return data

    def _some(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except _DAMAGE as error:
            raise ArchiveError(f"refused: it is damaged: {error}") from error
        self._count(len(data))
        return data


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Xz:
    """An xz stream with a bound on its memory, which the standard file of that name does not have."""

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


def _unpacked(file: IO[bytes]) -> _Readable:
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


def _checksum_is_right(head: bytes) -> bool:
    try:
        return sum(head) - sum(head[148:156]) + 8 * 0x20 == _number(head[148:156])
    except ArchiveError:
        return False


def _number(field: bytes) -> int:
    if field[:1] == b"\x80":  # large sizes are binary
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if digits.strip(b"01234567"):
        raise ArchiveError("refused: a header of it is damaged")
    return int(digits or b"0", 8)


def _decimal(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 18:
        raise ArchiveError("refused: a header of it is damaged")
    return int(digits)


def _short_name(head: bytes) -> bytes:
    name = head[:100].partition(b"\0")[0]
    prefix = head[345:500].partition(b"\0")[0] if head[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _attributes(text: bytes) -> dict[bytes, bytes]:
    """`LENGTH NAME=VALUE` lines."""
    found: dict[bytes, bytes] = {}
    while text.strip(b"\0"):
        digits = text.partition(b" ")[0]
        length = _decimal(digits)
        line, text = text[len(digits) + 1 : length], text[length:]
        name, equals, value = line.removesuffix(b"\n").partition(b"=")
        if not equals or length <= len(digits):
            raise ArchiveError("refused: a header of it is damaged")
        if name.startswith(b"GNU.sparse"):
            raise ArchiveError("refused: it holds a sparse file")
        found[name] = value
    return found


def _text(name: bytes) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        raise ArchiveError(f"refused: {name!r} is not a name in UTF-8") from None
