"""The audit log, written off the path of the messages.

Theory of operation
-------------------
`add` puts a record into a queue and returns; a thread writes the records (`chain.py`). All programs of a user may write
to one log: the thread takes a lock on the folder for each batch. Records are appended at once, so that they survive the
death of this program. Syncing them and replacing the head takes ten times as long: it follows an important record (a
decision, the end of a turn) at once, and is done for others together, a moment later.

If the disk refuses, `problem` states why, and the records wait; they are tried again with the next record and once a
second. A log of best effort drops them instead and writes how many there were; so does any log that has too many.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from dragoman.proxy.audit.chain import AuditChain
from dragoman.proxy.audit.files import FORMAT, locked_for_writing
from dragoman.workspace.private import make_private_folder

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES: Final = 64 << 20  # of one file
_COLLECT_SECONDS: Final = 0.05  # until records are synced that are not important
_AGAIN_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 10.0  # for a slow disk; what is not written then is lost
_MOST_BATCH: Final = 1_000
_MOST_NOTICES: Final = 20  # an agent that changes the log again and again must not fill the memory
_MOST_WAITING: Final = 50_000  # records of a disk that refuses; the turn that runs goes on, and no other begins


class AuditLog:
    """An open audit log. `add` never waits and never raises.

    Args:
        folder: where the files are; it is created.
        shared: members of every record, such as the host.
        is_best_effort: drop records that cannot be written.
        most_bytes: the size from which on a new file is begun; a new day begins one as well.
        keep_days: remove files whose last record is older; None keeps all.
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
        self._chain = AuditChain(folder, shared=self._shared, most_bytes=most_bytes, keep_days=keep_days, now=now)
        self._queue: list[tuple[dict[str, Any], bool]] = []
        self._changed = threading.Condition()
        self._is_closing = False
        self._flushing = 0
        self._writing = 0
        self._lost = 0
        self._is_due = False
        self._due_at = 0.0
        self._notices: list[str] = []
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many records are not on the disk yet; one more if what was written is not synced."""
        return len(self._queue) + self._writing + self._is_due

    def add(self, kind: str, fields: dict[str, Any], *, is_important: bool = False) -> None:
        """Write a record soon; an important one is synced with those before it."""
        record = {**self._shared, "kind": kind, "time": now(), **fields}
        with self._changed:
            if self.problem and len(self._queue) >= _MOST_WAITING:
                self._lost += 1
            elif not self._is_closing:
                self._queue.append((record, is_important))
                self._changed.notify_all()

    def flush(self, seconds: float = _CLOSE_SECONDS) -> bool:
        """Wait until all records are written and synced; False if that takes too long or is not possible."""
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
            try:
                is_done = self._changed.wait_for(lambda: not self.waiting or bool(self.problem), seconds)
            finally:
                self._flushing -= 1
            return is_done and not self.problem

    def close(self) -> None:
        """Write what is left and end."""
        self.flush()
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._chain.close()

    def take_notices(self) -> list[str]:
        """Return sentences for the user that were not returned yet: hashes to keep, and changes that were found."""
        with self._changed:
            notices, self._notices = self._notices, []
            return notices

    # The thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work, self._collecting_seconds())
                if not self._queue and not self._is_due and self._is_closing:
                    return
                batch, self._queue = self._queue[:_MOST_BATCH], self._queue[_MOST_BATCH:]
                self._writing = len(batch)
            self._write(batch)
            if self.problem and self._wait_again():
                return

    def _has_work(self) -> bool:
        return bool(self._queue) or self._is_closing or (self._is_due and bool(self._flushing))

    def _collecting_seconds(self) -> float | None:
        return max(0.0, self._due_at - time.monotonic()) if self._is_due else None

    def _write(self, batch: list[tuple[dict[str, Any], bool]]) -> None:
        records, lost = [record for record, _ in batch], self._lost
        if records and lost:
            records.insert(0, {**self._shared, "kind": "gap", "time": now(), "lost": lost})
        problem, is_written, is_committed = "", False, False
        try:
            make_private_folder(self._folder)
            with locked_for_writing(self._folder):
                self._chain.append(records)
                is_written = True
                if not self._is_due and records:
                    self._due_at = time.monotonic() + _COLLECT_SECONDS
                is_urgent = lost > 0 or any(is_important for _, is_important in batch)
                if is_urgent or self._flushing or self._is_closing or time.monotonic() >= self._due_at:
                    self._chain.commit()
                    is_committed = True
        except Exception as error:  # whatever it is, the records must not be forgotten silently
            problem = f"{self._folder}: {getattr(error, 'strerror', None) or error}"
        with self._changed:
            self.problem = problem
            self._writing = 0
            self._notices += self._chain.notices
            del self._notices[:-_MOST_NOTICES]
            self._chain.notices.clear()
            if is_written:
                # What is in the file is not written again, even if it could not be synced: only that is tried again.
                self._is_due = not is_committed
                self._lost -= lost if records else 0
            elif self._is_best_effort:
                self._lost += len(batch)
            else:
                self._queue[:0] = batch
            self._changed.notify_all()

    def _wait_again(self) -> bool:
        """Wait a little after a failure, unless the log ends. Returns whether it ends."""
        with self._changed:
            if not self._is_closing:
                self._changed.wait(_AGAIN_SECONDS)
            return self._is_closing


def now() -> str:
    """Return the time as records have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
