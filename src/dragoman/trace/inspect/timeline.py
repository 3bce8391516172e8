"""A recording as rows, one for each entry: time, direction, summary, request or response, latency, findings.

Owns the row and everything that is known about it; filters and runs of chunks are here, too, so that all views show
the same. Does not know how a row looks on a screen or a page.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Struct

from dragoman.schema import v1
from dragoman.trace.entry import End, Exit, Frame, Header, Stderr
from dragoman.trace.inspect.summary import EXCERPT_CHARS, cut, summarise
from dragoman.trace.violations import Finding, PassiveChecker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Literal, TypeAlias

    from dragoman.trace.entry import Direction, Entry
    from dragoman.trace.inspect.exchange import DecodedFrame
    from dragoman.wire import Id

    Kind: TypeAlias = Literal["request", "notification", "response", "malformed", "blank", "stderr", "end", "exit"]

_CHUNKS: Final = (v1.UserMessageChunk, v1.AgentMessageChunk, v1.AgentThoughtChunk)
_CHUNK_NAMES: Final = frozenset(kind.__name__ for kind in _CHUNKS)  # those of version 2 have the same names


class Row(Struct, gc=False):
    """One entry of a recording."""

    number: int
    """Its place in the recording, from 1 on; the header does not count."""
    t: float
    kind: Kind
    dir: Direction | None = None
    method: str = ""
    """Of a response: the method of its request."""
    update: str = ""
    """The kind of a session/update."""
    id: Id = None
    session: str | None = None
    size_bytes: int = 0
    summary: str = ""
    """The peer's text, cut to a limit and not made safe for showing."""
    request: int | None = None
    """Of a response: the number of its request."""
    answer: int | None = None
    """Of a request: the number of its response."""
    latency: float | None = None
    """Seconds from a request to its response, in both rows."""
    error_code: int | None = None
    run: int = 0
    """The number of the first of the consecutive chunks of one message; for other rows their own number."""
    findings: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """The method, or the kind of update."""
        return self.update or self.method

    @property
    def is_bad(self) -> bool:
        """An error, a line that is not a message, or a broken rule."""
        is_error = self.error_code is not None or self.kind == "malformed"
        return is_error or any(finding.is_failure for finding in self.findings)


class RecordingTimeline:
    """The rows of a recording: `feed` it entries, read `rows`.

    Args:
        is_whole: The entries begin with the connection.
        keeps_rows: False for a timeline that may go on for days; then `rows` stays empty.
        watch: Called with each frame after its row was made, for views that need more than rows.
    """

    def __init__(
        self,
        *,
        is_whole: bool = False,
        keeps_rows: bool = True,
        watch: Callable[[DecodedFrame], object] | None = None,
    ) -> None:
        self.header = Header()
        self.rows: list[Row] = []
        """All rows so far; empty for a timeline that keeps none."""
        self.latest: list[Finding] = []
        """The findings of the last entry, about itself or about earlier ones."""
        self.aliases: dict[str, str] = {}
        """Session id -> `s1`, `s2`... in order of appearance."""
        self._checker = PassiveChecker(is_whole=is_whole)
        self._keeps_rows = keeps_rows
        self._count = 0
        self._asked: dict[int, Row] = {}  # requests without a response
        self._watch = watch
        self._titles: dict[tuple[str | None, str], str] = {}
        self._run: tuple[Any, ...] | None = None  # what the chunk before belongs to
        self._run_start = 0

    @property
    def findings(self) -> list[Finding]:
        """All findings, in the order of the rows."""
        return [finding for row in self.rows for finding in row.findings]

    def feed(self, entry: Entry) -> Row | None:
        """Make the row of this entry, None for a header. Rows of earlier entries may change."""
        if isinstance(entry, Header):
            self.header = entry
            self._checker.begin(entry)
            return None
        self._count = number = self._count + 1
        if isinstance(entry, Frame):
            return self._feed_frame(number, entry)
        self.latest = self._checker.feed(entry)
        row = Row(number, entry.t, "exit", run=number)
        match entry:
            case Stderr(text=text):
                row.kind, row.summary, row.size_bytes = "stderr", cut(text), len(text.encode(errors="replace")) + 1
            case End(dir=direction):
                row.kind, row.dir = "end", direction
                row.summary = f"the {'client' if direction == 'c2a' else 'agent'} closed its side"
            case Exit(code=code, signal=signal):
                row.summary = _how(code, signal)
        self._run = None
        if self._keeps_rows:
            self.rows.append(row)
        return row

    def finish(self) -> None:
        """Add the findings that only the end of the recording shows."""
        self.latest = self._checker.finish()
        if self._keeps_rows:
            self._add(self.latest)

    def _feed_frame(self, number: int, entry: Frame) -> Row:
        frame = self._checker.read(entry)
        row = Row(number, entry.t, frame.kind, entry.dir, size_bytes=frame.size_bytes)
        row.method, row.update, row.id, row.session = frame.method, frame.update, frame.id, frame.session_id
        row.summary = summarise(frame, self._titles)
        row.run = self._place(frame)
        self._pair(frame, row)
        if frame.session_id is not None and frame.session_id not in self.aliases:
            self.aliases[frame.session_id] = f"s{len(self.aliases) + 1}"
        self.latest = self._checker.check(frame, entry)
        if self._keeps_rows:
            self.rows.append(row)
            self._add(self.latest)
        else:
            row.findings = tuple(finding for finding in self.latest if finding.index == number)
        self._note_title(frame)
        if self._watch is not None:
            self._watch(frame)
        return row

    def _pair(self, frame: DecodedFrame, row: Row) -> None:
        if frame.kind == "request":
            self._asked[row.number] = row
        elif frame.kind == "response":
            row.error_code = frame.error_code
        asked = self._asked.pop(frame.request.number, None) if frame.request is not None else None
        if asked is not None:
            asked.answer, row.request = row.number, asked.number
            asked.latency = row.latency = row.t - asked.t
            asked.session = asked.session or row.session  # session/new is about the session it made

    def _add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            row = self.rows[finding.index - 1]
            row.findings = (*row.findings, finding)

    def _place(self, frame: DecodedFrame) -> int:
        """Return the number of the run that a chunk continues, or its own number."""
        update: Any = getattr(frame.value, "update", None) if frame.method == "session/update" else None
        key = None
        if isinstance(update, _CHUNKS) or type(update).__name__ in _CHUNK_NAMES:
            key = (frame.session_id, type(update), None if update.message_id is UNSET else update.message_id)
        if key is None or key != self._run:
            self._run_start = frame.number
        self._run = key
        return self._run_start

    def _note_title(self, frame: DecodedFrame) -> None:
        call: object = None
        if frame.method == "session/update":
            call = getattr(frame.value, "update", None)
        elif frame.method == "session/request_permission":
            subject = getattr(frame.value, "subject", None) or frame.value  # version 2 has other subjects, too
            call = getattr(subject, "tool_call", None)
        call_id, title = getattr(call, "tool_call_id", None), getattr(call, "title", None)
        if isinstance(call_id, str) and isinstance(title, str):
            self._titles[frame.session_id, call_id] = cut(title)


def _how(code: int | None, signal: str | None) -> str:
    if signal is not None:
        return f"the agent was ended by {signal}"
    return "the agent ended" if code is None else f"the agent exited with code {code}"


def read_timeline(
    entries: Iterable[Entry], *, header: Header | None = None, watch: Callable[[DecodedFrame], object] | None = None
) -> RecordingTimeline:
    """Make the timeline of a whole recording."""
    timeline = RecordingTimeline(watch=watch)
    if header is not None:
        timeline.feed(header)
    for entry in entries:
        timeline.feed(entry)
    timeline.finish()
    return timeline


class Filter(Struct, frozen=True, kw_only=True):
    """A selection of rows; a criterion that is not given selects all."""

    session: str | None = None
    method: str | None = None
    """A shell pattern for a method or a kind of update."""
    dir: Direction | None = None
    errors: bool = False
    since: float | None = None
    until: float | None = None
    grep: str | None = None

    def wants(self, row: Row) -> bool:
        """Whether a row meets all criteria but `grep`, which needs the text of whole runs."""
        if self.session is not None and row.session != self.session:
            return False
        if self.method is not None and not (
            fnmatchcase(row.method, self.method) or (row.update and fnmatchcase(row.update, self.method))
        ):
            return False
        if self.dir is not None and row.dir != self.dir:
            return False
        if self.errors and not row.is_bad:
            return False
        return (self.since is None or row.t >= self.since) and (self.until is None or row.t <= self.until)

    def finds(self, rows: Sequence[Row], entries: Sequence[Entry] | Mapping[int, Entry]) -> bool:
        """Whether the text is in one of these rows or, if they are chunks of one message, in all of them joined.

        `entries` has the entry of the row with number n at n - 1.
        """
        if self.grep is None:
            return True
        wanted = self.grep.casefold()
        return any(wanted in text.casefold() for text in _texts(rows, entries))


def is_called(word: str, session: str, alias: str) -> bool:
    """Whether `word` may mean this session: its short name, or the beginning or end of its id."""
    return word == alias or session.startswith(word) or session.endswith(word)


def runs(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Group the rows that are shown as one line: consecutive chunks of one message."""
    group: list[Row] = []
    for row in rows:
        if group and not (row.run == group[0].run and row.number == group[-1].number + 1):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def joined_summary(rows: Sequence[Row]) -> str:
    """Return the beginning of the joined text of these chunks."""
    text = ""
    for row in rows:
        text += row.summary
        if len(text) > EXCERPT_CHARS:
            break
    return cut(text)


def _texts(rows: Sequence[Row], entries: Sequence[Entry] | Mapping[int, Entry]) -> Iterator[str]:
    chunks = []
    for row in rows:
        entry = entries[row.number - 1]
        yield row.summary
        if isinstance(entry, Stderr):
            yield entry.text
        elif isinstance(entry, Frame):
            text = entry.data.decode(errors="replace")
            yield text
            value = _decoded(entry.data)
            chunks.append(_chunk_text(value))
            if "\\" in text:
                yield from _strings(value)
    if len(chunks) > 1:
        yield "".join(chunks)


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _chunk_text(value: Any) -> str:
    try:
        return str(value["params"]["update"]["content"]["text"])
    except (KeyError, TypeError):
        return ""


def _strings(value: Any) -> Iterator[str]:
    """Yield all texts in a message, without JSON's escapes."""
    if type(value) is str:
        yield value
    elif type(value) is dict:
        for member in value.values():
            yield from _strings(member)
    elif type(value) is list:
        for item in value:
            yield from _strings(item)
