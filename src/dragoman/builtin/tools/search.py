"""Lines that match a pattern, found by our own search or by ripgrep, in one form.

Owns both searches and that they agree: line by line, without binary files, in the order of paths. Does not depend on
how findings are shown.
"""

from __future__ import annotations

import base64
import os
import re
from contextlib import aclosing
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.builtin.tools.files import find_files
from dragoman.builtin.tools.ignore import read_plain
from dragoman.builtin.tools.search_ripgrep import LARGEST_BYTES, Ripgrep, RipgrepRefused, common_options, find_ripgrep
from dragoman.builtin.tools.walk import in_thread, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dragoman.builtin.tools.files import SearchScope
    from dragoman.builtin.tools.walk import Stop

# Size of the arguments of one run: half of what the strictest system accepts.
_ARGUMENT_BYTES: Final = 500_000
# Patterns that look outside of a line, or do not backtrack, may miss in the whole text what they match in a line.
_LINE_BY_LINE: Final = re.compile(r"\\[AZz]|\(\?[=!<>(]|[+*?}]\+")


class Query(Struct, frozen=True):
    """What to search for in files."""

    pattern: str
    is_literal: bool = False
    ignores_case: bool = False
    context: int = 0
    only_files: bool = False
    most: int = 200

    def compile(self) -> re.Pattern[str]:
        """Raises: re.error."""
        import warnings

        pattern = re.escape(self.pattern) if self.is_literal else self.pattern
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about patterns that a later version may read differently
            try:
                return re.compile(pattern, re.MULTILINE | (re.IGNORECASE if self.ignores_case else 0))
            except (OverflowError, RecursionError) as error:
                raise re.error(f"it is too large ({error})") from error


class FoundLine(Struct, frozen=True):
    """A line of a file; `at` is where the match begins, None for a line that is only near a match."""

    number: int
    text: str
    at: int | None = None


class FileMatches(Struct, frozen=True):
    """The lines of one file; none if only its name was requested."""

    path: str
    lines: tuple[FoundLine, ...] = ()


class Findings(Struct):
    """The result of a search. `is_full`: there are more matches."""

    files: list[FileMatches] = []
    count: int = 0
    is_full: bool = False
    was_late: bool = False
    denied: int = 0
    """Number of files that were left out because a rule denies reading them."""

    def add(self, found: FileMatches, query: Query) -> bool:
        """Add the matches of a file as far as there is room; return whether to continue."""
        matches = [line.number for line in found.lines if line.at is not None]
        new = 1 if query.only_files else len(matches)
        room = query.most - self.count
        if new > room:
            self.is_full = True
            if room <= 0:
                return False
            kept, last = set(matches[:room]), matches[room - 1] + query.context
            is_kept = (line.number in kept or (line.at is None and line.number <= last) for line in found.lines)
            found = FileMatches(found.path, tuple(compress(found.lines, is_kept)))
        self.files.append(found)
        self.count += min(new, room)
        return not self.is_full


async def search(query: Query, scope: SearchScope) -> Findings:
    """Search the files of a scope. Raises: re.error for a pattern that neither search accepts."""
    program = find_ripgrep()
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
        if lines and not findings.add(FileMatches(path, () if query.only_files else lines), query):
            break
    return findings


def find_lines(text: str, regex: re.Pattern[str], query: Query, stop: Stop) -> tuple[FoundLine, ...]:
    """Return the lines that match, with those around them."""
    text = text.replace("\r\n", "\n")
    # Most files have no match, which one search in the whole text finds out much sooner.
    if not _LINE_BY_LINE.search(regex.pattern) and regex.search(text) is None:
        return ()
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    most = 1 if query.only_files else query.most + 1
    matches: dict[int, int] = {}
    for number, line in enumerate(lines):
        if number % 1000 == 999 and stop:
            break
        match = regex.search(line)
        if match is not None:
            matches[number] = match.start()
            if len(matches) == most:
                break
    found: list[FoundLine] = []
    done = 0
    for number in matches:
        for near in range(max(number - query.context, done), min(number + query.context + 1, len(lines))):
            found.append(FoundLine(near + 1, lines[near], matches.get(near)))
            done = near + 1
    return tuple(found)


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
                if found is None:
                    continue
                if not findings.add(FileMatches(found.path) if query.only_files else found, query):
                    return findings
        findings.was_late = findings.was_late or run.was_late
        if run.was_late:
            break
    return findings


def _options(query: Query, scope: SearchScope) -> list[str]:
    options = common_options(hidden=scope.hidden, ignored=scope.ignored)
    options += ["--json", "--crlf", f"--regexp={query.pattern}", f"--max-count={query.most + 1}"]
    options += ["--fixed-strings"] if query.is_literal else []
    options += ["--ignore-case"] if query.ignores_case else ["--case-sensitive"]
    return [*options, *([f"--context={query.context}"] if query.context and not query.only_files else [])]


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
    """Collects ripgrep's messages, one file at a time."""

    def __init__(self) -> None:
        self._lines: list[FoundLine] = []

    def feed(self, record: bytes) -> FileMatches | None:
        """Return the matches of a file when its last message has arrived."""
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
            return FileMatches(os.fsdecode(_bytes(content["path"])).removeprefix("./"), tuple(self._lines))
        return None


def _line(content: dict[str, Any], *, is_match: bool) -> FoundLine:
    data = _bytes(content["lines"])
    text = data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    starts = [match["start"] for match in content.get("submatches", ())]
    at = len(data[: starts[0]].decode("utf-8", "replace")) if starts else 0
    return FoundLine(content["line_number"], text, at if is_match else None)


def _bytes(value: dict[str, str]) -> bytes:
    """ripgrep sends text as text if it is UTF-8, otherwise as base64."""
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])
