"""The place of a path: its root and the relative path below it, in normal form.

Owns the roots' descriptors and the choice among them. `..` is taken out of a path before anything is looked up, so
that a path means the same to the rules that judge it and to the disk. Does not know what is in a file.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from dragoman.workspace.failure import WorkspaceError, from_os

if TYPE_CHECKING:
    from collections.abc import Sequence

StrPath = str | os.PathLike[str]

# PATH_MAX of Linux. A walk by components would not meet the kernel's own limit.
_LONGEST_BYTES: Final = 4096


class Root:
    """A folder whose files may be used. It is held by its descriptor, so renaming a folder above changes nothing."""

    __slots__ = ("_path", "fd")

    def __init__(self, path: str) -> None:
        self._path = path
        self.fd = _open_root(path)

    @property
    def path(self) -> str:
        """Its real path."""
        return self._path

    def reopen_if_deleted(self) -> bool:
        """Open the folder that is in the place of a deleted one, and use it from now on; return whether that was so."""
        if os.fstat(self.fd).st_nlink:
            return False
        try:
            fresh = _open_root(self._path)
        except WorkspaceError:
            return False
        os.close(self.fd)
        self.fd = fresh
        return True


class Place:
    """A path that is below a root by its name. The resolver checks where its links lead."""

    __slots__ = ("path", "relative", "root")

    def __init__(self, root: Root, relative: str) -> None:
        self.root = root
        self.relative = relative
        self.path = os.path.join(root.path, relative)

    @property
    def folder(self) -> str:
        return self.relative.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.relative.rpartition("/")[2]


class Roots:
    """Some folders, each known by the path it was given as and by its real path."""

    def __init__(self, paths: Sequence[StrPath]) -> None:
        opened: dict[str, Root] = {}
        prefixes: dict[str, Root] = {}
        try:
            for path in map(os.path.abspath, paths):
                real = os.path.realpath(path)
                if real not in opened:
                    opened[real] = Root(real)
                for spelling in (path, real):
                    prefixes[spelling.rstrip("/") + "/"] = opened[real]
        except BaseException:
            _close(opened)
            raise
        self._opened = opened
        self.paths = tuple(opened)
        # The longest first: a root inside another is its own.
        self._prefixes = sorted(prefixes.items(), key=lambda item: len(item[0]), reverse=True)

    def place(self, path: StrPath) -> Place:
        """Raises: WorkspaceError, `invalid` for what cannot name a file and `outside` for what is not below a root."""
        spelled = os.fspath(path)
        # NUL first: some versions of normpath() cut the path there.
        if "\0" in spelled:
            raise WorkspaceError("invalid", spelled, "the path holds a NUL, which no file's name can")
        if not os.path.isabs(spelled):
            raise WorkspaceError("invalid", spelled, "the path is not absolute; start it with /")
        try:
            size_bytes = len(os.fsencode(spelled))
        except UnicodeEncodeError:
            raise WorkspaceError("invalid", spelled, "the path holds half a character (a lone surrogate)") from None
        if size_bytes >= _LONGEST_BYTES:
            raise WorkspaceError("invalid", f"{spelled[:60]}...", f"the path is too long ({size_bytes:,} bytes)")
        # POSIX lets two slashes at the front mean something of their own; here they mean one.
        normal = os.path.normpath("/" + spelled.lstrip("/"))
        whole = normal if normal == "/" else normal + "/"
        for prefix, root in self._prefixes:
            if whole.startswith(prefix):
                return Place(root, normal[len(prefix) :])
        raise WorkspaceError(
            "outside", spelled, f"it is outside of the session's folders ({', '.join(self.paths) or 'there are none'})"
        )

    def close(self) -> None:
        _close(self._opened)


def _open_root(path: str) -> int:
    try:
        return os.open(path, getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise from_os(error, path) from error


def _close(opened: dict[str, Root]) -> None:
    while opened:
        os.close(opened.popitem()[1].fd)
