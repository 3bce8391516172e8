"""The timeline of a conversation while it happens.

Owns the step from what a relay passes on to lines of a terminal, and the wait for the rest of a message that comes in
chunks. It never delays the conversation: a failure in here ends the view alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
from time import monotonic
from typing import TYPE_CHECKING, Final

from dragoman.schema import encode
from dragoman.trace.entry import End, Exit, Frame, Stderr
from dragoman.trace.inspect.document import row_document
from dragoman.trace.inspect.screen import Screen, is_loud
from dragoman.trace.inspect.timeline import Filter, RecordingTimeline, is_called
from dragoman.trace.passed_keys import passed_keys
from dragoman.trace.writer import TraceWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.trace.entry import Direction, Entry
    from dragoman.trace.inspect.timeline import Row

_log = logging.getLogger("dragoman.trace")

# How long chunks of one message are collected into one line: short enough to follow the text as it grows.
GATHER_SECONDS: Final = 0.5


class LiveView(TraceWriter):
    """A writer that shows the entries it is given, and also records them if `file` is given."""

    def __init__(
        self,
        file: str | None,
        *,
        command: Sequence[str],
        width: int,
        has_colour: bool,
        wanted: Filter,
        session: str | None = None,
        gathers: bool = True,
        as_json: bool = False,
    ) -> None:
        super().__init__(file if file is not None else os.devnull, command=command, cwd=os.getcwd())
        self._began = monotonic()
        self._timeline = RecordingTimeline(is_whole=True, keeps_rows=False)
        self._screen = Screen(width, has_colour=has_colour, aliases=self._timeline.aliases)
        self._wanted = wanted
        self._session = session
        self._gathers = gathers
        self._as_json = as_json
        self._write: Callable[[bytes], None] | None = None
        self._held: list[Row] = []
        self._timer: asyncio.TimerHandle | None = None

    def show_on(self, write: Callable[[bytes], None]) -> None:
        """Start to show lines; `write` takes bytes for the terminal and never waits."""
        self._write = write
        if not self._as_json:
            self._put([self._screen.head()])

    def frame(self, direction: Direction, data: bytes, eol: bytes = b"\n") -> None:
        if keys := passed_keys(data):
            self.secrets.add(keys)
        data = self.secrets.mask_bytes(data)
        super().frame(direction, data, eol)
        self._look(Frame(self._at(), direction, data, eol))

    def stderr(self, text: str) -> None:
        text = self.secrets.mask(text)
        super().stderr(text)
        self._look(Stderr(self._at(), text))

    def end(self, direction: Direction) -> None:
        super().end(direction)
        self._look(End(self._at(), direction))

    def exit(self, code: int | None = None, signal: str | None = None) -> None:
        super().exit(code, signal)
        self._look(Exit(self._at(), code, signal))

    def close(self) -> None:
        self._show_held()
        super().close()

    def _at(self) -> float:
        return monotonic() - self._began

    def _look(self, entry: Entry) -> None:
        if self._write is None:
            return
        try:
            row = self._timeline.feed(entry)
            if row is not None:
                self._take(row, entry)
        except Exception:
            self._write = None
            _log.exception("the view of the conversation ended; the conversation goes on")

    def _take(self, row: Row, entry: Entry) -> None:
        if self._held and row.run != self._held[0].run:
            self._show_held()
        if not self._wants(row, entry):
            return
        self._held.append(row)
        is_chunk = row.update.endswith("_chunk") and self._gathers and not self._as_json
        if not is_chunk:
            self._show_held()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._show_held)

    def _wants(self, row: Row, entry: Entry) -> bool:
        if self._session is not None:
            name = row.session or ""
            if not is_called(self._session, name, self._timeline.aliases.get(name, "")) or not name:
                return False
        return self._wanted.wants(row) and self._wanted.finds([row], {row.number - 1: entry})

    def _show_held(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows, self._held = self._held, []
        if not rows:
            return
        if self._as_json:
            self._put([encode(row_document(row)).decode() for row in rows])
            return
        lines = [self._screen.line(rows), *self._screen.findings(rows)]
        numbers = {row.number for row in rows}
        for finding in self._timeline.latest:
            if finding.index not in numbers and is_loud(finding):
                lines.append(self._screen.late(finding))
        self._put(lines)

    def _put(self, lines: Sequence[str]) -> None:
        if self._write is not None:
            self._write("".join(f"{line}\n" for line in lines).encode(errors="replace"))
