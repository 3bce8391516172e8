"""A descriptor for what must never wait for its reader, such as a log on stderr.

Owns the queue of what was not taken yet, up to a limit. Does not know what is written.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import Final

_UNWRITTEN_BYTES: Final = 1 << 20  # of a log that is not read; the rest of it is dropped, with a note


class Outlet:
    """A writer of what must never wait for its reader, such as a log: beyond a limit it is dropped, with a note."""

    def __init__(self, sink: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._dropped_bytes = 0
        os.set_blocking(sink, False)

    def write(self, data: bytes) -> None:
        """Write what the descriptor takes now, and the rest later."""
        if self._sink < 0:
            return
        if self._queued_bytes + len(data) > _UNWRITTEN_BYTES:
            self._dropped_bytes += len(data)
            return
        is_waiting = bool(self._queue)
        self._queue.append(data)
        self._queued_bytes += len(data)
        if not is_waiting and not self._write_out():
            self._loop.add_writer(self._sink, self._resume)

    def close(self) -> None:
        """Try to write the rest once, then close the descriptor."""
        if self._sink >= 0:
            self._write_out()
            self._let_go()

    def _resume(self) -> None:
        if self._write_out() and self._sink >= 0:
            self._loop.remove_writer(self._sink)

    def _write_out(self) -> bool:
        """Write what can be written; return False if a rest must wait."""
        try:
            while self._queue:
                sent = os.write(self._sink, self._queue[0])
                self._queued_bytes -= sent
                rest = self._queue.popleft()[sent:]
                if rest:
                    self._queue.appendleft(rest)
                elif not self._queue and self._dropped_bytes:
                    note = (
                        b"\ndragoman: %d bytes of this log were dropped because they were not read\n"
                        % self._dropped_bytes
                    )
                    self._dropped_bytes = 0
                    self._queue.append(note)
                    self._queued_bytes += len(note)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self._let_go()  # its reader is gone
        return True

    def _let_go(self) -> None:
        self._loop.remove_writer(self._sink)
        os.close(self._sink)
        self._sink = -1
        self._queue.clear()
