"""The end of an audit log: where records are appended, files begun and old ones removed.

Theory of operation
-------------------
All of it happens with the folder locked, so one program at a time is here. Before it appends, a program looks whether
the newest file is as it left it. If not, another program wrote, was killed while it wrote, or the log was changed.
Which of these it is, two records show that must be there: the one that the head names, and the last one that this
program wrote itself. Both are compared at the place where they ended, so the length of the log does not matter. What
follows the head was written by a program that was killed before it replaced the head, and stays.

If one of the two is not there, or the head is not, the chain is continued from the one with the highest number, behind
a record of the kind `broken` that states what was found. So a log that was cut off and then written to again does not
look whole: numbers are missing in it, and `verify` finds the record.

Order on the disk: the head of an empty log before the first record; the lines, then the head, each synced; the record
about removed files, with the head that names it, before the files are removed. Whatever is interrupted, the head is
never ahead of the log, and no record is gone without another one that states so.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.proxy.audit.files import (
    FORMAT,
    HEAD,
    AuditError,
    AuditHead,
    Opens,
    RecordName,
    Removed,
    ReplacedFile,
    file_name,
    holds_end,
    list_files,
    make_line,
    number_of,
    open_file,
    read_head,
    read_line,
    read_name,
    read_opens,
)
from dragoman.workspace.private import open_owned, write_private

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_STEP_BYTES: Final = 1 << 16
_NO_END: Final = AuditHead()
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T")


class AuditChain:
    """The end of the log of one folder. The caller holds the lock of the folder.

    Args:
        folder: where the files are; it must exist.
        shared: members of the records that are written here.
        most_bytes: the size from which on a new file is begun; a new day begins one as well.
        keep_days: remove files whose last record is older; None keeps all.
        now: returns the time as records have it.
    """

    def __init__(
        self, folder: Path, *, shared: dict[str, Any], most_bytes: int, keep_days: int | None, now: Callable[[], str]
    ) -> None:
        self.notices: list[str] = []
        """Sentences for the user: the hash to keep at the end of a file, and what was found to be changed."""
        self._folder = folder
        self._shared = shared
        self._most_bytes = most_bytes
        self._keep_days = keep_days
        self._now = now
        self._fd = -1
        self._path: Path | None = None
        self._size = -1
        self._end = _NO_END
        """The last record that this program wrote or found."""
        self._format = FORMAT
        self._has_records = False
        self._torn = b""
        self._broken = ""
        self._removed: Removed | None = None
        self._old: list[Path] = []

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def append(self, records: list[dict[str, Any]]) -> None:
        """Write records behind the last one; `commit` makes them last.

        Raises:
            OSError, AuditError: they were not written.
        """
        self._look()
        if not records and not self._broken:
            return
        own: list[dict[str, Any]] = []
        if self._broken:
            own.append({**self._shared, "kind": "broken", "time": self._now(), "why": self._broken})
        if self._needs_file():
            own += self._begin_file()
        first: dict[str, Any] = {}
        lines = []
        if self._torn:
            first["recovered"] = {"bytes": len(self._torn), "sha256": hashlib.sha256(self._torn).hexdigest()}
            lines.append(b"\n")
        assert self._path is not None
        if not self._has_records:
            before = RecordName(self._end.seq, self._end.hash, self._end.file) if self._end.seq else None
            first["opens"] = msgspec.to_builtins(Opens(self._path.name, before, self._removed))
        seq, last = self._end.seq, self._end.hash
        for record in (*own, *records):
            seq += 1
            line, last = make_line({**record, **first, "seq": seq, "prev": last})
            lines.append(line)
            first = {}
        self._write(b"".join(lines))
        time = str((own + records)[-1].get("time", ""))
        self._end = AuditHead(seq, last, time, self._path.name, self._size)
        self._has_records, self._format, self._torn, self._broken = True, FORMAT, b"", ""

    def commit(self) -> None:
        """Sync what was written, name it in the head, and remove the files that it states to be removed.

        Raises:
            OSError: it may be lost if the machine stops, or the head is behind. Can be tried again.
        """
        os.fdatasync(self._fd)
        write_private(self._folder / HEAD, msgspec.json.encode(self._end), is_synced=True)
        old, self._old = self._old, []
        for path in old:  # the oldest first: what is left if this is interrupted is still one chain
            with suppress(OSError):  # the next file that is begun removes it
                path.unlink()

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            with suppress(OSError):  # half a line stays only if this fails too
                os.ftruncate(self._fd, self._size)
            self._size = -1  # look at the file again
            raise
        self._size += len(data)

    # The end of the log

    def _look(self) -> None:
        """Open the newest file, and learn the last record if this program does not know it."""
        files = list_files(self._folder)
        if files and files[-1] == self._path and self._fd >= 0:
            ours, there = os.fstat(self._fd), os.stat(self._path, follow_symlinks=False)
            if (ours.st_dev, ours.st_ino, ours.st_size) == (there.st_dev, there.st_ino, self._size):
                return
        self.close()
        self._path, self._size, self._torn, self._old = None, -1, b"", []
        self._format, self._has_records, self._removed = FORMAT, False, None
        if files:
            self._fd = open_owned(files[-1], os.O_RDWR | os.O_APPEND)
            self._path, self._size = files[-1], os.fstat(self._fd).st_size
            first = _first_of(files[-1])
            opens = None if first is None else read_opens(first[0])
            self._removed = None if opens is None else opens.removed
        self._learn(files)

    def _learn(self, files: list[Path]) -> None:
        head, fault = self._read_head(is_new=not files and not self._end.seq)
        faults = [fault] if fault else []
        is_held = head is not None and self._holds(head)
        if head is not None and not is_held:
            faults.append(f"record {head.seq}, which {HEAD} named, was not there")
        if not self._holds(self._end):
            faults.append(f"record {self._end.seq}, which this program had written, was not there")
        known = head if head is not None and is_held else None
        last = None
        if self._path is not None:
            start = known.end if known is not None and known.file == self._path.name else 0
            last, self._torn = self._scan(start)
            self._has_records = start > 0 or last is not None
        last = last or known or next(filter(None, map(_last_of, reversed(files[:-1]))), _NO_END)
        self._broken = ", and ".join(faults)
        if faults:
            self.notices.append(f"the audit log was changed: {self._broken}; see dragoman audit verify")
            last = max(head or _NO_END, self._end, last, key=lambda end: end.seq)
        self._end = last

    def _read_head(self, *, is_new: bool) -> tuple[AuditHead | None, str]:
        """Return the head and what is wrong with it. A new log gets one before its first record."""
        try:
            head = read_head(self._folder)
        except ReplacedFile:
            return None, f"{HEAD} was something else"
        if head is not None:
            return head, ""
        if not is_new:
            return None, f"{HEAD} was missing"
        write_private(self._folder / HEAD, msgspec.json.encode(_NO_END), is_synced=True)
        return _NO_END, ""

    def _holds(self, end: AuditHead) -> bool:
        """Whether a record is where it was written, or was removed by retention since."""
        is_removed = self._removed is not None and end.seq <= self._removed.last.seq
        return end.seq == 0 or is_removed or holds_end(self._folder, end)

    def _scan(self, start: int) -> tuple[AuditHead | None, bytes]:
        """Return the last record of the open file behind a place, and what a killed program left behind that."""
        assert self._path is not None
        with open(open_file(self._path), "rb") as file:
            file.seek(start)
            data = file.read()
        at = data.rfind(b"\n") + 1
        while at > 0:  # from the end: what follows the last record is short, what is before it may be long
            begin = data.rfind(b"\n", 0, at - 1) + 1
            found = read_line(data[begin : at - 1])
            if found is not None:
                self._format = found[0].get("v", 0)
                return _end_of(found, self._path, start + at), data[at:]
            at = begin
        return None, data

    # Files

    def _needs_file(self) -> bool:
        if self._path is None:
            return True
        if self._torn:  # half a line is stated in the file that has it
            return False
        day, _ = read_name(self._path.name)
        return day < self._now()[:10] or self._size >= self._most_bytes or self._format != FORMAT

    def _begin_file(self) -> list[dict[str, Any]]:
        """Open a new file. Returns the record about files that are removed now, if there are any."""
        files = list_files(self._folder)
        day, number = read_name(files[-1].name) if files else ("", 0)
        later = max(
            day, self._now()[:10]
        )  # a clock that was set back must not begin a file that sorts before the others
        path = self._folder / file_name(later, number + 1 if later == day else 1)
        fd = open_owned(path, os.O_RDWR | os.O_APPEND, is_new=True)
        if self._fd >= 0:
            os.fdatasync(self._fd)  # the last lines in it may be of another program, which would sync the new file only
        self.close()
        self._fd, self._path, self._size, self._has_records = fd, path, 0, False
        if self._end.seq:
            self.notices.append(
                f"the audit log goes on in {path.name}; keep the hash of the record before it elsewhere: "
                f"{self._end.hash} (dragoman audit verify --head)"
            )
        self._old, removed = self._find_old(files)
        if removed is None:
            return []
        self._removed = removed
        names = [old.name for old in self._old]
        fields = {"removed": msgspec.to_builtins(removed), "files": names, "keep_days": self._keep_days}
        return [{**self._shared, "kind": "retention", "time": self._now(), **fields}]

    def _find_old(self, files: list[Path]) -> tuple[list[Path], Removed | None]:
        """Return the files to remove, and what the log lacks without them; None if that is nothing.

        The time of the last record decides, not the name, which anyone can change who wants a file to be removed.
        """
        if self._keep_days is None:
            return [], None
        oldest = (date.fromisoformat(self._now()[:10]) - timedelta(days=self._keep_days)).isoformat()
        old: list[Path] = []
        first, last = None, None
        for path in files:
            begin, end = _first_of(path), _last_of(path)
            if begin is None or end is None or not _DAY.match(end.time) or end.time[:10] >= oldest:
                break
            old.append(path)
            first = first or RecordName(number_of(begin[0]), begin[1])
            last = RecordName(end.seq, end.hash)
        if first is None or last is None:
            return [], None
        if self._removed is not None and first.seq <= self._removed.last.seq + 1:
            first = self._removed.first
        return old, Removed(first, last, last.seq - first.seq + 1)


def _end_of(record: tuple[dict[str, Any], str], path: Path, end: int) -> AuditHead:
    fields, digest = record
    return AuditHead(number_of(fields), digest, str(fields.get("time", "")), path.name, end)


def _first_of(path: Path) -> tuple[dict[str, Any], str] | None:
    try:
        with open(open_file(path), "rb") as file:
            return read_line(file.readline().removesuffix(b"\n"))
    except (OSError, AuditError):
        return None


def _last_of(path: Path) -> AuditHead | None:
    """Return the last record of a file; None if the file does not end with one."""
    try:
        with open(open_file(path), "rb") as file:
            size = at = file.seek(0, os.SEEK_END)
            tail = b""
            while at > 0 and tail.count(b"\n") < 2:
                start = max(0, at - max(_STEP_BYTES, len(tail)))
                file.seek(start)
                tail = file.read(at - start) + tail
                at = start
    except (OSError, AuditError):
        return None
    found = read_line(tail.removesuffix(b"\n").rpartition(b"\n")[2]) if tail.endswith(b"\n") else None
    return None if found is None else _end_of(found, path, size)
