"""Contents in append-only files: each once, by its SHA-256, many in one pack of about 64 MiB.

A pack is a sequence of records: a header with length, form and hash, then the bytes. The sidecar (`.idx`) repeats the
headers with their places, so that opening does not read the pack; it can always be made again from the pack. Only the
holder of the folder's lock appends. A record that a crash or a full disk left incomplete is cut before the next append,
and readers never use it, because its sidecar row was not written. Does not know trees or turns.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.workspace.private import make_private_folder, open_private

if TYPE_CHECKING:
    from collections.abc import Collection

    from dragoman.snapshots.limits import SnapshotLimits

_HEADER: Final = struct.Struct(">4sBI32s")  # mark, form, stored length, hash
_ROW: Final = struct.Struct(">32sBQI")  # hash, form, place of the bytes, stored length
_MARK: Final = b"DrCt"
_PLAIN, _DEFLATED = 0, 1
_BATCH_BYTES: Final = 1 << 20


class ContentMissing(Exception):
    """A content is not in the store, or damaged."""


class _Slot(NamedTuple):
    pack: str
    form: int
    start: int
    length: int


class Packs:
    """The contents of one folder's snapshots. Methods that write need the folder's lock."""

    def __init__(self, folder: str, limits: SnapshotLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._slots: dict[bytes, _Slot] = {}
        self._read_until: dict[str, int] = {}  # how much of each sidecar is in `_slots`
        self._is_loaded = False
        self._open: _OpenPack | None = None

    # Reading

    def has(self, hash: bytes) -> bool:
        self._load()
        return hash in self._slots

    def read(self, hash: bytes) -> bytes:
        """Raises: ContentMissing."""
        self._load()
        slot = self._slots.get(hash)
        if slot is None:
            self.refresh()  # another process may have added it
            slot = self._slots.get(hash)
        if slot is None:
            raise ContentMissing("its content is not in the store any more")
        try:
            if self._open is not None and self._open.name == slot.pack:
                self._open.flush()
            with open(os.path.join(self._folder, slot.pack), "rb") as file:
                file.seek(slot.start)
                data = file.read(slot.length)
            if slot.form == _DEFLATED:
                data = zlib.decompress(data)
        except (OSError, zlib.error) as error:
            raise ContentMissing(f"its content cannot be read from the store: {error}") from None
        if sha256(data).digest() != hash:
            raise ContentMissing("its content in the store is damaged")
        return data

    def refresh(self) -> None:
        """Read what other processes have added."""
        self._is_loaded = False
        self._load()

    def size_bytes(self) -> int:
        """Return what the packs take on the disk."""
        return sum(self._size(name) for name in self._names()) + (0 if self._open is None else self._open.waiting_bytes)

    def __len__(self) -> int:
        self._load()
        return len(self._slots)

    # Writing

    def add(self, hash: bytes, data: bytes) -> None:
        """Append a content; it is on the disk after `flush` and `sync`.

        Raises:
            OSError: the disk is full, or cannot be written. Nothing of it stays.
        """
        self._load()
        if hash in self._slots:
            return
        pack = self._open
        if pack is None or pack.end > self._limits.pack_bytes:
            self.release()
            self._open = pack = self._writable()
        try:
            start = pack.append(hash, data, _PLAIN)
        except OSError:
            self._forget(pack)
            raise
        self._slots[hash] = _Slot(pack.name, _PLAIN, start, len(data))

    def flush(self) -> None:
        """Write what was added, without waiting for the disk. Raises: OSError; then some of it is lost."""
        if self._open is not None:
            try:
                self._open.flush()
            except OSError:
                self._forget(self._open)
                raise

    def sync(self) -> None:
        """Wait until the disk has everything that was added. Raises: OSError."""
        self.flush()
        if self._open is not None:
            self._open.sync()

    def release(self) -> None:
        """Stop writing: another process may append to the same pack from now on. Raises: OSError."""
        pack, self._open = self._open, None
        if pack is not None:
            try:
                pack.flush()
            except OSError:
                self._forget(pack)
                raise
            finally:
                pack.close()

    def _forget(self, pack: _OpenPack) -> None:
        for hash in pack.lost:
            self._slots.pop(hash, None)
        pack.lost.clear()

    def compact(self, live: Collection[bytes]) -> int:
        """Drop every content that is not `live`, and compress the others; return how many bytes that freed.

        Raises:
            OSError: the disk is full. The packs are then as they were.
        """
        self.release()
        self.refresh()
        before = self.size_bytes()
        old = self._names()
        kept = [(hash, slot) for hash, slot in self._slots.items() if hash in live]
        kept.sort(key=lambda record: (record[1].pack, record[1].start))
        fresh: dict[bytes, _Slot] = {}
        pack: _OpenPack | None = None
        made: list[str] = []
        try:
            for hash, slot in kept:
                if pack is None or pack.end > self._limits.pack_bytes:
                    if pack is not None:
                        pack.sync()
                        pack.close()
                    pack = _OpenPack(self._folder, self._free_name([*old, *made]))
                    made.append(pack.name)
                form, data = self._smaller(hash, slot)
                fresh[hash] = _Slot(pack.name, form, pack.append(hash, data, form), len(data))
            if pack is not None:
                pack.sync()
                pack.close()
        except (OSError, ContentMissing):
            if pack is not None:
                pack.close()
            for name in made:
                _remove(os.path.join(self._folder, name))
            raise
        for name in old:
            _remove(os.path.join(self._folder, name))
        self._slots, self._read_until, self._is_loaded = {}, {}, False
        self._load()
        return before - self.size_bytes()

    def _smaller(self, hash: bytes, slot: _Slot) -> tuple[int, bytes]:
        data = self.read(hash)
        packed = zlib.compress(data, 1)
        return (_DEFLATED, packed) if len(packed) < len(data) * 9 // 10 else (_PLAIN, data)

    # Inside

    def _writable(self) -> _OpenPack:
        """Return the last pack, cut to its last complete record; a new one if it is full."""
        make_private_folder(self._folder)
        names = self._names()
        if names and self._size(names[-1]) < self._limits.pack_bytes:
            _repair(self._folder, names[-1])
            self._is_loaded = False
            self._load()
            return _OpenPack(self._folder, names[-1])
        return _OpenPack(self._folder, self._free_name(names))

    def _free_name(self, names: Collection[str]) -> str:
        last = max((int(name[:8]) for name in names), default=0)
        return f"{last + 1:08}.pack"

    def _names(self) -> list[str]:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        return sorted(name for name in names if name.endswith(".pack") and name[:-5].isdigit())

    def _size(self, name: str) -> int:
        try:
            return os.stat(os.path.join(self._folder, name)).st_size
        except OSError:
            return 0

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        for name in self._names():
            path = os.path.join(self._folder, name)
            known = self._read_until.get(name, 0)
            try:
                with open(_sidecar(path), "rb") as file:
                    file.seek(known)
                    rows = file.read()
            except FileNotFoundError:
                continue
            whole = len(rows) // _ROW.size * _ROW.size
            end = self._size(name)
            for hash, form, start, length in _ROW.iter_unpack(rows[:whole]):
                if start + length <= end:
                    self._slots[hash] = _Slot(name, form, start, length)
            self._read_until[name] = known + whole


class _OpenPack:
    """The pack that is appended to. Small contents are written together."""

    def __init__(self, folder: str, name: str) -> None:
        self.name = name
        path = os.path.join(folder, name)
        self._pack = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            self._index = open_private(_sidecar(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except OSError:
            os.close(self._pack)
            raise
        self._written = os.fstat(self._pack).st_size
        self._pieces: list[bytes] = []
        self._rows: list[bytes] = []
        self.waiting_bytes = 0
        self.lost: list[bytes] = []

    @property
    def end(self) -> int:
        return self._written + self.waiting_bytes

    def append(self, hash: bytes, data: bytes, form: int) -> int:
        start = self.end + _HEADER.size
        self._pieces += (_HEADER.pack(_MARK, form, len(data), hash), data)
        self._rows.append(_ROW.pack(hash, form, start, len(data)))
        self.lost.append(hash)
        self.waiting_bytes += _HEADER.size + len(data)
        if self.waiting_bytes > _BATCH_BYTES:
            self.flush()
        return start

    def flush(self) -> None:
        if not self._pieces:
            return
        data, rows = b"".join(self._pieces), b"".join(self._rows)
        self._pieces, self._rows, self.waiting_bytes = [], [], 0
        try:
            _write(self._pack, data)
            # The row comes after the bytes: a row whose bytes are missing would be a wrong promise.
            _write(self._index, rows)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._pack, self._written)
            with suppress(OSError):
                size = os.fstat(self._index).st_size
                os.ftruncate(self._index, size // _ROW.size * _ROW.size)
            raise
        self._written += len(data)
        self.lost.clear()

    def sync(self) -> None:
        self.flush()
        os.fdatasync(self._pack)
        os.fdatasync(self._index)

    def close(self) -> None:
        for fd in (self._pack, self._index):
            if fd >= 0:
                os.close(fd)
        self._pack = self._index = -1


def _write(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def _sidecar(path: str) -> str:
    return path.removesuffix(".pack") + ".idx"


def _remove(path: str) -> None:
    for file in (_sidecar(path), path):
        with suppress(FileNotFoundError):
            os.unlink(file)


def _repair(folder: str, name: str) -> None:
    """Cut an incomplete record at the end of a pack, and add rows that a crash kept from the sidecar."""
    path = os.path.join(folder, name)
    size = os.stat(path).st_size
    try:
        with open(_sidecar(path), "rb") as file:
            rows = file.read()
    except FileNotFoundError:
        rows = b""
    good, complete = 0, []
    for hash, form, start, length in _ROW.iter_unpack(rows[: len(rows) // _ROW.size * _ROW.size]):
        if start + length <= size:
            complete.append(_ROW.pack(hash, form, start, length))
            good = max(good, start + length)
    if good == size and len(complete) * _ROW.size == len(rows):
        return
    with open(path, "r+b") as pack:
        while True:
            pack.seek(good)
            head = pack.read(_HEADER.size)
            if len(head) < _HEADER.size:
                break
            mark, form, length, hash = _HEADER.unpack(head)
            start = good + _HEADER.size
            if mark != _MARK or start + length > size:
                break
            data = pack.read(length)
            with suppress(zlib.error):
                if sha256(zlib.decompress(data) if form == _DEFLATED else data).digest() == hash:
                    complete.append(_ROW.pack(hash, form, start, length))
            good = start + length
        pack.truncate(good)
    fd = open_private(_sidecar(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        _write(fd, b"".join(complete))
    finally:
        os.close(fd)
