"""Blobs in git's object folders: loose ones and packs, with deltas and alternates. Never writes.

Git itself is not run for this: with the settings of a repository it may fetch what is missing, and run programs that
the repository names. Every blob is checked against its name.
"""

from __future__ import annotations

import mmap
import os
import zlib
from bisect import bisect_left
from typing import Final

from dragoman.snapshots.entries import git_id

_LARGEST_BYTES: Final = 64 * 1024 * 1024
_DEEPEST: Final = 100  # git makes chains of 50 deltas at most
_MOST_ALTERNATES: Final = 5
_BLOB: Final = 3
_OFFSET_DELTA: Final = 6
_NAMED_DELTA: Final = 7


class BlobMissing(Exception):
    """The repository does not have the blob any more, or it is damaged."""


class GitObjects:
    """The blobs of one repository. `folder` is its `objects`."""

    def __init__(self, folder: str, hash_bytes: int = 20) -> None:
        self._hash_bytes = hash_bytes
        self._folders = _with_alternates(folder)
        self._packs: list[_GitPack] | None = None

    def read(self, name: bytes) -> bytes:
        """Raises: BlobMissing."""
        try:
            data = self._find(name, 0)
        except (OSError, ValueError, IndexError, zlib.error) as error:
            raise BlobMissing(f"git's object {name.hex()} cannot be read: {error}") from None
        if data is None:
            raise BlobMissing(f"git does not have the object {name.hex()} any more")
        if git_id(data[1], self._hash_bytes) != b"g" + name:
            raise BlobMissing(f"git's object {name.hex()} is not a blob, or damaged")
        return data[1]

    def close(self) -> None:
        for pack in self._packs or ():
            pack.close()
        self._packs = None

    def _find(self, name: bytes, depth: int) -> tuple[int, bytes] | None:
        for folder in self._folders:
            try:
                with open(os.path.join(folder, name.hex()[:2], name.hex()[2:]), "rb") as file:
                    return _loose(file.read(_LARGEST_BYTES))
            except FileNotFoundError:
                continue
        if self._packs is None:
            self._packs = [_GitPack(path, self._hash_bytes) for folder in self._folders for path in _packs_of(folder)]
        for pack in self._packs:
            at = pack.find(name)
            if at is not None:
                return self._packed(pack, at, depth)
        return None

    def _packed(self, pack: _GitPack, at: int, depth: int) -> tuple[int, bytes]:
        if depth > _DEEPEST:
            raise ValueError("a chain of deltas is too long")
        kind, size, start = pack.header(at)
        if size > _LARGEST_BYTES:
            raise ValueError("it is too large")
        if kind == _OFFSET_DELTA:
            back, start = _distance(pack.data, start)
            base: tuple[int, bytes] | None = self._packed(pack, at - back, depth + 1)
        elif kind == _NAMED_DELTA:
            name = bytes(pack.data[start : start + self._hash_bytes])
            start += self._hash_bytes
            base = self._find(name, depth + 1)
        else:
            return kind, pack.inflate(start, size)
        if base is None:
            raise ValueError("the base of a delta is missing")
        return base[0], _apply_delta(base[1], pack.inflate(start, size))


class _GitPack:
    """A pack and its index, version 2, mapped into memory."""

    def __init__(self, path: str, hash_bytes: int) -> None:
        self._hash_bytes = hash_bytes
        self._index = _mapped(path)
        self.data = _mapped(path.removesuffix(".idx") + ".pack")
        if self._index[:8] != b"\xfftOc\0\0\0\x02":
            raise ValueError("a pack's index has an unknown version")
        self._count = int.from_bytes(self._index[8 + 255 * 4 : 8 + 256 * 4], "big")

    def find(self, name: bytes) -> int | None:
        first = self._fan(name[0] - 1) if name[0] else 0
        last = self._fan(name[0])
        place = bisect_left(range(last), name, first, last, key=self._name)
        if place >= last or self._name(place) != name:
            return None
        names_end = 8 + 1024 + self._count * self._hash_bytes
        offsets = names_end + self._count * 4
        at = int.from_bytes(self._index[offsets + place * 4 : offsets + place * 4 + 4], "big")
        if at & 0x80000000:
            large = offsets + self._count * 4 + (at & 0x7FFFFFFF) * 8
            at = int.from_bytes(self._index[large : large + 8], "big")
        return at

    def _fan(self, byte: int) -> int:
        return int.from_bytes(self._index[8 + byte * 4 : 12 + byte * 4], "big")

    def _name(self, place: int) -> bytes:
        start = 8 + 1024 + place * self._hash_bytes
        return self._index[start : start + self._hash_bytes]

    def header(self, at: int) -> tuple[int, int, int]:
        """Read the kind and the size of the object at a place, and where its data starts."""
        byte = self.data[at]
        kind, size, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 0x80:
            at += 1
            byte = self.data[at]
            size |= (byte & 0x7F) << shift
            shift += 7
        return kind, size, at + 1

    def inflate(self, start: int, size: int) -> bytes:
        decoder, pieces, left = zlib.decompressobj(), [], size
        while left > 0 and not decoder.eof:
            chunk = self.data[start : start + max(65536, left)]
            if not chunk:
                raise ValueError("a pack ends too early")
            start += len(chunk)
            piece = decoder.decompress(chunk, left)
            pieces.append(piece)
            left -= len(piece)
        found = b"".join(pieces)
        if len(found) != size:
            raise ValueError("an object of a pack has the wrong size")
        return found

    def close(self) -> None:
        self._index.close()
        self.data.close()


def _mapped(path: str) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _loose(data: bytes) -> tuple[int, bytes]:
    decoder = zlib.decompressobj()
    head, _, content = decoder.decompress(data, _LARGEST_BYTES + 64).partition(b"\0")
    if not head.startswith(b"blob "):
        raise ValueError("it is not a blob")
    return _BLOB, content


def _distance(data: mmap.mmap, at: int) -> tuple[int, int]:
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = (value + 1) << 7 | byte & 0x7F
    return value, at + 1


def _apply_delta(base: bytes, delta: bytes) -> bytes:
    at, sizes = 0, []
    for _ in range(2):
        value = shift = 0
        while True:
            byte = delta[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        sizes.append(value)
    if sizes[0] != len(base) or sizes[1] > _LARGEST_BYTES:
        raise ValueError("a delta does not fit its base")
    pieces = []
    while at < len(delta):
        code = delta[at]
        at += 1
        if not code & 0x80:
            pieces.append(delta[at : at + code])
            at += code
            continue
        numbers = [0, 0]
        for bit in range(7):
            if code >> bit & 1:
                numbers[bit > 3] |= delta[at] << 8 * (bit if bit < 4 else bit - 4)
                at += 1
        start, length = numbers[0], numbers[1] or 0x10000
        pieces.append(base[start : start + length])
    found = b"".join(pieces)
    if len(found) != sizes[1]:
        raise ValueError("a delta gives the wrong size")
    return found


def _packs_of(folder: str) -> list[str]:
    place = os.path.join(folder, "pack")
    try:
        names = os.listdir(place)
    except OSError:
        return []
    packs = {name for name in names if name.endswith(".pack")}
    return [
        os.path.join(place, name) for name in sorted(names) if name.endswith(".idx") and name[:-3] + "pack" in packs
    ]


def _with_alternates(folder: str) -> list[str]:
    found, waiting = list[str](), [folder]
    while waiting and len(found) <= _MOST_ALTERNATES:
        place = waiting.pop(0)
        if place in found:
            continue
        found.append(place)
        try:
            with open(os.path.join(place, "info", "alternates"), "rb") as file:
                lines = os.fsdecode(file.read(65536)).splitlines()
        except OSError:
            continue
        waiting += [os.path.join(place, line) for line in lines if line and not line.startswith(("#", '"'))]
    return found
