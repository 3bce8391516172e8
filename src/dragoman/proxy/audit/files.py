"""The form of the audit log on disk: names of files, lines, and the chain.

A folder holds files `audit-DAY-NUMBER.jsonl`, in the order of their names, and `head.json`. Each line is a record: JSON
with sorted names and without spaces, and at its end the member `hash`, the SHA-256 of the line without that member.
Each record names the hash of the one before it (`prev`) and its number (`seq`), across files. So a record that is
changed, removed or added shows, unless all that follows it is written again; `head.json`, and a hash that is kept
elsewhere, show that as well.

A program that was killed may leave half a line. The next record states its length and digest (`recovered`).
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from dragoman.errors import DragomanError

NO_HASH: Final = "0" * 64
"""What the first record names as the one before it."""
HEAD: Final = "head.json"
LOCK: Final = "lock"
_NAME: Final = re.compile(r"audit-(?P<day>\d{4}-\d{2}-\d{2})-(?P<number>\d{3,})\.jsonl")
_END: Final = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_END_BYTES: Final = len(b',"hash":"') + 64 + len(b'"}')
_STEP_BYTES: Final = 1 << 16


class AuditError(DragomanError):
    """The audit log cannot be read or written."""


class AuditHead(msgspec.Struct, frozen=True):
    """The last record that was synced."""

    seq: int = 0
    hash: str = NO_HASH
    time: str = ""
    file: str = ""


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


def read_head(folder: Path) -> AuditHead | None:
    """Return the head, if there is one. Raises: AuditError if it cannot be read."""
    try:
        data = (folder / HEAD).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AuditError(f"{folder / HEAD}: {error.strerror}") from error
    try:
        return msgspec.json.decode(data, type=AuditHead)
    except msgspec.MsgspecError as error:
        raise AuditError(f"{folder / HEAD} is not the head of an audit log: {error}") from error


def last_line(fd: int) -> tuple[bytes, bytes]:
    """Return the last whole line of a file, without its end, and what follows it because a program was killed."""
    at = os.fstat(fd).st_size
    tail = b""
    while at > 0 and tail.count(b"\n") < 2:
        start = max(0, at - max(_STEP_BYTES, len(tail)))
        tail = os.pread(fd, at - start, start) + tail
        at = start
    whole, newline, torn = tail.rpartition(b"\n")
    return (whole.rpartition(b"\n")[2] if newline else b""), torn


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_mended(name): _mended(member) for name, member in value.items()}
    return [_mended(item) for item in value] if isinstance(value, list | tuple) else value
