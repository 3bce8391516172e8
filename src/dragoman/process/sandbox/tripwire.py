"""A tripwire for protected files: it compares them around a command, and puts the old content back.

Works without any sandbox. It is the only guard of files that did not exist before the command, and, on the restricted
thread, of all protected files.

A file is read again only if its size, times, inode or mode changed (a command can set the modification time back, but
not the time of that). Everything is opened without following links, folder by folder from the root: a command could
have put a link in the way, to have this program, which is not restricted, write through it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Final, Literal

import msgspec

from dragoman.policy.paths import is_below
from dragoman.process.sandbox.git_config import is_harmless_change
from dragoman.process.sandbox.policy import SandboxPolicy, protected_paths

_KEPT_BYTES: Final = 1 << 20  # of one file; larger ones are compared by their hash, and cannot be put back
_KEPT_TOTAL_BYTES: Final = 16 << 20
_MOST_FILES: Final = 2000
_MOST_ROUNDS: Final = 20  # of removing what was made, if there is more than is searched at once
_READ_BYTES: Final = 64 << 20  # of one file; a command can make one of a terabyte that takes no room
_NAME_LETTERS: Final = 60  # of a kept file's name; each may be four bytes
_CLOCK_NS: Final = 1_000_000_000  # file systems take their times from a coarser clock
_CHUNK_BYTES: Final = 1 << 16
_USUAL_COMMON_FOLDER: Final = b"../..\n"  # from the folder of a linked worktree to the one of its repository

Happened = Literal["created", "changed", "deleted"]


class ProtectedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A protected file that is not as it was before the command."""

    path: str
    happened: Happened
    kept: str | None = None
    """The file with the old content, or for a created one with the new content."""
    replaced: str | None = None
    """The file with the new content of a changed one that was put back: the user may have written it meanwhile."""
    is_restored: bool = False
    problem: str | None = None
    """Why it could not be kept or put back."""


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One file, link or other thing at a protected path."""

    identity: tuple[int, ...]
    mode: int
    digest: bytes
    content: bytes | None

    @property
    def size(self) -> int:
        return self.identity[2]

    @property
    def changed_ns(self) -> int:
        """When its content or its place changed; a program cannot set this time."""
        return self.identity[4]


class Tripwire:
    """A comparison of protected files: `arm` before a command, `check` after it."""

    def __init__(self, policy: SandboxPolicy, aside: str | os.PathLike[str], *, is_confined: bool = True) -> None:
        """Watch the writable folders of a policy.

        Args:
            aside: the folder for old content, made when it is needed; a confined command must not be able to write it.
            is_confined: False if no sandbox keeps commands from writing elsewhere, so that any folder will do.
        """
        self._folders = (*policy.roots, *policy.writable, *(git.own for git in policy.linked))
        self._policy = policy
        self._aside = os.path.realpath(aside)
        if is_confined and policy.may_write(self._aside):
            raise ValueError("aside must lie outside the folders that commands can write")
        self._before: dict[str, _Seen] = {}
        self._armed_ns = 0

    def arm(self) -> None:
        """Remember the protected files as they are now."""
        self._armed_ns = time.time_ns() - _CLOCK_NS
        self._before = self._look()

    def accept(self, path: str | os.PathLike[str]) -> None:
        """Take a file as it is now: the caller changed it, with permission."""
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        self._before = {place: seen for place, seen in self._before.items() if place != real}
        found = self._look().get(real)
        if found is not None:
            self._before[real] = found

    def check(self, *, restore: bool, is_expected: Callable[[str], bool] | None = None) -> list[ProtectedChange]:
        """Return what changed since `arm`; the tripwire is armed with what is there afterwards.

        Args:
            restore: put back what changed.
            is_expected: whether the user permitted the change of a path, which then is neither listed nor put back.
        """
        found: list[ProtectedChange] = []
        for _ in range(_MOST_ROUNDS):
            more = self._compare(restore, is_expected)
            found += more
            if not any(change.is_restored and change.happened == "created" for change in more):
                break
        return found

    def _compare(self, restore: bool, is_expected: Callable[[str], bool] | None) -> list[ProtectedChange]:
        before, after = self._before, self._look()
        changes = [
            *((path, "created") for path, seen in after.items() if path not in before and self._is_new(path, seen)),
            *((path, "deleted") for path in before if path not in after),
            *((path, "changed") for path, seen in before.items() if path in after and _differ(path, seen, after[path])),
        ]
        changes = [(path, happened) for path, happened in changes if is_expected is None or not is_expected(path)]
        # Created things go first: a link or file may stand where a folder was that has to be made again.
        found = [self._handle(path, happened, before, after, restore) for path, happened in changes]
        if found:  # what appears only now stood behind what was removed, and has not been compared
            after = {path: seen for path, seen in self._look().items() if path in before or path in after}
        self._before = after
        return found

    def _is_new(self, path: str, seen: _Seen) -> bool:
        """Whether a file that was not seen before has been made since: it may have been one too many to be searched."""
        if os.path.basename(path) == "commondir" and seen.content == _USUAL_COMMON_FOLDER:
            return False  # `git worktree add` made it
        return len(self._before) < _MOST_FILES or seen.changed_ns >= self._armed_ns

    def _look(self) -> dict[str, _Seen]:
        # What was there is looked at by name too: a command could bury it among more files than are searched.
        # A home has folders (`.cargo`, `.vscode`) with more files than can be looked at after every command.
        searched = list(islice(_files(protected_paths(self._policy)), _MOST_FILES))
        found: dict[str, _Seen] = {}
        left = _KEPT_TOTAL_BYTES
        for path in dict.fromkeys([*self._before, *searched]):
            with suppress(OSError), self._parent(path) as (folder, name):
                seen = _see(folder, name, self._before.get(path), min(left, _KEPT_BYTES))
                if seen is not None:
                    found[path] = seen
                    left -= len(seen.content or b"")
        return found

    def _handle(
        self, path: str, happened: str, before: Mapping[str, _Seen], after: Mapping[str, _Seen], restore: bool
    ) -> ProtectedChange:
        word: Happened = "created" if happened == "created" else "deleted" if happened == "deleted" else "changed"
        old = (after if word == "created" else before)[path]
        kept, replaced, problem = None, None, None
        can_restore = word == "created" or old.content is not None
        try:
            os.makedirs(self._aside, mode=0o700, exist_ok=True)
            kept = self._keep_new(path, old) if word == "created" else self._keep(path, old.content)
            if restore and word == "changed":
                replaced = self._keep_new(path, after[path])
        except OSError as error:
            problem = f"not kept: {error.strerror}"
        if not restore or not can_restore:
            return ProtectedChange(path=path, happened=word, kept=kept, replaced=replaced, problem=problem)
        try:
            if word == "created":
                with self._parent(path) as (folder, name):
                    os.unlink(name, dir_fd=folder)
            else:
                self._put_back(path, old)
        except OSError as error:
            problem = f"not put back: {error.strerror}"
            return ProtectedChange(path=path, happened=word, kept=kept, replaced=replaced, problem=problem)
        return ProtectedChange(
            path=path, happened=word, kept=kept, replaced=replaced, problem=problem, is_restored=True
        )

    def _keep_new(self, path: str, seen: _Seen) -> str | None:
        """Keep what a command made; a pipe or socket has nothing to keep."""
        if seen.content is not None or not stat.S_ISREG(seen.mode):
            return self._keep(path, seen.content or b"")
        import shutil  # takes time to load, and is seldom needed

        if seen.size > _READ_BYTES:
            raise OSError(errno.EFBIG, "it is too large to be kept")
        place = os.path.join(self._aside, f"{os.urandom(8).hex()}-{os.path.basename(path)[:_NAME_LETTERS]}")
        with self._parent(path) as (folder, name):
            source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(source, "rb") as reader, open(place, "xb") as writer:
            shutil.copyfileobj(reader, writer)
        return place

    def _keep(self, path: str, content: bytes | None) -> str:
        if content is None:
            raise OSError(errno.EFBIG, "its content was too large to be remembered")
        digest = hashlib.sha256(os.fsencode(path) + bytes(1) + content).hexdigest()[:16]
        place = os.path.join(self._aside, f"{digest}-{os.path.basename(path)[:_NAME_LETTERS]}")
        with suppress(FileExistsError):  # the name says which content it has
            fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(content)
        return place

    def _put_back(self, path: str, old: _Seen) -> None:
        assert old.content is not None  # the caller has looked
        with self._parent(path, make=True) as (folder, name):
            temporary = f".{os.urandom(8).hex()}"
            if stat.S_ISLNK(old.mode):
                os.symlink(old.content, temporary, dir_fd=folder)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                fd = os.open(temporary, flags, 0o600, dir_fd=folder)
                with os.fdopen(fd, "wb") as file:
                    file.write(old.content)
                    os.fchmod(fd, stat.S_IMODE(old.mode))
            try:
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(temporary, dir_fd=folder)
                raise

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the folder of a path, opened without following a link below the root, and the name in it."""
        root = max((folder for folder in self._folders if is_below(path, folder)), key=len)
        *folders, name = os.path.relpath(path, root).split("/")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(root, flags)
        try:
            for folder in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=fd)
                inner = os.open(folder, flags, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd, name
        finally:
            os.close(fd)


def _files(paths: list[str]) -> Iterator[str]:
    """Yield the paths, with folders replaced by everything inside them; links are not followed."""
    for path in paths:
        if os.path.islink(path) or not os.path.isdir(path):
            yield path
            continue
        for folder, inner, names in os.walk(path):
            yield from (os.path.join(folder, name) for name in names)
            yield from (link for name in inner if os.path.islink(link := os.path.join(folder, name)))


def _see(folder: int, name: str, before: _Seen | None, room_bytes: int) -> _Seen | None:
    """Return what is at a name now; None for a folder."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)
    if before is not None and before.identity == identity:
        return before
    if stat.S_ISDIR(found.st_mode):
        return None
    if stat.S_ISLNK(found.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=folder))
        return _Seen(identity=identity, mode=found.st_mode, digest=target, content=target)
    if not stat.S_ISREG(found.st_mode):
        return _Seen(identity=identity, mode=found.st_mode, digest=b"", content=None)
    if found.st_size > _READ_BYTES:
        return _Seen(identity=identity, mode=found.st_mode, digest=repr(identity).encode(), content=None)
    # Not blocking: it may have become a pipe since.
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(fd, "rb") as file:
        digest = hashlib.sha256()
        kept: list[bytes] | None = []
        while piece := file.read(_CHUNK_BYTES):
            digest.update(piece)
            room_bytes -= len(piece)
            if kept is not None:
                kept = [*kept, piece] if room_bytes >= 0 else None
    content = None if kept is None else b"".join(kept)
    return _Seen(identity=identity, mode=found.st_mode, digest=digest.digest(), content=content)


def _differ(path: str, before: _Seen, after: _Seen) -> bool:
    """Whether content, kind or rights differ; the same content written again does not count."""
    if (before.digest, before.mode) == (after.digest, after.mode):
        return False
    if before.mode != after.mode or before.content is None or after.content is None:
        return True
    is_git_config = os.path.basename(path) == "config" and stat.S_ISREG(after.mode)
    return not (is_git_config and is_harmless_change(before.content, after.content))
