"""The traffic between host and agent as a user looks at it: rows, broken rules, filter, search.

The host keeps the last lines of each agent's connection (`_dragoman/traffic`); they are judged here as they come, by
the checks of `dragoman inspect`. Bounded: of a long connection the oldest rows go, and from then on nothing is
concluded from what is missing. Feeding decodes messages, so the screen does it in a thread. Does not draw.
"""

from __future__ import annotations

from datetime import UTC, datetime
from time import localtime, strftime
from typing import TYPE_CHECKING, Any, Final

from dragoman.trace.entry import Header, Stderr
from dragoman.trace.inspect.screen import pretty
from dragoman.trace.inspect.timeline import RecordingTimeline
from dragoman.trace.written import frame_of, recording_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.trace.entry import Entry, Frame
    from dragoman.trace.inspect.timeline import Row

METHOD: Final = "_dragoman/traffic"
MOST_ROWS: Final = 20_000
MOST_BYTES: Final = 32 * 1024 * 1024
_KINDS: Final = {"request": "req", "response": "res", "notification": "notif", "malformed": "bad", "blank": "blank"}


class TrafficModel:
    """The lines of one session's agent, and the one that is chosen."""

    def __init__(self) -> None:
        self.agent = ""
        self.stderr = ""
        self.connection = 0
        self.after = 0
        """The number of the last line that is here."""
        self.missed = 0
        """How many lines of this connection are not here: they came before the host's ring, or went since."""
        self.words: tuple[str, ...] = ()
        self.at: int | None = None
        """The chosen row, as a place in `visible`; None follows the last one."""
        self._timeline = RecordingTimeline(is_whole=True)
        self._entries: list[Frame] = []
        self._sizes: list[int] = []
        self._first = 1
        self._bytes = 0
        self._started_at = 0.0
        self._command: tuple[str, ...] = ()
        self._visible: list[int] = []

    # Reading

    @property
    def rows(self) -> Sequence[Row]:
        """All rows that are here."""
        return self._timeline.rows

    @property
    def frames(self) -> Sequence[Frame]:
        """All lines that are here."""
        return self._entries

    @property
    def started_at(self) -> float:
        """When the connection began, in seconds since 1970."""
        return self._started_at

    @property
    def visible(self) -> list[int]:
        """The places in `rows` that the filter lets through."""
        return self._visible

    @property
    def chosen(self) -> Row | None:
        """The chosen row."""
        if not self._visible:
            return None
        at = len(self._visible) - 1 if self.at is None else min(self.at, len(self._visible) - 1)
        return self.rows[self._visible[at]]

    @property
    def broken(self) -> int:
        """How many rows break a rule; advice that is not followed does not count."""
        return sum(is_broken(row) for row in self.rows)

    def number(self, row: Row) -> int:
        """Return the number of a row's line in its connection."""
        return self._first + row.number - 1

    def clock(self, row: Row) -> str:
        """Return the time of day of a row."""
        return strftime("%H:%M:%S", localtime(self._started_at + row.t))

    def size_bytes(self, row: Row) -> int:
        """Return the size of a row's line, also if it was too long to be kept."""
        return self._sizes[row.number - 1]

    def text(self, row: Row) -> str:
        """Return a row's line as it was, not made safe."""
        return self._entries[row.number - 1].data.decode(errors="replace")

    def pretty(self, row: Row) -> str:
        """Return a row's line as indented JSON, not made safe."""
        data = self._entries[row.number - 1].data
        return pretty(data) if data else f"(a line of {self.size_bytes(row)} bytes, too long to be kept)"

    # Following

    def asked(self) -> dict[str, Any]:
        """Return what to ask the host for next."""
        return {"connection": self.connection, "after": self.after}

    def feed(self, answer: dict[str, Any]) -> int:
        """Take an answer of the host; returns how many new rows there are. Blocks."""
        self.agent = str(answer.get("agent", ""))
        self.stderr = str(answer.get("stderr", ""))
        if answer.get("connection") != self.connection:
            self.connection = int(answer.get("connection", 0))
            self._begin([], first=1, is_whole=True)
            self.after = self.missed = 0
            self._started_at = float(answer.get("startedAt", 0.0))
            self._command = tuple(map(str, answer.get("command", ())))
        frames = answer.get("frames", ())
        for frame in frames:
            number = int(frame["n"])
            if number <= self.after:
                continue
            if number != self.after + 1:  # what is in between is lost, and with it what the rest is compared with
                self.missed += number - self.after - 1
                self._begin([], first=number, is_whole=False)
            self._add(frame_of(frame), int(frame["bytes"]))
            self.after = number
        if len(self._entries) > MOST_ROWS or self._bytes > MOST_BYTES:
            self._forget()
        return len(frames)

    def _begin(self, kept: list[tuple[Frame, int]], *, first: int, is_whole: bool) -> None:
        self._timeline = RecordingTimeline(is_whole=is_whole)
        self._entries, self._sizes, self._visible, self._bytes = [], [], [], 0
        self._first = first
        self.at = None
        for entry, size in kept:
            self._add(entry, size)

    def _add(self, entry: Frame, size_bytes: int) -> None:
        self._entries.append(entry)
        self._sizes.append(size_bytes)
        self._bytes += len(entry.data)
        row = self._timeline.feed(entry)
        if row is not None and self._is_wanted(row):
            self._visible.append(len(self._entries) - 1)

    def _forget(self) -> None:
        half = len(self._entries) // 2
        self.missed += half
        kept = list(zip(self._entries[half:], self._sizes[half:], strict=True))
        self._begin(kept, first=self._first + half, is_whole=False)

    # Walking

    def move(self, step: int) -> None:
        """Choose another row; past the last one, follow."""
        last = len(self._visible) - 1
        at = (last if self.at is None else self.at) + step
        self.at = None if at >= last else max(0, at)

    def filter(self, text: str) -> None:
        """Show only the rows that contain all of these words; `!` means those that break a rule."""
        self.words = tuple(text.casefold().split())
        chosen = self.chosen
        self._visible = [at for at, row in enumerate(self.rows) if self._is_wanted(row)]
        place = None if chosen is None else chosen.number - 1
        self.at = self._visible.index(place) if place in self._visible and self.at is not None else None

    def _is_wanted(self, row: Row) -> bool:
        if not self.words:
            return True
        side = "-> c2a" if row.dir == "c2a" else "<- a2c"
        error = "" if row.error_code is None else f"error {row.error_code}"
        text = " ".join((side, row.kind, row.method, row.update, error, row.session or "", row.summary)).casefold()
        return all(is_broken(row) if word == "!" else word in text for word in self.words)

    def next_broken(self) -> bool:
        """Choose the next row that breaks a rule, from the first one again behind the last; whether there is one."""
        return self._find(is_broken, 1)

    def search(self, text: str, step: int = 1) -> bool:
        """Choose the next row whose line contains a text; whether there is one."""
        wanted = text.casefold()
        return bool(wanted) and self._find(lambda row: wanted in self.text(row).casefold(), step)

    def _find(self, is_it: Any, step: int) -> bool:
        count = len(self._visible)
        start = (count - 1) if self.at is None else self.at
        for offset in range(1, count + 1):
            at = (start + step * offset) % count
            if is_it(self.rows[self._visible[at]]):
                self.at = at
                return True
        return False

    # Writing

    def recording(self, *, redact: bool = False) -> bytes:
        """Return the lines that are here as a recording. Blocks."""
        entries: list[Entry] = list(self._entries)
        if self.stderr:
            last = self._entries[-1].t if self._entries else 0.0
            entries += [Stderr(last, line) for line in self.stderr.splitlines()]
        header = None
        if not self.missed:  # a header says that a recording begins with its connection
            started = datetime.fromtimestamp(self._started_at, UTC).isoformat(timespec="milliseconds")
            header = Header(started=started.replace("+00:00", "Z"), command=self._command)
        return recording_of(entries, header, redact=redact)


def is_broken(row: Row) -> bool:
    """Return whether a message breaks a rule that the protocol requires."""
    return any(finding.is_failure for finding in row.findings)


def kind_of(row: Row) -> str:
    """Return what a row is, in a few letters, with the id of a request."""
    word = _KINDS.get(row.kind, row.kind)
    return f"{word} {row.id}" if row.kind in ("request", "response") and row.id is not None else word


def what_of(row: Row) -> str:
    """Return the method or the update of a row; of a response, what it says."""
    if row.kind == "response":
        return row.summary or row.method
    name = row.method.removeprefix("session/")
    return f"{name} {row.update}" if row.update else f"{name} {row.summary}".strip()
