"""The audit log, written off the path of the messages.

Theory of operation
-------------------
`add` puts a record into a queue and returns; a thread numbers, chains and writes the records. All programs of a user
may write to one log: the thread takes a lock on the folder for each batch, and looks whether another program has
written since. An important record (a decision, the end of a turn) is synced to the disk together with those before it,
and the head is replaced afterwards, so the head is never ahead of the log. A record that was written and not synced
survives the death of this program, but not that of the machine.

If the disk refuses, `problem` states why, and the records wait; they are tried again with the next record and once a
second. A log of best effort drops them instead and writes how many there were; so does any log that has too many.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.proxy.audit.files import (
    HEAD,
    LOCK,
    NO_HASH,
    AuditHead,
    file_name,
    last_line,
    list_files,
    make_line,
    read_line,
    read_name,
)
from dragoman.workspace.private import write_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT: Final = 1
_MOST_BYTES: Final = 64 << 20  # of one file
_AGAIN_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 10.0  # for a slow disk; what is not written then is lost
_MOST_BATCH: Final = 1_000
_MOST_WAITING: Final = 50_000  # records of a disk that refuses; the turn that runs goes on, and no other begins


class AuditLog:
    """An open audit log. `add` never waits and never raises.

    Args:
        folder: where the files are; it is created.
        shared: members of every record, such as the host.
        is_best_effort: drop records that cannot be written.
        most_bytes: the size from which on a new file is begun; a new day begins one as well.
        keep_days: remove files that are older; None keeps all.
    """

    def __init__(
        self,
        folder: Path,
        *,
        shared: dict[str, Any] | None = None,
        is_best_effort: bool = False,
        most_bytes: int = _MOST_BYTES,
        keep_days: int | None = None,
    ) -> None:
        self.problem = ""
        """Why records cannot be written; empty if they can."""
        self._folder = folder
        self._shared = {"v": FORMAT, "run": os.urandom(8).hex(), **(shared or {})}
        self._is_best_effort = is_best_effort
        self._most_bytes = most_bytes
        self._keep_days = keep_days
        self._queue: list[tuple[dict[str, Any], bool]] = []
        self._changed = threading.Condition()
        self._is_closing = False
        self._writing = 0
        self._lost = 0
        self._fd = -1
        self._path: Path | None = None
        self._size = -1
        self._seq = 0
        self._last = NO_HASH
        self._recovered: dict[str, Any] | None = None
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many records are not on the disk yet."""
        return len(self._queue) + self._writing

    def add(self, kind: str, fields: dict[str, Any], *, is_important: bool = False) -> None:
        """Write a record soon; an important one is synced with those before it."""
        record = {**self._shared, "kind": kind, "time": _now(), **fields}
        with self._changed:
            if self.problem and len(self._queue) >= _MOST_WAITING:
                self._lost += 1
            elif not self._is_closing:
                self._queue.append((record, is_important))
                self._changed.notify_all()

    def flush(self, seconds: float = _CLOSE_SECONDS) -> bool:
        """Wait until all records are written; False if that takes too long or is not possible."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.waiting or bool(self.problem), seconds) and not self.problem

    def close(self) -> None:
        """Write what is left and end."""
        self.flush()
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(_CLOSE_SECONDS)
        if self._fd >= 0 and not self._thread.is_alive():
            os.close(self._fd)
            self._fd = -1

    # The thread

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._is_closing:
                    self._changed.wait()
                if not self._queue:
                    return
                batch, self._queue = self._queue[:_MOST_BATCH], self._queue[_MOST_BATCH:]
                self._writing = len(batch)
            self._write(batch)
            if self.problem and self._wait_again():
                return

    def _write(self, batch: list[tuple[dict[str, Any], bool]]) -> None:
        try:
            with self._locked():
                self._append(batch)
        except Exception as error:  # whatever it is, the records must not be forgotten silently
            self.problem = f"{self._folder}: {getattr(error, 'strerror', None) or error}"
            self._size = -1  # look at the file again
        else:
            self.problem = ""
        with self._changed:
            self._writing = 0
            if self.problem and self._is_best_effort:
                self._lost += len(batch)
            elif self.problem:
                self._queue[:0] = batch
            self._changed.notify_all()

    def _wait_again(self) -> bool:
        """Wait a little after a failure, unless the log ends. Returns whether it ends."""
        with self._changed:
            if not self._is_closing:
                self._changed.wait(_AGAIN_SECONDS)
            return self._is_closing

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _append(self, batch: list[tuple[dict[str, Any], bool]]) -> None:
        self._find_end()
        if self._lost:
            batch = [({**self._shared, "kind": "gap", "time": _now(), "lost": self._lost}, True), *batch]
        seq, last, lines = self._seq, self._last, []
        for record, _ in batch:
            seq += 1
            fields = {**record, "seq": seq, "prev": last}
            if self._recovered is not None:
                fields["recovered"], self._recovered = self._recovered, None
                lines.append(b"\n")
            line, last = make_line(fields)
            lines.append(line)
        data = b"".join(lines)
        try:
            _write_all(self._fd, data)
        except OSError:
            with suppress(OSError):  # half a line would look like a change
                os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)
        self._seq, self._last, self._lost = seq, last, 0
        if any(is_important for _, is_important in batch):
            os.fdatasync(self._fd)
            self._write_head(batch[-1][0]["time"])

    def _find_end(self) -> None:
        """Open the file to append to, and learn the last record, if another program has written since."""
        files = list_files(self._folder)
        newest = files[-1] if files else None
        if newest is None or newest != self._path or self._fd < 0 or os.fstat(self._fd).st_size != self._size:
            self._learn(newest)
        today = _now()[:10]
        day, number = (today, 0) if newest is None else read_name(newest.name)
        if newest is not None and day >= today and self._size < self._most_bytes:
            return
        if self._recovered is not None:  # the half line is stated in the file that has it
            return
        # A clock that was set back must not begin a file that sorts before the others.
        later = max(day, today)
        self._open(self._folder / file_name(later, number + 1 if later == day else 1))
        self._size = 0
        self._remove_old(files)

    def _learn(self, newest: Path | None) -> None:
        if newest is None:
            self._seq, self._last, self._recovered = 0, NO_HASH, None
            return
        self._open(newest)
        self._size = os.fstat(self._fd).st_size
        line, torn = last_line(self._fd)
        self._recovered = {"bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()} if torn else None
        found = read_line(line) if line else None
        if found is not None:
            self._seq, self._last = found[0]["seq"], found[1]
        elif self._size == len(torn):  # a new file, whose first record was not finished
            self._learn_before(newest)
        else:  # it was changed; the chain goes on from what is there, and the check finds the place
            self._last = hashlib.sha256(line).hexdigest()

    def _learn_before(self, newest: Path) -> None:
        files = [path for path in list_files(self._folder) if read_name(path.name) < read_name(newest.name)]
        if not files:
            self._seq, self._last = 0, NO_HASH
            return
        fd = os.open(files[-1], os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = read_line(last_line(fd)[0])
        finally:
            os.close(fd)
        if found is not None:
            self._seq, self._last = found[0]["seq"], found[1]

    def _open(self, path: Path) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, 0o600)
        self._path = path

    def _write_head(self, time: str) -> None:
        assert self._path is not None
        head = AuditHead(self._seq, self._last, time, self._path.name)
        # Not synced, as the lines are not: a head that is ahead of them would look like lines that were removed.
        write_private(self._folder / HEAD, msgspec.json.encode(head), is_synced=False)

    def _remove_old(self, files: list[Path]) -> None:
        if self._keep_days is None:
            return
        oldest = (datetime.now(UTC).date() - timedelta(days=self._keep_days)).isoformat()
        for path in files:
            day, _ = read_name(path.name)
            if date.fromisoformat(day).isoformat() < oldest:
                with suppress(OSError):
                    path.unlink()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
