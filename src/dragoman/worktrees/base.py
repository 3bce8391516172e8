"""What a worktree was when it was made: every file with its mode, and what git ignored then.

It is written once, before anything works in the copy, and lies outside of it. What counts as a change is decided by it
and by the bytes on the disk alone: not by the worktree's index, its `.git`, or settings and rules of git that are
changed later. Git is run only to read objects of the commit, in a repository without settings, and each of them is
compared with its name.
"""

from __future__ import annotations

import hashlib
import os
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import Struct

from dragoman.workspace.ignore import GENERATED, RULES_FILE, IgnoreStack, read_plain
from dragoman.worktrees.git import WorktreeError, run_git
from dragoman.worktrees.worktree import content_of, entries_of, mode_of, pieces_of, size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dragoman.worktrees.worktree import Worktree

LINK: Final = 0o120000
GIT: Final = ".git"
_FILE: Final = "base.msgpack"
MOST_RULES_BYTES: Final = 1 << 20


class FileVersion(Struct, frozen=True):
    """A file or a link at one moment."""

    content: bytes
    mode: int


class BaseFile(Struct, frozen=True, array_like=True):
    """A file as it was: the name that git gives to such a content, the mode, and the size."""

    id: bytes
    mode: int
    size: int


class Base(Struct, frozen=True, kw_only=True):
    """Everything that was in a worktree when it was made. Names are as the system has them, in bytes."""

    files: dict[bytes, BaseFile]
    algorithm: Literal["sha1", "sha256"] = "sha256"
    """How git names contents in the project's repository."""
    submodules: list[bytes] = []
    rules: list[bytes] = []
    """What git ignored by files outside the worktree: those of the user, then those of the repository."""
    folder_rules: dict[bytes, bytes] = {}
    """What it ignored by a file in a folder, by the folder."""
    link: bytes = b""
    """The file `.git` of the worktree; empty for a plain copy."""

    def has(self, path: str, version: FileVersion) -> bool:
        """Whether a path was this version."""
        known = self.files.get(os.fsencode(path))
        return known is not None and known.mode == version.mode and known.id == self.id_of(version.content)

    def holds(self, path: str, top: str) -> bool:
        """Whether a path below this folder is as it was. Raises: WorktreeError."""
        known = self.files.get(os.fsencode(path))
        place = os.path.join(top, path)
        # A file of another size is not read: one of a terabyte takes no room.
        if known is None or mode_of(place) != known.mode or size_of(place) != known.size:
            return False
        return self.look(place) == known

    def look(self, place: str) -> BaseFile | None:
        """Describe a file or a link as it is now; None for anything else. Raises: WorktreeError."""
        mode, size = mode_of(place), size_of(place)
        if mode is None or size is None:
            return None
        digest = hashlib.new(self.algorithm, b"blob %d\0" % size, usedforsecurity=False)
        for piece in pieces_of(place, is_copy=True):
            digest.update(piece)
        return BaseFile(digest.digest(), mode, size)

    def id_of(self, content: bytes) -> bytes:
        """Return the name of a content."""
        return hashlib.new(self.algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False).digest()


def keep_base(worktree: Worktree, base: Base) -> None:
    """Write down what the worktree is."""
    from dragoman.workspace.private import write_private

    write_private(worktree.place / _FILE, msgspec.msgpack.encode(base), is_synced=True)


def base_of(worktree: Worktree) -> Base:
    """Return what a worktree was when it was made. Raises: WorktreeError."""
    try:
        return msgspec.msgpack.decode((worktree.place / _FILE).read_bytes(), type=Base)
    except (OSError, msgspec.MsgspecError) as error:
        raise WorktreeError(
            f"it is not known what {worktree.name} was when it was made ({error}), so nothing in it can be compared; "
            f"its files are in {worktree.folder}"
        ) from None


def version_at(top: str, path: str, *, is_copy: bool = False) -> FileVersion | None:
    """Return a file or a link as it is now; None if there is none. Raises: WorktreeError.

    Args:
        is_copy: it is a file of a worktree, and is made readable if need be.
    """
    place = os.path.join(top, path)
    mode = mode_of(place)
    content = None if mode is None else content_of(place, is_copy=is_copy)
    return None if content is None or mode is None else FileVersion(content, mode)


def versions_of(worktree: Worktree, base: Base, paths: Iterable[str]) -> dict[str, FileVersion]:
    """Return files as they were when the worktree was made, without those whose content is lost.

    Raises:
        WorktreeError: git is not installed, or a file cannot be read.
    """
    found: dict[str, FileVersion] = {}
    wanted = {path: known for path in paths if (known := base.files.get(os.fsencode(path))) is not None}
    for path in wanted:
        version = version_at(str(worktree.place / "base"), path)
        if version is not None and base.has(path, version):
            found[path] = version
    missing = {known.id for path, known in wanted.items() if path not in found}
    objects = _objects(worktree, base, missing) if missing and worktree.git_folder else {}
    for path, known in wanted.items():
        if path in found:
            continue
        content = objects.get(known.id)
        # Otherwise the project's own file is the old one as long as the user did not change it.
        version = version_at(worktree.project, path) if content is None else FileVersion(content, known.mode)
        if version is not None and base.has(path, version):
            found[path] = version
    return found


def _objects(worktree: Worktree, base: Base, names: Iterable[bytes]) -> dict[bytes, bytes]:
    """Read contents from the objects of the project's repository, without its settings, filters and remotes."""
    assert worktree.git_folder is not None
    with TemporaryDirectory(prefix="dragoman-objects-") as place:
        for folder in ("objects/info", "refs"):
            os.makedirs(os.path.join(place, folder))
        extension = "[extensions]\nobjectFormat = sha256\n" if base.algorithm == "sha256" else ""
        version = 1 if extension else 0
        texts = {
            "HEAD": "ref: refs/heads/none\n",
            "config": f"[core]\nrepositoryformatversion = {version}\nbare = true\n{extension}",
            "objects/info/alternates": os.path.join(worktree.git_folder, "objects") + "\n",
        }
        for name, text in texts.items():
            with open(os.path.join(place, name), "wb") as file:
                file.write(os.fsencode(text))
        feed = b"".join(b"%b\n" % name.hex().encode() for name in names)
        output = run_git(place, ["cat-file", "--batch"], feed=feed, git_folder=place)
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        head = output[at:end].split()
        at = end + 1
        if len(head) == 3:
            size = int(head[2])
            content = output[at : at + size]
            at += size + 1
            if head[1] == b"blob" and base.id_of(content) == bytes.fromhex(head[0].decode()):
                found[base.id_of(content)] = content
    return found


# What is in a worktree now


class Found(Struct, frozen=True):
    """A file or link that is in a worktree now."""

    path: str
    is_newly_ignored: bool = False
    """Whether git ignores it, but only by rules that were changed in the worktree."""
    is_generated: bool = False
    """Whether it is such a folder, with thousands of files that some tool made. They are not listed."""


def files_in(worktree: Worktree, base: Base) -> Iterator[Found]:
    """Yield what is in a worktree, except what git ignores both by the rules as they were and as they are.

    What was there when the worktree was made is never left out. The worktree's own `.git` is not among them.

    Raises:
        WorktreeError: a folder cannot be read.
    """
    is_git = worktree.kind == "git"
    known = {os.fsdecode(name) for name in base.files}
    folders = {folder for path in known for folder in _above(path)}
    stack = IgnoreStack()
    for text in base.rules:
        stack = stack.with_rules(text, "")
    waiting = [("", stack, stack, False, False)]
    while waiting:
        folder, before, now, was_ignored, is_ignored = waiting.pop()
        entries = entries_of(os.path.join(worktree.folder, folder))
        if is_git:
            old = base.folder_rules.get(os.fsencode(folder))
            new = read_plain(os.path.join(worktree.folder, folder, RULES_FILE), MOST_RULES_BYTES)
            is_same = before is now and old == new
            before = before if old is None else before.with_rules(old, folder)
            now = before if is_same else now if new is None else now.with_rules(new, folder)
        for entry in entries:
            path = os.path.join(folder, entry.name)
            if is_git and path == GIT:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            was = was_ignored or before.decide(path, entry.name, is_folder) is True
            is_now = (
                was
                if before is now and was_ignored == is_ignored
                else (is_ignored or now.decide(path, entry.name, is_folder) is True)
            )
            if is_folder and is_git and entry.name in GENERATED and not was and path not in folders:
                own = read_plain(os.path.join(worktree.folder, path, RULES_FILE), MOST_RULES_BYTES) or b""
                if is_now or b"*" in own.split():
                    yield Found(path, is_newly_ignored=True, is_generated=True)
                    continue
            if is_folder:
                if not (was and is_now) or path in folders:
                    waiting.append((path, before, now, was, is_now))
            elif path in known or not (was and is_now):
                yield Found(path, is_newly_ignored=is_now and not was and path not in known)


def is_in_git(path: str) -> bool:
    """Whether a path is a folder or a file of git, or in one."""
    return any(name.lower() == GIT for name in path.split("/"))


def _above(path: str) -> Iterator[str]:
    folder = os.path.dirname(path)
    while folder:
        yield folder
        folder = os.path.dirname(folder)
