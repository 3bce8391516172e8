"""The form of the audit log on disk: names of files, lines, the chain, the head and the lock.

A folder holds files `audit-DAY-NUMBER.jsonl`, in the order of their names, and `head.json`. Each line is a record: JSON
with sorted names and without spaces, and at its end the member `hash`, the SHA-256 of the line without that member.
Each record names the hash of the one before it (`prev`) and its number (`seq`), across files. The first record of a
file has a member `opens`: the file's name, the record and the file before it, and what retention removed so far. The
head names the last record and where it ends. So what is changed, removed, moved or added shows, unless all that follows
it and the head are written again; a hash that is kept elsewhere shows that as well.

A program that was killed may leave half a line. The next record states its length and digest (`recovered`).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import DragomanError
from dragoman.workspace.private import open_owned

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT: Final = 2
"""The version of the form, in each record as `v`. In version 1 files had no `opens`, retention left no marker, and the
head was not replaced with each record."""
NO_HASH: Final = "0" * 64
"""What the first record names as the one before it."""
HEAD: Final = "head.json"
_LOCK: Final = "lock"
_LOCK_SECONDS: Final = 5.0  # a batch takes milliseconds; who holds the lock longer keeps the log from being written
_AGAIN_SECONDS: Final = 0.005
_NAME: Final = re.compile(r"audit-(?P<day>\d{4}-\d{2}-\d{2})-(?P<number>\d{3,})\.jsonl")
_END: Final = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_END_BYTES: Final = len(b',"hash":"') + 64 + len(b'"}')
_MOST_HEAD_BYTES: Final = 1 << 16
_READING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class AuditError(DragomanError):
    """The audit log cannot be read or written."""


class ReplacedFile(AuditError):
    """Something else is where a file of the log was."""


class AuditHead(msgspec.Struct, frozen=True):
    """The last record of a log, and the place where it ends. `end` is 0 if that is not known."""

    seq: int = 0
    hash: str = NO_HASH
    time: str = ""
    file: str = ""
    end: int = 0


class RecordName(msgspec.Struct, frozen=True):
    """The number and the hash of a record, and its file if that matters."""

    seq: int
    hash: str
    file: str = ""


class Removed(msgspec.Struct, frozen=True):
    """All records that retention removed since the log began: the first and the last of them."""

    first: RecordName
    last: RecordName
    count: int


class Opens(msgspec.Struct, frozen=True):
    """What the first record of a file states: the file's name, the record before it, what retention removed so far."""

    file: str
    after: RecordName | None = None
    removed: Removed | None = None


class AuditRecord(msgspec.Struct, frozen=True):
    """A record and where it is."""

    path: Path
    line: int
    seq: int
    hash: str
    fields: dict[str, Any]


def file_name(day: str, number: int) -> str:
    """Return the name of a file."""
    return f"audit-{day}-{number:03}.jsonl"


def read_name(name: str) -> tuple[str, int]:
    """Return the day and the number of a file. Raises: ValueError for another name."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(name)
    return found["day"], int(found["number"])


def list_files(folder: Path) -> list[Path]:
    """Return the files of a log, in order. Raises: AuditError if there is no such folder."""
    try:
        names = [name for name in os.listdir(folder) if _NAME.fullmatch(name)]
    except OSError as error:
        raise AuditError(f"{folder}: {error.strerror}") from error
    return [folder / name for name in sorted(names, key=read_name)]


def make_line(fields: dict[str, Any]) -> tuple[bytes, str]:
    """Return a record as a line with its end, and its hash."""
    try:
        body = msgspec.json.encode(fields, order="sorted")
    except UnicodeEncodeError:  # half a character, which UTF-8 does not have
        body = msgspec.json.encode(_mended(fields), order="sorted")
    digest = hashlib.sha256(body).hexdigest()
    return b'%b,"hash":"%b"}\n' % (body[:-1], digest.encode()), digest


def read_line(line: bytes) -> tuple[dict[str, Any], str] | None:
    """Return the fields of a line and its hash; None if it is not a record or was changed."""
    end = _END.fullmatch(line[-_END_BYTES:])
    if end is None:
        return None
    body = line[:-_END_BYTES] + b"}"
    digest = end[1].decode()
    if hashlib.sha256(body).hexdigest() != digest:
        return None
    try:
        return msgspec.json.decode(body, type=dict[str, Any]), digest
    except (msgspec.MsgspecError, RecursionError):
        return None


def ends_as_record(line: bytes) -> bool:
    """Whether a line has the end of a record and a newline: no program that was killed left it so."""
    return line.endswith(b"\n") and _END.fullmatch(line[-_END_BYTES - 1 : -1]) is not None


def number_of(fields: dict[str, Any]) -> int:
    """Return the number of a record; 0 if it has none."""
    seq = fields.get("seq")
    return seq if type(seq) is int else 0


def read_opens(fields: dict[str, Any]) -> Opens | None:
    """Return what a record states as the first one of a file; None for any other record."""
    try:
        return msgspec.convert(fields.get("opens"), Opens)
    except msgspec.ValidationError:
        return None


def open_file(path: Path) -> int:
    """Open a file of a log for reading.

    Raises:
        ReplacedFile: a link, a folder or such is in its place.
        FileNotFoundError: there is none.
        AuditError: it cannot be read.
    """
    try:
        descriptor = os.open(path, _READING)
    except FileNotFoundError:
        raise
    except OSError as error:
        kind = ReplacedFile if path.is_symlink() else AuditError
        raise kind(f"{path}: {'this is a link' if kind is ReplacedFile else error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ReplacedFile(f"{path}: this is not a regular file")
    return descriptor


def read_head(folder: Path) -> AuditHead | None:
    """Return the head, if there is one.

    Raises:
        ReplacedFile: it is not the head of a log.
        AuditError: it cannot be read.
    """
    try:
        with open(open_file(folder / HEAD), "rb") as file:
            return msgspec.json.decode(file.read(_MOST_HEAD_BYTES), type=AuditHead)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AuditError(f"{folder / HEAD}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ReplacedFile(f"{folder / HEAD} is not the head of an audit log: {error}") from error


def holds_end(folder: Path, end: AuditHead) -> bool:
    """Whether a record ends where it ended when it was written. False as well if its file is gone.

    Compares its hash only: whether the line fits its hash, and the chain, is checked by `verify`.

    Raises:
        AuditError: the file cannot be read.
    """
    expected = b',"hash":"%b"}\n' % end.hash.encode()
    try:
        with open(open_file(folder / os.path.basename(end.file)), "rb") as file:
            if end.end == 0:  # version 1 did not write where
                return expected in file.read()
            file.seek(max(0, end.end - len(expected)))
            return file.read(len(expected)) == expected
    except (ReplacedFile, FileNotFoundError, IsADirectoryError):
        return False
    except OSError as error:
        raise AuditError(f"{folder / end.file}: {error.strerror}") from error


@contextmanager
def locked_for_writing(folder: Path) -> Iterator[None]:
    """Keep other programs from writing to the log. Raises: OSError, also if one of them holds the lock for seconds."""
    lock = _lock_now(folder, os.O_RDWR, time.monotonic() + _LOCK_SECONDS)
    try:
        yield
    finally:
        os.close(lock)


@contextmanager
def locked_for_reading(folder: Path) -> Iterator[None]:
    """Keep programs from writing for a moment, as far as this user may; a copy without a lock is read as it is."""
    lock = -1
    with suppress(OSError):
        descriptor = os.open(folder / _LOCK, _READING)
        with suppress(OSError):
            lock = _wait_for_lock(descriptor, fcntl.LOCK_SH, time.monotonic() + _LOCK_SECONDS)
        if lock < 0:
            os.close(descriptor)
    try:
        yield
    finally:
        if lock >= 0:
            os.close(lock)


def _lock_now(folder: Path, flags: int, until: float) -> int:
    path = folder / _LOCK
    while True:
        lock = open_owned(path, flags)
        try:
            _wait_for_lock(lock, fcntl.LOCK_EX, until)
            held, named = os.fstat(lock), os.stat(path, follow_symlinks=False)
            if (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino):
                return lock
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)  # it was removed meanwhile, and another program may hold a new one of this name


def _wait_for_lock(lock: int, kind: int, until: float) -> int:
    """Return the descriptor when the lock is held. Raises: OSError if that takes too long."""
    while True:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise TimeoutError(error.errno, "another program holds the lock of the log") from error
            time.sleep(_AGAIN_SECONDS)
        else:
            return lock


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_mended(name): _mended(member) for name, member in value.items()}
    return [_mended(item) for item in value] if isinstance(value, list | tuple) else value
