"""The text files of some folders, as their user sees them: unsaved buffers first, then the disk.

Owns what one read and one write are, and that each write is recorded. Permissions are checked
before this is called. Works synchronously, under one lock for writing; a large file belongs in a thread.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from dragoman.workspace.failure import WorkspaceError, from_os
from dragoman.workspace.journal import Change, Journal
from dragoman.workspace.limits import FILE_LIMITS
from dragoman.workspace.place import Place, Roots, StrPath
from dragoman.workspace.replace import (
    make_folders,
    open_existing,
    read_all,
    remove,
    replace,
    require_regular,
    too_large,
)
from dragoman.workspace.resolve import READ, Way, find_resolver
from dragoman.workspace.text import decode, encode, window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dragoman.workspace.limits import FileLimits
    from dragoman.workspace.replace import ExistingFile


class OpenText:
    """A text that was found and not yet read. What is read is what was found, whatever happens to its name."""

    __slots__ = ("_fd", "_limits", "_status", "_text", "path")

    def __init__(self, path: str, found: str | tuple[int, os.stat_result], limits: FileLimits) -> None:
        self.path = path
        self._limits = limits
        self._fd = -1
        self._status: os.stat_result | None = None
        self._text: str | None = None
        if isinstance(found, str):
            self._text = found
        else:
            self._fd, self._status = found

    @property
    def size_bytes(self) -> int:
        """How much there is to read from the disk."""
        return self._status.st_size if self._status else 0

    @property
    def real_path(self) -> str:
        """The real path of the text, links followed; rules have to judge it too."""
        return self.path if self._status is None else _real_path(self._fd, self.path)

    def read(self, line: int | None = None, limit: int | None = None) -> str:
        """Return the text, or `limit` lines from the 1-based `line` on; close it.

        Raises:
            WorkspaceError: It is too large, or not text.
        """
        text = self._text
        if text is None:
            assert self._status is not None
            try:
                text = decode(read_all(self._fd, self._status, self.path, self._limits), self.path)
            except OSError as error:
                raise from_os(error, self.path) from error
            finally:
                self.close()
        return text if line is None and limit is None else window(text, line, limit)

    def read_bytes(self) -> bytes:
        """Return all of it as bytes, which need not be text; close it. Raises: WorkspaceError: It is too large."""
        if self._text is not None:
            return self._text.encode()
        assert self._status is not None
        try:
            return read_all(self._fd, self._status, self.path, self._limits)
        except OSError as error:
            raise from_os(error, self.path) from error
        finally:
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    __del__ = close


class Workspace:
    """Text files below `roots`, which are known by the paths given and by their real paths.

    Raises:
        WorkspaceError: A root is missing or not a folder.
        ConfigError: The resolver does not work on this system.
    """

    def __init__(self, roots: Sequence[StrPath], *, limits: FileLimits = FILE_LIMITS, resolver: Way = "auto") -> None:
        self._resolver = find_resolver(resolver)
        self._limits = limits
        self._roots = Roots(roots)
        self._buffers: dict[str, str] = {}
        self._lock = RLock()
        self.journal = Journal(self, limits)

    @property
    def roots(self) -> tuple[str, ...]:
        """The real paths of the folders."""
        return self._roots.paths

    def locate(self, path: StrPath) -> str:
        """Return the normal form of a path, by which rules, journal and buffers know it. Does not access the disk.

        Raises:
            WorkspaceError: It cannot name a file, or is not below a root.
        """
        return self._roots.place(path).path

    # Reading

    def read_text(self, path: StrPath, *, line: int | None = None, limit: int | None = None) -> str:
        """Return the text of a file, or `limit` lines from the 1-based `line` on.

        Raises:
            WorkspaceError: Outside of the roots, missing, not a regular file, too large, not text...
        """
        return self.open_text(path).read(line, limit)

    def open_text(self, path: StrPath) -> OpenText:
        """Find a file without reading it, for callers that look first how large it is and where it really lies."""
        place = self._roots.place(path)
        buffers = self._buffers
        if place.path in buffers:
            return OpenText(place.path, buffers[place.path], self._limits)
        fd = self._open(place)
        try:
            if buffers and (real := _real_path(fd, place.path)) in buffers:
                os.close(fd)
                return OpenText(real, buffers[real], self._limits)
            status = os.fstat(fd)
            require_regular(status, place.path)
            if status.st_size > self._limits.file_bytes:
                raise too_large(place.path, status.st_size, self._limits)
        except BaseException:
            os.close(fd)
            raise
        return OpenText(place.path, (fd, status), self._limits)

    # Writing

    def write_text(
        self,
        path: StrPath,
        text: str,
        *,
        label: str = "",
        expected: bytes | UnsetType | None = UNSET,
        follow_links: bool = True,
    ) -> Change:
        """Write a whole file, which may be new, and record it. The file keeps its mode and its line endings.

        Args:
            path: The file. A symbolic link that leads to a place below a root is followed and stays a link; the
                path of the change is that of the file it leads to.
            label: Groups changes in the journal.
            expected: What the file must hold now (the `before` of a preview), None for no file.
            follow_links: False refuses every link on the path. A caller that has checked the path of a preview
                writes in this way, because a link could have been put there since.

        Raises:
            WorkspaceError: As for reading, and `changed` if the file does not hold what was expected.
        """
        place = self._roots.place(path)
        with self._lock:
            change = self._change(
                place, lambda existing: self._encoded(place, text, existing), expected, label, follow_links
            )
            for name in {place.path, change.path} & self._buffers.keys():
                self._buffers[name] = text
            return change

    def preview(self, path: StrPath, text: str) -> Change:
        """Return what writing would change; write and record nothing. Links are followed, as in writing.

        Raises:
            WorkspaceError: Writing would fail in this way.
        """
        place = self._roots.place(path)
        with self._lock, _explained(place), self._existing_at(place, follow_links=True) as (target, found):
            existing = found.content if found else None
            after = self._encoded(place, text, existing)
            links = found.status.st_nlink if found else 1
            return Change(target.path, self._visible(place, target, existing), after, links=links)

    def record(self, path: StrPath, before: bytes | None, after: bytes | None, *, label: str = "") -> Change:
        """Keep in the journal a change that another program made, such as an agent that writes by itself."""
        change = Change(self.locate(path), before, after, label)
        with self._lock:
            self.journal.add(change)
        return change

    # Unsaved text

    def open_buffer(self, path: StrPath, text: str) -> None:
        """Give readers this text from now on instead of the file, which need not exist. Again for every change."""
        self._buffers[self.locate(path)] = text

    def close_buffer(self, path: StrPath) -> None:
        """Give readers the disk again."""
        self._buffers.pop(self.locate(path), None)

    # What the journal reverts changes with

    def content(self, path: str) -> bytes | None:
        """Return what a reader would get now, as bytes; None for no file."""
        place = self._roots.place(path)
        with _explained(place), self._existing_at(place, follow_links=False) as (_, found):
            return self._visible(place, place, found.content if found else None)

    def put(self, path: str, content: bytes | None, *, expected: bytes | None, label: str) -> Change:
        """Replace `expected`, which the file must hold now, by `content`, and record that."""
        place = self._roots.place(path)
        with self._lock:
            change = self._change(place, lambda _: content, expected, label, follow_links=False)
            if place.path in self._buffers:
                if content is None:
                    del self._buffers[place.path]
                else:
                    self._buffers[place.path] = decode(content, place.path)
            return change

    def remove_folders(self, paths: Iterable[str]) -> None:
        """Remove those that are empty."""
        for place in map(self._roots.place, paths):
            with suppress(OSError), self._folder(place) as folder:  # it holds something else by now, or is gone
                os.rmdir(place.name, dir_fd=folder)

    def close(self) -> None:
        """Close the roots; nothing can be read or written any more."""
        self._roots.close()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_roots"):
            self._roots.close()

    # Inside

    def _open(self, place: Place) -> int:
        if not place.relative:
            raise from_os(IsADirectoryError(errno.EISDIR, ""), place.path)
        try:
            return self._resolver.open_file(place.root.fd, place.relative)
        except OSError as error:
            if error.errno == errno.ENOENT and place.root.reopen_if_deleted():
                return self._open(place)
            if error.errno == errno.EXDEV:
                return self._open_across(place, error)
            raise from_os(error, place.path) from None

    def _open_across(self, place: Place, error: OSError) -> int:
        """Follow a link that left its root, if it ends in one of the roots."""
        try:
            target = self._link_target(place)
            folder = self._resolver.open_folder(target.root.fd, target.folder)
        except OSError:
            raise from_os(error, place.path) from None
        try:
            return os.open(target.name, READ | os.O_NOFOLLOW, dir_fd=folder)
        except OSError as trouble:
            raise from_os(trouble, place.path) from None
        finally:
            os.close(folder)

    def _change(
        self,
        place: Place,
        make: Callable[[bytes | None], bytes | None],
        expected: bytes | UnsetType | None,
        label: str,
        follow_links: bool,
    ) -> Change:
        with _explained(place), self._existing_at(place, follow_links) as (target, found):
            existing = found.content if found else None
            before, after = self._visible(place, target, existing), make(existing)
            if expected is not UNSET and before != expected:
                raise WorkspaceError(
                    "changed", place.path, "it is no longer what it was when this was decided; read it again"
                )
            made: list[str] = []
            if after is None:
                if found is not None:
                    with self._folder(target) as folder:
                        remove(folder, target.name, found, target.path)
            elif after != existing:
                try:
                    with self._folder(target, made) as folder:
                        replace(folder, target.name, after, found, target.path)
                except BaseException:
                    self.remove_folders(reversed(made))
                    raise
            links = found.status.st_nlink if found else 1
        change = Change(target.path, before, after, label, tuple(made), links)
        self.journal.add(change)
        return change

    @contextmanager
    def _existing_at(self, place: Place, follow_links: bool) -> Iterator[tuple[Place, ExistingFile | None]]:
        """Yield where a write changes something, and the file that is there now."""
        try:
            found = self._open_existing(place)
        except OSError as error:
            if error.errno != errno.ELOOP or not follow_links:
                raise
            place = self._link_target(place)
            found = self._open_existing(place)
        if found is None:
            yield place, None
        else:
            with found:
                yield place, found

    def _open_existing(self, place: Place) -> ExistingFile | None:
        """Raises: OSError, ELOOP if there is a link on the way."""
        if not place.relative:
            raise from_os(IsADirectoryError(errno.EISDIR, ""), place.path)
        try:
            with self._folder(place) as folder:
                return open_existing(folder, place.name, place.path, self._limits)
        except FileNotFoundError:
            return None

    def _link_target(self, place: Place) -> Place:
        """Return where the links on a path lead.

        `realpath` is only a guess, because a link can change at any time. The caller opens the guess beneath its root
        with no link allowed, so the worst result is a refusal.
        """
        try:
            return self._roots.place(os.path.realpath(place.path))
        except WorkspaceError:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV)) from None

    @contextmanager
    def _folder(self, place: Place, made: list[str] | None = None) -> Iterator[int]:
        """Yield the folder a file is in; make missing ones, and note them if there is a list for it."""
        root, relative = place.root, place.folder
        try:
            fd = self._resolver.open_folder(root.fd, relative)
        except FileNotFoundError:
            root.reopen_if_deleted()
            if made is None:
                fd = self._resolver.open_folder(root.fd, relative)
            else:
                fd, new = make_folders(root.fd, relative)
                made.extend(os.path.join(root.path, folder) for folder in new)
        try:
            yield fd
        finally:
            os.close(fd)

    def _encoded(self, place: Place, text: str, existing: bytes | None) -> bytes:
        if existing is not None:
            decode(existing, place.path)  # a file that is not text is not overwritten with text
        content = encode(text, existing, place.path)
        if len(content) > self._limits.file_bytes:
            raise too_large(place.path, len(content), self._limits)
        return content

    def _visible(self, place: Place, target: Place, existing: bytes | None) -> bytes | None:
        """Return what the user sees: the unsaved text, if there is any, which a change of the file replaces too."""
        buffer = self._buffers.get(place.path, self._buffers.get(target.path))
        return existing if buffer is None else encode(buffer, existing, place.path)


@contextmanager
def _explained(place: Place) -> Iterator[None]:
    """Raise a WorkspaceError in place of an OSError."""
    try:
        yield
    except NotADirectoryError:
        raise WorkspaceError("not_a_file", place.path, "a part of the path is a file, not a folder") from None
    except OSError as error:
        raise from_os(error, place.path) from None


def _real_path(fd: int, path: str) -> str:
    """Return the path of an open file."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # no such thing here; a name is the best there is
        return os.path.realpath(path)
