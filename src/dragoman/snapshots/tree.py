"""A scanned tree: every folder and file below a root, as columns.

Owns the form in memory and in the cache file. Columns instead of objects, because an unchanged tree of 50,000 files is
compared in a tenth of a second, and no list of objects is read from the disk in that time. A tree is not changed after
it was built; folders come before what is in them, and the files of a folder are next to each other.
"""

from __future__ import annotations

import zlib
from array import array
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from dragoman.snapshots.entries import FileEntry, FileState, folder_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ID_BYTES: Final = 33
_FORMAT: Final = 1


class FolderRow(NamedTuple):
    """A folder as a scan saw it, and the names in it that were left out. `ctime_ns` is -1 to list it again."""

    mode: int
    ctime_ns: int
    inode: int
    device: int
    skipped: frozenset[str]


class Tree:
    """Columns of folders and files. `paths` and `folders` are relative to the root, which is the folder ""."""

    __slots__ = (
        *("__dict__", "ctimes", "folders", "ids", "inodes", "modes", "mtimes", "paths", "rows", "sizes"),
        *("stamp", "starts"),
    )

    def __init__(self) -> None:
        self.folders: list[str] = []
        self.rows: list[FolderRow] = []
        self.starts: list[int] = []  # the first file of each folder
        self.paths: list[str] = []
        self.modes: list[int] = []
        self.sizes: list[int] = []
        self.mtimes: list[int] = []
        self.ctimes: list[int] = []
        self.inodes: list[int] = []
        self.ids: list[bytes] = []
        self.stamp = 0  # of git's index, when it was last read

    def __len__(self) -> int:
        return len(self.paths)

    def add_folder(self, path: str, row: FolderRow) -> None:
        self.folders.append(path)
        self.rows.append(row)
        self.starts.append(len(self.paths))

    def add_file(self, path: str, entry: FileEntry) -> None:
        self.paths.append(path)
        self.modes.append(entry.mode)
        self.sizes.append(entry.size)
        self.mtimes.append(entry.mtime_ns)
        self.ctimes.append(entry.ctime_ns)
        self.inodes.append(entry.inode)
        self.ids.append(entry.id)

    def add_files_of(self, other: Tree, start: int, stop: int) -> None:
        """Append files of another tree as they are."""
        for name in _COLUMNS:
            getattr(self, name).extend(getattr(other, name)[start:stop])

    def span(self, at: int) -> tuple[int, int]:
        """Return the range of the files of a folder."""
        return self.starts[at], self.starts[at + 1] if at + 1 < len(self.starts) else len(self.paths)

    def entry(self, at: int) -> FileEntry:
        return FileEntry(
            self.modes[at], self.sizes[at], self.mtimes[at], self.ctimes[at], self.inodes[at], self.ids[at]
        )

    @cached_property
    def places(self) -> dict[str, int]:
        """The index of each file."""
        return {path: at for at, path in enumerate(self.paths)}

    @cached_property
    def folder_places(self) -> dict[str, int]:
        """The index of each folder."""
        return {path: at for at, path in enumerate(self.folders)}

    def get(self, path: str) -> FileEntry | None:
        at = self.places.get(path)
        return None if at is None else self.entry(at)

    def state(self, path: str) -> FileState | None:
        """Return what a path held; None for nothing, or for something that is not in the tree."""
        at = self.places.get(path)
        if at is not None:
            return FileState(self.modes[at], self.sizes[at], self.ids[at])
        at = self.folder_places.get(path)
        return None if at is None else folder_state(self.rows[at].mode)

    def is_left_out(self, path: str) -> bool:
        """Whether a path, or a folder above it, was seen and left out by the rules."""
        while path:
            folder, _, name = path.rpartition("/")
            at = self.folder_places.get(folder)
            if at is not None and name in self.rows[at].skipped:
                return True
            path = folder
        return False

    def git_ids(self) -> Iterator[bytes]:
        return (id for id in self.ids if id[:1] == b"g")


_COLUMNS: Final = ("paths", "modes", "sizes", "mtimes", "ctimes", "inodes", "ids")
_NUMBERS: Final = (("modes", "I"), ("sizes", "q"), ("mtimes", "q"), ("ctimes", "q"), ("inodes", "Q"))


def encode_tree(tree: Tree) -> bytes:
    """Encode a tree as the bytes of a cache file."""
    members: dict[str, object] = {
        "format": _FORMAT,
        "stamp": tree.stamp,
        "paths": _joined(tree.paths),
        "folders": _joined(tree.folders),
        "starts": array("I", tree.starts).tobytes(),
        "ids": b"".join([id.ljust(_ID_BYTES, b"\0") for id in tree.ids]),
        "folder_modes": array("I", [row.mode for row in tree.rows]).tobytes(),
        "folder_ctimes": array("q", [row.ctime_ns for row in tree.rows]).tobytes(),
        "folder_inodes": array("Q", [row.inode for row in tree.rows]).tobytes(),
        "folder_devices": array("Q", [row.device for row in tree.rows]).tobytes(),
        "skipped": {at: _joined(sorted(row.skipped)) for at, row in enumerate(tree.rows) if row.skipped},
    }
    for name, code in _NUMBERS:
        members[name] = array(code, getattr(tree, name)).tobytes()
    data = msgspec.msgpack.encode(members)
    return zlib.crc32(data).to_bytes(4, "big") + data


def decode_tree(data: bytes) -> Tree:
    """Decode what `encode_tree` made. Raises: ValueError for a file that is damaged or of another version."""
    body = memoryview(data)[4:]
    if zlib.crc32(body) != int.from_bytes(data[:4], "big"):
        raise ValueError("the cache of a tree is damaged")
    members = msgspec.msgpack.decode(body, type=dict, strict=False)
    if members.get("format") != _FORMAT:
        raise ValueError("the cache of a tree has another version")
    tree = Tree()
    tree.stamp = members["stamp"]
    tree.paths, tree.folders = _split(members["paths"]), _split(members["folders"], has_root=True)
    tree.starts = _numbers("I", members["starts"])
    for name, code in _NUMBERS:
        setattr(tree, name, _numbers(code, members[name]))
    ids = members["ids"]
    tree.ids = [_unpadded(ids[at : at + _ID_BYTES]) for at in range(0, len(ids), _ID_BYTES)]
    skipped = {at: frozenset(_split(names)) for at, names in members["skipped"].items()}
    columns = (
        _numbers("I", members["folder_modes"]),
        _numbers("q", members["folder_ctimes"]),
        _numbers("Q", members["folder_inodes"]),
        _numbers("Q", members["folder_devices"]),
    )
    nothing: frozenset[str] = frozenset()
    tree.rows = [FolderRow(*members, skipped.get(at, nothing)) for at, members in enumerate(zip(*columns, strict=True))]
    if len(tree.ids) != len(tree.paths) or len(tree.rows) != len(tree.folders):
        raise ValueError("the cache of a tree is damaged")
    return tree


def _joined(names: Iterable[str]) -> bytes:
    return "\0".join(names).encode("utf-8", "surrogateescape")


def _split(data: bytes, *, has_root: bool = False) -> list[str]:
    return data.decode("utf-8", "surrogateescape").split("\0") if data or has_root else []


def _numbers(code: str, data: bytes) -> list[int]:
    found = array(code)
    found.frombytes(data)
    return found.tolist()


_NO_END: Final = bytes(12)


def _unpadded(id: bytes) -> bytes:
    if id[0] == 0x67 and id.endswith(_NO_END):
        return id[:21]
    return id[:1] if id[0] == 0x70 else id
