"""Backups of the data folder of a host: made while it runs, checked before anything is restored.

Theory of operation
-------------------
A backup is a folder with `manifest.json`, which has the size, the mode and the SHA-256 of every file, and `data`, which
has the files. It is made as `DEST.unfinished` and gets its name when all of it is on the disk: what was killed is never
taken for a backup, and the next one for the same place removes it.

The database is copied with SQLite's backup in one read transaction, which keeps its state while the host writes on. The
files are copied twice, before it and after it: what was there at one of these times is in the backup, whatever the host
removes meanwhile. A large body that came and went between the two is named by a state that is over: then the database
is copied again. What is still named and still not there was lost before; the manifest says so, and readers see a hole.

A restored folder is put together in a folder inside of it and moved into place, entry by entry. `restore.unfinished`
stands there meanwhile: no host begins with half of it. What was in the folder before is kept next to it.

What counts for one start only is left out: locks, codes for pairing, the text of the first token, files that are being
written. Everything else in the folder belongs to it, also files of parts that this module does not know.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import time
from contextlib import closing, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from dragoman._version import __version__
from dragoman.errors import ConfigError, StoreError
from dragoman.proxy.audit.files import HEAD
from dragoman.store.sqlite_file import MIGRATIONS
from dragoman.workspace.private import make_private_folder, write_private

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator

    Report = Callable[[str, int, int], None]
    """Called with what is done, how much of it, and of how much; 0 if that is not known."""

FORMAT: Final = 1
"""Of backups; one with a higher number is refused."""
LOG: Final = "sessions.sqlite"
BLOBS: Final = "sessions.sqlite-blobs"
MANIFEST: Final = "manifest.json"
UNFINISHED: Final = "restore.unfinished"
"""The file in a data folder in which a restore has begun and not ended."""
_DATA: Final = "data"
_ATTACHMENTS: Final = "attachments"
_NEW: Final = ".restoring"
_BEFORE: Final = "before-restore"
_LEFT_OUT: Final = frozenset(
    (LOG, f"{LOG}-wal", f"{LOG}-shm", f"{LOG}-journal", "lock", "codes.json", "first.token", UNFINISHED, _NEW)
)
_PAGES: Final = 1024  # of the database in one step; between two of them the progress is shown
_CHUNK: Final = 1024 * 1024
_ROUNDS: Final = 20
_BUSY_SECONDS: Final = 30.0


class BackupFile(msgspec.Struct, frozen=True, gc=False):
    """A file of a backup."""

    path: str
    """From the data folder, with slashes."""
    bytes: int
    sha256: str
    mode: int


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """What a backup has."""

    format: int
    made_by: str
    """The version of dragoman."""
    made_at: float
    """When the state was taken that the database has, in seconds since 1970."""
    source: str
    log_format: int
    """Of the database; 0 if there is none."""
    sessions: int
    blobs: int
    """How many large bodies are files next to the database."""
    lost: tuple[str, ...]
    """Large bodies that were missing or damaged already."""
    files: tuple[BackupFile, ...]

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)


class _Format(msgspec.Struct):
    format: int


class _Snapshot(NamedTuple):
    format: int
    sessions: frozenset[str]
    blobs: frozenset[str]
    at: float


# Making one


def make_backup(data: Path, dest: Path, report: Report) -> Manifest:
    """Make a backup of a data folder, also while its host runs. Blocks.

    Args:
        data: The data folder.
        dest: The backup, which must not exist.
        report: The progress.

    Raises:
        ConfigError: there is no host's data, or the backup cannot be made there.
        StoreError: the database is damaged, or in use by another program for too long.
        OSError: a file cannot be read or written.
    """
    if not (data / LOG).is_file() and not (data / "tokens.json").is_file():
        raise ConfigError(f"{data} has no data of a host: neither {LOG} nor tokens.json")
    if (data / UNFINISHED).exists():
        raise ConfigError(f"{data} has half of a backup in it; end the restore first: dragoman serve restore")
    if os.path.lexists(dest):
        raise ConfigError(f"{dest} exists; name a backup that does not exist")
    if _is_inside(dest, data):
        raise ConfigError(f"{dest} is inside of the data folder; name a place outside of it")
    part = dest.with_name(f"{dest.name}.unfinished")
    lock = _begin(part)
    try:
        manifest = _fill(data, part, report)
        content = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        write_private(part / MANIFEST, content, is_synced=True)
        (part / "lock").unlink()
        for folder in (part / _DATA, part):
            _sync_folder(folder)
        os.rename(part, dest)
        _sync_folder(dest.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    finally:
        os.close(lock)
    return manifest


def _begin(part: Path) -> int:
    """Make the folder of a backup that is not finished, in the place of one that was killed; gives its lock."""
    for _ in range(2):
        make_private_folder(part)
        lock = os.open(part / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise ConfigError(f"another backup is being made in {part}; wait for it, or name another place") from None
        if not (part / _DATA).exists():
            os.mkdir(part / _DATA, 0o700)
            return lock
        os.close(lock)
        if not {"lock", _DATA, MANIFEST}.issuperset(os.listdir(part)):
            break
        shutil.rmtree(part)
    raise ConfigError(f"{part} is in the way, and has other files than a backup; remove it, or name another place")


def _fill(data: Path, part: Path, report: Report) -> Manifest:
    target = part / _DATA
    copied: dict[str, BackupFile] = {}
    found = _Snapshot(0, frozenset(), frozenset(), time.time())
    missing: frozenset[str] = frozenset()
    seen: _Seen = {}
    _copy_others(data, target, copied, seen, report)
    for _ in range(_ROUNDS):
        if (data / LOG).is_file():
            found = _copy_database(data / LOG, target / LOG, report)
        _copy_others(data, target, copied, seen, report)
        before, missing = missing, _copy_blobs(data, target, found.blobs, copied, report)
        if missing <= before:  # named by two states, and not there: it was lost before
            break
    else:
        raise StoreError("sessions are deleted faster than they can be copied; try again")
    _drop_unnamed(target, found, copied)
    if (data / LOG).is_file():
        copied[LOG] = _described(target / LOG, LOG, stat.S_IMODE((data / LOG).stat().st_mode))
    return Manifest(
        format=FORMAT,
        made_by=__version__,
        made_at=found.at,
        source=str(data),
        log_format=found.format,
        sessions=len(found.sessions),
        blobs=sum(path.startswith(f"{BLOBS}/") for path in copied),
        lost=tuple(sorted(missing)),
        files=tuple(copied[path] for path in sorted(copied)),
    )


def _copy_database(source: Path, target: Path, report: Report) -> _Snapshot:
    import sqlite3

    def progress(status: int, left: int, total: int) -> None:
        report("database", (total - left) * 4096, total * 4096)

    for name in (target, target.with_name(f"{LOG}-journal")):
        name.unlink(missing_ok=True)
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        with (
            closing(sqlite3.connect(source, timeout=_BUSY_SECONDS, isolation_level=None)) as db,
            closing(sqlite3.connect(target, isolation_level=None)) as copy,
        ):
            # One transaction for all steps: without it each commit of the host would begin the copy again.
            db.execute("BEGIN")
            (format,) = db.execute("PRAGMA user_version").fetchone()
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            at = time.time()
            db.backup(copy, pages=_PAGES, progress=progress)
            db.execute("COMMIT")
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log next to it
            (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise StoreError(f"{source} is damaged ({verdict}); an earlier backup is better than one of this")
            return _Snapshot(int(format), *_named(copy), at)
    except sqlite3.Error as error:
        raise StoreError(f"{source} cannot be copied ({error})") from None


def _named(db: sqlite3.Connection) -> tuple[frozenset[str], frozenset[str]]:
    """Return the sessions of a database, and the large bodies that it names."""
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")}
    sessions = db.execute("SELECT id FROM hosted").fetchall() if "hosted" in tables else []
    blobs = db.execute("SELECT DISTINCT hash FROM blobs").fetchall() if "blobs" in tables else []
    return frozenset(row[0] for row in sessions), frozenset(row[0] for row in blobs)


def _copy_blobs(
    data: Path, target: Path, hashes: Iterable[str], copied: dict[str, BackupFile], report: Report
) -> frozenset[str]:
    """Copy the large bodies that are not copied yet; gives those that are missing or damaged."""
    missing = set()
    wanted = [hash for hash in sorted(hashes) if f"{BLOBS}/{hash}" not in copied]
    for number, hash in enumerate(wanted, 1):
        path = f"{BLOBS}/{hash}"
        file = _copied(data / BLOBS / hash, target / BLOBS / hash, path)
        if file is None or file.sha256 != hash:
            (target / BLOBS / hash).unlink(missing_ok=True)
            missing.add(hash)
        else:
            copied[path] = file
        report("large bodies", number, len(wanted))
    return frozenset(missing)


_Seen = dict[str, tuple[int, int, int]]


def _copy_others(data: Path, target: Path, copied: dict[str, BackupFile], seen: _Seen, report: Report) -> None:
    """Copy what has changed of everything that is not the database and its large bodies."""
    for number, (path, status) in enumerate(_walk(data), 1):
        state = (status.st_ino, status.st_size, status.st_mtime_ns)
        if seen.get(path) != state and (file := _copied(data / path, target / path, path)) is not None:
            copied[path], seen[path] = file, state
        report("files", number, 0)


def _walk(data: Path, below: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files that belong to a host besides its database, by their paths."""
    with suppress(FileNotFoundError), os.scandir(data / below) as entries:
        # The head of an audit log first: one that names a record which is not copied is a log that was cut off.
        for entry in sorted(entries, key=lambda entry: (entry.name != HEAD, entry.name)):
            path = f"{below}{entry.name}"
            is_temporary = entry.name.startswith(".dragoman-") or entry.name.endswith(".lock")
            if is_temporary or (not below and (path in _LEFT_OUT or path == BLOBS or path.startswith(_BEFORE))):
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:  # removed at this moment, or a link to nothing
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, status
            elif stat.S_ISDIR(status.st_mode) and not (below and entry.is_symlink()):  # no circles
                yield from _walk(data, f"{path}/")


def _copied(source: Path, target: Path, path: str) -> BackupFile | None:
    """Copy a file, on disk when this returns; None if it is gone."""
    try:
        reading = open(source, "rb")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        return None
    with reading:
        mode = stat.S_IMODE(os.fstat(reading.fileno()).st_mode)
        make_private_folder(target.parent)
        target.unlink(missing_ok=True)
        digest, size = hashlib.sha256(), 0
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as writing:
            while chunk := reading.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
                writing.write(chunk)
            os.fchmod(descriptor, mode & 0o777)
            writing.flush()
            os.fsync(descriptor)
    return BackupFile(path, size, digest.hexdigest(), mode & 0o777)


def _described(file: Path, path: str, mode: int) -> BackupFile:
    """Return what the manifest has of a file that is written already."""
    with open(file, "rb") as reading:
        digest, size = hashlib.file_digest(reading, "sha256"), os.fstat(reading.fileno()).st_size
        os.chmod(file, mode & 0o777)
        os.fsync(reading.fileno())
    return BackupFile(path, size, digest.hexdigest(), mode & 0o777)


class _Claimed(msgspec.Struct):
    sessions: tuple[str, ...] = ()


def _drop_unnamed(target: Path, found: _Snapshot, copied: dict[str, BackupFile]) -> None:
    """Remove what only an earlier or a later state names: nothing would ever remove it from a restored host."""
    for path in list(copied):
        is_dropped = path.startswith(f"{BLOBS}/") and path.removeprefix(f"{BLOBS}/") not in found.blobs
        if path.startswith(f"{_ATTACHMENTS}/") and path.endswith(".bin"):
            about = path.removesuffix(".bin") + ".json"
            sessions: tuple[str, ...] = ()
            with suppress(msgspec.MsgspecError, OSError):
                sessions = msgspec.json.decode((target / about).read_bytes(), type=_Claimed).sessions
            if about not in copied or (sessions and found.sessions.isdisjoint(sessions)):
                is_dropped = True
                if copied.pop(about, None) is not None:
                    (target / about).unlink()
        if is_dropped:
            del copied[path]
            (target / path).unlink()


# Restoring one


def read_manifest(backup: Path) -> Manifest:
    """Return what a backup says about itself. Raises: ConfigError if it is none, or cannot be read."""
    try:
        content = (backup / MANIFEST).read_bytes()
    except FileNotFoundError:
        why = "it was not finished" if backup.name.endswith(".unfinished") else f"it has no {MANIFEST}"
        raise ConfigError(f"{backup} is not a backup: {why}") from None
    except OSError as error:
        raise ConfigError(f"{backup} cannot be read: {error.strerror or error}") from None
    try:
        if (format := msgspec.json.decode(content, type=_Format).format) > FORMAT:
            raise ConfigError(f"{backup} was made by a newer dragoman (format {format}); update dragoman first")
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{backup / MANIFEST} is damaged: {error}") from None
    if manifest.log_format > len(MIGRATIONS):
        raise ConfigError(f"{backup} was made by a newer dragoman ({manifest.made_by}); update dragoman first")
    for file in manifest.files:
        parts = PurePosixPath(file.path).parts
        if not parts or file.path.startswith("/") or ".." in parts or parts[0] in _LEFT_OUT - {LOG}:
            raise ConfigError(f"{backup / MANIFEST} is damaged: {file.path!r} is not a file of a host")
    return manifest


def check_backup(backup: Path, report: Report) -> Manifest:
    """Read all of a backup, and compare it with its manifest. Blocks. Raises: ConfigError if it is not whole."""
    manifest = read_manifest(backup)
    done, total = 0, manifest.bytes
    for file in manifest.files:
        try:
            with open(backup / _DATA / file.path, "rb") as reading:
                size, digest = os.fstat(reading.fileno()).st_size, hashlib.file_digest(reading, "sha256").hexdigest()
        except OSError as error:
            raise ConfigError(f"{backup} is damaged: {file.path} cannot be read ({error.strerror or error})") from None
        if (size, digest) != (file.bytes, file.sha256):
            raise ConfigError(f"{backup} is damaged: {file.path} is not what was saved")
        done += file.bytes
        report("checked", done, total)
    return manifest


def require_room(data: Path, *, replaces: bool) -> None:
    """Raises: ConfigError if a data folder is not empty, unless what is in it is to be put aside."""
    if not replaces and data.is_dir() and _entries(data) and not (data / UNFINISHED).exists():
        raise ConfigError(
            f"{data} is not empty; --replace puts aside what is in it, or name another folder with --data"
        )


def restore_backup(backup: Path, manifest: Manifest, data: Path, report: Report) -> Path | None:
    """Put a backup into a data folder that the caller has locked, in the place of what is in it. Blocks.

    Args:
        backup: The backup.
        manifest: What `check_backup` gave.
        data: The data folder.
        report: The progress.

    Returns:
        The folder with what was there before; None if there was nothing.

    Raises:
        ConfigError: the backup has changed since. Nothing was changed.
        OSError: a file cannot be written; a host refuses the folder if that was in the middle.
    """
    marker, new = data / UNFINISHED, data / _NEW
    there = _entries(data)
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(0o700)
    try:
        done, total = 0, manifest.bytes
        for file in manifest.files:
            found = _copied(backup / _DATA / file.path, new / file.path, file.path)
            if found is None or found.sha256 != file.sha256:
                raise ConfigError(f"{backup} changes while it is restored: {file.path}")
            os.chmod(new / file.path, file.mode & 0o777)
            done += file.bytes
            report("restored", done, total)
        _give_to_owner(new, data)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    # From here on a host refuses the folder. One that was killed here is ended by the next restore.
    if marker.exists():
        before = data / (marker.read_text().strip() or _BEFORE)
    else:
        before = _new_name(data)
        write_private(marker, before.name.encode(), is_synced=True)
    for name in there:
        before.mkdir(0o700, exist_ok=True)
        if os.path.lexists(before / name):  # put there by the restore before this one: what is here now came from it
            _remove(data / name)
        else:
            os.rename(data / name, before / name)
    for name in sorted(os.listdir(new)):
        os.rename(new / name, data / name)
    new.rmdir()
    _sync_folder(data)
    marker.unlink()
    _sync_folder(data)
    if before.exists():
        _give_to_owner(before, data, deep=False)
    return before if before.exists() else None


def _entries(data: Path) -> list[str]:
    """Return what is in a data folder besides what a restore leaves alone."""
    kept = ("lock", UNFINISHED, _NEW, "lost+found")
    return sorted(name for name in os.listdir(data) if name not in kept and not name.startswith(_BEFORE))


def _new_name(data: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    names = (f"{_BEFORE}-{stamp}", *(f"{_BEFORE}-{stamp}-{number}" for number in range(2, 100)))
    return next(data / name for name in names if not os.path.lexists(data / name))


def _give_to_owner(folder: Path, data: Path, *, deep: bool = True) -> None:
    """Give what root restores to the owner of the data folder, who runs the host."""
    owner = data.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        return
    for place in (folder, *(folder.rglob("*") if deep else ())):
        os.chown(place, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some network file systems sync no folders
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_inside(path: Path, folder: Path) -> bool:
    return path.parent.resolve().is_relative_to(folder.resolve())
