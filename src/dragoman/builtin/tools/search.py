"""Lines that match a pattern: what is found, by our own search or by ripgrep, in one form.

Owns both searches and that they agree: line by line, binary files left out, in the order of paths. Does not know how
findings are shown.
"""

from __future__ import annotations

import base64
import os
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.builtin.tools.files import find_files
from dragoman.builtin.tools.ignore import read_plain
from dragoman.builtin.tools.search_ripgrep import LARGEST_BYTES, Ripgrep, RipgrepRefused, common_options, find_ripgrep
from dragoman.builtin.tools.walk import in_thread, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dragoman.builtin.tools.files import Scope
    from dragoman.builtin.tools.walk import Stop

# Arguments of one run: half of what the strictest system takes.
_ARGUMENT_BYTES: Final = 500_000
# What looks at letters outside of its line, or gives nothing back, may miss in the whole text what it finds in a line.
_LINE_BY_LINE: Final = re.compile(r"\\[AZz]|\(\?[=!<>(]|[+*?}]\+")


class Query(Struct, frozen=True):
    """What to look for in files."""

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
            warnings.simplefilter("ignore")  # of what some later version may read otherwise
            try:
                return re.compile(pattern, re.MULTILINE | (re.IGNORECASE if self.ignores_case else 0))
            except (OverflowError, RecursionError) as error:
                raise re.error(f"it is too large ({error})") from error


class Line(Struct, frozen=True):
    """A line of a file; `at` is where the match begins in it, None for one that only stands beside a match."""

    number: int
    text: str
    at: int | None = None


class Found(Struct, frozen=True):
    """The lines of one file; none if only its name was asked for."""

    path: str
    lines: tuple[Line, ...] = ()


class Findings(Struct):
    """What a search gave. `is_full` says that there was more."""

    files: list[Found] = []
    count: int = 0
    is_full: bool = False
    was_late: bool = False
    denied: int = 0
    """Files that were left out because they may not be read."""

    def add(self, found: Found, query: Query) -> bool:
        """Takes in a file as far as there is room; whether to go on."""
        new = 1 if query.only_files else sum(line.at is not None for line in found.lines)
        room = query.most - self.count
        if new > room:
            self.is_full = True
            if room <= 0:
                return False
            found = Found(found.path, _first_matches(found.lines, room, query.context))
        self.files.append(found)
        self.count += min(new, room)
        return not self.is_full


def _first_matches(lines: tuple[Line, ...], room: int, context: int) -> tuple[Line, ...]:
    numbers = [line.number for line in lines if line.at is not None][:room]
    return tuple(
        line for line in lines if line.number in numbers or (line.at is None and line.number <= numbers[-1] + context)
    )


async def search(query: Query, scope: Scope) -> Findings:
    """Raises: re.error for a pattern that neither search understands."""
    program = find_ripgrep()
    if program is not None:
        try:
            return await _by_ripgrep(program, query, scope)
        except RipgrepRefused:
            pass  # what it has no syntax for, such as a look ahead, we may have
    regex = query.compile()
    findings, was_late = await in_thread(lambda stop: _by_ourselves(regex, query, scope, stop))
    findings.was_late = was_late
    return findings


# Our own


def _by_ourselves(regex: re.Pattern[str], query: Query, scope: Scope, stop: Stop) -> Findings:
    findings = Findings()
    for path in walk(scope.start, stop, hidden=scope.hidden, ignored=scope.ignored):
        if not scope.takes(path):
            continue
        text = _read(os.path.join(scope.start, path))
        if text is None:
            continue
        lines = find_lines(text, regex, query, stop)
        if lines and not findings.add(Found(path, () if query.only_files else lines), query):
            break
    return findings


def _read(path: str) -> str | None:
    """The text of a file, None for what is none."""
    data = read_plain(path, LARGEST_BYTES)
    return None if data is None or b"\0" in data else data.decode("utf-8", "replace")


def find_lines(text: str, regex: re.Pattern[str], query: Query, stop: Stop) -> tuple[Line, ...]:
    """The lines that match, with those around them."""
    text = text.replace("\r\n", "\n")
    # Most files have no match, which one look at the whole text tells much sooner.
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
    return tuple(_around(lines, matches, query.context))


def _around(lines: list[str], matches: dict[int, int], context: int) -> Iterator[Line]:
    done = 0
    for number in matches:
        for near in range(max(number - context, done), min(number + context + 1, len(lines))):
            yield Line(near + 1, lines[near], matches.get(near))
            done = near + 1


# ripgrep's


async def _by_ripgrep(program: str, query: Query, scope: Scope) -> Findings:
    findings = Findings()
    locations: Iterable[list[str]] = [["."]]
    if scope.glob is not None:
        # Its own filter by name would bring back files that are ignored.
        files, findings.was_late = await find_files(scope)
        locations = _batches(files)
    for batch in locations:
        run = Ripgrep(program, [*_options(query, scope), "--", *batch], scope.start, b"\n")
        async with aclosing(run.records()) as records:
            reader = _Reader()
            async for record in records:
                found = reader.feed(record)
                if found is not None and not findings.add(Found(found.path) if query.only_files else found, query):
                    return findings
        findings.was_late = findings.was_late or run.was_late
        if run.was_late:
            break
    return findings


def _options(query: Query, scope: Scope) -> list[str]:
    options = common_options(hidden=scope.hidden, ignored=scope.ignored)
    options += ["--json", "--crlf", f"--regexp={query.pattern}", f"--max-count={query.most + 1}"]
    options += ["--fixed-strings"] if query.is_literal else []
    options += ["--ignore-case"] if query.ignores_case else ["--case-sensitive"]
    return [*options, *([f"--context={query.context}"] if query.context and not query.only_files else [])]


def _batches(files: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size_bytes = 0
    for path in files:
        size_bytes += len(os.fsencode(path)) + 16  # `./`, the end, and a pointer to it
        if size_bytes > _ARGUMENT_BYTES and batch:
            yield batch
            batch, size_bytes = [], 0
        batch.append(f"./{path}")
    if batch:
        yield batch


class _Reader:
    """Puts ripgrep's messages together, one file at a time."""

    def __init__(self) -> None:
        self._lines: list[Line] = []

    def feed(self, record: bytes) -> Found | None:
        """A file, when all of it was told."""
        try:
            message = msgspec.json.decode(record)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        kind, told = message.get("type"), message.get("data", {})
        if kind == "begin":
            self._lines = []
        elif kind in ("match", "context"):
            self._lines.append(_line(told, is_match=kind == "match"))
        elif kind == "end" and told.get("binary_offset") is None and self._lines:
            return Found(os.fsdecode(_bytes(told["path"])).removeprefix("./"), tuple(self._lines))
        return None


def _line(told: dict[str, Any], *, is_match: bool) -> Line:
    data = _bytes(told["lines"])
    text = data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    starts = [match["start"] for match in told.get("submatches", ())]
    at = len(data[: starts[0]].decode("utf-8", "replace")) if starts else 0
    return Line(told["line_number"], text, at if is_match else None)


def _bytes(told: dict[str, str]) -> bytes:
    """Text is told as text, if it is any."""
    return told["text"].encode() if "text" in told else base64.b64decode(told["bytes"])
