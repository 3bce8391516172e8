"""`grep`: finds lines of files by a regular expression."""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import UNSET, Meta, Struct

from dragoman.builtin.tools import paths
from dragoman.builtin.tools.files import LATE, read_scope
from dragoman.builtin.tools.search import FileMatches, Findings, Query, find_lines, search
from dragoman.builtin.tools.tool import Kind, Location, Preview, Tool, ToolError, ToolOutput
from dragoman.builtin.tools.walk import in_thread
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

USUAL_MATCHES: Final = 100
MOST_MATCHES: Final = 250
# With much context around each match, the matches alone do not limit the output.
LIMIT_BYTES: Final = 50 * 1024
_MOST_CONTEXT: Final = 20
_LINE_LETTERS: Final = 500
_LOCATIONS: Final = 20
# Of a match that spans many lines, so many are shown.
_MATCH_LINES: Final = 30
# Globs of the kinds of files that models name; any other is taken for the ending of a name.
_TYPES: Final = {
    "c": "*.{c,h}",
    "cpp": "*.{cc,cpp,cxx,hh,hpp,hxx,h}",
    "css": "*.{css,scss,sass,less}",
    "html": "*.{html,htm}",
    "java": "*.java",
    "js": "*.{js,jsx,mjs,cjs}",
    "json": "*.{json,jsonl}",
    "kotlin": "*.{kt,kts}",
    "markdown": "*.{md,markdown}",
    "md": "*.{md,markdown}",
    "py": "*.{py,pyi}",
    "python": "*.{py,pyi}",
    "ruby": "*.rb",
    "rust": "*.rs",
    "sh": "*.{sh,bash,zsh}",
    "ts": "*.{ts,tsx,mts,cts}",
    "typescript": "*.{ts,tsx,mts,cts}",
    "yaml": "*.{yaml,yml}",
}


class GrepArguments(Struct):
    """The pattern, and where to search."""

    pattern: Annotated[str, Meta(description="Regular expression, matched line by line.")]
    path: Annotated[str | None, Meta(description="File or folder to search; by default the working folder.")] = None
    include: Annotated[
        str | None, Meta(description="Only files that match this glob, like *.py or src/**/*.{ts,tsx}.")
    ] = None
    type: Annotated[str | None, Meta(description="Only files of this type, like py, ts, rust.")] = None
    context: Annotated[int | None, Meta(description=f"Lines to show around each match, at most {_MOST_CONTEXT}.")] = (
        None
    )
    before: Annotated[int | None, Meta(description="Lines to show before each match.")] = None
    after: Annotated[int | None, Meta(description="Lines to show after each match.")] = None
    files: Annotated[bool | None, Meta(description="Only the names of the files that have a match.")] = None
    count: Annotated[bool | None, Meta(description="Only the number of matches in each file.")] = None
    limit: Annotated[
        int | None,
        Meta(description=f"Most matches, or files, to show; {USUAL_MATCHES} by default, at most {MOST_MATCHES}."),
    ] = None
    offset: Annotated[int | None, Meta(description="How many of them to skip.")] = None
    multiline: Annotated[
        bool | None, Meta(description="A match may span lines; a dot then matches a line end, too.")
    ] = None
    insensitive: Annotated[bool | None, Meta(description="Ignore upper and lower case.")] = None
    literal: Annotated[bool | None, Meta(description="The pattern is plain text, not a regular expression.")] = None
    hidden: Annotated[bool | None, Meta(description="Also files and folders whose name begins with a dot.")] = None
    ignored: Annotated[bool | None, Meta(description="Also files that .gitignore excludes.")] = None


class GrepTool(Tool):
    """The tool that searches the text of files."""

    name: Final = "grep"
    kind: Final[Kind] = "search"
    arguments: Final = GrepArguments
    description: Final = (
        f"Search the text of files; {USUAL_MATCHES} matching lines with their numbers, by file, and how many there are "
        "in all. Leaves out hidden files, files that .gitignore excludes, and binary files. To find files by name use "
        "glob."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        pattern = paths.word(arguments, "pattern")
        title = f"Search `{shorten(pattern, paths.TITLE_LETTERS)}`" if pattern.strip() else "Search"
        include = paths.word(arguments, "include")
        if include.strip():
            title = f"{title} in {shorten(include, paths.TITLE_LETTERS)}"
        folder = paths.path_of(arguments, cwd)
        if folder is None or folder == cwd:
            return Preview(title)
        joint = "below" if include.strip() else "in"
        return Preview(f"{title} {joint} {paths.shown(folder, cwd)}", (Location(folder),))

    def requests(self, arguments: GrepArguments, context: ToolContext) -> tuple[Request, ...]:
        start = _start(arguments, context.cwd)
        # To search one file is to read it, so the rules about reading apply.
        kind = "read" if os.path.isfile(start) else "search"
        return paths.look(kind, f"Search {shorten(arguments.pattern, paths.TITLE_LETTERS)}", start, context)

    async def run(self, arguments: GrepArguments, context: ToolContext) -> ToolOutput:
        start = _start(arguments, context.cwd)
        query = Query(
            arguments.pattern,
            bool(arguments.literal),
            bool(arguments.insensitive),
            _context_lines(arguments.before, arguments.context),
            _context_lines(arguments.after, arguments.context),
            bool(arguments.files) and not arguments.count,
            bool(arguments.count),
            _limit(arguments.limit),
            max(arguments.offset or 0, 0),
            bool(arguments.multiline),
        )
        if not arguments.pattern:
            raise ToolError("the pattern is empty; give a regular expression, or use glob to find files by name")
        try:
            if await asyncio.to_thread(os.path.isdir, start):
                scope = read_scope(start, _include(arguments), arguments.hidden, arguments.ignored)
                findings = await search(query, scope)
                folder = start
                _leave_out_denied(findings, folder, context)
            else:
                findings = await _in_file(query, start, context)
                folder = os.path.dirname(start)
        except re.error as error:
            raise ToolError(
                f"{arguments.pattern!r} is not a regular expression: {error}; correct it, or set literal to search "
                "plain text"
            ) from error
        return _output(findings, folder, arguments, query, context.cwd)


def _limit(given: int | None) -> int:
    if given is None:
        return USUAL_MATCHES
    return min(given, MOST_MATCHES) if given > 0 else MOST_MATCHES  # other agents write 0 for no limit


def _context_lines(given: int | None, around: int | None) -> int:
    return min(max(given if given is not None else around or 0, 0), _MOST_CONTEXT)


def _include(arguments: GrepArguments) -> str | None:
    """Return the glob of the files to search. Raises: ToolError."""
    if not arguments.type:
        return arguments.include
    if arguments.include:
        raise ToolError("give include or type, not both: a type is a glob with another name")
    ending = arguments.type.strip().lstrip("*.").lower()
    if not ending.isalnum():
        raise ToolError(f"{arguments.type!r} is not a type of files; use include with a glob instead")
    return _TYPES.get(ending, f"*.{ending}")


def _start(arguments: GrepArguments, cwd: str) -> str:
    return paths.absolute(arguments.path, cwd) if arguments.path else cwd


async def _in_file(query: Query, path: str, context: ToolContext) -> Findings:
    """Search one file, which is read like any other, so that unsaved changes are included."""
    regex = query.compile()
    try:
        text = await context.access.read_text(paths.permitted_target(path, context))
    except FileNotFoundError:
        raise paths.no_such_file(path, context, "find its right name with glob") from None
    lines, was_late = await in_thread(lambda stop: find_lines(text, regex, query, stop))
    findings = Findings(was_late=was_late)
    if lines:
        findings.add(os.path.basename(path), lines, query)
    return findings


def _leave_out_denied(findings: Findings, folder: str, context: ToolContext) -> None:
    """Remove files that a rule denies to read: a permission to search a folder does not include them."""
    allowed = [
        found
        for found in findings.files
        if all(
            context.verdict(request).action != "deny"
            for request in paths.look("read", "Search", os.path.join(folder, found.path), context)
        )
    ]
    findings.denied = len(findings.files) - len(allowed)
    findings.files = allowed


def _output(findings: Findings, folder: str, arguments: GrepArguments, query: Query, cwd: str) -> ToolOutput:
    parts: list[str] = []
    shown, room_bytes = 0, LIMIT_BYTES
    for found in findings.files:
        name = paths.shown(os.path.join(folder, found.path), cwd)
        for number, (text, is_match) in enumerate(_file_lines(found, name, query)):
            room_bytes -= len(text.encode("utf-8", "replace")) + 1
            if room_bytes < 0 and (number or parts):
                break
            parts.append(text)
            shown += is_match
        if room_bytes < 0:
            break
    notes = [f"[{findings.denied} files with matches left out: a rule denies reading them]"] if findings.denied else []
    is_whole = query.offset + shown >= _total(findings, query) and not findings.is_uncounted
    if findings.count:
        notes.append(_summary(findings, query, shown, is_whole=is_whole or bool(findings.denied)))
    else:
        notes.append(_nothing(arguments))
    if findings.was_late:
        notes.append(LATE)
    locations = []
    for found in findings.files[:_LOCATIONS]:
        first = next((line.number for line in found.lines if line.at is not None), None)
        path = paths.encodable(os.path.join(folder, found.path))
        locations.append(Location(path, UNSET if first is None else first))
    is_truncated = not is_whole or findings.was_late
    return ToolOutput("\n".join([*parts, *notes]), locations=tuple(locations), is_truncated=is_truncated)


def _total(findings: Findings, query: Query) -> int:
    return findings.file_count if query.counts_files else findings.count


def _summary(findings: Findings, query: Query, shown: int, *, is_whole: bool) -> str:
    """Return the line that states how much there is, and how to see the rest."""
    more = "more than " if findings.is_uncounted else ""
    total, files = _total(findings, query), _plural(findings.file_count, "file")
    what = "files" if query.counts_files else "matches"
    matches = "" if query.only_files else f"{_plural(findings.count, 'match')} in "
    everything = f"{more}{matches}{files}"
    if query.offset >= total:
        return f"[there are {everything}; offset={query.offset} is behind the last]"
    if is_whole and not query.offset:
        return f"[{everything}]"
    part = f"{what} {query.offset + 1} to {query.offset + shown} of {everything}"
    return f"[{part}]" if is_whole else f"[{part}; continue with offset={query.offset + shown}]"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{'es' if noun.endswith('ch') else 's'}"


def _file_lines(found: FileMatches, name: str, query: Query) -> Iterator[tuple[str, bool]]:
    """Yield the name, then each line after its number: with a colon for a match, a dash for a line around one.

    With each text comes whether it is something that is counted.
    """
    if query.only_counts:
        yield f"{name}: {found.count}", True
        return
    yield name, query.only_files
    last = found.lines[0].number - 1 if found.lines else 0
    for line in found.lines:
        if line.number != last + 1 and (query.before or query.after):
            yield "  --", False
        sign = "-" if line.at is None else ":"
        texts = line.text.split("\n")
        shown = [f"  {line.number}{sign} {_cut(texts[0], line.at or 0)}"]
        shown += [
            f"  {number}{sign} {_cut(text)}" for number, text in enumerate(texts[1:_MATCH_LINES], line.number + 1)
        ]
        if len(texts) > _MATCH_LINES:
            shown.append(f"  [{len(texts) - _MATCH_LINES} more lines of this match]")
        yield paths.encodable("\n".join(shown)), line.at is not None
        last = line.last_number


def _cut(text: str, at: int = 0) -> str:
    """Return a long line from a little before its match."""
    if len(text) <= _LINE_LETTERS:
        return text
    start = max(at - _LINE_LETTERS // 4, 0)
    end = start + _LINE_LETTERS
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def _nothing(arguments: GrepArguments) -> str:
    words = [f"No match for {arguments.pattern}."]
    if not (arguments.hidden and arguments.ignored):
        words.append("Hidden and ignored files were left out.")
    has_line_end = "\n" in arguments.pattern or (r"\n" in arguments.pattern and not arguments.literal)
    if has_line_end and not arguments.multiline:
        words.append("The search is line by line, so a line end in the pattern never matches; set multiline.")
    return " ".join(words)
