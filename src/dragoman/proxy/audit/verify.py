"""Checks an audit log: every line, the chain across files, the numbers, the head.

A change is not the same as an accident: half a line that a killed program left is accepted if the next record states
it, or if it is the end of the log. Does not repair anything.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dragoman.proxy.audit.files import NO_HASH, AuditError, AuditRecord, list_files, read_head, read_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class AuditFault(Struct, frozen=True):
    """A place where the log was changed, and how that shows."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


class Verification(Struct):
    """The result of a check. `faults` are changes; `notes` are harmless."""

    files: int = 0
    records: int = 0
    last_seq: int = 0
    last_hash: str = NO_HASH
    faults: list[AuditFault] = []
    notes: list[str] = []

    @property
    def is_intact(self) -> bool:
        """Whether nothing was changed, as far as this can be seen."""
        return not self.faults


def verify(folder: Path, *, anchor: str | None = None) -> Verification:
    """Check the log of a folder.

    Args:
        folder: the log.
        anchor: a hash that was kept elsewhere; a record with it must be there.

    Raises:
        AuditError: the log cannot be read.
    """
    found = Verification()
    hashes: dict[int, str] = {}
    torn: tuple[Path, int, bytes] | None = None
    files = list_files(folder)
    found.files = len(files)
    is_anchored = anchor is None
    place: tuple[Path, int] = (folder, 0)
    for path, number, line, is_whole in _lines(files):
        place = (path, number)
        record = read_line(line) if is_whole else None
        if record is None:
            if torn is not None:
                _fault(found, (torn[0], torn[1]), "this line was changed: its hash does not fit")
            torn = (path, number, line)
            continue
        fields, digest = record
        if torn is not None:
            _judge_torn(found, torn, fields)
            torn = None
        _judge_link(found, place, fields)
        found.records += 1
        found.last_seq, found.last_hash = _seq(fields), digest
        hashes[found.last_seq] = digest
        is_anchored = is_anchored or digest == anchor
    if torn is not None:
        if place == (torn[0], torn[1]) and not _ends_whole(torn[0]):
            found.notes.append(f"{torn[0]}:{torn[1]}: the last line is not complete: the program was killed")
        else:
            _fault(found, (torn[0], torn[1]), "this line was changed: its hash does not fit")
    _judge_head(found, folder, hashes, place)
    if not is_anchored:
        _fault(found, place, f"no record has the hash {anchor}: the log was written again, or cut off")
    return found


def read_records(folder: Path) -> Iterator[AuditRecord]:
    """Yield the records of a log that can be read, in order. Raises: AuditError if the log cannot be read."""
    for path, number, line, _ in _lines(list_files(folder)):
        record = read_line(line)
        if record is not None:
            yield AuditRecord(path, number, _seq(record[0]), record[1], record[0])


def _lines(files: list[Path]) -> Iterator[tuple[Path, int, bytes, bool]]:
    """Yield every line of the files, and whether it has its end."""
    for path in files:
        try:
            with open(path, "rb") as file:
                for number, line in enumerate(file, start=1):
                    yield path, number, line.removesuffix(b"\n"), line.endswith(b"\n")
        except OSError as error:
            raise AuditError(f"{path}: {error.strerror}") from error


def _judge_torn(found: Verification, torn: tuple[Path, int, bytes], fields: dict[str, Any]) -> None:
    path, number, line = torn
    stated = fields.get("recovered")
    expected = {"bytes": len(line), "sha256": hashlib.sha256(line).hexdigest()}
    if stated == expected:
        found.notes.append(f"{path}:{number}: half a line of a program that was killed; the next record states it")
    else:
        _fault(found, (path, number), "this line was changed: its hash does not fit")


def _judge_link(found: Verification, place: tuple[Path, int], fields: dict[str, Any]) -> None:
    seq, prev = _seq(fields), fields.get("prev")
    if found.records == 0:
        if seq != 1 or prev != NO_HASH:
            found.notes.append(f"the log begins with record {seq}: earlier files were removed")
        return
    if prev == found.last_hash and seq == found.last_seq + 1:
        return
    if seq > found.last_seq + 1:
        what = f"records {found.last_seq + 1} to {seq - 1} before this line are missing or were changed"
    elif seq <= found.last_seq:
        what = f"record {seq} follows record {found.last_seq}: records were added or moved"
    else:
        what = "this record does not follow the one before it: one of them was replaced"
    _fault(found, place, what)


def _judge_head(found: Verification, folder: Path, hashes: dict[int, str], place: tuple[Path, int]) -> None:
    head = read_head(folder)
    if head is None:
        if found.records:
            found.notes.append("there is no head.json: records that were cut off at the end cannot be noticed")
        return
    if head.seq > found.last_seq:
        _fault(found, place, f"records {found.last_seq + 1} to {head.seq} were cut off at the end (head.json)")
    elif head.seq in hashes and hashes[head.seq] != head.hash:
        _fault(found, place, f"record {head.seq} is not the one that head.json names: the log was written again")


def _ends_whole(path: Path) -> bool:
    return path.read_bytes().endswith(b"\n")


def _seq(fields: dict[str, Any]) -> int:
    seq = fields.get("seq")
    return seq if isinstance(seq, int) else 0


def _fault(found: Verification, place: tuple[Path, int], what: str) -> None:
    found.faults.append(AuditFault(str(place[0]), place[1], what))
