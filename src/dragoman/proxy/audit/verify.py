"""Checks an audit log: every line, the chain across files, the numbers, both ends.

A change is not the same as an accident: half a line that a killed program left is accepted if the next record states
it, or if it is the end of the log and the head does not name the record; so are whole records behind the one that the
head names. Nothing else is. Does not repair anything.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.proxy.audit.files import (
    FORMAT,
    HEAD,
    NO_HASH,
    AuditError,
    AuditHead,
    AuditRecord,
    Removed,
    ReplacedFile,
    ends_as_record,
    list_files,
    locked_for_reading,
    number_of,
    open_file,
    read_head,
    read_line,
    read_opens,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TRIES: Final = 5  # while retention of a running guard removes files
_CHANGED: Final = "this line was changed: its hash does not fit"


class AuditFault(Struct, frozen=True):
    """A place where the log was changed, and how that shows."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}" if self.line else f"{self.path}: {self.what}"


class Verification(Struct):
    """The result of a check. `faults` are changes; `notes` are harmless. `removed` counts what retention removed."""

    files: int = 0
    records: int = 0
    first_seq: int = 0
    last_seq: int = 0
    last_hash: str = NO_HASH
    removed: int = 0
    faults: list[AuditFault] = []
    notes: list[str] = []

    @property
    def is_intact(self) -> bool:
        """Whether nothing was changed, as far as this can be seen."""
        return not self.faults


def verify(folder: Path, *, anchor: str | None = None) -> Verification:
    """Check the log of a folder, as it is at one moment; programs may go on writing to it.

    Args:
        folder: the log.
        anchor: a hash that was kept elsewhere; a record with it must be there.

    Raises:
        AuditError: the log cannot be read.
    """
    for _ in range(_TRIES):
        with locked_for_reading(folder):
            check = _Check(folder, anchor)
        try:
            return check.run()
        except FileNotFoundError:
            continue
    raise AuditError(f"{folder}: its files change all the time")


def read_records(folder: Path) -> Iterator[AuditRecord]:
    """Yield the records of a log that can be read, in order. Raises: AuditError if the log cannot be read."""
    for path in list_files(folder):
        with suppress(FileNotFoundError):  # retention of a running guard removed it meanwhile
            for number, line in _lines(path):
                record = read_line(line.removesuffix(b"\n"))
                if record is not None:
                    yield AuditRecord(path, number, number_of(record[0]), record[1], record[0])


def _lines(path: Path, size: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield every line of a file with its end, up to a size. Raises: AuditError, FileNotFoundError."""
    try:
        with open(open_file(path), "rb") as file:
            left = os.fstat(file.fileno()).st_size if size is None else size
            for number, line in enumerate(file, start=1):
                if left <= 0:
                    return
                yield number, line[:left]
                left -= len(line)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise AuditError(f"{path}: {error.strerror}") from error


class _Check:
    """One check of a log, of what was there when this was made."""

    def __init__(self, folder: Path, anchor: str | None) -> None:
        self._folder = folder
        self._anchor = anchor
        self._anchored = 0
        """The number of the record that has the hash that was kept."""
        self._found = Verification()
        self._head: AuditHead | None = None
        try:
            self._head = read_head(folder)
        except ReplacedFile as error:
            self._fault((folder / HEAD, 0), str(error))
        self._sizes: dict[Path, int] = {}
        for path in list_files(folder):
            try:
                self._sizes[path] = path.stat(follow_symlinks=False).st_size
            except OSError as error:
                raise AuditError(f"{path}: {error.strerror}") from error
        self._found.files = len(self._sizes)
        self._place: tuple[Path, int] = (folder, 0)
        self._first: tuple[tuple[Path, int], int, Any, int] | None = None
        """Where the first record is, its number, the hash that it names, and how many changed lines are before it."""
        self._torn: list[tuple[Path, int, bytes]] = []
        """Lines that are not records, since the last record."""
        self._removed: Removed | None = None
        self._has_head = False
        self._formats: dict[Any, int] = {}

    def run(self) -> Verification:
        """Return what was found. Raises: AuditError, FileNotFoundError if a file was removed meanwhile."""
        for path, size in self._sizes.items():
            is_first = True
            try:
                for number, line in _lines(path, size):
                    self._place = (path, number)
                    record = read_line(line[:-1]) if line.endswith(b"\n") else None
                    if record is None:
                        self._torn.append((path, number, line))
                    else:
                        self._take(*record, is_first=is_first)
                        is_first = False
            except ReplacedFile as error:
                self._fault((path, 0), str(error))
        found = self._found
        faults, found.faults = found.faults, []
        self._judge_begin()
        found.faults += faults
        self._judge_end()
        self._judge_anchor()
        self._note_formats()
        return found

    # One record after the other

    def _take(self, fields: dict[str, Any], digest: str, *, is_first: bool) -> None:
        found, seq = self._found, number_of(fields)
        before = len(found.faults)
        changed = self._judge_torn(fields)
        version = fields.get("v")
        self._formats[version] = self._formats.get(version, 0) + 1
        opens = read_opens(fields)
        if opens is not None and opens.removed is not None:
            self._removed = opens.removed
        if self._first is None:
            self._first = (self._place, seq, fields.get("prev"), changed)
            found.first_seq = seq
        else:
            self._judge_link(fields, changed, is_first=is_first)
        if opens is not None and (not is_first or opens.file != self._place[0].name):
            self._fault(self._place, f"this record began the file {opens.file}: records or files were moved")
        elif opens is None and is_first and found.records and version != 1 and len(found.faults) == before:
            self._fault(self._place, f"record {seq} did not begin a file: records were moved")
        if fields.get("kind") == "broken":
            self._fault(self._place, f"record {seq} states that the log had been changed before: {fields.get('why')}")
        found.records += 1
        found.last_seq, found.last_hash = seq, digest
        if self._head is not None and digest == self._head.hash:
            self._has_head = True
        if digest == self._anchor:
            self._anchored = seq

    def _judge_torn(self, fields: dict[str, Any]) -> int:
        """Judge the lines before a record that are not records. Returns how many of them were changed."""
        torn, self._torn = self._torn, []
        if not torn:
            return 0
        left = b"".join(line for _, _, line in torn).removesuffix(b"\n")
        stated = {"bytes": len(left), "sha256": hashlib.sha256(left).hexdigest()}
        if fields.get("recovered") == stated and not any(ends_as_record(line) for _, _, line in torn):
            path, number, _ = torn[0]
            self._found.notes.append(
                f"{path}:{number}: half a line of a program that was killed; the next record states it"
            )
            return 0
        for path, number, _ in torn:
            self._fault((path, number), _CHANGED)
        return len(torn)

    def _judge_link(self, fields: dict[str, Any], changed: int, *, is_first: bool) -> None:
        found, seq = self._found, number_of(fields)
        missing = seq - found.last_seq - 1
        if missing == 0 and fields.get("prev") == found.last_hash:
            return
        if missing > 0 and missing == changed:
            return  # they are there, and were found to be changed
        if missing > 0:
            opens = read_opens(fields) if is_first else None
            gone = opens is not None and opens.after is not None and self._folder / opens.after.file not in self._sizes
            where = f"with the file {opens.after.file}" if gone and opens and opens.after else "before this line"
            what = f"{_records(found.last_seq + 1, seq - 1)} missing {where}"
        elif missing < 0:
            what = f"record {seq} follows record {found.last_seq}: records were moved, or are there twice"
        else:
            what = f"record {seq} does not follow the one before it: one of them was replaced"
        self._fault(self._place, what)

    # The ends

    def _judge_begin(self) -> None:
        """Judge whether what is missing at the beginning was removed by retention."""
        removed = self._removed
        if removed is not None:
            self._found.removed = removed.count
            self._found.notes.append(
                f"retention removed {removed.count} records, {removed.first.seq} to {removed.last.seq}, "
                f"of which the last had the hash {removed.last.hash}"
            )
        if self._first is None:
            return
        place, seq, prev, changed = self._first
        covered = 0 if removed is None or removed.first.seq != 1 else removed.last.seq
        if removed is not None and removed.first.seq != 1:
            self._fault(place, f"{_records(1, removed.first.seq - 1)} missing at the beginning: retention found none")
        elif seq - 1 > covered and seq - 1 - covered != changed:
            reason = "" if removed is None else ", and retention did not remove them"
            self._fault(place, f"{_records(covered + 1, seq - 1)} missing at the beginning of the log{reason}")
        elif seq == 1 + covered and prev != (NO_HASH if removed is None else removed.last.hash):
            self._fault(place, f"record {seq} does not follow the one before it: the beginning was replaced")
        elif seq < 1 + covered:
            self._found.notes.append(f"records {seq} to {covered} are still there: the program that removed was killed")

    def _judge_end(self) -> None:
        found, head = self._found, self._head
        last = found.last_seq
        is_cut = head is None or head.seq > last
        for path, number, line in self._torn:
            if ends_as_record(line):
                self._fault((path, number), _CHANGED)
            elif is_cut:
                reason = f"without {HEAD} it cannot be known by what" if head is None else "it was whole before"
                self._fault((path, number), f"this line is cut off: {reason}")
            else:
                found.notes.append(
                    f"{path}:{number}: the last line is not complete, and {HEAD} does not name it: "
                    "the program was killed while writing it"
                )
        if head is None:
            if not any(fault.path == str(self._folder / HEAD) for fault in found.faults):
                what = "this file is missing: whether records are missing at the end cannot be known"
                if not found.records:
                    what = "this file is missing, and so is every record: the log was emptied, or none was here"
                self._fault((self._folder / HEAD, 0), what)
            return
        if head.seq > last:
            is_gone = head.file and self._folder / head.file not in self._sizes
            where = f", with the file {head.file}" if is_gone else ""
            self._fault(self._place, f"{_records(last + 1, head.seq)} missing at the end of the log{where} ({HEAD})")
        elif head.seq and not self._has_head:
            self._fault(self._place, f"record {head.seq} is not the one that {HEAD} names: the log was written again")
        elif head.seq < last:
            found.notes.append(
                f"{_records(head.seq + 1, last)} newer than {HEAD}: a program was killed before it replaced that, "
                "or they were added"
            )

    def _judge_anchor(self) -> None:
        anchor, removed, found = self._anchor, self._removed, self._found
        if anchor is None:
            return
        if self._anchored:
            found.notes.append(f"record {self._anchored} has the hash that you kept")
        elif removed is not None and anchor in (removed.first.hash, removed.last.hash):
            found.notes.append("the hash that you kept is of a record that retention removed")
        else:
            extra = "" if removed is None else ", or retention removed the record"
            what = f"no record has the hash {anchor}: the log was written again, or cut off{extra}"
            self._fault(self._place, what)

    def _note_formats(self) -> None:
        for version, count in self._formats.items():
            if version == FORMAT:
                continue
            if version == 1:
                what = f"{HEAD} did not name each of them, and retention did not state what it removed"
            else:
                what = "this program checks the chain of them, and does not know what else they state"
            self._found.notes.append(f"{count} records have version {version} of the format, not {FORMAT}: {what}")

    def _fault(self, place: tuple[Path, int], what: str) -> None:
        self._found.faults.append(AuditFault(str(place[0]), place[1], what))


def _records(first: int, last: int) -> str:
    """Return the subject of a sentence about records, with its verb."""
    return f"record {first} is" if first == last else f"records {first} to {last} are"
