"""Lines that match a pattern, found by our own search or by ripgrep, in one form.

Owns both searches and that they agree: line by line, without binary files, in the order of paths. Does not depend on
how findings are shown.
"""

from __future__ import annotations

import base64
import os
import re
from bisect import bisect_right
from contextlib import aclosing
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.builtin.tools.files import find_files
from dragoman.builtin.tools.search_ripgrep import LARGEST_BYTES, Ripgrep, RipgrepRefused, common_options, find_ripgrep
from dragoman.builtin.tools.walk import in_thread, walk
from dragoman.workspace.ignore import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dragoman.builtin.tools.files import SearchScope
    from dragoman.builtin.tools.walk import Stop

# Matches that are counted. More of them are of no use, and cost time.
MOST_COUNTED: Final = 10_000
# Size of the arguments of one run: half of what the strictest system accepts.
_ARGUMENT_BYTES: Final = 500_000
# Patterns that look outside of a line, or do not backtrack, may miss in the whole text what they match in a line.
_LINE_BY_LINE: Final = re.compile(r"\\[AZz]|\(\?[=!<>(]|[+*?}]\+")


class Query(Struct, frozen=True):
    """What to search for in files, and which of the matches are wanted."""

    pattern: str
    is_literal: bool = False
    ignores_case: bool = False
    before: int = 0
    after: int = 0
    only_files: bool = False
    """Without lines: files are counted instead of matches."""
    only_counts: bool = False
    """Without lines, but with the number of matches in each file."""
    most: int = 100
    offset: int = 0
    """How many matches, or files, are skipped."""
    is_multiline: bool = False
    """A match may have several lines, and a dot matches a line end."""

    @property
    def counts_files(self) -> bool:
        return self.only_files or self.only_counts

    def compile(self) -> re.Pattern[str]:
        """Raises: re.error."""
        import warnings

        pattern = re.escape(self.pattern) if self.is_literal else self.pattern
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about patterns that a later version may read differently
            try:
                flags = re.MULTILINE | (re.IGNORECASE if self.ignores_case else 0)
                return re.compile(pattern, flags | (re.DOTALL if self.is_multiline else 0))
            except (OverflowError, RecursionError) as error:
                raise re.error(f"it is too large ({error})") from error


class FoundLine(Struct, frozen=True):
    """A line of a file; `at` is where the match begins, None for a line that is only near a match.

    A match of several lines is one of these, with line ends in its text.
    """

    number: int
    text: str
    at: int | None = None

    @property
    def last_number(self) -> int:
        return self.number + self.text.count("\n")


class FileMatches(Struct, frozen=True):
    """The wanted lines of one file, none if only its name was requested, and the number of all its matches."""

    path: str
    lines: tuple[FoundLine, ...] = ()
    count: int = 1


class Findings(Struct):
    """The result of a search: the wanted part, and how much there is."""

    files: list[FileMatches] = []
    count: int = 0
    """All matches, those before and after the wanted ones too."""
    file_count: int = 0
    is_uncounted: bool = False
    """There are more than were counted."""
    was_late: bool = False
    denied: int = 0
    """Number of files that were left out because a rule denies reading them."""

    def add(self, path: str, lines: Sequence[FoundLine], query: Query) -> bool:
        """Count the matches of a file, and keep those that are wanted; return whether to continue."""
        matches = [line for line in lines if line.at is not None]
        first = query.offset - (self.file_count if query.counts_files else self.count)
        if query.counts_files:
            if 0 >= first > -query.most:
                self.files.append(FileMatches(path, (), len(matches)))
        else:
            wanted = matches[max(first, 0) : max(first + query.most, 0)]
            if wanted:
                self.files.append(FileMatches(path, tuple(_around(lines, wanted, query)), len(matches)))
        self.count += len(matches)
        self.file_count += 1
        self.is_uncounted = max(self.count, self.file_count) > MOST_COUNTED
        return not self.is_uncounted


def _around(lines: Sequence[FoundLine], wanted: Sequence[FoundLine], query: Query) -> Iterator[FoundLine]:
    """Yield the wanted matches, with the lines around them."""
    near = {
        number for match in wanted for number in range(match.number - query.before, match.last_number + query.after + 1)
    }
    kept = {match.number for match in wanted}
    return (line for line in lines if line.number in (near if line.at is None else kept))


async def search(query: Query, scope: SearchScope) -> Findings:
    """Search the files of a scope. Raises: re.error for a pattern that neither search accepts."""
    # ripgrep joins matches of several lines that follow directly, and does not find them across CRLF.
    program = None if query.is_multiline else find_ripgrep()
    if program is not None:
        try:
            return await _by_ripgrep(program, query, scope)
        except RipgrepRefused:
            pass  # our own search has syntax that ripgrep lacks, such as lookahead
    regex = query.compile()
    findings, was_late = await in_thread(lambda stop: _by_ourselves(regex, query, scope, stop))
    findings.was_late = was_late
    return findings


# Our own search


def _by_ourselves(regex: re.Pattern[str], query: Query, scope: SearchScope, stop: Stop) -> Findings:
    findings = Findings()
    for path in walk(scope.start, stop, hidden=scope.hidden, ignored=scope.ignored):
        if not scope.takes(path):
            continue
        data = read_plain(os.path.join(scope.start, path), LARGEST_BYTES)
        if data is None or b"\0" in data:
            continue
        lines = find_lines(data.decode("utf-8", "replace"), regex, query, stop)
        if lines and not findings.add(path, lines, query):
            break
    return findings


def find_lines(text: str, regex: re.Pattern[str], query: Query, stop: Stop) -> tuple[FoundLine, ...]:
    """Return the lines that match, with those around them."""
    text = text.replace("\r\n", "\n")
    # Most files have no match, which one search in the whole text finds out much sooner.
    if (query.is_multiline or not _LINE_BY_LINE.search(regex.pattern)) and regex.search(text) is None:
        return ()
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    most = 1 if query.only_files else MOST_COUNTED + 1
    matches: dict[int, FoundLine] = {}
    for match in _multiline(text, lines, regex, stop) if query.is_multiline else _by_line(lines, regex, stop):
        matches[match.number] = match
        if len(matches) == most:
            break
    found: list[FoundLine] = []
    done = 0
    for match in matches.values():
        first, last = match.number - query.before, min(match.last_number + query.after, len(lines))
        for number in range(max(first, done + 1), last + 1):
            if number in matches:
                found.append(matches[number])
                done = matches[number].last_number
            elif number > done:
                found.append(FoundLine(number, lines[number - 1]))
                done = number
    return tuple(found)


def _by_line(lines: list[str], regex: re.Pattern[str], stop: Stop) -> Iterator[FoundLine]:
    for number, line in enumerate(lines, 1):
        if number % 1000 == 0 and stop:
            return
        match = regex.search(line)
        if match is not None:
            yield FoundLine(number, line, match.start())


def _multiline(text: str, lines: list[str], regex: re.Pattern[str], stop: Stop) -> Iterator[FoundLine]:
    """Yield the lines of each match. Matches that share a line are one."""
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    pending: tuple[int, int, int] | None = None

    def found(first: int, last: int, at: int) -> FoundLine:
        return FoundLine(first + 1, "\n".join(lines[first : last + 1]), at)

    for match in regex.finditer(text):
        if stop:
            break
        first = bisect_right(starts, match.start()) - 1
        if first >= len(lines):
            break  # behind the last line end
        last = max(bisect_right(starts, max(match.end() - 1, match.start())) - 1, first)
        if pending is not None and first <= pending[1]:
            pending = (pending[0], max(last, pending[1]), pending[2])
            continue
        if pending is not None:
            yield found(*pending)
        pending = (first, min(last, len(lines) - 1), match.start() - starts[first])
    if pending is not None:
        yield found(*pending)


# ripgrep's search


async def _by_ripgrep(program: str, query: Query, scope: SearchScope) -> Findings:
    findings = Findings()
    batches: Iterable[list[str]] = [["."]]
    if scope.glob is not None:
        # Its own filter by name would also search ignored files.
        files, findings.was_late = await find_files(scope)
        batches = _batches(files)
    for batch in batches:
        run = Ripgrep(program, [*_options(query, scope), "--", *batch], scope.start, b"\n")
        async with aclosing(run.records()) as records:
            reader = _Reader()
            async for record in records:
                found = reader.feed(record)
                if found is not None and not findings.add(*found, query):
                    return findings
        findings.was_late = findings.was_late or run.was_late
        if run.was_late:
            break
    return findings


def _options(query: Query, scope: SearchScope) -> list[str]:
    options = common_options(hidden=scope.hidden, ignored=scope.ignored)
    most = 1 if query.only_files else MOST_COUNTED + 1
    options += ["--json", "--crlf", f"--regexp={query.pattern}", f"--max-count={most}"]
    options += ["--fixed-strings"] if query.is_literal else []
    options += ["--ignore-case"] if query.ignores_case else ["--case-sensitive"]
    if query.counts_files:
        return options
    return [*options, f"--before-context={query.before}", f"--after-context={query.after}"]


def _batches(files: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size_bytes = 0
    for path in files:
        size_bytes += len(os.fsencode(path)) + 16  # `./`, the terminator, and a pointer
        if size_bytes > _ARGUMENT_BYTES and batch:
            yield batch
            batch, size_bytes = [], 0
        batch.append(f"./{path}")
    if batch:
        yield batch


class _Reader:
    """A reader that collects ripgrep's messages, one file at a time."""

    def __init__(self) -> None:
        self._lines: list[FoundLine] = []

    def feed(self, record: bytes) -> tuple[str, Sequence[FoundLine]] | None:
        """Return the path of a file and its lines when its last message has arrived."""
        try:
            message = msgspec.json.decode(record)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        kind, content = message.get("type"), message.get("data", {})
        if kind == "begin":
            self._lines = []
        elif kind in ("match", "context"):
            self._lines.append(_line(content, is_match=kind == "match"))
        elif kind == "end" and content.get("binary_offset") is None and self._lines:
            return os.fsdecode(_bytes(content["path"])).removeprefix("./"), self._lines
        return None


def _line(content: dict[str, Any], *, is_match: bool) -> FoundLine:
    data = _bytes(content["lines"])
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n").removesuffix("\r")
    starts = [match["start"] for match in content.get("submatches", ())]
    at = len(data[: starts[0]].decode("utf-8", "replace")) if starts else 0
    return FoundLine(content["line_number"], text, at if is_match else None)


def _bytes(value: dict[str, str]) -> bytes:
    """Return the bytes of a text, which ripgrep sends as text if it is UTF-8, otherwise as base64."""
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])
