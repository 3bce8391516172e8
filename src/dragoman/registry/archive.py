"""Archives that may be hostile, unpacked: regular files and folders only, into a new folder, within limits.

A link, a device, a path that leads out of the folder or one byte too many, and the whole archive is refused and the
folder deleted. The parts of a path are opened one after the other below the folder's descriptor, and no link is created
there, so none can be followed. The formats are read in `tarball.py` and `zipped.py`. Whether an archive is the right
one is checked in `install.py`, before this runs.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_CHUNK_BYTES: Final = 1 << 18
_LONGEST_NAME_BYTES: Final = 4096  # the longest path on Linux
_DEEPEST: Final = 64


class ArchiveLimits(NamedTuple):
    """How much an archive may contain. The largest known agents have 500 MB in 30,000 files."""

    files: int = 100_000
    total_bytes: int = 4 << 30
    # Programs and texts are compressed to a third or a tenth. DEFLATE reaches 1:1032, but only in a bomb. A small
    # archive of many zeros is harmless, so the ratio applies from some size on.
    ratio: int = 100
    ratio_from_bytes: int = 16 << 20


LIMITS: Final = ArchiveLimits()


class ArchiveError(ConfigError):
    """An archive was refused; nothing of it is on the disk."""


class Member(NamedTuple):
    """A file or a folder of an archive; `read` returns the next bytes of a file."""

    name: str
    is_folder: bool
    is_executable: bool
    read: Callable[[int], bytes]
    is_counted: bool = False
    """Whether its bytes have been counted already: the reader of tar counts headers too."""


def unpack(archive: Path, target: Path, *, limits: ArchiveLimits = LIMITS) -> None:
    """Unpack an archive into the new folder `target`, completely or not at all.

    The format is found by the content: zip, or tar, plain or compressed with gzip, bzip2 or xz.

    Raises:
        ArchiveError: the archive was refused; the message names the member and the reason.
    """
    if target.exists():
        raise ArchiveError(f"{target} exists already; archives are unpacked into new folders only")
    fresh = target.with_name(f"{target.name}.unpacking")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir(mode=0o700)
        _Unpacking(fresh, os.path.getsize(archive), limits).run(archive)
        os.rename(fresh, target)
    except ArchiveError:
        raise
    except OSError as error:
        raise ArchiveError(f"{archive.name}: cannot be unpacked: {error.strerror or error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def is_archive(path: Path) -> bool:
    """Return whether the content has a format that `unpack` knows."""
    from dragoman.registry.tarball import is_tar

    with open(path, "rb") as file:
        return file.read(4) in _ZIP_STARTS or is_tar(file)


_ZIP_STARTS: Final = (b"PK\x03\x04", b"PK\x05\x06")


class _Unpacking:
    """One archive on its way to the disk, and the count of what it contains."""

    def __init__(self, folder: Path, packed_bytes: int, limits: ArchiveLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._most_bytes = min(limits.total_bytes, max(limits.ratio_from_bytes, packed_bytes * limits.ratio))
        self._bytes = 0
        self._members = 0

    def run(self, archive: Path) -> None:
        from dragoman.registry import tarball, zipped

        root = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with open(archive, "rb") as file:
                is_zip = file.read(4) in _ZIP_STARTS
                members = zipped.members(file) if is_zip else tarball.members(file, self._count)
                for member in members:
                    self._put(root, member)
        finally:
            os.close(root)

    def _put(self, root: int, member: Member) -> None:
        self._members += 1
        if self._members > self._limits.files:
            raise ArchiveError(f"refused: more than {self._limits.files} files")
        parts = _parts(member.name)
        if member.is_folder:
            if parts:
                with _opened(root, parts):
                    pass
            return
        if not parts:
            raise ArchiveError(f"refused: {member.name!r} is not the name of a file")
        with _opened(root, parts[:-1]) as folder:
            self._write(folder, parts[-1], member)

    def _write(self, folder: int, name: str, member: Member) -> None:
        mode = 0o755 if member.is_executable else 0o644
        try:
            fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
        except FileExistsError:
            raise ArchiveError(f"refused: {member.name!r} appears twice") from None
        with open(fd, "wb") as file:
            while chunk := member.read(_CHUNK_BYTES):
                if not member.is_counted:
                    self._count(len(chunk))
                file.write(chunk)

    def _count(self, size_bytes: int) -> None:
        """Count bytes that were unpacked, before they are used. Raises: ArchiveError, if there are too many."""
        self._bytes += size_bytes
        if self._bytes > self._most_bytes:
            raise ArchiveError(
                f"refused: it unpacks to more than {self._most_bytes} bytes, which is too much for its size"
            )


@contextmanager
def _opened(root: int, parts: list[str]) -> Iterator[int]:
    """Provide the descriptor of a folder below `root`, which is created if needed; no link is followed."""
    fd = os.dup(root)
    try:
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=fd)
            try:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            except OSError:
                raise ArchiveError(f"refused: {part!r} is both a file and a folder") from None
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _parts(name: str) -> list[str]:
    """Return the parts of a member's path. Raises: ArchiveError, if it leads out of the folder."""
    if not name or name.startswith("/") or "\\" in name or "\0" in name or name[1:2] == ":":
        raise ArchiveError(f"refused: {name!r} is not a path below the archive")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or len(parts) > _DEEPEST or len(os.fsencode(name)) > _LONGEST_NAME_BYTES:
        raise ArchiveError(f"refused: {name!r} is not a path below the archive")
    return parts
