"""An audit log to attack: written without a thread, read and written as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from dragoman.proxy.audit.chain import AuditChain
from dragoman.proxy.audit.files import FORMAT, HEAD, list_files, locked_for_writing
from dragoman.proxy.audit.verify import read_records

SHARED = {"v": FORMAT, "run": "r"}
TIME = "2026-11-18T08:00:00.000Z"


def chain(folder: Path, most_bytes: int = 1 << 20, keep_days: int | None = None, time: str = TIME) -> AuditChain:
    """The end of a log, as a program has it that begins to write at this time."""
    folder.mkdir(exist_ok=True)
    return AuditChain(folder, shared=SHARED, most_bytes=most_bytes, keep_days=keep_days, now=lambda: time)


def append(folder: Path, *numbers: int, end: AuditChain | None = None, time: str = TIME) -> AuditChain:
    """Write records to a log, as one batch of a program."""
    end = chain(folder, time=time) if end is None else end
    records = [{**SHARED, "kind": "decision", "time": time, "number": each} for each in numbers]
    with locked_for_writing(folder):
        end.append(records)
        end.commit()
    return end


class Log(NamedTuple):
    """The content of a log: the lines of each file, and the head."""

    files: dict[str, list[bytes]]
    head: bytes | None

    @classmethod
    def read(cls, folder: Path) -> Log:
        files = {path.name: path.read_bytes().splitlines(keepends=True) for path in list_files(folder)}
        return cls(files, (folder / HEAD).read_bytes())

    def write(self, folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        for name, lines in self.files.items():
            (folder / name).write_bytes(b"".join(lines))
        if self.head is not None:
            (folder / HEAD).write_bytes(self.head)
        return folder

    @property
    def names(self) -> list[str]:
        return list(self.files)

    @property
    def lines(self) -> list[tuple[str, bytes]]:
        return [(name, line) for name, lines in self.files.items() for line in lines]

    def with_lines(self, lines: list[tuple[str, bytes]], *, keeps_empty: bool = False) -> Log:
        """The log with other lines; a file of which no line is left is removed, or empty."""
        files: dict[str, list[bytes]] = {name: [] for name in self.files} if keeps_empty else {}
        for name, line in lines:
            files.setdefault(name, []).append(line)
        return self._replace(files=files)

    def place(self, seq: int) -> tuple[str, int]:
        """The file and the line of a record."""
        for name, lines in self.files.items():
            if seq <= len(lines):
                return name, seq
            seq -= len(lines)
        raise ValueError(seq)


def fields_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The records of one kind."""
    return [record.fields for record in read_records(folder) if record.fields["kind"] == kind]
