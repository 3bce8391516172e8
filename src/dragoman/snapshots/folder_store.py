"""The snapshots of one folder on the disk: contents, the last tree, turns and rewinds.

Everything is below one private folder of the user's data, never in the folder itself. One file lock (`flock`) orders
the programs that write; a program that dies releases it. Files are replaced in one step. Does not scan or restore.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from dragoman.snapshots.keeper import Keeper
from dragoman.snapshots.packs import Packs
from dragoman.snapshots.records import LiveTurn, RewindRecord, TurnChanges
from dragoman.snapshots.tree import Tree, decode_tree, encode_tree
from dragoman.workspace.private import make_private_folder, open_private, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.snapshots.limits import SnapshotLimits

_LOCK_SECONDS: Final = 30.0
MOST_TURNS: Final = 500
"""Of one folder; all of them are read when a turn ends."""
_TREE, _TURN, _LIVE, _REWIND = ".tree", ".turn", ".live", ".rewind"
T = TypeVar("T", TurnChanges, RewindRecord, LiveTurn)


class FolderStore:
    """The store of one folder; `base` is the folder of all stores, `root` the real path of the folder."""

    def __init__(self, base: str, root: str, limits: SnapshotLimits) -> None:
        self.root = root
        self.folder = os.path.join(base, store_name(root))
        self._limits = limits
        self._lock_fd = -1
        self._depth = 0
        self.packs = Packs(os.path.join(self.folder, "packs"), limits)

    def make(self) -> None:
        """Create the folder on the disk. Raises: OSError."""
        for name in ("trees", "turns", "live", "rewinds", "reviews"):
            make_private_folder(os.path.join(self.folder, name))
        path = os.path.join(self.folder, "folder")
        if not os.path.exists(path):
            write_private(path, os.fsencode(self.root), is_synced=True)
        with suppress(OSError):
            os.utime(path)  # the time of the last use

    @property
    def exists(self) -> bool:
        return os.path.isdir(self.folder)

    def keeper(self, *, has_budget: bool = True) -> Keeper:
        """Return the way into the packs. What a rewind replaces is kept even if the budget is used up."""
        limits = self._limits if has_budget else msgspec.structs.replace(self._limits, folder_bytes=1 << 62)
        return Keeper(self.packs, limits, lock=self.lock, unlock=self.unlock, place=self.folder)

    # The lock

    def lock(self) -> bool:
        """Take the lock, waiting for another program that has it; False if that takes too long."""
        if self._depth:
            self._depth += 1
            return True
        fd = open_private(os.path.join(self.folder, "lock"), os.O_RDWR | os.O_CREAT)
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    os.close(fd)
                    return False
                time.sleep(0.02)
        self._lock_fd, self._depth = fd, 1
        return True

    def unlock(self) -> None:
        self._depth -= 1
        if not self._depth:
            os.close(self._lock_fd)
            self._lock_fd = -1

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Raises: OSError if another program does not give the lock up."""
        if not self.lock():
            raise OSError(f"another program uses the snapshots of {self.root}; try again")
        try:
            yield
        finally:
            self.unlock()

    # Trees

    def load_tree(self) -> Tree | None:
        """Return the tree of the last scan; None if there is none, or it is damaged."""
        for number in reversed(self._numbers("trees", _TREE)):
            found = self.tree(number)
            if found is not None:
                return found
        return None

    def tree(self, number: int) -> Tree | None:
        try:
            with open(self._file("trees", number, _TREE), "rb") as file:
                return decode_tree(file.read())
        except (OSError, ValueError, KeyError, TypeError, msgspec.DecodeError):
            return None

    def save_tree(self, tree: Tree) -> int:
        """Write a tree, and remove those that no running turn needs; return its number. Raises: OSError."""
        data = encode_tree(tree)
        with self.locked():
            numbers = self._numbers("trees", _TREE)
            number = max(numbers, default=0) + 1
            path = self._file("trees", number, _TREE)
            write_private(path, data, is_synced=False)  # it is made again from the folder if it is lost
            needed = {live.tree for live, _ in self.live_turns()}
            for older in numbers:
                if older not in needed:
                    with suppress(FileNotFoundError):
                        os.unlink(self._file("trees", older, _TREE))
            return number

    def newest_tree(self) -> int:
        return max(self._numbers("trees", _TREE), default=0)

    # Turns

    def begin_turn(self, live: LiveTurn) -> tuple[LiveTurn, int]:
        """Write that a turn begins; return it with its number, and the descriptor that keeps its file locked."""
        with self.locked():
            live = msgspec.structs.replace(live, number=self._next_number())
            path = self._file("live", live.number, _LIVE)
            fd = open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.write(fd, msgspec.msgpack.encode(live))
            except BaseException:
                os.close(fd)
                with suppress(OSError):
                    os.unlink(path)
                raise
            return live, fd

    def end_turn(self, record: TurnChanges) -> TurnChanges:
        """Write how a turn ended. Raises: OSError."""
        with self.locked():
            record = msgspec.structs.replace(record, ended=self._next_number())
            self._write("turns", record.number, _TURN, record)
            with suppress(FileNotFoundError):
                os.unlink(self._file("live", record.number, _LIVE))
            for number in self._numbers("turns", _TURN)[:-MOST_TURNS]:
                self.drop_turn(number)
            for number in self._numbers("rewinds", _REWIND)[:-MOST_TURNS]:
                self.drop_rewind(number)
        return record

    def drop_live(self, number: int) -> None:
        """Forget a turn that began and has no record."""
        with suppress(OSError):
            os.unlink(self._file("live", number, _LIVE))

    def turns(self) -> list[TurnChanges]:
        """Return the turns that are kept, oldest first."""
        found = (self._read("turns", number, _TURN, TurnChanges) for number in self._numbers("turns", _TURN))
        return [record for record in found if record is not None]

    def live_turns(self) -> list[tuple[LiveTurn, bool]]:
        """Return the turns that have begun and not ended, each with whether its program still runs."""
        found = []
        for number in self._numbers("live", _LIVE):
            live = self._read("live", number, _LIVE, LiveTurn)
            if live is not None:
                found.append((live, self._is_locked(self._file("live", number, _LIVE))))
        return found

    def drop_turn(self, number: int) -> None:
        with suppress(OSError):
            os.unlink(self._file("turns", number, _TURN))
        with suppress(OSError):
            os.unlink(os.path.join(self.folder, "reviews", f"{number:08}"))

    # Rewinds

    def add_rewind(self, record: RewindRecord) -> RewindRecord:
        """Write a rewind, on the disk when this returns. Raises: OSError."""
        with self.locked():
            record = msgspec.structs.replace(record, number=self._next_number())
            self._write("rewinds", record.number, _REWIND, record)
        return record

    def save_rewind(self, record: RewindRecord) -> None:
        with self.locked():
            self._write("rewinds", record.number, _REWIND, record)

    def rewinds(self) -> list[RewindRecord]:
        found = (self._read("rewinds", number, _REWIND, RewindRecord) for number in self._numbers("rewinds", _REWIND))
        return [record for record in found if record is not None]

    def drop_rewind(self, number: int) -> None:
        with suppress(OSError):
            os.unlink(self._file("rewinds", number, _REWIND))

    # Reviews: the hunks of a turn that the user has decided to keep

    def kept_hunks(self, number: int) -> dict[str, list[str]]:
        try:
            with open(os.path.join(self.folder, "reviews", f"{number:08}"), "rb") as file:
                return msgspec.json.decode(file.read(), type=dict[str, list[str]])
        except (OSError, msgspec.DecodeError):
            return {}

    def save_kept_hunks(self, number: int, kept: dict[str, list[str]]) -> None:
        path = os.path.join(self.folder, "reviews", f"{number:08}")
        write_private(path, msgspec.json.encode(kept), is_synced=True)

    # Inside

    def _file(self, kind: str, number: int, ending: str) -> str:
        return os.path.join(self.folder, kind, f"{number:08}{ending}")

    def _numbers(self, kind: str, ending: str) -> list[int]:
        try:
            names = os.listdir(os.path.join(self.folder, kind))
        except OSError:
            return []
        stems = [name.removesuffix(ending) for name in names if name.endswith(ending)]
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def _next_number(self) -> int:
        path = os.path.join(self.folder, "sequence")
        try:
            with open(path, "rb") as file:
                number = int(file.read() or b"0")
        except (OSError, ValueError):
            found = (*self._numbers("turns", _TURN), *self._numbers("live", _LIVE), *self._numbers("rewinds", _REWIND))
            number = max(found, default=0)
        # After a power cut the names of the records say the number.
        write_private(path, str(number + 1).encode(), is_synced=False)
        return number + 1

    def _write(self, kind: str, number: int, ending: str, record: TurnChanges | RewindRecord) -> None:
        write_private(self._file(kind, number, ending), msgspec.msgpack.encode(record), is_synced=True)

    def _read(self, kind: str, number: int, ending: str, type: type[T]) -> T | None:
        try:
            with open(self._file(kind, number, ending), "rb") as file:
                return msgspec.msgpack.decode(file.read(), type=type)
        except (OSError, msgspec.DecodeError, msgspec.ValidationError):
            return None

    def _is_locked(self, path: str) -> bool:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False


def store_name(root: str) -> str:
    """Return the name of a folder's store: readable, and different for every path."""
    short = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in os.path.basename(root))[:40]
    return f"{short or 'root'}-{sha256(os.fsencode(root)).hexdigest()[:16]}"
