"""The files of a folder before a program runs, and what is different afterwards.

Owns the limits. No version control is needed, and none is called: settings of a repository can start programs. Every
function blocks; call them in a thread.
"""

from __future__ import annotations

import os
import stat
import time
from typing import Final, NamedTuple

from msgspec import Struct, field

MOST_ENTRIES: Final = 10_000
"""Files and folders that are compared. A folder with more, such as a home folder, is not."""
_FILE_BYTES: Final = 1 << 20  # a larger file is named if it changed, without a diff
_ALL_BYTES: Final = 64 << 20  # copies of all files
_SHOWN_FILES: Final = 200
_SHOWN_BYTES: Final = 4 << 20  # of all diffs: a client gets them in one message
# Folders that tools fill by themselves: version control, packages, caches.
_SKIPPED: Final = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox"),
        *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".cache", ".idea", ".aider.tags.cache.v4"),
    )
)
# A file that was changed this short before the snapshot may change again without a new time stamp.
_RECENT_NS: Final = 50_000_000


class _Seen(NamedTuple):
    identity: tuple[int, int, int, int, int]
    changed_ns: int
    content: bytes | None
    """None: too large, or it cannot be read."""


class Snapshot(Struct, frozen=True):
    """The files of a folder at one time."""

    root: str
    taken_ns: int
    files: dict[str, _Seen]
    is_complete: bool
    """False: the folder has too many files, so changes cannot be found."""


class ChangedFile(NamedTuple):
    """A file that differs. `before` and `after` are None where there is no file."""

    path: str
    before: str | None
    after: str | None


class UnshownFile(NamedTuple):
    """A file that differs and cannot be shown as a diff."""

    path: str
    happened: str
    why: str


class Changes(Struct):
    """What is different, by path."""

    shown: list[ChangedFile] = field(default_factory=list)
    unshown: list[UnshownFile] = field(default_factory=list)


def take_snapshot(root: str) -> Snapshot:
    """Read the files below a folder, without following links."""
    taken_ns = time.time_ns()
    statuses = _statuses(root)
    if statuses is None:
        return Snapshot(root, taken_ns, {}, is_complete=False)
    files: dict[str, _Seen] = {}
    left = _ALL_BYTES
    for path, status in statuses.items():
        content = _content(path) if status.st_size <= min(left, _FILE_BYTES) else None
        left -= len(content or b"")
        files[path] = _Seen(_identity(status), status.st_ctime_ns, content)
    return Snapshot(root, taken_ns, files, is_complete=True)


def find_changes(before: Snapshot) -> Changes | None:
    """Compare the folder with its snapshot; None if there are too many files."""
    statuses = _statuses(before.root) if before.is_complete else None
    if statuses is None:
        return None
    changes = Changes()
    left = _SHOWN_BYTES
    for path in sorted(before.files.keys() | statuses.keys()):
        found = _compare(path, before.files.get(path), statuses.get(path), before.taken_ns)
        if isinstance(found, ChangedFile):
            size = len(found.before or "") + len(found.after or "")
            if size > left or len(changes.shown) >= _SHOWN_FILES:
                happened = _happened(found.before is not None, found.after is not None)
                found = UnshownFile(path, happened, "there are too many changes to show")
            else:
                left -= size
                changes.shown.append(found)
        if isinstance(found, UnshownFile):
            changes.unshown.append(found)
    return changes


def _compare(
    path: str, seen: _Seen | None, status: os.stat_result | None, taken_ns: int
) -> ChangedFile | UnshownFile | None:
    is_same = seen is not None and status is not None and seen.identity == _identity(status)
    if seen is not None and is_same and seen.changed_ns < taken_ns - _RECENT_NS:
        return None
    happened = _happened(seen is not None, status is not None)
    after = None
    if status is not None:
        after = _content(path) if status.st_size <= _FILE_BYTES else None
    if (seen is not None and seen.content is None) or (status is not None and after is None):
        return None if is_same else UnshownFile(path, happened, "it is too large, or cannot be read")
    before = None if seen is None else seen.content
    if before == after:
        return None
    old, new = _text(before), _text(after)
    if isinstance(old, bytes) or isinstance(new, bytes):
        size = "" if after is None else f", {len(after)} bytes"
        return UnshownFile(path, happened, f"it is not text{size}")
    return ChangedFile(path, old, new)


def _happened(was_there: bool, is_there: bool) -> str:
    if was_there and is_there:
        return "changed"
    return "created" if is_there else "deleted"


def _text(content: bytes | None) -> str | bytes | None:
    """Return the content as text; as it is if it is not text."""
    if content is None or b"\0" in content:
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _identity(status: os.stat_result) -> tuple[int, int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev


def _statuses(root: str) -> dict[str, os.stat_result] | None:
    """Return the regular files below a folder; None if there are too many entries."""
    found: dict[str, os.stat_result] = {}
    folders = [root]
    count = 0
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    count += 1
                    if count > MOST_ENTRIES:
                        return None
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _SKIPPED:
                            folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        status = _status(entry)
                        if status is not None:
                            found[entry.path] = status
        except OSError:  # the folder is gone or may not be read: its files are not compared
            continue
    return found


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        entry.path.encode()  # a name that is not UTF-8 cannot be sent
        return entry.stat(follow_symlinks=False)
    except (OSError, UnicodeEncodeError):
        return None


def _content(path: str) -> bytes | None:
    """Return a file's bytes; None if it cannot be read, has become something else, or has grown too large."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as file:
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            data = file.read(_FILE_BYTES + 1)
        except OSError:
            return None
    return data if len(data) <= _FILE_BYTES else None
