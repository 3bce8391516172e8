"""Scans a tree: the first time by walking it, afterwards by comparing it with the last scan.

An unchanged tree costs one `lstat` per file and folder: a folder is listed again only if its change time differs, and a
file is read again only if its change time, size or inode differ. What a scan must not do: follow links, open anything
but regular files, write below the root, or keep the interpreter for long (it pauses every 5 ms). Runs in a thread.
"""

from __future__ import annotations

import os
import stat
import time
from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.policy.paths import is_strictly_below
from dragoman.snapshots.git_files import ATTRIBUTES, GitBase, Repository, find_repository, index_stamp, repository_at
from dragoman.snapshots.git_index import IndexDeclined
from dragoman.snapshots.limits import RACY_NS, SLICE_SECONDS
from dragoman.snapshots.reading import Reader
from dragoman.snapshots.tree import FolderRow, Tree
from dragoman.workspace.ignore import GENERATED, IgnoreStack

if TYPE_CHECKING:
    from dragoman.snapshots.entries import FileEntry
    from dragoman.snapshots.keeper import Keeper
    from dragoman.snapshots.limits import SnapshotLimits
    from dragoman.workspace.ignore import RuleReader

_SLICE_FILES: Final = 1024
# With more changed files than this, git's index is read: the blobs of a checkout need not be stored again.
_MANY: Final = 200
GIT: Final = ".git"
IGNORE_FILES: Final = (".gitignore", ".ignore")
_COVERED: Final = (True, False)
BUILT_IN: Final = frozenset({"node_modules", ".venv", "venv", "target", "dist", "build", "__pycache__"})


class ScanRefused(Exception):
    """The tree is too large to be scanned at every turn; the text says by what measure."""


class ScanStopped(Exception):
    """The result of the scan is not needed any more."""


class FolderRules(NamedTuple):
    """What applies to the names of one folder."""

    stack: IgnoreStack
    base: GitBase | None
    before: str  # what to put before a path, and how many of its characters to leave out, to look it up in `base`
    cut: int
    is_ignored: bool
    is_open: bool = False  # every file in it belongs to the snapshots

    def tracked_path(self, path: str) -> str:
        return self.before + path[self.cut :]


class TreeRules:
    """Which paths of one tree belong to its snapshot, during one scan.

    Left out are `.git`, what ignore files say, and well-known folders of installed and generated files where no ignore
    file exists. A file that git tracks is always in, as git does it. Reads ignore files and git's index; does not walk.

    Args:
        root: the real path of the tree.
        left_out: absolute paths that never belong to it, such as the store itself.
        uses_index: whether git's index is read. Without it every name that ignore files exclude is left out.
        read: reads ignore files as they were; None reads them as they are. With it, what only the present ones exclude
            belongs to the snapshot, except well-known folders of installed and generated files.
    """

    def __init__(
        self,
        root: str,
        *,
        left_out: frozenset[str] = frozenset(),
        uses_index: bool = True,
        read: RuleReader | None = None,
    ) -> None:
        self._root = root
        self._left_out = frozenset(path for path in left_out if is_strictly_below(path, root))
        self._uses_index = uses_index
        self._folders: dict[str, FolderRules] = {}
        self._bases: dict[str, GitBase | None] = {}
        self.repository: Repository | None = find_repository(root)
        self.declined: list[str] = []
        self._read = read
        self._present = None if read is None else TreeRules(root, left_out=left_out, uses_index=False)
        stack = IgnoreStack.above(root, IGNORE_FILES, read=read)
        self._has_built_in = not stack
        self._top_stack = stack

    @property
    def bases(self) -> list[GitBase]:
        """The indexes that were read."""
        return [base for base in self._bases.values() if base is not None]

    def of_root(self) -> FolderRules:
        known = self._folders.get("")
        if known is None:
            repository = self.repository
            base, before = None, ""
            if repository is not None:
                base = self._base(repository)
                inner = os.path.relpath(self._root, repository.worktree)
                before = "" if inner == "." else inner + "/"
            known = FolderRules(
                self._top_stack, base, before, 0, is_ignored=False, is_open=self._is_open(self._top_stack)
            )
            self._folders[""] = known
        return known

    def inside(self, above: FolderRules, folder: str, *, has_rules: bool, is_repository: bool) -> FolderRules:
        """Return the rules of a folder, from those of the folder above it."""
        rules = above
        if has_rules or is_repository:
            place = os.path.join(self._root, folder)
            stack = above.stack.inside(
                place, folder, has_rules=has_rules, is_repository=is_repository, names=IGNORE_FILES, read=self._read
            )
            rules = rules._replace(stack=stack, is_open=not above.is_ignored and self._is_open(stack))
            if is_repository:
                repository = repository_at(place)
                base = None if repository is None else self._base(repository)
                cut = len(folder) + 1
                rules = FolderRules(stack, base, "", cut, is_ignored=False, is_open=self._is_open(stack))
        self._folders[folder] = rules
        return rules

    def of(self, folder: str) -> FolderRules:
        """Return the rules of a folder that was not reached by a walk."""
        known = self._folders.get(folder)
        if known is not None:
            return known
        if not folder:
            return self.of_root()
        parent, _, name = folder.rpartition("/")
        above = self.of(parent)
        if above.is_ignored or self._is_ignored(above, folder, name, is_folder=True):
            above = above._replace(is_ignored=True, is_open=False)
        is_repository = os.path.lexists(os.path.join(self._root, folder, GIT))
        return self.inside(above, folder, has_rules=True, is_repository=is_repository)

    def covers(self, rules: FolderRules, path: str, name: str, *, is_folder: bool) -> tuple[bool, bool]:
        """Return whether a path belongs to the snapshots, and for a folder whether only tracked files in it do."""
        if self._left_out and os.path.join(self._root, path) in self._left_out:
            return False, True
        if not rules.is_ignored and not self._is_ignored(rules, path, name, is_folder=is_folder):
            return _COVERED
        base = rules.base
        if base is None:
            return False, True
        inner = rules.tracked_path(path)
        return (base.has_below(inner) if is_folder else inner in base.entries), True

    def ignores_folder(self, path: str) -> bool:
        """Whether ignore files exclude a folder."""
        folder, _, name = path.rpartition("/")
        rules = self.of(folder)
        return rules.is_ignored or self._is_ignored(rules, path, name, is_folder=True)

    def _is_open(self, stack: IgnoreStack) -> bool:
        return not stack and not self._left_out

    def _is_ignored(self, rules: FolderRules, path: str, name: str, *, is_folder: bool) -> bool:
        decision = rules.stack.decide(path, name, is_folder) if rules.stack else None
        if decision is None and self._has_built_in and is_folder and name in BUILT_IN:
            return True
        if not decision and self._present is not None and is_folder and name in GENERATED:
            return self._present.ignores_folder(path)
        return decision is True

    def _base(self, repository: Repository) -> GitBase | None:
        if not self._uses_index:
            return None
        if repository.worktree not in self._bases:
            base: GitBase | None = None
            try:
                base = GitBase(repository)
            except IndexDeclined as reason:
                self.declined.append(f"{repository.worktree}: {reason}")
            self._bases[repository.worktree] = base
        return self._bases[repository.worktree]


class _Listing:
    """The names of one folder: left out, files with their entries, folders to be walked."""

    __slots__ = ("files", "folders", "skipped")

    def __init__(self) -> None:
        self.skipped: list[str] = []
        self.files: list[tuple[str, FileEntry]] = []
        self.folders: list[tuple[str, os.stat_result, FolderRules]] = []


class Scanner:
    """One scan of one tree.

    Args:
        root: the real path of the tree.
        keeper: takes the contents that are read.
        left_out: absolute paths that do not belong to the tree.
        read: reads ignore files as they were before a turn; None reads them as they are. With it, git's index is not
            trusted either: the agent may have written it.
    """

    def __init__(
        self,
        root: str,
        limits: SnapshotLimits,
        keeper: Keeper,
        *,
        left_out: frozenset[str] = frozenset(),
        read: RuleReader | None = None,
    ) -> None:
        self._root = root
        self._prefix = root.rstrip("/") + "/"
        self._limits = limits
        self._rules: TreeRules | None = None
        self._left_out = left_out
        self._read = read
        self._racy_after = time.time_ns() - RACY_NS
        self._reader = Reader(limits, keeper, self._racy_after)
        self._slice_end = time.monotonic() + SLICE_SECONDS
        self._is_first = False
        self._loose: set[int] = set()
        self._uses_index = True
        self._started = time.monotonic()
        self._started_cpu = time.thread_time()
        self.is_stopped = False

    @property
    def unstable(self) -> list[str]:
        """Files that were being written all the time."""
        return self._reader.unstable

    @property
    def reads(self) -> int:
        """How many files were opened."""
        return self._reader.reads

    @property
    def rules(self) -> TreeRules:
        if self._rules is None:
            self._rules = TreeRules(self._root, left_out=self._left_out, uses_index=self._uses_index, read=self._read)
        return self._rules

    def scan(self, base: Tree | None) -> Tree:
        """Return the tree as it is now; `base` itself if nothing differs from it.

        Raises:
            ScanRefused: it has too many files, or the first scan takes too long.
            OSError: the root is missing or not readable.
        """
        if base is None:
            self._is_first = True
            tree = Tree()
            status = os.stat(self._root)
            os.listdir(self._root)
            self._walk(tree, "", status, self.rules.of_root())
            self._note_stamp(tree)
            return tree
        dirty, changed = self._compare(base)
        # A few changed files are read; the index is needed if git has written it since, or for a large change.
        is_other_index = base.stamp != index_stamp(find_repository(self._root))
        self._uses_index = is_other_index or len(changed) > _MANY or len(dirty) > _MANY
        if is_other_index:
            self._find_loose(base, changed)
        if not dirty and not changed:
            return base
        tree = self._rebuild(base, dirty, changed)
        tree.stamp = base.stamp
        self._note_stamp(tree)
        return tree

    def _find_loose(self, base: Tree, changed: dict[int, os.stat_result | None]) -> None:
        """Read files whose blob git's index does not name any more: git may drop such a blob one day."""
        top = self.rules.of_root().base
        named = set() if top is None else {b"g" + entry.blob for entry in top.entries.values()}
        for at, id in enumerate(base.ids):
            if id[:1] == b"g" and id not in named:
                self._loose.add(at)
                if at not in changed:
                    with suppress(OSError):
                        changed[at] = os.lstat(self._prefix + base.paths[at])

    def _note_stamp(self, tree: Tree) -> None:
        if self._rules is not None and self._rules.bases:
            tree.stamp = self._rules.bases[0].stamp

    # The first look

    def _walk(self, tree: Tree, start: str, status: os.stat_result, rules: FolderRules) -> None:
        waiting = [(start, status, rules)]
        while waiting:
            folder, status, rules = waiting.pop()
            try:
                found = self._list(folder)
            except OSError:  # not readable, or gone in the meantime
                tree.add_folder(folder, self._row(status, frozenset()))
                continue
            names = {entry.name for entry in found}
            if folder:
                has_rules = not names.isdisjoint(IGNORE_FILES)
                rules = self.rules.inside(rules, folder, has_rules=has_rules, is_repository=GIT in names)
            below = folder + "/" if folder else ""
            if rules.base is not None and ATTRIBUTES not in names:
                rules.base.has_no_attributes(rules.tracked_path(below).rstrip("/"))
            listing = _Listing()
            for entry in found:
                if entry.name != GIT:
                    self._sort(entry, below + entry.name, rules, listing)
            waiting += listing.folders
            tree.add_folder(folder, self._row(status, frozenset(listing.skipped)))
            for path, seen in listing.files:
                tree.add_file(path, seen)
            self._pause(len(tree))

    def _sort(self, entry: os.DirEntry[str], path: str, rules: FolderRules, listing: _Listing) -> None:
        """Put a name that was not known into the list it belongs to."""
        is_folder = entry.is_dir(follow_symlinks=False)
        is_ignored = False
        if is_folder or not rules.is_open:
            is_covered, is_ignored = self.rules.covers(rules, path, entry.name, is_folder=is_folder)
            if not is_covered:
                listing.skipped.append(entry.name)
                return
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if is_folder:
            listing.folders.append(
                (path, status, rules._replace(is_ignored=True, is_open=False) if is_ignored else rules)
            )
        else:
            seen = self._look(path, status, rules)
            if seen is not None:
                listing.files.append((path, seen))

    def _look(self, path: str, status: os.stat_result, rules: FolderRules) -> FileEntry | None:
        base = rules.base
        if base is not None:
            inner = rules.tracked_path(path)
            blob = base.blob(inner, status) if self._read is None else None
            if blob is not None:
                return self._reader.trusted(status, blob)
            return self._reader.look(self._prefix + path, status, None, base.named_blob(inner))
        return self._reader.look(self._prefix + path, status, None)

    def _list(self, folder: str) -> list[os.DirEntry[str]]:
        with os.scandir(self._prefix + folder if folder else self._root) as found:
            return list(found)

    def _row(self, status: os.stat_result, skipped: frozenset[str]) -> FolderRow:
        ctime = status.st_ctime_ns
        is_racy = max(ctime, status.st_mtime_ns) > self._racy_after
        return FolderRow(status.st_mode, -1 if is_racy else ctime, status.st_ino, status.st_dev, skipped)

    # The next looks

    def _compare(self, base: Tree) -> tuple[dict[int, os.stat_result | None], dict[int, os.stat_result | None]]:
        """Return the folders and files that differ, by their index, with their new status.

        None for those that are gone.
        """
        prefix, lstat = self._prefix, os.lstat
        dirty: dict[int, os.stat_result | None] = {}
        for at, (folder, row) in enumerate(zip(base.folders, base.rows, strict=True)):
            try:
                status = lstat(prefix + folder) if folder else os.stat(self._root)
            except OSError:
                dirty[at] = None
                continue
            if status.st_ctime_ns != row.ctime_ns or status.st_ino != row.inode or status.st_dev != row.device:
                dirty[at] = status if stat.S_ISDIR(status.st_mode) else None
            if not at % _SLICE_FILES:
                self._pause()
        changed: dict[int, os.stat_result | None] = {}
        for start in range(0, len(base), _SLICE_FILES):
            stop = start + _SLICE_FILES
            at = start
            for path, ctime, inode, size in zip(
                base.paths[start:stop],
                base.ctimes[start:stop],
                base.inodes[start:stop],
                base.sizes[start:stop],
                strict=True,
            ):
                try:
                    status = lstat(prefix + path)
                    if status.st_ctime_ns != ctime or status.st_ino != inode or status.st_size != size:
                        changed[at] = status
                except OSError:
                    changed[at] = None
                at += 1
            self._pause()
        if 0 in dirty and dirty[0] is None:
            os.listdir(self._root)  # raises what is wrong with it
        return dirty, changed

    def _rebuild(
        self, base: Tree, dirty: dict[int, os.stat_result | None], changed: dict[int, os.stat_result | None]
    ) -> Tree:
        tree = Tree()
        touched = set(dirty)
        for at in changed:
            touched.add(bisect_right(base.starts, at) - 1)
        gone: set[str] = set()
        done = 0
        for at in sorted(touched):
            _copy_folders(tree, base, done, at, gone)
            done = at + 1
            folder = base.folders[at]
            if folder and folder.rpartition("/")[0] in gone:
                gone.add(folder)
            elif at not in dirty:
                self._reread(tree, base, at, changed)
            else:
                status = dirty[at]
                if status is None or not self._relist(tree, base, at, status, changed):
                    gone.add(folder)
            self._pause(len(tree))
        _copy_folders(tree, base, done, len(base.folders), gone)
        return tree

    def _reread(self, tree: Tree, base: Tree, at: int, changed: dict[int, os.stat_result | None]) -> None:
        """Look at a folder with the same names, in which files were written."""
        tree.add_folder(base.folders[at], base.rows[at])
        start, stop = base.span(at)
        for place in range(start, stop):
            entry = self._again(base, place, changed)
            if entry is not None:
                tree.add_file(base.paths[place], entry)

    def _again(self, base: Tree, place: int, changed: dict[int, os.stat_result | None]) -> FileEntry | None:
        if place not in changed:
            return base.entry(place)
        status = changed[place]
        if status is None or stat.S_ISDIR(status.st_mode):
            return None
        blob = None
        path = base.paths[place]
        if self._uses_index:
            rules = self.rules.of(path.rpartition("/")[0])
            if rules.base is not None:
                inner = rules.tracked_path(path)
                blob = rules.base.blob(inner, status) if self._read is None else None
                if blob is not None:
                    return self._reader.trusted(status, blob)
                blob = rules.base.named_blob(inner)
        known = b"" if place in self._loose else base.ids[place]
        if stat.S_IFMT(status.st_mode) != stat.S_IFMT(base.modes[place]):
            known = b""
        return self._reader.look(self._prefix + path, status, known or None, blob)

    def _relist(
        self, tree: Tree, base: Tree, at: int, status: os.stat_result, changed: dict[int, os.stat_result | None]
    ) -> bool:
        """Look at a folder with other names than before; return False if it is gone."""
        folder = base.folders[at]
        try:
            found = self._list(folder)
        except FileNotFoundError:
            return False
        except OSError:  # not readable any more: what was known of it stays
            self._reread(tree, base, at, changed)
            return True
        below = folder + "/" if folder else ""
        start, stop = base.span(at)
        known = {path: place for place, path in enumerate(base.paths[start:stop], start)}
        listing = _Listing()
        for entry in found:
            path = below + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == GIT or (is_folder and path in base.folder_places):
                continue  # a known folder has a row of its own, which was compared
            place = known.get(path)
            seen = None if place is None or is_folder else self._again(base, place, changed)
            if seen is not None:
                listing.files.append((path, seen))
            else:
                self._sort(entry, path, self.rules.of(folder), listing)
        tree.add_folder(folder, self._row(status, frozenset(listing.skipped)))
        for path, seen in listing.files:
            tree.add_file(path, seen)
        for inner in listing.folders:
            self._walk(tree, *inner)
        return True

    # Time

    def _pause(self, files: int = 0) -> None:
        """Let other threads run, and stop a scan that is too large or not needed any more."""
        now = time.monotonic()
        if now > self._slice_end:
            time.sleep(0)
            self._slice_end = time.monotonic() + SLICE_SECONDS
            if self.is_stopped:
                raise ScanStopped
            limits = self._limits
            if self._is_first and (
                time.thread_time() - self._started_cpu > limits.first_scan_seconds
                or now - self._started > limits.first_scan_clock_seconds
            ):
                raise ScanRefused(
                    f"looking at it for the first time takes longer than {limits.first_scan_seconds:g} seconds"
                )
        if files > self._limits.most_files:
            raise ScanRefused(f"it has more than {self._limits.most_files:,} files")


def _copy_folders(tree: Tree, base: Tree, start: int, stop: int, gone: set[str]) -> None:
    """Append folders that are as they were, except below those that are gone."""
    if start >= stop:
        return
    if gone:
        for at in range(start, stop):
            folder = base.folders[at]
            if folder.rpartition("/")[0] in gone and folder:
                gone.add(folder)
            else:
                tree.add_folder(folder, base.rows[at])
                tree.add_files_of(base, *base.span(at))
        return
    first, last = base.starts[start], base.span(stop - 1)[1]
    shift = len(tree.paths) - first
    tree.folders += base.folders[start:stop]
    tree.rows += base.rows[start:stop]
    tree.starts += [first + shift for first in base.starts[start:stop]] if shift else base.starts[start:stop]
    tree.add_files_of(base, first, last)
